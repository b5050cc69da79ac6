// No server and a silent microphone: `tell` gives messages to the page, `say` words.
delete window.SharedWorker
window.EventSource = class {
  constructor(url) { window.source = this; this.url = `${url}`; setTimeout(() => this.onopen?.()) }
  close() { this.closed = true }
}
window.WebSocket = class {
  static OPEN = 1
  constructor(url) {
    window.source = this
    this.readyState = 1
    setTimeout(() => this.onopen())
  }
  send(data) { sent.push(data) }
  close() {}
}
Object.defineProperty(AudioContext.prototype, 'currentTime', { get: () => Date.now() / 1000 })
const silence = new AudioContext().createMediaStreamDestination().stream
window.track = silence.getAudioTracks()[0]
navigator.mediaDevices.getUserMedia = async () => silence
window.number = 0
window.sent = []
window.locks = 0
navigator.wakeLock.request = async () => { locks++; return { released: true } }
window.tell = (...messages) => messages.forEach(
  m => source.onmessage({ data: JSON.stringify(m), lastEventId: `talk.${++number}` }))
window.READY = { type: 'ready', room: 'talk', session: 's', source: 'en', model: 'a/b', policy: 'c',
  chunk_ms: 850, audio_s: 0, targets: ['de'],
  languages: [{ code: 'de', name: 'German' },
  { code: 'zh', name: 'Chinese' }] }
window.say = (text, target = 'de', at = number) => tell({ type: 'said', target, audio_s: at + 1,
  units: text.split(' ').map(word => {
    const begins = window.over ?? true
    window.over = word.endsWith('.')
    return [` ${word}`, at, at, begins]
  }) })
