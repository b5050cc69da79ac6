// One connection per room for all tabs of a browser, which allows six per server with HTTP/1.1.
import { Feed } from './feed.js'

const feeds = new Map()

onconnect = ({ ports: [port] }) => {
  let feed
  port.onmessage = ({ data }) => {
    feed?.leave(port)
    feed = null
    if (!data) return // the tab is closed
    if (!feeds.has(data)) feeds.set(data, new Feed(data))
    feed = feeds.get(data)
    feed.join(port)
  }
}
