import { Input } from './input.js'
import { Line } from './line.js'
import { ownName, setUpReading, stayAwake } from './settings.js'
import { openSound } from './sound.js'
import { View } from './view.js'

const $ = id => document.getElementById(id)
const asked = new URLSearchParams(location.search)
const token = asked.get('token') ?? sessionStorage.getItem('token')
const carried = token ? { token } : {}
if (asked.has('token')) { // not on a screen that others see, nor in an address that is copied
  sessionStorage.setItem('token', token); asked.delete('token')
  history.replaceState(null, '', location.pathname + (asked.size ? `?${asked}` : ''))
}
const address = (path, query = {}) => `${path}?${new URLSearchParams({ ...query, ...carried })}`
const socketAddress = () => {
  const url = new URL(address('ws'), location.href)
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  return url.href
}
let view, line, sound, restored, seen = ''
const input = new Input(device => sound.use(device))
const renewLock = stayAwake(() => sound)

async function setUp() {
  let health
  try {
    const answer = await fetch(address('health'))
    health = await answer.json()
  } catch { return fail('The server does not answer. Is it running?') }
  if (!health.targets) return fail('This server needs a token: add ?token=… to the address.')
  const known = new Map(health.targets.map(item => [item.code, item]))
  view = new View(known, health.viewer_token ? { token: health.viewer_token } : {}, health.address)
  const before = JSON.parse(sessionStorage.getItem('choices'))
  for (const item of known.values()) {
    const label = document.createElement('label'), box = document.createElement('input')
    Object.assign(box, { type: 'checkbox', name: 'target', value: item.code, checked: before?.targets.includes(item.code) })
    label.append(box, item.code === health.source ? `${ownName(item)} (captions)` : ownName(item))
    $('targets').append(label)
  }
  if (!document.querySelector('[name=target]:checked')) $('targets').querySelector('input').checked = true
  $('room').value = asked.get('room') ?? before?.room ?? ''
  $('context').value = before?.context ?? ''
  $('small').hidden = !/micro/.test(health.model)
  $('start').disabled = false
  view.state('', health.status === 'ok' ? 'ready' : 'the engines are being started …')
  restore()
}

// After a reload: what was said in the talk of this tab, its last words included.
function restore() {
  const talk = JSON.parse(sessionStorage.getItem('talk') ?? 'null')
  if (!talk) return
  restored = new EventSource(address('events', { room: talk.room }))
  restored.onmessage = ({ data, lastEventId }) => {
    seen = lastEventId
    const message = JSON.parse(data)
    view.show(message)
    view.state('', talk.over ? 'The last talk of this page.' : 'The talk so far. Start goes on with it.')
  }
}

function fail(text) { $('state').className = 'error'; $('state').textContent = text }

function rest() {
  sound?.stop(); sound = null
  input.end(); renewLock()
  document.body.classList.remove('live')
  $('start').disabled = false; $('stop').disabled = true
  $('start').focus({ preventScroll: true })
}

$('setup').onsubmit = async event => {
  event.preventDefault()
  const targets = [...document.querySelectorAll('[name=target]:checked')].map(box => box.value)
  if (!targets.length) return fail('Choose at least one language.')
  $('start').disabled = true
  const kind = document.querySelector('[name=input]:checked').value
  const stop = () => { if (!$('stop').disabled) $('stop').click() }
  try {
    sound = await openSound(kind, {
      file: $('file').files[0], device: $('device').value, onpcm: pcm => line?.send(pcm),
      onlevel: peak => input.level(peak), ongone: why => input.tell(why), onend: stop,
    })
  } catch (error) {
    $('start').disabled = false
    return fail(error.name === 'NotAllowedError' ? 'The browser did not allow the microphone.' : `No audio: ${error.message}`)
  }
  const talk = JSON.parse(sessionStorage.getItem('talk') ?? '{}')
  const start = { type: 'start', targets, sample_rate: sound.rate, detail: 'why', live: true }
  if ($('room').value) start.room = $('room').value
  if (talk.session && (!start.room || start.room === talk.room)) Object.assign(start, { session: talk.session, since: seen })
  if ($('context').value.trim()) start.context = $('context').value
  restored?.close(); restored = null
  view.state('', 'connecting …')
  const remember = over => {
    const { room, session } = line.start
    sessionStorage.setItem('talk', JSON.stringify({ room, session, over }))
  }
  line = new Line(socketAddress(), start, {
    on(message) {
      if (message.type === 'ready') { remember(false); sound?.go() }
      view.show(message)
      if (message.type === 'end') remember(true)
    },
    lost: text => view.state('error', `${text}. Trying again …`),
    over(text) { rest(); if (text) { sessionStorage.removeItem('talk'); fail(text) } },
  })
  if (kind === 'microphone') sound.go() // the line keeps what is said before the server is ready
  sessionStorage.setItem('choices', JSON.stringify({ targets, room: $('room').value, context: $('context').value }))
  document.body.classList.add('live')
  $('hearing').hidden = false
  $('stop').disabled = false
  $('stop').focus({ preventScroll: true })
  input.begin(); renewLock()
}

$('stop').onclick = () => {
  $('stop').disabled = true
  view.state('live', 'translating the last words …')
  sound?.stop(); input.end()
  line.stop()
}

for (const choice of document.querySelectorAll('[name=input]')) {
  choice.onchange = () => { $('device').hidden = !($('file').hidden = document.querySelector('[name=input]:checked').value !== 'file') }
}

setUpReading()
$('details').onchange = ({ target }) => document.body.classList.toggle('plain', !target.checked)
setUp()
