// The line that says what is true at this moment: of all facts that hold, the gravest one is shown.
import { say } from './words.js'

export class Status {
  constructor(box) { this.box = box; this.begin('', say('connecting')) }

  // A new state without interruptions; kind: the class of the box.
  begin(kind, text) {
    this.kind = kind; this.text = text
    this.failed = this.lost = this.engine = ''
    this.keeping = ''
    this.silent = this.stopping = false
    this.draw()
  }

  // facts: failed, lost and engine are sentences, empty if they no longer hold; keeping: what happens to the speech
  // meanwhile; silent: the page hears nothing; stopping: the last words are being translated.
  set(facts) { Object.assign(this, facts); this.draw() }

  draw() {
    const [kind, text] = this.gravest()
    if (this.box.className !== kind) this.box.className = kind
    if (this.box.textContent !== text) this.box.textContent = text
  }

  gravest() {
    if (this.failed) return ['error', this.failed]
    // Speech that the browser does not record is not kept, whatever the connection does.
    const keeping = this.silent ? say('nosound') : this.keeping
    if (this.lost) return ['error', keeping ? `${this.lost} (${keeping})` : this.lost]
    if (this.silent) return ['error', say('nosound')]
    if (this.engine) return ['error', this.engine]
    if (this.stopping) return ['live', say('last')]
    return [this.kind, this.text]
  }
}
