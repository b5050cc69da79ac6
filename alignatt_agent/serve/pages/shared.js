// One connection a room for all tabs of a browser: HTTP/1.1 has six for a server.
import { Feed } from './feed.js'

const feeds = new Map()

onconnect = ({ ports: [port] }) => {
  let feed
  port.onmessage = ({ data }) => {
    feed?.leave(port)
    feed = null
    if (!data) return // the tab goes
    if (!feeds.has(data)) feeds.set(data, new Feed(data))
    feed = feeds.get(data)
    feed.join(port)
  }
}
