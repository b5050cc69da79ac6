// Captions of a room: ?room=talk&target=de, and if wanted lines=2|all, size=2.2 (rem), token=…
const query = new URLSearchParams(location.search)
const room = query.get('room'), target = query.get('target'), rows = query.get('lines') ?? '2'
const lines = document.getElementById('lines'), notice = document.getElementById('notice')
const KEPT = rows === 'all' ? 20000 : 600 // characters
const WAIT = 5000
let spaced = true

if (rows === 'all') document.body.classList.add('all')
else document.documentElement.style.setProperty('--lines', Math.max(1, parseInt(rows) || 2))
if (Number(query.get('size'))) document.documentElement.style.setProperty('--size', `${Number(query.get('size'))}rem`)

lines.lang = target ?? ''
lines.dir = 'auto'

const on = {
  ready(m) {
    if (!m.resumed) lines.replaceChildren()
    if (!target) offer(m.languages)
    spaced = m.languages.find(item => item.code === target)?.spaced ?? true
    notice.textContent = ''
  },
  said(m) {
    if (m.target !== target) return
    const atEnd = innerHeight + scrollY > document.body.scrollHeight - 80
    lines.append(m.units.map(([unit]) => unit + (spaced ? ' ' : '')).join(''))
    while (lines.textContent.length > KEPT) lines.firstChild.remove()
    lines.scrollTop = lines.scrollHeight
    if (rows === 'all' && atEnd) scrollTo(0, document.body.scrollHeight)
  },
}

function offer(languages) {
  document.getElementById('languages').replaceChildren(...languages.map(({ code, name }) => {
    const link = document.createElement('a'), there = new URLSearchParams(query)
    there.set('target', code)
    link.href = `captions?${there}`; link.textContent = name
    return link
  }))
}

function follow() {
  const source = new EventSource(`events?${query}`)
  source.onmessage = ({ data }) => { const message = JSON.parse(data); on[message.type]?.(message) }
  source.onerror = () => {
    // It comes back by itself, and misses nothing, unless the server refused.
    if (source.readyState !== EventSource.CLOSED) return
    notice.textContent = query.has('token') ? 'No connection; trying again …' : 'No connection; does the address need a token?'
    setTimeout(() => { lines.replaceChildren(); follow() }, WAIT)
  }
}

if (!room) notice.textContent = 'Which room? Add ?room=NAME to the address.'
else {
  notice.textContent = target ? '' : 'Nobody has spoken here yet.'
  follow()
}
