// Searches the text: marks all matches, and scrolls to one after another.
import { say } from './words.js'

const $ = id => document.getElementById(id)

export class Search {
  // boxes: the elements with text; go(range): scrolls to a match; left(): called when the search is empty.
  constructor(boxes, go) {
    Object.assign(this, { boxes, go, ranges: [], at: 0 })
    $('find').onclick = () => this.open($('finder').hidden)
    $('query').oninput = () => this.search()
    $('query').onkeydown = event => { if (event.key === 'Enter') { event.preventDefault(); this.step(event.shiftKey ? -1 : 1) } }
    $('previous').onclick = () => this.step(-1)
    $('next').onclick = () => this.step(1)
  }

  open(on) {
    $('finder').hidden = !on
    $('find').setAttribute('aria-expanded', on)
    if (on) return $('query').focus()
    $('query').value = ''
    this.search()
  }

  // Begins with the newest match.
  search() {
    this.find()
    this.at = this.ranges.length - 1
    this.show()
  }

  step(by) {
    const before = this.ranges.length
    this.find() // the text grows
    const { length } = this.ranges
    if (!length) return this.show()
    this.at = before ? (this.at + by + length) % length : length - 1
    this.show()
  }

  find() {
    const wanted = $('query').value.trim().toLocaleLowerCase()
    this.ranges = []
    if (!wanted) return
    for (const box of this.boxes) {
      for (const paragraph of box.querySelectorAll('p')) {
        const node = paragraph.firstChild
        if (!node) continue
        const text = node.data.toLocaleLowerCase()
        for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
          const range = new Range()
          range.setStart(node, at); range.setEnd(node, Math.min(at + wanted.length, node.length))
          this.ranges.push(range)
        }
      }
    }
  }

  show() {
    const { ranges, at } = this, current = ranges[at]
    if (globalThis.Highlight) {
      CSS.highlights.set('matches', new Highlight(...ranges))
      CSS.highlights.set('match', new Highlight(...current ? [current] : []))
      CSS.highlights.get('match').priority = 2
      CSS.highlights.get('matches').priority = 1
    }
    $('matches').textContent = current ? `${at + 1} / ${ranges.length}` : $('query').value.trim() ? say('nomatch') : ''
    $('previous').disabled = $('next').disabled = !current
    if (current) this.go(current)
  }
}
