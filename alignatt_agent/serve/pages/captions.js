// Captions of a room for viewers: ?room=talk&target=de&lines=all; optional: beside=en, delay=3 (s), token=…, and the
// appearance (styles.js)
import { Follower } from './follow.js'
import { Search } from './search.js'
import { ownName, setUpReading, stayAwake } from './settings.js'
import { kept } from './stored.js'
import { Styles, variable } from './styles.js'
import { mark, speak, Text } from './text.js'
import { watch } from './watch.js'
import { reader, refusal, say, translate } from './words.js'

const $ = id => document.getElementById(id)
const query = new URLSearchParams(location.search)
const room = query.get('room'), target = query.get('target')
const PARAGRAPH = 300 // characters after which the next sentence begins a new paragraph
const OVER = 600000 // ms after which a talk that is not continued is shown as over

translate()
const text = new Text($('text'), PARAGRAPH), second = new Text($('text-beside'), PARAGRAPH)
let state = 'waiting', lost = false, before = 0, ending, beside = query.get('beside') ?? kept('beside') ?? ''
let past = [] // messages whose text the second language shows when it is chosen

function show(kind) {
  state = kind
  $('state').className = kind === 'interrupted' ? 'error' : kind
  $('state').textContent = kind === 'waiting' ? '' : say(kind)
  clearTimeout(ending)
  if (kind !== 'live' && kind !== 'waiting') ending = setTimeout(() => show('over'), OVER)
}

const on = {
  ready(m) {
    const earlier = m.earlier?.length ?? 0
    // The server still has the finished talk that another speaker's talk follows.
    if (!m.resumed && earlier > before) { text.part(m.title); second.part(m.title); past.push(m) }
    else if (!m.resumed) { text.clear(); second.clear(); past = [] }
    before = earlier
    if (m.title || !m.resumed) document.title = $('title').textContent = m.title || say('captions')
    // One language needs no choice.
    const likely = m.languages.find(({ code }) => code.split('-')[0] === reader) ?? (m.languages.length === 1 ? m.languages[0] : null)
    if (!target && likely) return location.replace(there(likely))
    offer(m)
    const language = m.languages.find(({ code }) => code === target)
    $('lines').dir = language?.rtl ? 'rtl' : 'ltr'
    $('notice').textContent = !target ? say('which') : language ? '' : say('none', ownName({ code: target, name: target }))
    document.body.classList.toggle('choosing', !language)
    show('live')
  },
  said(m) {
    if (state !== 'live') show('live')
    past.push(m)
    if (m.target === target) speak(text.append(m.units), target)
    else if (m.target === beside) second.append(m.units)
    else return
    mark([text, second])
  },
  gap(m) { past.push(m); text.gap(m); second.gap(m) },
  error() { show('interrupted') },
  end() { show('paused'); speak(text.finish(), target); second.finish() },
}

function there({ code }) {
  const asked = new URLSearchParams(query)
  asked.set('target', code); asked.set('lines', 'all')
  return `captions?${asked}`
}

// Offers the languages of a talk to read, and the others to read beside it; source: the spoken language.
function offer({ languages, source }) {
  $('languages').replaceChildren(...languages.map(language => {
    const link = document.createElement('a')
    link.href = there(language); link.textContent = ownName(language); link.lang = language.code
    if (language.code === target) link.setAttribute('aria-current', 'page')
    return link
  }))
  const others = languages.filter(({ code }) => code !== target)
  $('beside').replaceChildren(new Option(say('nothing'), ''), ...others.map(language => {
    const name = ownName(language)
    return new Option(language.code === source ? say('spoken', name) : name, language.code)
  }))
  $('beside-label').hidden = !target || !others.length
  const chosen = others.find(({ code }) => code === beside)
  $('beside').value = chosen?.code ?? ''
  $('second').hidden = !chosen
  $('lines-beside').lang = chosen?.code ?? ''
  $('lines-beside').dir = chosen?.rtl ? 'rtl' : 'ltr'
  $('beside').onchange = () => {
    beside = $('beside').value
    kept('beside', beside)
    second.clear()
    for (const message of past) {
      if (message.type === 'ready') second.part(message.title)
      if (message.type === 'gap') second.gap(message)
      if (message.target === beside) second.append(message.units)
    }
    offer({ languages, source })
    mark([text, second])
  }
}

setUpReading()
const followers = [new Follower($('lines'), $('text'), $('back')), new Follower($('lines-beside'), $('text-beside'), $('back-beside'))]
stayAwake(() => true)()
const styles = new Styles({
  place: 'style.', query, first: 'user', size: null,
  before: () => ({ ink: variable('--ink'), ground: variable('--ground'), opacity: 1 }),
})
styles.build($('styles'))
styles.changed = () => {
  const asked = new URLSearchParams({ room: room ?? '', target: target ?? '', ...styles.parameters() })
  if (query.has('token')) asked.set('token', query.get('token'))
  $('overlay').textContent = $('overlay').href = new URL(`captions?${asked}`, location.href).href
  $('picture').hidden = !room || !target
}
styles.changed()
for (const source of [$('theme'), matchMedia('(prefers-color-scheme: dark)')]) source.addEventListener('change', () => styles.apply())
new Search([$('text'), $('text-beside')], range => {
  const paragraph = range.startContainer.parentElement, number = $('text').contains(paragraph) ? 0 : 1
  followers[number].follow(false)
  paragraph.scrollIntoView({ block: 'center' })
})
if (target) {
  $('lines').lang = $('spoken').lang = target
  $('save').hidden = $('find').hidden = false
  $('save').onclick = () => { // works without the server, which may have removed the talk
    const link = document.createElement('a'), paragraphs = [...$('text').querySelectorAll('p')].map(paragraph => paragraph.textContent.trim())
    link.href = URL.createObjectURL(new Blob([paragraphs.join('\n\n'), '\n'], { type: 'text/plain' }))
    link.download = `${room}.${target}.txt`
    link.click()
  }
}
$('which').onsubmit = event => {
  event.preventDefault()
  query.set('room', $('which').elements.room.value.normalize('NFC').trim())
  location.search = query
}
if (!room) {
  $('state').textContent = ''
  $('notice').textContent = say('room')
  $('which').hidden = false
} else {
  $('notice').textContent = say('waiting')
  if (!query.has('delay') && kept('delay')) query.set('delay', kept('delay'))
  let refused = false
  const settings = watch(room, query, {
    on: message => on[message.type]?.(message),
    open() {
      show(lost && state === 'live' ? 'interrupted' : state) // until the talk continues
      lost = false
      if (refused) $('notice').textContent = ''
      refused = false
    },
    lost() { lost = true; $('state').className = 'error'; $('state').textContent = say('offline') },
    refused({ code, message }) {
      refused = true
      $('state').textContent = ''
      $('notice').textContent = say('says', refusal(code, message))
      $('which').hidden = code !== 'room' // another name can be entered
    },
  })
  $('delay').value = settings.delay
  $('delay').onchange = () => { settings.delay = Math.max(0, Number($('delay').value) || 0); kept('delay', settings.delay) }
}
