// Captions over a picture: ?room=talk&target=de; optional: lines=2, delay=3 (s), token=…, and the appearance:
// size=2.2 (rem), font=sans, color=ffffff, background=000000, opacity=75 (%), edge=outline
// OBS 27 uses Chromium 75, so this file and its imports use only JavaScript of 2019.
import { Lines } from './lines.js'
import { Styles } from './styles.js'
import { watch } from './watch.js'
import { refusal, say, translate } from './words.js'

const AFTER_END = 8000, AFTER_TEXT = 30000 // ms, after which the overlay is empty

const $ = id => document.getElementById(id)
const query = new URLSearchParams(location.search)
const room = query.get('room'), target = query.get('target')
const rows = Math.max(1, parseInt(query.get('lines') || '2') || 2)
const text = new Lines($('text'), rows)
let clearing, refused = false

translate()
// A user's choice is stored; the address of a browser source wins, because nobody chooses there.
const styles = new Styles({ place: 'overlay.', query, first: 'address', size: 2.2, before: () => ({ ink: '#ffffff', ground: '#000000', opacity: 0.75 }) })
styles.build($('styles'))
styles.changed = () => text.again()

document.documentElement.style.setProperty('--lines', rows)
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
    $('notice').textContent = language ? '' : say('none', target)
  },
  said(m) {
    if (m.target !== target) return
    text.append(m.units)
    clearAfter(AFTER_TEXT)
  },
  gap: m => text.gap(m),
  end: () => clearAfter(AFTER_END),
}

if (!room) $('notice').textContent = say('addroom')
else watch(room, query, {
  on(message) { if (on[message.type]) on[message.type](message) },
  open() {
    if (refused) $('notice').textContent = ''
    refused = false
  },
  lost() {}, // the browser reconnects
  refused({ code, message }) {
    refused = true
    $('notice').textContent = say('says', refusal(code, message))
  },
})
