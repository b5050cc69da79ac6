// The connection to the server, which is restored automatically and continues the same talk.
const WAITS = [500, 1000, 2000, 5000, 10000]
const KEPT = 3000 // tenths of a second of audio that are kept, and resent after a lost connection
const SILENT = 8, DEAD = 30 // s without an answer after which the page warns and after which it reconnects

export class Line {
  // start: the first message; on(message): a message of the server; lost(text): the page reconnects;
  // back(): the server answers again; over(text): the end, with the reason, or empty after a stop.
  constructor(url, start, { on, lost, back, over }) {
    // kept: the latest pieces of audio; first: the number of the oldest of them;
    // zero: the time of the talk at which piece 0 began, in seconds.
    // unsent: pieces of audio since the connection was lost; ends: the end of the text of each language, in seconds of the talk.
    // unanswered: start of the wait for an answer; waits: the server is restarting its engines.
    Object.assign(this, { url, start, on, lost, back, over, kept: [], first: 0, zero: null, tries: 0, ready: false, stopping: false, done: false, ends: {}, unsent: 0 })
    this.watching = setInterval(() => this.check(), 1000)
    this.connect()
  }

  connect() {
    const socket = this.socket = new WebSocket(this.url)
    if (this.zero !== null) this.start.kept_s = Math.max(0, this.zero + this.first / 10)
    const ends = Object.values(this.ends)
    if (ends.length) this.start.text_s = Math.min(...ends)
    let why = '', code = ''
    this.unanswered = null
    socket.onopen = () => socket.send(JSON.stringify(this.start))
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data)
      if (this.silent) this.back()
      this.unanswered = null; this.silent = false
      if (message.code === 'engine') this.waits = true
      if (message.type === 'heard') this.waits = false
      if (message.type === 'ready') {
        // A restored connection continues the talk.
        this.start = { ...this.start, room: message.room, session: message.session, new: false }
        this.ready = true; this.tries = 0; this.stopped = ''
        this.zero ??= message.audio_s - this.first / 10
        this.sendFrom(10 * (message.audio_s - this.zero) - this.first)
        if (this.stopping) socket.send('{"type":"stop"}')
      }
      if (message.type === 'error' && message.final) {
        why = message.message; code = message.code
        if (message.kept === false) {
          for (const target in this.ends) this.ends[target] = message.audio_s
          why += `. This page keeps the last ${KEPT / 600} minutes of your speech for the restart`
        }
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
      if (code === 'idle' && !this.stopping) { this.asleep = true; return this.lost('No audio was sent for a while') }
      // 1008, 1009: another attempt would not help.
      if (closed.code === 1008 || closed.code === 1009) return end(why || closed.reason)
      // Nothing that is said during a long wait for a free place may be published later.
      if (code === 'busy' && this.zero === null && this.tries > 1) return end(why)
      if (this.stopping && this.tries > 2) return end(why || 'The connection was lost while the last words were being translated.')
      if (code === 'closing') this.stopped ||= why // shown until the server is back
      this.lost(why || this.stopped || closed.reason || 'The connection was lost')
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
    this.unsent = this.ready ? 0 : this.unsent + 1
    if (this.unsent === KEPT + 1) this.lost(`No connection for ${KEPT / 600} minutes; speech before that time is being lost`)
    if (this.asleep) { this.asleep = false; this.connect() }
    if (!this.ready || this.socket.readyState !== WebSocket.OPEN) return
    this.socket.send(pcm)
    this.unanswered ??= Date.now()
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
    const seconds = this.unanswered && (Date.now() - this.unanswered) / 1000
    if (!(seconds >= SILENT) || this.waits) return
    if (!this.silent) this.lost(`The server has not answered for ${SILENT} s; your speech is kept`)
    this.silent = true
    if (seconds >= DEAD) this.again()
  }

  stop() {
    this.stopping = true
    if (this.asleep) this.again()
    if (this.ready && this.socket.readyState === WebSocket.OPEN) this.socket.send('{"type":"stop"}')
  }
}
