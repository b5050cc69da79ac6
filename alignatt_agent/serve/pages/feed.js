// The messages of a room, and the state of the connection.
const WAIT = 5000

// Posts to its ports: { said: [[id, message], …] }, { open: true }, { lost: true } while the browser reconnects,
// { refused: { code, message } }.
export class Feed {
  constructor(address) { this.address = address; this.ports = new Set(); this.past = []; this.id = '' }

  join(port) {
    this.ports.add(port)
    if (this.past.length) port.postMessage({ said: this.past })
    if (!this.source) this.open()
  }

  leave(port) {
    this.ports.delete(port)
    if (!this.ports.size) this.close()
  }

  post(message) { for (const port of this.ports) port.postMessage(message) }

  open() {
    const url = new URL(this.address)
    if (this.id) url.searchParams.set('since', this.id)
    const source = this.source = new EventSource(url)
    source.onopen = () => this.post({ open: true })
    source.onmessage = ({ data, lastEventId }) => {
      const message = JSON.parse(data)
      if (message.type === 'ready' && !message.resumed) this.past = []
      this.id = lastEventId
      this.past.push([lastEventId, message])
      this.post({ said: [[lastEventId, message]] })
    }
    source.onerror = () => {
      // The browser reconnects and misses nothing, unless the server refused the connection.
      this.post({ lost: true })
      if (source.readyState === EventSource.CLOSED) this.ask(url)
    }
  }

  // Browsers do not report why a stream of events was refused.
  async ask(url) {
    const stop = new AbortController()
    try {
      const answer = await fetch(url, { signal: stop.signal })
      if (!answer.ok) this.refused(await answer.json())
    } catch { this.post({ lost: true }) }
    stop.abort()
    clearTimeout(this.timer)
    this.timer = setTimeout(() => { if (this.ports.size) this.open() }, WAIT)
  }

  refused({ error, message }) { this.post({ refused: { code: error, message } }) }

  close() { clearTimeout(this.timer); if (this.source) this.source.close(); this.source = null }
}
