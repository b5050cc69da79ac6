// Follows a room: calls on(message) for each message, open() and lost() when the connection changes,
// and refused({ code, message }) when the server refuses it. Returns { delay }: seconds by which all messages are
// delayed, for a delayed video.
import { Feed } from './feed.js'

const SLICE = 8 // ms of work before the page is drawn
const PAST = 1000 // ms after the first message during which earlier messages arrive
const LONGEST = 600 // s

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

export function watch(room, query, told) {
  const asked = new URLSearchParams(query.has('token') ? { room, token: query.get('token') } : { room })
  const address = new URL(`events?${asked}`, location.href).href
  const settings = { delay: Math.min(LONGEST, Math.max(0, Number(query.get('delay')) || 0)) }
  const waiting = []
  let seen = '', busy = false, began = null, said = 0
  // Earlier messages are delayed as if this page had been open.
  const due = ({ at, past, time }) => at + 1000 * settings.delay - (past ? 1000 * (said - time) : 0)
  const work = async () => {
    if (busy) return
    busy = true
    let k = 0
    while (k < waiting.length) {
      const until = performance.now() + SLICE
      for (; k < waiting.length && performance.now() < until && due(waiting[k]) <= performance.now(); k++) told.on(waiting[k].message)
      await sleep(k < waiting.length ? Math.min(200, Math.max(0, due(waiting[k]) - performance.now())) : 0)
      if (k > 1000 || k === waiting.length) k -= waiting.splice(0, k).length
    }
    busy = false
  }
  const hear = news => {
    if (news.open) told.open()
    if (news.lost) told.lost()
    if (news.refused) told.refused(news.refused)
    // A tab that becomes visible receives all messages again.
    const found = news.said || [], at = performance.now()
    if (found.length && began === null) began = at
    const past = at - began < PAST
    for (const [id, message] of found.slice(found.findIndex(([id]) => id === seen) + 1)) {
      const time = message.audio_s || (message.type === 'ready' ? 0 : said)
      if (past) said = time
      seen = id
      waiting.push({ message, at, past, time })
    }
    work()
  }
  const alone = () => { // on a phone, hidden tabs close their connection
    const feed = new Feed(address), here = { postMessage: hear }
    const turn = () => { if (document.hidden) feed.leave(here); else feed.join(here) }
    document.addEventListener('visibilitychange', turn)
    turn()
  }
  if (!globalThis.SharedWorker) return alone(), settings
  try { // a page in a frame may have no shared worker
    const worker = new SharedWorker('pages/shared.js', { type: 'module', name: 'alignatt' }), { port } = worker
    worker.onerror = alone // Chromium before 80 has no module workers
    port.onmessage = ({ data }) => hear(data)
    port.postMessage(address)
    addEventListener('pagehide', () => port.postMessage(''))
    addEventListener('pageshow', ({ persisted }) => { if (persisted) port.postMessage(address) })
  } catch { alone() }
  return settings
}
