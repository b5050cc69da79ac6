// The talk of this tab: its key, and a copy of its text, which survives a reload.
const COPIED = ['ready', 'said', 'gap', 'end']

export class Talk {
  // room, session: from the server; since: id of the last message; copy: messages; audio_s: length of the talk.
  constructor() { Object.assign(this, { copy: [] }, JSON.parse(sessionStorage.getItem('talk'))) }

  note(message) {
    if (message.type === 'ready' && !message.resumed) { this.copy = []; this.over = false }
    if (message.session) { this.room = message.room; this.session = message.session }
    if (message.id) this.since = message.id
    if (message.audio_s !== undefined) this.audio_s = message.audio_s
    if (COPIED.includes(message.type)) this.keep(message)
    // Of the recognized speech, the finished sentences are kept.
    if (message.type === 'heard' && message.closed.length) this.keep({ ...message, words: [], accessible: 0 })
  }

  keep(message) {
    this.copy.push(message)
    this.later ??= setTimeout(() => this.save(), 2000)
  }

  save() {
    this.later = clearTimeout(this.later)
    const { room, session, since, over, copy, audio_s } = this
    try { sessionStorage.setItem('talk', JSON.stringify({ room, session, since, over, copy, audio_s })) }
    catch { sessionStorage.setItem('talk', JSON.stringify({ room, session, over })) } // the storage is full; the server has the text
  }

  // The part of the first message that names the talk to continue or to replace.
  key(room) {
    if (!this.session || (room && room !== this.room)) return {}
    if (this.over) return { session: this.session, new: true }
    return { room: this.room, session: this.session, since: this.since ?? '', text_s: this.end() }
  }

  // The end of the text, in seconds of the talk.
  end() {
    let end = 0
    for (const { type, units } of this.copy) if (type === 'said' && units.length) end = Math.max(end, units.at(-1)[2])
    return end
  }

  // The next start begins another talk; the text is removed.
  renew() { this.over = true; this.copy = []; delete this.since; delete this.audio_s; this.save() }

  // The server has discarded the talk.
  lost() { delete this.session; this.save() }

  // Returns the text of a language, with the time before each sentence.
  text(code) {
    let text = '', missing = false
    for (const { type, target, units, start } of this.copy) {
      for (const [unit, begin, , begins] of type === 'gap' ? [['[…]', start, start, true]] : type === 'said' && target === code ? units : []) {
        text += begins || missing ? `\n${new Date(1000 * begin).toISOString().slice(11, 19)} ${unit.trimStart()}` : unit
        missing = type === 'gap'
      }
    }
    return text.trimStart() + '\n'
  }
}
