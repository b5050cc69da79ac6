// The connection to the server, which is restored automatically and continues the same talk.
import { refusal, say } from './words.js'
import './words_speaker.js'

const WAITS = [500, 1000, 2000, 5000, 10000]
const KEPT = 3000 // tenths of a second of audio that are kept, and resent after a lost connection
const PIECE = 0.1 // s
const FROZEN = 4 // s between two checks, which run every second
const SILENT = 8, DEAD = 30 // s without an answer after which the page warns and after which it reconnects

export class Line {
  // start: the first message; on(message): a message of the server; lost(text): the page reconnects;
  // back(): the server answers again; over(text): the end, with the reason, or empty after a stop.
  constructor(url, start, { on, lost, back, over }) {
    // kept: the latest pieces of audio; first: the number of the oldest of them;
    // zero: the time of the talk at which piece 0 began, in seconds.
    // ends: the end of the text of each language, in seconds of the talk.
    // step: seconds of audio that the server collects before it answers; answered: the time of the talk up to which
    // it has answered; unanswered: start of the wait for an answer; waits: the server is restarting its engines.
    Object.assign(this, { url, start, on, lost, back, over, kept: [], first: 0, zero: null, tries: 0, ready: false, stopping: false, done: false, ends: {}, step: 1, answered: 0, checked: Date.now() })
    this.watching = setInterval(() => this.check(), 1000)
    this.connect()
  }

  connect() {
    // Nothing that is said before the talk begins is published: a new attempt begins without the earlier audio.
    if (this.zero === null) { this.first += this.kept.length; this.kept = [] }
    const socket = this.socket = new WebSocket(this.url)
    if (this.zero !== null) this.start.kept_s = Math.max(0, this.zero + PIECE * this.first)
    const ends = Object.values(this.ends)
    if (ends.length) this.start.text_s = Math.min(...ends)
    let why = '', code = ''
    this.unanswered = null
    socket.onopen = () => socket.send(JSON.stringify(this.start))
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data)
      if (this.silent) this.back()
      this.silent = false
      if (message.chunk_ms) this.step = message.chunk_ms / 1000
      if (message.type === 'ready' || message.type === 'status') this.answered = message.audio_s
      this.unanswered = null
      if (message.code === 'engine') this.waits = true
      if (message.type === 'heard') this.waits = false
      if (message.type === 'ready') {
        // A restored connection continues the talk.
        this.start = { ...this.start, room: message.room, session: message.session, new: false }
        this.ready = true; this.tries = 0; this.stopped = ''
        this.zero ??= message.audio_s - PIECE * this.first
        this.sendFrom((message.audio_s - this.zero) / PIECE - this.first)
        if (this.stopping) socket.send('{"type":"stop"}')
      }
      if (message.type === 'error' && message.final) {
        why = refusal(message.code, message.message); code = message.code
        if (message.kept === false) for (const target in this.ends) this.ends[target] = message.audio_s
      }
      if (message.type === 'said' && message.units.length) this.ends[message.target] = message.units.at(-1)[2]
      if (message.type === 'end') this.done = true
      if (message.id) this.start.since = message.id // the server sends the text after this message
      this.on(message)
    }
    socket.onclose = closed => {
      this.ready = false
      const end = text => { clearInterval(this.watching); this.over(text) }
      if (this.done) return end('')
      // The browser paused the sound for longer than the server waits: the next sound continues the talk.
      if (code === 'idle' && !this.stopping) { this.asleep = true; return this.lost(say('idle')) }
      // 1008, 1009: another attempt would not help.
      if (closed.code === 1008 || closed.code === 1009) return end(why || closed.reason)
      if (code === 'busy' && this.zero === null && this.tries > 1) return end(why)
      if (this.stopping && this.tries > 2) return end(why || say('unfinished'))
      if (code === 'closing') this.stopped ||= why // shown until the server is back
      this.lost(why || this.stopped || closed.reason || say('connlost'))
      this.timer = setTimeout(() => this.connect(), WAITS[Math.min(this.tries++, WAITS.length - 1)])
    }
  }

  // Sends the audio that the server has not received, starting at a position in the kept pieces.
  sendFrom(place) {
    const whole = Math.max(0, Math.floor(place + 1e-6))
    this.kept.slice(whole).forEach((pcm, k) => {
      const skipped = k ? 0 : Math.round((Math.max(0, place) - whole) * pcm.byteLength / 2)
      this.socket.send(skipped > 0 ? pcm.slice(2 * skipped) : pcm)
    })
  }

  send(pcm) {
    this.kept.push(pcm)
    if (this.kept.length > KEPT) { this.kept.shift(); this.first++ }
    if (this.asleep) { this.asleep = false; this.connect() }
    if (!this.ready || this.socket.readyState !== WebSocket.OPEN) return
    this.socket.send(pcm)
    this.unanswered ??= Date.now()
  }

  // The time of the talk up to which this page has recorded, in seconds; null before the talk begins.
  get recorded() { return this.zero === null ? null : this.zero + PIECE * (this.first + this.kept.length) }

  // The browser has paused the sound: the server answers only after the audio of a whole step.
  pause() { if (this.recorded - this.answered < this.step + PIECE) this.unanswered = null }

  // What happens to speech while the server does not answer.
  get keeping() {
    if (this.zero === null) return say('unheard')
    return this.zero + PIECE * this.first <= this.answered + PIECE ? say('keeps') : say('loses')
  }

  // Skips seconds that were not recorded; the server marks them as missing when the talk continues.
  skip(seconds) {
    if (this.zero === null) return
    this.first += this.kept.length; this.kept = []; this.zero += seconds
    if (!this.asleep) this.again()
  }

  // Reconnects immediately, because the old connection may never be closed.
  again() {
    const { socket } = this
    socket.onclose = socket.onmessage = null
    socket.close()
    clearTimeout(this.timer)
    this.ready = this.asleep = false
    this.connect()
  }

  check() {
    const now = Date.now(), asleep = now - this.checked > 1000 * FROZEN
    this.checked = now
    if (asleep && !this.silent) this.unanswered = null // the browser froze the page, which has sent nothing meanwhile
    const seconds = this.unanswered && (now - this.unanswered) / 1000
    if (!(seconds >= SILENT) || this.waits) return
    if (!this.silent) this.lost(say('noanswer', SILENT))
    this.silent = true
    if (seconds >= DEAD) this.again()
  }

  stop() {
    this.stopping = true
    if (this.asleep) this.again()
    if (this.ready && this.socket.readyState === WebSocket.OPEN) this.socket.send('{"type":"stop"}')
  }
}
