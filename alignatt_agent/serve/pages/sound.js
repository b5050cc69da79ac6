// Microphone or recording, as 16-bit pieces of a tenth of a second at the browser's own rate.
import { say } from './words.js'
import './words_speaker.js'

const PIECE = 100 // ms
const GAP = 1 // s without sound; longer gaps are marked as missing

const port = location.port || 80
export const INSECURE = say('insecure', `ssh -L ${port}:localhost:${port} ${location.hostname}; http://localhost:${port}/`)

export async function openSound(kind, { file, device, onpcm, onlevel, onend, ongone, ongap }) {
  const context = new AudioContext()
  let closed = false, tap, silence, started = false, paused = false, zero = null
  const sound = {
    rate: context.sampleRate, go() {}, source: null,
    stop() {
      if (closed) return // closing a context twice throws
      closed = true
      clearInterval(silence); clearInterval(watching)
      document.removeEventListener('visibilitychange', wake); document.removeEventListener('pointerdown', wake)
      sound.source?.getTracks().forEach(track => track.stop())
      context.close()
    },
    // Starts to use a microphone, or replaces the current one.
    async use(device) {
      if (!navigator.mediaDevices) throw new Error(INSECURE)
      const audio = { channelCount: 1, echoCancellation: false, ...device && { deviceId: { exact: device } } }
      const source = await navigator.mediaDevices.getUserMedia({ audio })
      if (closed) return source.getTracks().forEach(track => track.stop())
      const [track] = source.getAudioTracks(), before = sound.source
      sound.source = source
      before?.getTracks().forEach(old => { old.onended = null; old.stop() })
      sound.node?.disconnect()
      clearInterval(silence)
      sound.node = context.createMediaStreamSource(source)
      track.onended = () => { sound.node.disconnect(); beSilent(); ongone('unplugged') }
      track.onmute = () => ongone('muted')
      track.onunmute = () => ongone('')
      sound.device = track.getSettings().deviceId
      if (before) sound.node.connect(tap)
    },
  }
  // Without a microphone, silence is sent, so that the connection continues.
  const beSilent = () => {
    silence = setInterval(() => onpcm(new ArrayBuffer(2 * Math.round(context.sampleRate * PIECE / 1000))), PIECE)
  }
  const start = () => { started = true; context.resume() }
  // The browser stops the sound and its clock on hidden pages, on locked phones and during calls.
  const wake = () => { if (started && !closed && !document.hidden && context.state !== 'running') context.resume().catch(() => {}) }
  const look = () => {
    if (!started || closed || kind === 'file') return
    if (context.state !== 'running' && !paused) { paused = true; ongone('stopped') }
    if (context.state !== 'running') return wake()
    const apart = Date.now() / 1000 - context.currentTime, missing = apart - (zero ?? apart)
    if (missing > GAP) ongap(missing)
    zero = missing > 0 && missing < GAP ? zero + missing / 100 : apart // two clocks drift
    if (paused) { paused = false; ongone('') }
  }
  const watching = setInterval(look, 250)
  context.onstatechange = look
  document.addEventListener('visibilitychange', wake); document.addEventListener('pointerdown', wake)
  try {
    if (!context.audioWorklet) throw new Error(INSECURE)
    await context.audioWorklet.addModule('pages/microphone.js')
    tap = new AudioWorkletNode(context, 'microphone', { numberOfOutputs: 0 })
    tap.port.onmessage = ({ data }) => { if (!closed) { look(); onlevel(data.level); onpcm(data.pcm) } }
    if (kind === 'file') {
      if (!file) throw new Error(say('choosefile'))
      const buffer = await context.decodeAudioData(await file.arrayBuffer()).catch(() => null)
      if (!buffer) throw new Error(say('badfile'))
      const node = new AudioBufferSourceNode(context, { buffer })
      node.connect(tap); node.connect(context.destination)
      node.onended = onend
      sound.go = () => { sound.go = () => {}; start(); node.start() }
    } else {
      await sound.use(device)
      sound.go = () => { sound.go = () => {}; start(); sound.node.connect(tap) }
    }
  } catch (error) {
    sound.stop()
    throw error
  }
  return sound
}
