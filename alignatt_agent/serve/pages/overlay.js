// Captions over a picture: ?room=talk&target=de; optional: lines=2, size=2.2 (rem), delay=3 (s), token=…
// OBS 27 uses Chromium 75, so this file and its imports use only JavaScript of 2019.
import { Lines } from './lines.js'
import { watch } from './watch.js'

const AFTER_END = 8000, AFTER_TEXT = 30000 // ms, after which the overlay is empty

const $ = id => document.getElementById(id)
const query = new URLSearchParams(location.search)
const room = query.get('room'), target = query.get('target')
const rows = Math.max(1, parseInt(query.get('lines') || '2') || 2), size = Number(query.get('size'))
const text = new Lines($('text'), rows)
let clearing

document.documentElement.style.setProperty('--lines', rows)
if (size) document.body.style.setProperty('--size', `${size}rem`)
$('lines').lang = target

function clearAfter(ms) {
  clearTimeout(clearing)
  clearing = setTimeout(() => text.clear(), ms)
}

const on = {
  ready(m) {
    if (!m.resumed) text.clear()
    const language = m.languages.find(item => item.code === target)
    $('lines').dir = language && language.rtl ? 'rtl' : 'ltr'
    $('notice').textContent = language ? '' : `This talk is not translated into ${target}.`
  },
  said(m) {
    if (m.target !== target) return
    text.append(m.units)
    clearAfter(AFTER_TEXT)
  },
  gap: m => text.gap(m),
  end: () => clearAfter(AFTER_END),
}

if (!room) $('notice').textContent = 'Which room? Add ?room=NAME to the address.'
else watch(room, query, {
  on(message) { if (on[message.type]) on[message.type](message) },
  open() { if ($('notice').textContent.startsWith('The server')) $('notice').textContent = '' },
  lost() {}, // the browser reconnects
  refused(why) { $('notice').textContent = `The server says: ${why}` },
})
