// Why a translation waits, for people; each reason stays long enough to be read.
const HOLD = 1600 // ms

const REASONS = {
  'source-frontier': (word, source, certain) => !source ? 'waiting for the next words'
    : certain ? `waiting for what comes after “${source}”` : `waiting until “${source}” is heard for sure`,
  'argmax-mass-weak': word => `not sure yet what “${word}” belongs to`,
  'provenance-weak': word => `waiting to hear more before “${word}”`,
  'held-back': () => 'waiting a few words, in case the sentence turns',
  'disagreement': () => 'not sure yet: a moment ago it wanted to say something else',
  'unsure': word => `not sure of “${word}” yet`,
  'draft-end': () => 'up to date with the speech',
}

// The word of a draft that holds a token, of whose pieces a reader knows nothing.
function wholeWord(tokens, number, language) {
  const text = tokens.map(([piece]) => piece).join('')
  let at = tokens.slice(0, number).reduce((length, [piece]) => length + piece.length, 0)
  while (at < text.length - 1 && !text[at].trim()) at++
  if (!Intl.Segmenter) return text.slice(at).split(/\s/)[0]
  return new Intl.Segmenter(language, { granularity: 'word' }).segment(text).containing(at)?.segment.trim() ?? ''
}

// m: a draft; words, accessible: of the last message about what was heard.
export function explain(m, words, accessible) {
  const stop = m.tokens[m.accepted], place = stop?.[1] ?? null, reason = REASONS[m.reason]
  if (!reason) return m.reason
  if (!stop) return m.reason === 'draft-end' ? reason() : ''
  return reason(wholeWord(m.tokens, m.accepted, m.target), words[place]?.[0].trim().replace(/[.,;:!?。，]+$/, ''), place < accessible)
}

// The same in our terms, for those who want to know how.
export function technical(m, words) {
  const stop = m.tokens[m.accepted]
  const parts = [`${m.reason}: ${m.accepted - m.said} of ${m.tokens.length - m.said} drafted tokens accepted`]
  if (stop && stop[1] !== null) {
    parts.push(`“${stop[0].trim()}” attends to “${words[stop[1]]?.[0].trim() ?? '?'}” (word ${stop[1] + 1}, gate’s edge after ${m.edge})`)
    parts.push(`${Math.round(100 * stop[2])} % of its attention on certain words`)
  }
  return parts.join(' · ')
}

// Shows one reason after another, each at least so long; what comes faster is left out.
export class Held {
  constructor(show) { this.show = show; this.since = -HOLD; this.shown = ''; this.next = null }

  // make() returns what is shown, if its turn comes.
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
