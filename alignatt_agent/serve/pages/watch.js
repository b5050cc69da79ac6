// Follows a room: on(message) for everything in it, open() and lost() as the connection comes and goes,
// refused(text) when the server says why not.
import { Feed } from './feed.js'

const SLICE = 8 // ms that a page works before it draws

export function watch(address, told) {
  const waiting = []
  let seen = '', busy = false
  const work = async () => {
    if (busy) return
    busy = true
    for (let k = 0; k < waiting.length;) {
      for (const until = performance.now() + SLICE; k < waiting.length && performance.now() < until; k++) told.on(waiting[k])
      await new Promise(resolve => setTimeout(resolve))
      if (k === waiting.length) waiting.length = 0
    }
    busy = false
  }
  const hear = ({ said, open, lost, refused }) => {
    if (open) told.open()
    if (lost) told.lost()
    if (refused) told.refused(refused)
    // A tab that comes back is given everything again.
    const known = said?.findIndex(([id]) => id === seen) ?? -1
    for (const [id, message] of said?.slice(known + 1) ?? []) { seen = id; waiting.push(message) }
    work()
  }
  if (globalThis.SharedWorker) {
    const { port } = new SharedWorker('pages/shared.js', { type: 'module', name: 'alignatt' })
    port.onmessage = ({ data }) => hear(data)
    port.postMessage(address)
    addEventListener('pagehide', () => port.postMessage(''))
    addEventListener('pageshow', ({ persisted }) => { if (persisted) port.postMessage(address) })
  } else {
    // A phone: tabs that nobody sees give their connection up.
    const feed = new Feed(address), here = { postMessage: hear }
    const turn = () => { if (document.hidden) feed.leave(here); else feed.join(here) }
    document.addEventListener('visibilitychange', turn)
    turn()
  }
}
