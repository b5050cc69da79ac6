import { Input } from './input.js'
import { Line } from './line.js'
import { kept, ownName, setUpReading, stayAwake } from './settings.js'
import { INSECURE, openSound } from './sound.js'
import { Talk } from './talk.js'
import { View } from './view.js'

const $ = id => document.getElementById(id)
const asked = new URLSearchParams(location.search)
const token = asked.get('token') ?? sessionStorage.getItem('token')
const carried = token ? { token } : {}
if (asked.has('token')) { // so that a shared screen or a copied address does not reveal the token
  sessionStorage.setItem('token', token); asked.delete('token')
  history.replaceState(null, '', location.pathname + (asked.size ? `?${asked}` : ''))
}
const address = (path, query = {}) => `${path}?${new URLSearchParams({ ...query, ...carried })}`
const socketAddress = () => {
  const url = new URL(address('ws'), location.href)
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  return url.href
}
const talk = new Talk()
let view, line, sound, restored, live = false
const input = new Input(device => sound.use(device))
const renewLock = stayAwake(() => sound)

async function setUp() {
  let health
  try {
    const answer = await fetch(address('health'))
    health = await answer.json()
  } catch { return fail('The server does not answer. Is the server running?') }
  if (!health.targets) return fail(`The server says: ${health.refused.message}`)
  if (!health.speaker) return fail('This address has the token for viewers. To speak, use the address with the token for speakers.')
  const known = new Map(health.targets.map(item => [item.code, item]))
  view = new View(known, health.viewer_token ? { token: health.viewer_token } : {}, health.address, save)
  if (!isSecureContext) $('notice').textContent = INSECURE
  const before = JSON.parse(sessionStorage.getItem('choices'))
  for (const item of known.values()) {
    const label = document.createElement('label'), box = document.createElement('input')
    Object.assign(box, { type: 'checkbox', name: 'target', value: item.code, checked: before?.targets.includes(item.code) })
    label.append(box, item.code === health.source ? `${ownName(item)} (captions)` : ownName(item))
    $('targets').append(label)
  }
  if (!document.querySelector('[name=target]:checked')) $('targets').querySelector('input').checked = true
  $('room').value = asked.get('room') ?? before?.room ?? ''
  $('title').value = before?.title ?? ''
  $('context').value = before?.context ?? ''
  $('small').hidden = !/micro/.test(health.model)
  $('start').disabled = false
  view.state('', health.status === 'ok' ? 'ready' : 'the engines are being started …')
  restore()
}

// After a reload: shows the copy of this tab, then the text since the copy, including the last words.
function restore() {
  if (!talk.room) return
  for (const message of talk.copy) show(message)
  restored = new EventSource(address('events', { room: talk.room, since: talk.since ?? '' }))
  restored.onmessage = ({ data, lastEventId }) => {
    const message = { ...JSON.parse(data), id: lastEventId }
    if (message.type === 'ready' && !message.resumed && talk.copy.length) return restored.close() // another talk
    talk.note(message); show(message)
  }
}

function show(message) {
  view.show(message)
  view.state('', 'The talk so far')
  ended()
}

// Shows the text of a talk and two choices: continue the talk or begin another one.
function ended() {
  document.body.classList.toggle('over', talk.copy.length > 0)
  $('new').hidden = !talk.copy.length
  $('start').textContent = talk.copy.length && talk.session ? 'Continue this talk' : 'Start'
}

$('new').onclick = () => {
  if (!confirm('Begin a new talk? The text of this talk is removed from this page now and from all viewers’ pages when you press Start.')) return
  restored?.close(); talk.renew(); view.clear(); view.state('', 'ready')
  ended()
}

$('change').onclick = () => { document.body.classList.remove('over'); $('targets').querySelector('input').focus() }

function save(code) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([talk.text(code)], { type: 'text/plain' }))
  link.download = `${talk.room}.${code}.txt`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

addEventListener('beforeunload', event => { if (live) event.preventDefault() })
addEventListener('pagehide', () => talk.save())

function fail(text) { $('state').className = 'error'; $('state').textContent = text }

function rest() {
  sound?.stop(); sound = null
  input.end(); renewLock()
  document.body.classList.remove('live')
  $('start').disabled = false; $('stop').disabled = true
  $('start').focus({ preventScroll: true })
  live = false; ended()
}

$('setup').onsubmit = async event => {
  event.preventDefault()
  const targets = [...document.querySelectorAll('[name=target]:checked')].map(box => box.value)
  if (!targets.length) return fail('Choose at least one language.')
  const key = talk.key($('room').value)
  const replaces = 'This begins a new talk. Its text replaces the text on this page; if you need that text, save it first.'
  if (talk.copy.length && !key.session && !confirm(replaces)) return
  $('start').disabled = true
  const kind = $('device').value === 'file' ? 'file' : 'microphone'
  const stop = () => { if (!$('stop').disabled) $('stop').click() }
  try {
    sound = await openSound(kind, {
      file: $('file').files[0], device: $('device').value, onpcm: pcm => line?.send(pcm),
      onlevel: peak => input.level(peak), ongone: why => input.tell(why), onend: stop, ongap: seconds => line?.skip(seconds),
    })
  } catch (error) {
    $('start').disabled = false
    return fail(error.name === 'NotAllowedError' ? 'The browser denied access to the microphone.' : `No audio: ${error.message}`)
  }
  const start = { type: 'start', targets, sample_rate: sound.rate, detail: 'why', live: true, title: $('title').value.trim(), ...key }
  if ($('room').value) start.room = $('room').value
  if ($('context').value.trim()) start.context = $('context').value
  restored?.close(); restored = null
  view.state('', 'connecting …')
  line = new Line(socketAddress(), start, {
    on(message) {
      if (message.type === 'ready') sound?.go()
      if (message.code === 'session') talk.lost()
      talk.note(message)
      view.show(message)
    },
    lost: text => view.state('error', `${text}. Trying again …`),
    back: () => view.state('live', 'live'),
    over(text) { rest(); if (text) fail(text) },
  })
  if (kind === 'microphone') sound.go() // the line keeps the audio until the server is ready
  sessionStorage.setItem('choices', JSON.stringify({ targets, room: $('room').value, title: $('title').value, context: $('context').value }))
  document.body.classList.add('live'); document.body.classList.remove('over')
  $('stop').disabled = false
  $('stop').focus({ preventScroll: true })
  input.begin(); renewLock()
  live = $('new').hidden = true
}

$('stop').onclick = () => {
  $('stop').disabled = true
  view.state('live', 'translating the last words …')
  sound?.stop(); input.end()
  line.stop()
}

setUpReading()
$('details').checked = kept('research') === 'true'
$('details').onchange = () => { kept('research', $('details').checked); document.body.classList.toggle('research', $('details').checked) }
document.body.classList.toggle('research', $('details').checked)
setUp()
