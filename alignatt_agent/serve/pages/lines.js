// Captions in lines that do not change: no word moves sideways, and lines only move up.
const CLOSES = /^[.,;:!?…。，、；：！？।؟”’»)）\]]/
const KEPT = 60 // units that are laid out again when the window changes

export class Lines {
  constructor(box, rows) {
    Object.assign(this, { box, rows, units: [] })
    let width = box.clientWidth
    new ResizeObserver(() => {
      if (box.clientWidth === width) return
      width = box.clientWidth
      this.again()
    }).observe(box)
  }

  // Lays the newest units out again, after a change of the window or of the letters.
  again() {
    const units = this.units
    this.clear(); this.append(units)
  }

  clear() { this.box.textContent = ''; this.line = null; this.units = [] }

  append(units) {
    for (const [text] of units) this.add(text)
    this.units = [...this.units, ...units].slice(-KEPT)
  }

  add(piece) {
    const line = this.line || this.begin()
    if (!line.firstChild.length) piece = piece.trimStart()
    line.firstChild.appendData(piece)
    // The width includes room for a punctuation mark that must not begin a line.
    if (line.scrollWidth <= line.clientWidth || CLOSES.test(piece.trimStart())) return
    const words = line.firstChild
    if (words.length === piece.length) return line.classList.add('long')
    words.deleteData(words.length - piece.length, piece.length)
    this.line = null
    this.add(piece)
  }

  begin() {
    this.line = document.createElement('div')
    this.line.append('')
    this.box.append(this.line)
    while (this.box.children.length > this.rows) this.box.firstChild.remove()
    return this.line
  }

  gap() { this.append([[' […]']]) }
}
