// The connection to the server: comes back by itself, and goes on with the same talk.
const WAITS = [500, 1000, 2000, 5000, 10000]
const KEPT = 3000 // tenths of a second that are kept, to be sent again after a lost connection

export class Line {
  // start: the first message; on(message): what the server tells; lost(text): while it comes back;
  // over(text): it will not come back, text says why, or is empty after a stop.
  constructor(url, start, { on, lost, over }) {
    // kept: the latest pieces of audio; first: the number of the oldest of them;
    // zero: the time of the talk at which piece 0 began, in seconds.
    Object.assign(this, { url, start, on, lost, over, kept: [], first: 0, zero: null, tries: 0, ready: false, stopping: false, done: false })
    this.connect()
  }

  connect() {
    const socket = this.socket = new WebSocket(this.url)
    if (this.zero !== null) this.start.kept_s = Math.max(0, this.zero + this.first / 10)
    let why = ''
    socket.onopen = () => socket.send(JSON.stringify(this.start))
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data)
      if (message.type === 'ready') {
        // A connection that comes back goes on with the talk.
        this.start = { ...this.start, room: message.room, session: message.session, new: false }
        this.ready = true; this.tries = 0
        this.zero ??= message.audio_s - this.first / 10
        this.sendFrom(10 * (message.audio_s - this.zero) - this.first)
        if (this.stopping) socket.send('{"type":"stop"}')
      }
      if (message.type === 'error' && message.final) why = message.message
      if (message.type === 'end') this.done = true
      if (message.id) this.start.since = message.id // what is said while there is no connection follows
      this.on(message)
    }
    socket.onclose = ({ code, reason }) => {
      this.ready = false
      if (this.done) return this.over('')
      // 1008, 1009: asking again would not help.
      if (code === 1008 || code === 1009) return this.over(why || reason)
      if (this.stopping && this.tries > 2) return this.over(why || 'The connection was lost while the last words were translated.')
      this.lost(why || reason || 'The connection was lost')
      this.timer = setTimeout(() => this.connect(), WAITS[Math.min(this.tries++, WAITS.length - 1)])
    }
  }

  // What the server has not heard, from a place among the kept pieces on.
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
    if (this.ready && this.socket.readyState === WebSocket.OPEN) this.socket.send(pcm)
  }

  stop() {
    this.stopping = true
    if (this.ready && this.socket.readyState === WebSocket.OPEN) this.socket.send('{"type":"stop"}')
  }
}
