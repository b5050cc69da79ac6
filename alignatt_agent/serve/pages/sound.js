// Microphone or recording, as 16-bit pieces of a tenth of a second at the browser's own rate.
const PIECE = 100 // ms

export async function openSound(kind, { file, device, onpcm, onlevel, onend, ongone }) {
  const context = new AudioContext()
  let closed = false, tap, silence
  const sound = {
    rate: context.sampleRate, go() {}, source: null,
    stop() {
      if (closed) return // closing a context twice throws
      closed = true
      clearInterval(silence)
      sound.source?.getTracks().forEach(track => track.stop())
      context.close()
    },
    // Takes a microphone, also instead of the one of now.
    async use(device) {
      if (!navigator.mediaDevices) throw new Error('browsers give the microphone only to https, or to this machine’s own pages; a file works')
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
  // Time goes on without a microphone, and so does the connection.
  const beSilent = () => {
    silence = setInterval(() => onpcm(new ArrayBuffer(2 * Math.round(context.sampleRate * PIECE / 1000))), PIECE)
  }
  try {
    await context.audioWorklet.addModule('pages/microphone.js')
    tap = new AudioWorkletNode(context, 'microphone', { numberOfOutputs: 0 })
    tap.port.onmessage = ({ data }) => { if (!closed) { onlevel(data.level); onpcm(data.pcm) } }
    if (kind === 'file') {
      if (!file) throw new Error('choose a recording first')
      const buffer = await context.decodeAudioData(await file.arrayBuffer()).catch(() => null)
      if (!buffer) throw new Error('this browser cannot decode the file; 16-bit WAV or MP3 works')
      const node = new AudioBufferSourceNode(context, { buffer })
      node.connect(tap); node.connect(context.destination)
      node.onended = onend
      sound.go = () => { sound.go = () => {}; context.resume(); node.start() }
    } else {
      await sound.use(device)
      sound.go = () => { sound.go = () => {}; context.resume(); sound.node.connect(tap) }
    }
  } catch (error) {
    sound.stop()
    throw error
  }
  return sound
}
