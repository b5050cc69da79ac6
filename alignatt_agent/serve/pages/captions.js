// Captions of a room for viewers: ?room=talk&target=de&lines=all; optional: delay=3 (s), token=…
import { Follower } from './follow.js'
import { kept, ownName, setUpReading, stayAwake } from './settings.js'
import { speak, Text } from './text.js'
import { watch } from './watch.js'
import { reader, say, translate } from './words.js'

const $ = id => document.getElementById(id)
const query = new URLSearchParams(location.search)
const room = query.get('room'), target = query.get('target')
const PARAGRAPH = 300 // characters after which the next sentence begins a new paragraph
const OVER = 600000 // ms after which a talk that is not continued is shown as over

translate()
const text = new Text($('text'), PARAGRAPH)
let state = 'waiting', lost = false, before = 0, ending

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
    if (!m.resumed && earlier > before) text.part(m.title)
    else if (!m.resumed) text.clear()
    before = earlier
    if (m.title || !m.resumed) document.title = $('title').textContent = m.title || say('captions')
    const own = m.languages.find(item => item.code.split('-')[0] === reader)
    if (!target && own) return location.replace(there(own))
    offer(m.languages)
    const language = m.languages.find(item => item.code === target)
    $('lines').dir = language?.rtl ? 'rtl' : 'ltr'
    $('notice').textContent = !target ? say('which') : language ? '' : say('none', ownName({ code: target, name: target }))
    show('live')
  },
  said(m) {
    if (state !== 'live') show('live')
    if (m.target !== target) return
    speak(text.append(m.units), target)
    mark()
  },
  gap(m) {
    text.gap(m)
    const marks = $('text').querySelectorAll('.gap')
    marks[marks.length - 1].textContent = `[…] ${say('missing', Math.max(1, Math.round(m.end - m.start)))} `
  },
  error() { show('interrupted') },
  end() { show('paused'); speak(text.finish(), target) },
}

// Highlights the last sentence.
function mark() {
  if (!text.last || !globalThis.Highlight) return
  const range = new Range()
  range.setStart(text.last, text.from); range.setEnd(text.last, text.last.length)
  CSS.highlights.set('now', new Highlight(range))
}

function there({ code }) {
  const asked = new URLSearchParams(query)
  asked.set('target', code); asked.set('lines', 'all')
  return `captions?${asked}`
}

function offer(languages) {
  $('languages').replaceChildren(...languages.map(item => {
    const link = document.createElement('a')
    link.href = there(item); link.textContent = ownName(item); link.lang = item.code
    if (item.code === target) link.setAttribute('aria-current', 'page')
    return link
  }))
}

setUpReading()
new Follower($('lines'), $('text'), $('back'))
stayAwake(() => true)()
if (target) {
  $('lines').lang = $('spoken').lang = target
  $('save').hidden = false
  $('save').onclick = () => { // works without the server, which may have removed the talk
    const link = document.createElement('a'), paragraphs = [...$('text').querySelectorAll('p')].map(item => item.textContent.trim())
    link.href = URL.createObjectURL(new Blob([paragraphs.join('\n\n'), '\n'], { type: 'text/plain' }))
    link.download = `${room}.${target}.txt`
    link.click()
  }
}
if (!room) {
  $('state').textContent = ''
  $('notice').textContent = say('room')
  $('which').hidden = false
  $('which').onsubmit = event => {
    event.preventDefault()
    query.set('room', $('which').elements.room.value.trim())
    location.search = query
  }
} else {
  $('notice').textContent = say('waiting')
  if (!query.has('delay') && kept('delay')) query.set('delay', kept('delay'))
  const settings = watch(room, query, {
    on: message => on[message.type]?.(message),
    open() {
      show(lost && state === 'live' ? 'interrupted' : state) // until the talk continues
      lost = false
      if ($('notice').textContent.startsWith('The server says: ')) $('notice').textContent = ''
    },
    lost() { lost = true; $('state').className = 'error'; $('state').textContent = say('offline') },
    refused(why) { $('state').textContent = ''; $('notice').textContent = `The server says: ${why}` },
  })
  $('delay').value = settings.delay
  $('delay').onchange = () => { settings.delay = Math.max(0, Number($('delay').value) || 0); kept('delay', settings.delay) }
}
