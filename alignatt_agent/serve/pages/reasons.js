// The reasons why a translation waits; each one is shown long enough to be read.
import { REASONS } from './policies.js' // served from the classes of the policies

const HOLD = 1600 // ms

// The whole word of a draft that contains a token.
function wholeWord(tokens, number, language) {
  const text = tokens.map(([piece]) => piece).join('')
  let at = tokens.slice(0, number).reduce((length, [piece]) => length + piece.length, 0)
  while (at < text.length - 1 && !text[at].trim()) at++
  if (!Intl.Segmenter) return text.slice(at).split(/\s/)[0]
  return new Intl.Segmenter(language, { granularity: 'word' }).segment(text).containing(at)?.segment.trim() ?? ''
}

// m: a draft; words, accessible: from the last message "heard". Returns the text, the reason, and the position of the source word that the text names.
export function explain(m, words, accessible) {
  const stop = m.tokens[m.accepted], place = stop?.[1] ?? null
  if (!stop && m.reason !== 'draft-end' && m.reason in REASONS) return ['', m.reason, null]
  const source = words[place]?.[0].trim().replace(/[.,;:!?。，]+$/, '') || undefined
  const known = { word: stop && wholeWord(m.tokens, m.accepted, m.target), [place < accessible ? 'heard' : 'unsure']: source }
  const text = REASONS[m.reason]?.find(text => [...text.matchAll(/{(\w+)}/g)].every(([, name]) => known[name] !== undefined)) ?? m.reason
  return [text.replace(/{(\w+)}/g, (_, name) => known[name]), m.reason, /{(heard|unsure)}/.test(text) ? place : null]
}

// Returns the reason in the terms of the paper, for researchers.
export function technical(m, words) {
  const stop = m.tokens[m.accepted]
  const parts = [`${m.reason}: ${m.accepted - m.said} of ${m.tokens.length - m.said} drafted tokens accepted`]
  if (stop && stop[1] !== null) {
    parts.push(`“${stop[0].trim()}” attends to “${words[stop[1]]?.[0].trim() ?? '?'}” (word ${stop[1] + 1}, gate’s edge after ${m.edge})`)
    parts.push(`${Math.round(100 * stop[2])} % of its attention on certain words`)
  }
  return parts.join(' · ')
}

// Shows one reason after another, each for a minimum time; intermediate reasons are skipped.
export class Held {
  constructor(show) { this.show = show; this.since = -HOLD; this.shown = ''; this.next = null }

  // make() returns the content at the time when it is shown.
  put(make) {
    this.next = make
    const stays = this.shown ? Math.max(0, this.since + HOLD - performance.now()) : 0
    this.timer ??= setTimeout(() => this.turn(), stays)
  }

  turn() {
    this.timer = null
    const found = this.next()
    if (found[0] === this.shown) return
    this.since = performance.now()
    this.shown = found[0]
    this.show(...found)
  }

  clear() { clearTimeout(this.timer); this.timer = null; this.shown = ''; this.show('') }
}
