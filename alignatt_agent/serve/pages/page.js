import { Input, why } from './input.js'
import { Line } from './line.js'
import { ownName, setUpReading, stayAwake } from './settings.js'
import { INSECURE, openSound } from './sound.js'
import { kept } from './stored.js'
import { Talk } from './talk.js'
import { View } from './view.js'
import { refusal, say, translate } from './words.js'
import './words_speaker.js'

const $ = id => document.getElementById(id)
const ROOM = /^[\p{L}\p{M}\p{N}_-]{1,64}$/u // as the server's rule
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
translate()
const talk = new Talk()
let view, line, sound, restored, live = false
const input = new Input(device => sound.use(device), () => view?.status.set({ silent: live && input.gone !== '' }))
const renewLock = stayAwake(() => sound)

async function setUp() {
  let health
  try {
    const answer = await fetch(address('health'))
    health = await answer.json()
  } catch { return cannotStart(say('noserver')) }
  if (!health.targets) {
    const { code, message } = health.refused
    return cannotStart(say('says', refusal(code, message)))
  }
  const known = new Map(health.targets.map(target => [target.code, target]))
  view = new View(known, health.viewer_token ? { token: health.viewer_token } : {}, health.address, save)
  if (!isSecureContext) input.warning = INSECURE
  const before = JSON.parse(sessionStorage.getItem('choices'))
  for (const target of known.values()) {
    const label = document.createElement('label'), box = document.createElement('input'), name = ownName(target)
    Object.assign(box, { type: 'checkbox', name: 'target', value: target.code, checked: before?.targets.includes(target.code) })
    label.append(box, target.code === health.source ? say('captioned', name) : name)
    $('targets').append(label)
  }
  if (!document.querySelector('[name=target]:checked')) $('targets').querySelector('input').checked = true
  $('room').value = asked.get('room') ?? before?.room ?? ''
  $('title').value = before?.title ?? ''
  $('context').value = before?.context ?? ''
  $('small').hidden = !/micro/.test(health.model)
  $('small').textContent = say('small', 'micro_models/devset/wav')
  view.status.begin('', say(health.status !== 'ok' ? 'starting' : health.unused_token ? 'unneeded' : 'ready'))
  checkRoom()
  restore()
  // The viewers' token and plain http allow no talk: the page says so before the user presses Start.
  if (health.speaker === false) return view.status.set({ failed: say('viewersonly') })
  $('start').disabled = !isSecureContext
  input.look()
}

// Nothing else works, so nothing else is offered.
function cannotStart(text) { $('state').className = 'error'; $('state').textContent = text }

// Shows what is wrong with the name of the room; returns whether the name is right.
function checkRoom() {
  const room = $('room').value.normalize('NFC').trim(), right = !room || ROOM.test(room)
  $('room').setAttribute('aria-invalid', !right)
  input.problems = right ? [] : [say('badroom', room.slice(0, 80))]
  if (!right) $('options').open = true
  input.look()
  return right
}
$('room').oninput = checkRoom

// After a reload: shows the copy of this tab, then the text since the copy, including the last words.
function restore() {
  if (!talk.room) return
  for (const message of talk.copy) show(message)
  if (talk.copy.length) view.time(talk.audio_s ?? 0)
  restored = new EventSource(address('events', { room: talk.room, since: talk.since ?? '' }))
  restored.onmessage = ({ data, lastEventId }) => {
    const message = { ...JSON.parse(data), id: lastEventId }
    if (message.type === 'ready' && !message.resumed && talk.copy.length) return restored.close() // another talk
    talk.note(message); show(message)
  }
}

function show(message) {
  view.show(message)
  view.status.begin('', say('sofar'))
  ended()
}

// Shows the text of a talk and two choices: continue the talk or begin another one.
function ended() {
  document.body.classList.toggle('over', talk.copy.length > 0)
  $('new').hidden = !talk.copy.length
  $('start').textContent = say(talk.copy.length && talk.session ? 'continue' : 'start')
}

$('new').onclick = () => {
  if (!confirm(say('asknew'))) return
  restored?.close(); talk.renew(); view.clear(); view.status.begin('', say('ready'))
  ended()
}

$('change').onclick = () => { document.body.classList.remove('over'); $('targets').querySelector('input').focus() }

$('copy').onclick = async () => {
  const copied = await navigator.clipboard?.writeText($('readers').href).then(() => true).catch(() => false)
  if (!copied) getSelection().selectAllChildren($('readers'))
  $('copied').textContent = say(copied ? 'copied' : 'uncopied')
}
$('share').ontoggle = () => { $('copied').textContent = '' }

function save(code) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([talk.text(code)], { type: 'text/plain' }))
  link.download = `${talk.room}.${code}.txt`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1000)
}

addEventListener('beforeunload', event => { if (live) event.preventDefault() })
addEventListener('pagehide', () => talk.save())

function fail(text) { view.status.set({ failed: text }) }

function rest() {
  sound?.stop(); sound = null
  live = false
  input.end(); renewLock()
  document.body.classList.remove('live')
  $('start').disabled = false; $('stop').disabled = true
  $('start').focus({ preventScroll: true })
  ended()
}

$('setup').onsubmit = async event => {
  event.preventDefault()
  if (!checkRoom()) return $('room').focus()
  const room = $('room').value.normalize('NFC').trim()
  const targets = [...document.querySelectorAll('[name=target]:checked')].map(box => box.value)
  if (!targets.length) return fail(say('asklanguage'))
  const key = talk.key(room)
  if (talk.copy.length && !key.session && !confirm(say('askreplace'))) return
  $('start').disabled = true
  input.endCheck()
  const kind = $('device').value === 'file' ? 'file' : 'microphone'
  const hear = gone => { input.tell(gone); if (gone === 'stopped') line?.pause() }
  const stop = () => { if (!$('stop').disabled) $('stop').click() }
  try {
    sound = await openSound(kind, {
      file: $('file').files[0], device: $('device').value, onpcm: pcm => line?.send(pcm),
      onlevel: peak => input.level(peak), ongone: hear, onend: stop, ongap: seconds => line?.skip(seconds),
    })
  } catch (error) {
    $('start').disabled = false
    return fail(why(error))
  }
  const start = { type: 'start', targets, sample_rate: sound.rate, detail: 'why', live: true, title: $('title').value.trim(), ...key }
  if (room) start.room = room
  if ($('context').value.trim()) start.context = $('context').value
  restored?.close(); restored = null
  view.status.begin('', say('connecting'))
  line = new Line(socketAddress(), start, {
    on(message) {
      if (message.type === 'ready') sound?.go()
      if (message.code === 'session') talk.lost()
      if (message.type === 'status') { input.problems = message.problems ?? []; input.look() }
      talk.note(message)
      view.show(message, line.recorded)
      if (message.type === 'ready') { input.changed(); view.status.set({ stopping: line.stopping }) }
    },
    lost: text => view.status.set({ lost: say('again', text), keeping: line.keeping }),
    back: () => view.status.set({ lost: '' }),
    over(text) { rest(); if (text) fail(text) },
  })
  if (kind === 'microphone') sound.go() // the line keeps the audio until the server is ready
  sessionStorage.setItem('choices', JSON.stringify({ targets, room, title: $('title').value, context: $('context').value }))
  document.body.classList.add('live'); document.body.classList.remove('over')
  $('stop').disabled = false
  $('stop').focus({ preventScroll: true })
  live = $('new').hidden = true
  input.begin(); renewLock()
}

setInterval(() => {
  if (!live) return
  view.status.set({ keeping: line.keeping })
  view.tick(line.recorded)
}, 1000)

$('stop').onclick = () => {
  $('stop').disabled = true
  view.status.set({ stopping: true })
  sound?.stop(); input.end()
  line.stop()
}

setUpReading()
$('details').checked = kept('research') === 'true'
$('details').onchange = () => { kept('research', $('details').checked); document.body.classList.toggle('research', $('details').checked) }
document.body.classList.toggle('research', $('details').checked)
setUp()
