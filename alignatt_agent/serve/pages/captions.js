// Captions of a room: ?room=talk&target=de, and if wanted lines=2|all, size=2.2 (rem), token=…
// With lines=all, or without a target, a page to read; else lines over a picture.
import { Follower } from './follow.js'
import { Lines } from './lines.js'
import { ownName, setUpReading, stayAwake } from './settings.js'
import { speak, Text } from './text.js'
import { watch } from './watch.js'

const $ = id => document.getElementById(id)
const query = new URLSearchParams(location.search)
const room = query.get('room'), target = query.get('target'), rows = query.get('lines') ?? '2'
const reading = rows === 'all' || !target
const PARAGRAPH = 300 // characters, then the next sentence begins another one
const OVER = 600000 // ms after which a talk that does not go on is over

const text = reading ? new Text($('text'), PARAGRAPH) : new Lines($('text'), Math.max(1, parseInt(rows) || 2))

let state = '', ending

function show(kind) {
  state = kind
  $('state').className = kind === 'interrupted' ? 'error' : kind
  $('state').textContent = kind
  clearTimeout(ending)
  if (kind !== 'live') ending = setTimeout(() => show('over'), OVER)
}

const on = {
  ready(m) {
    if (!m.resumed) text.clear()
    if (reading) offer(m.languages)
    const language = m.languages.find(item => item.code === target)
    $('lines').dir = language?.rtl ? 'rtl' : 'ltr'
    $('notice').textContent = !target ? 'Which language do you want to read?' : language ? '' : `This talk is not translated into ${ownName({ code: target, name: target })}.`
    show('live')
  },
  said(m) {
    if (state !== 'live') show('live')
    if (m.target !== target) return
    speak(text.append(m.units) ?? [], target)
  },
  gap: m => text.gap(m),
  error() { show('interrupted') },
  end() { show('paused'); speak(text.finish?.() ?? [], target) },
}

function offer(languages) {
  $('languages').replaceChildren(...languages.map(item => {
    const link = document.createElement('a'), there = new URLSearchParams(query)
    there.set('target', item.code); there.set('lines', 'all')
    link.href = `captions?${there}`; link.textContent = ownName(item); link.lang = item.code
    if (item.code === target) link.setAttribute('aria-current', 'page')
    return link
  }))
}

if (reading) {
  setUpReading()
  new Follower($('lines'), $('text'), $('back'))
  stayAwake(() => true)()
  $('title').textContent = room ?? 'Captions'
} else {
  document.body.classList.add('overlay')
  document.documentElement.style.setProperty('--lines', text.rows)
  if (Number(query.get('size'))) document.body.style.setProperty('--size', `${Number(query.get('size'))}rem`)
}
if (target) {
  $('lines').lang = $('spoken').lang = target
  $('save').hidden = false
  $('save').onclick = () => { // needs no server, which may have forgotten the talk
    const link = document.createElement('a'), paragraphs = [...$('text').querySelectorAll('p')].map(item => item.textContent.trim())
    link.href = URL.createObjectURL(new Blob([paragraphs.join('\n\n'), '\n'], { type: 'text/plain' }))
    link.download = `${room}.${target}.txt`
    link.click()
  }
}
if (!room) $('notice').textContent = 'Which room? Add ?room=NAME to the address.'
else {
  if (reading) $('notice').textContent = 'Nobody has spoken here yet. The text appears by itself.'
  const asked = new URLSearchParams({ room, ...query.has('token') && { token: query.get('token') } })
  watch(new URL(`events?${asked}`, location.href).href, {
    on: message => on[message.type]?.(message),
    open() { show(state); $('notice').textContent = $('notice').textContent.replace(/^The server says: .*/, '') },
    lost() { if (reading) { $('state').className = 'error'; $('state').textContent = 'no connection; trying again …' } },
    refused(why) { $('state').textContent = ''; $('notice').textContent = `The server says: ${why}` },
  })
}
