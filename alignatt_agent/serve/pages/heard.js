// The recognized speech: finished sentences stay; the open sentence shows how certain each word is.
import { Text } from './text.js'

const $ = id => document.getElementById(id)

export class Heard {
  constructor() {
    this.past = new Text($('past'))
    this.clear()
  }

  clear() {
    this.past.clear()
    this.words = []; this.accessible = 0; this.waits = new Map()
    $('hearing').hidden = true
    this.draw()
  }

  begin(language) { $('heard').lang = language }

  heard({ closed, words, accessible }) {
    for (const sentence of closed) this.past.append(sentence.map((word, k) => [...word, !k]))
    this.words = words; this.accessible = accessible
    if (closed.length || words.length) $('hearing').hidden = false
    this.draw()
  }

  // place: the word for which a translation waits, or null; edge: the frontier of its gate.
  note(code, found) { this.waits.set(code, { ...this.waits.get(code), ...found }); this.draw() }

  forget() { this.waits.clear(); this.draw() }

  draw() {
    if (this.drawing) return
    this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.drawNow() })
  }

  drawNow() {
    const parts = [], several = this.waits.size > 1
    const sign = (kind, text) => {
      const item = document.createElement(kind === 'mark' ? 'mark' : 'span')
      item.className = kind; item.textContent = text; parts.push(item)
      return item
    }
    const who = (key, number) => [...this.waits].filter(([, found]) => found[key] === number).map(([code]) => code).join(' ')
    for (let k = 0; k <= this.words.length; k++) {
      if (k === Math.min(this.accessible, this.words.length) && this.words.length) sign('frontier', '┊')
      const edges = who('edge', k), waiting = who('place', k)
      if (edges) sign('edge', `▏${several ? edges : ''}`)
      if (k === this.words.length) break
      const [text, , , state] = this.words[k]
      if (text !== text.trimStart()) parts.push(' ')
      const word = sign(waiting ? 'mark' : state, text.trimStart())
      if (waiting && several) word.dataset.waiting = waiting
    }
    $('open').replaceChildren(...parts)
  }
}
