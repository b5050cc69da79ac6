// Shows what the server tells: what was heard, one column a language, and why it waits.
import { Follower } from './follow.js'
import { Heard } from './heard.js'
import { Held, explain, technical } from './reasons.js'
import { clock, ownName } from './settings.js'
import { speak, Text } from './text.js'

const $ = id => document.getElementById(id)

export class View {
  // known: languages by code, as /health tells them; query: what links for viewers carry, e.g. their
  // token; address: of the server for viewers, if this page was opened under another one;
  // save(code): writes the text of a language into a file.
  constructor(known, query, address, save) {
    Object.assign(this, { known, query, address: address ? `${address}/` : '', save }); this.columns = new Map(); this.heard = new Heard()
  }

  show(message) { this['on_' + message.type]?.(message) }

  state(kind, text) { $('state').className = kind; $('state').textContent = text }

  on_ready(m) {
    if (!m.resumed || !this.columns.size) this.clear()
    this.heard.begin(m.source)
    for (const code of m.targets) if (!this.columns.has(code)) this.columns.set(code, this.column(code, m.room))
    $('model').textContent = `${m.model.split('/').pop()}, ${m.policy}, ${m.chunk_ms} ms`
    this.state('live', 'live')
  }

  clear() {
    $('columns').replaceChildren(); this.columns.clear(); this.heard.clear()
    for (const id of ['lag', 'behind', 'rtf']) $(id).textContent = '–'
  }

  column(code, room) {
    const article = $('column').content.cloneNode(true).firstElementChild
    const { name, rtl } = this.known.get(code) ?? { name: code, rtl: false }
    const part = of => article.querySelector(of)
    const title = part('h2'), box = part('.said')
    title.textContent = ownName({ code, name }); title.id = `title-${code}`; title.lang = code
    box.setAttribute('aria-labelledby', title.id)
    for (const item of [box, part('.draft')]) { item.lang = code; item.dir = rtl ? 'rtl' : 'ltr' }
    const link = (text, path, query, attributes) => {
      const a = document.createElement('a')
      a.href = `${path}?${new URLSearchParams({ room, target: code, ...query, ...this.query })}`
      a.textContent = text; a.setAttribute('aria-label', `${text}, ${name}`)
      Object.assign(a, attributes); part('.links').append(a)
    }
    const beside = { target: '_blank', rel: 'noopener' }
    link('captions', `${this.address}captions`, {}, beside)
    link('QR code', 'qr', {}, beside)
    for (const format of ['srt', 'vtt', 'txt']) link(format.toUpperCase(), 'transcript', { format }, { download: '' })
    const save = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Save' })
    save.setAttribute('aria-label', `Save, ${name}`)
    save.onclick = () => this.save(code)
    part('.links').append(save)
    const column = {
      article, draft: part('.draft'), detail: part('.technical p'), text: new Text(box.firstElementChild),
      why: new Held((text, reason = '', place = null) => {
        Object.assign(part('.why'), { textContent: text }).dataset.reason = reason
        this.heard.note(code, { place }) // the mark stays as long as the reason
      }),
    }
    new Follower(box, box.firstElementChild, part('.back'))
    for (const kind of ['pointerover', 'click']) column.draft.addEventListener(kind, ({ target }) => {
      if (target.dataset.number) this.explainToken(column, target.dataset.number)
    })
    part('.technical').ontoggle = () => this.explainToken(column)
    $('columns').append(article)
    return column
  }

  on_heard(m) {
    if (this.waits) { this.waits = false; this.state('live', 'live') }
    if (m.closed.length || !m.words.length) this.forget() // those drafts were said, or taken back
    this.heard.heard(m)
  }

  on_draft(m) {
    const column = this.columns.get(m.target)
    if (!column) return
    const { words, accessible } = this.heard
    column.draft.replaceChildren(...m.tokens.slice(m.said).map(([text], k) => {
      const span = document.createElement('span'), number = k + m.said
      span.className = number < m.accepted ? 'ok' : number === m.accepted && m.reason !== 'draft-end' ? 'no' : 'later'
      span.textContent = text; span.dataset.number = number
      return span
    }))
    column.last = m
    const place = m.reason === 'source-frontier' ? m.tokens[m.accepted]?.[1] : null
    column.why.put(() => [explain(m, words, accessible), m.reason, place])
    if (column.detail.parentElement.open) this.explainToken(column)
    this.heard.note(m.target, { edge: m.edge })
  }

  // What a token of the draft looks at: the one that waits, or the one under the pointer.
  explainToken({ last, detail }, number = last?.accepted) {
    if (!last || number === undefined) return
    detail.textContent = technical({ ...last, accepted: +number }, this.heard.words)
    if (+number !== last.accepted) this.heard.note(last.target, { place: last.tokens[number][1] })
  }

  on_said(m) {
    const column = this.columns.get(m.target)
    if (!column || !m.units.length) return
    this.speak(m.target, column, column.text.append(m.units))
    $('lag').textContent = `${Math.max(0, m.audio_s - m.units.at(-1)[2]).toFixed(1)} s`
  }

  // Screen readers hear one language.
  speak(code, column, sentences) { if (column === this.columns.values().next().value) speak(sentences, code) }

  on_gap(m) { for (const { text } of this.columns.values()) text.gap(m) }

  on_status(m) {
    $('clock').textContent = clock(m.audio_s)
    $('behind').textContent = `${m.behind_s.toFixed(1)} s`
    $('rtf').textContent = m.rtf.toFixed(2)
  }

  on_error(m) {
    this.waits = !m.final && m.code === 'engine' // the next words say that it is over
    if (m.final || this.waits) this.state('error', m.message)
  }

  on_end() {
    this.forget()
    for (const [code, column] of this.columns) {
      column.why.clear()
      this.speak(code, column, column.text.finish())
    }
    this.state('', 'done')
  }

  // No draft waits.
  forget() {
    for (const { draft, why, detail } of this.columns.values()) {
      draft.replaceChildren(); detail.textContent = ''
      why.put(() => [''])
    }
    this.heard.forget()
  }
}
