// The connection to the server: comes back by itself, and goes on with the same talk.
const WAITS = [500, 1000, 2000, 5000, 10000]
const KEPT = 300 // tenths of a second that are kept while there is no connection

export class Line {
  // start: the first message; on(message): what the server tells; lost(text): while it comes back;
  // over(text): it will not come back, text says why, or is empty after a stop.
  constructor(url, start, { on, lost, over }) {
    Object.assign(this, { url, start, on, lost, over, kept: [], tries: 0, ready: false, stopping: false, done: false })
    this.connect()
  }

  connect() {
    const socket = this.socket = new WebSocket(this.url)
    let why = ''
    socket.onopen = () => socket.send(JSON.stringify(this.start))
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data)
      if (message.type === 'ready') {
        // A connection that comes back goes on with the talk.
        this.start = { ...this.start, room: message.room, session: message.session }
        this.ready = true; this.tries = 0
        for (const pcm of this.kept.splice(0)) socket.send(pcm)
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
      // 1008, 1009: asking again would not help. A room that is taken is ours until the server
      // has noticed that the old connection is gone.
      if (code === 1008 || code === 1009) return this.over(why || reason)
      if (this.stopping && this.tries > 2) return this.over(why || 'The connection was lost while the last words were translated.')
      this.lost(why || reason || 'The connection was lost')
      this.timer = setTimeout(() => this.connect(), WAITS[Math.min(this.tries++, WAITS.length - 1)])
    }
  }

  send(pcm) {
    // What is given to a socket that closes is lost.
    if (this.ready && this.socket.readyState === WebSocket.OPEN) return this.socket.send(pcm)
    this.kept.push(pcm)
    if (this.kept.length > KEPT) this.kept.shift()
  }

  stop() {
    this.stopping = true
    if (this.ready && this.socket.readyState === WebSocket.OPEN) this.socket.send('{"type":"stop"}')
  }
}
