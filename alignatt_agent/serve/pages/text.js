// Text that only grows, in paragraphs.
const ENDS = /[.!?…。！？؟।]["”’»)）]*$/
const PAUSE = 2 // seconds of silence after which a paragraph begins
const LONGEST = 1500 // characters of a paragraph whose speech has no sentences
const SECTION = 40 // paragraphs that a browser leaves out together while they are far away

export class Text {
  // spaced: units are words; least: characters of a paragraph before a sentence begins another one.
  constructor(box, spaced = true, least = 0) { Object.assign(this, { box, spaced, least, end: null, sentence: '' }) }

  // Adds units [text, start, end]; returns the sentences that they finish.
  append(units) {
    const finished = []
    for (const [text, start, end] of units) {
      if (!this.last || this.breaks(start)) this.begin()
      this.last.appendData(text + (this.spaced ? ' ' : ''))
      this.sentence += text + (this.spaced ? ' ' : '')
      this.end = end
      if (ENDS.test(text)) { finished.push(this.sentence.trim()); this.sentence = '' }
    }
    return finished
  }

  breaks(start) {
    if (this.last.length > LONGEST) return true
    return ENDS.test(this.last.data.trimEnd()) && (this.last.length >= this.least || start - this.end > PAUSE)
  }

  begin() {
    const paragraph = this.paragraph()
    paragraph.append(this.last = document.createTextNode(''))
  }

  paragraph() {
    let section = this.box.lastElementChild
    if (!section || section.childElementCount >= SECTION) this.box.append(section = document.createElement('section'))
    return section.appendChild(document.createElement('p'))
  }

  // Speech is missing here.
  gap({ start, end }) {
    const mark = this.paragraph()
    mark.className = 'gap'; mark.textContent = `[…] about ${Math.max(1, Math.round(end - start))} s are missing here `
    this.last = null; this.sentence = ''
  }

  clear() { this.box.replaceChildren(); this.last = null; this.sentence = '' }
}
