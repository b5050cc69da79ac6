// Text that only grows, in paragraphs.
import { say } from './words.js'

const PAUSE = 2 // seconds of silence after which a paragraph begins
const LONGEST = 1500 // maximum characters of a paragraph if no sentence ends
const SECTION = 40 // paragraphs that a browser skips together while they are out of view

// Screen readers read whole sentences.
export function speak(sentences, code) {
  const box = document.getElementById('spoken')
  for (const sentence of sentences) {
    const item = document.createElement('p')
    item.lang = code; item.textContent = sentence
    box.append(item)
  }
  while (box.children.length > 3) box.firstChild.remove()
}

// Marks the newest sentence of each text.
export function mark(texts) {
  if (!globalThis.Highlight) return
  const ranges = []
  for (const { last, from } of texts) {
    if (!last) continue
    const range = new Range()
    range.setStart(last, from); range.setEnd(last, last.length)
    ranges.push(range)
  }
  CSS.highlights.set('now', new Highlight(...ranges))
}

export class Text {
  // least: characters of a paragraph before a sentence begins another one.
  constructor(box, least = 0) { Object.assign(this, { box, least, end: null, sentence: '' }) }

  // Adds units [text to append, start, end, begins a sentence]; returns the finished sentences.
  append(units) {
    const finished = []
    for (const [text, start, end, begins] of units) {
      if (begins) finished.push(...this.finish())
      if (!this.last || this.breaks(start, begins)) this.begin()
      if (begins) this.from = this.last.length
      this.last.appendData(text)
      this.sentence += text
      this.end = end
    }
    return finished
  }

  // Ends the open sentence, which is not continued.
  finish() {
    const sentence = this.sentence.trim()
    this.sentence = ''
    return sentence ? [sentence] : []
  }

  breaks(start, begins) {
    if (this.last.length > LONGEST) return true
    return begins && (this.last.length >= this.least || start - this.end > PAUSE)
  }

  begin() {
    const paragraph = this.paragraph()
    paragraph.append(this.last = document.createTextNode(''))
    this.from = 0 // of the newest sentence in this node
  }

  paragraph() {
    let section = this.box.lastElementChild
    if (!section || section.childElementCount >= SECTION) this.box.append(section = document.createElement('section'))
    return section.appendChild(document.createElement('p'))
  }

  // Marks missing speech.
  gap({ start, end }) {
    const mark = this.paragraph()
    mark.className = 'gap'; mark.textContent = `[…] ${say('missing', Math.max(1, Math.round(end - start)))} `
    this.last = null; this.sentence = ''
  }

  // Begins the text of the next talk under a line with its title.
  part(title) {
    if (this.box.childElementCount) {
      const line = this.paragraph()
      line.className = 'part'; line.textContent = title ? `— ${title} —` : '* * *'
    }
    this.last = null; this.sentence = ''
  }

  clear() { this.box.replaceChildren(); this.last = null; this.sentence = '' }
}
