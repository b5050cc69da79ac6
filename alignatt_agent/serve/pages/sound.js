// Microphone or recording, as 16-bit pieces of a tenth of a second at the browser's own rate.
export async function openSound(kind, file, onpcm, onlevel, onend) {
  const context = new AudioContext()
  let closed = false
  const sound = {
    rate: context.sampleRate, go() {}, source: null,
    stop() {
      if (closed) return // closing a context twice throws
      closed = true
      sound.source?.getTracks?.().forEach(track => track.stop())
      context.close()
    },
  }
  try {
    await context.audioWorklet.addModule('pages/microphone.js')
    const tap = new AudioWorkletNode(context, 'microphone', { numberOfOutputs: 0 })
    tap.port.onmessage = ({ data }) => { if (!closed) { onlevel(data.level); onpcm(data.pcm) } }
    if (kind === 'file') {
      if (!file) throw new Error('choose a recording first')
      const node = new AudioBufferSourceNode(context, { buffer: await context.decodeAudioData(await file.arrayBuffer()) })
      node.connect(tap); node.connect(context.destination)
      node.onended = onend
      sound.go = () => { sound.go = () => {}; context.resume(); node.start() }
    } else {
      if (!navigator.mediaDevices) throw new Error('browsers give the microphone only to https, or to this machine’s own pages; a file works')
      sound.source = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: false } })
      sound.go = () => { sound.go = () => {}; context.resume(); context.createMediaStreamSource(sound.source).connect(tap) }
    }
  } catch (error) {
    sound.stop()
    throw error
  }
  return sound
}
