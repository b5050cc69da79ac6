// Shows the server's messages: the recognized speech, one column per language, and why each translation waits.
import { Follower } from './follow.js'
import { Heard } from './heard.js'
import { Held, explain, technical } from './reasons.js'
import { clock, ownName } from './settings.js'
import { Status } from './status.js'
import { mark, speak, Text } from './text.js'
import { reader, refusal, say } from './words.js'
import './words_speaker.js'

const $ = id => document.getElementById(id)
const names = new Intl.DisplayNames([reader], { type: 'language', fallback: 'none' })
const SHORT_LINE = 9 // times the size of a letter
const SILENT = 3 // s without a status, after which the page computes the delay itself

export class View {
  // known: languages by code, from /health; query: the parameters of viewers' links, e.g. their
  // token; address: the server's address for viewers, if this page was opened at another address;
  // save(code): writes the text of a language to a file.
  constructor(known, query, address, save) {
    const here = new URL('.', location.href), there = new URL(address || here)
    if (there.pathname === '/') there.pathname = here.pathname // behind a proxy with a path
    Object.assign(this, { known, query, here: here.pathname, base: there.href.replace(/\/?$/, '/'), save })
    this.columns = new Map(); this.heard = new Heard(); this.status = new Status($('state'))
    new Follower($('said'), $('columns'), $('back'))
    const widths = new ResizeObserver(() => this.arrange())
    widths.observe($('said')); widths.observe($('columns'))
  }

  // recorded: the time of the talk up to which the page has recorded, if it is live.
  show(message, recorded = null) { this['on_' + message.type]?.(message, recorded) }

  on_ready(m) {
    if (!m.resumed || !this.columns.size) this.clear()
    this.heard.begin(m.source)
    const readers = this.link(`${this.base}captions`, { room: m.room })
    $('readers').href = $('here').href = readers
    $('readers').textContent = readers
    $('qr').href = this.link('qr', { room: m.room, path: this.here })
    if ($('code').getAttribute('src') !== $('qr').href) { $('code').src = $('qr').href; $('code').alt = say('qr') }
    $('share').hidden = $('save').hidden = false
    $('talk-title').textContent = m.title
    $('talk-room').textContent = say('inroom', m.room)
    for (const code of m.targets) if (!this.columns.has(code)) this.columns.set(code, this.column(code, m.room))
    if (!document.querySelector('article.chosen')) this.choose(m.targets[0])
    $('model').textContent = `${m.model.split('/').pop()}, ${m.policy}, ${m.chunk_ms} ms`
    this.time(m.audio_s)
    this.status.begin('live', m.text_s === undefined ? say('live') : say('onlynow'))
  }

  link(path, query) { return `${path}?${new URLSearchParams({ ...query, ...this.query })}` }

  clear() {
    for (const id of ['columns', 'tabs', 'overlays', 'rows', 'saves']) $(id).replaceChildren()
    this.columns.clear(); this.heard.clear()
    for (const id of ['policy', 'behind', 'rtf']) $(id).textContent = '–'
    for (const id of ['lag', 'clock', 'talk-title', 'talk-room', 'watching']) $(id).textContent = ''
    for (const id of ['share', 'save']) { $(id).hidden = true; $(id).open = false }
    this.lag = 0; this.audio_s = 0; this.answer = null
  }

  time(seconds) {
    this.audio_s = Math.max(this.audio_s, seconds)
    $('clock').textContent = clock(this.audio_s)
  }

  // Shows the languages side by side if each column has the width of a short line.
  arrange() {
    const letter = parseFloat(getComputedStyle($('said')).fontSize)
    document.body.classList.toggle('single', $('said').clientWidth < this.columns.size * SHORT_LINE * letter)
  }

  // Without columns, one language is shown.
  choose(code) {
    for (const [other, { article, tab }] of this.columns) {
      article.classList.toggle('chosen', other === code)
      tab.setAttribute('aria-pressed', other === code)
    }
  }

  column(code, room) {
    const article = $('column').content.cloneNode(true).firstElementChild
    const { name, rtl } = this.known.get(code) ?? { name: code, rtl: false }
    const part = of => article.querySelector(of), own = ownName({ code, name })
    part('h2').textContent = own; part('h2').lang = code
    for (const item of [part('.said'), part('.draft')]) { item.lang = code; item.dir = rtl ? 'rtl' : 'ltr' }
    const tab = Object.assign(document.createElement('button'), { type: 'button', textContent: own, lang: code })
    tab.onclick = () => this.choose(code)
    $('tabs').append(tab)
    const spoken = names.of(code) ?? name
    const link = (into, text, path, query, attributes) => {
      const a = Object.assign(document.createElement('a'), { href: this.link(path, { room, target: code, ...query }), textContent: text }, attributes)
      a.setAttribute('aria-label', `${text}, ${spoken}`); into.append(a)
    }
    const save = (into, text, label) => { // needs no server
      const button = Object.assign(document.createElement('button'), { type: 'button', textContent: text })
      button.setAttribute('aria-label', label)
      button.onclick = () => this.save(code)
      into.append(button)
    }
    link($('overlays'), own, `${this.base}captions`, {}, { target: '_blank', rel: 'noopener' })
    const row = Object.assign(document.createElement('div'), { className: 'tools', textContent: own })
    save(row, say('timed'), `${say('timed')}, ${spoken}`)
    for (const format of ['txt', 'srt', 'vtt']) link(row, format.toUpperCase(), 'transcript', { format }, { download: '' })
    $('rows').append(row)
    save($('saves'), own, `${own}: ${say('save')}, ${spoken}`)
    const column = {
      article, tab, draft: part('.draft'), detail: part('.detail'), text: new Text(part('.said')),
      why: new Held((text, reason = '', place = null) => {
        Object.assign(part('.why'), { textContent: text }).dataset.reason = reason
        this.heard.note(code, { place }) // the mark is shown as long as the reason
      }),
    }
    for (const kind of ['pointerover', 'click']) column.draft.addEventListener(kind, ({ target }) => {
      if (target.dataset.number) this.explainToken(column, target.dataset.number)
    })
    $('columns').append(article)
    return column
  }

  on_heard(m) {
    this.status.set({ engine: '' }) // the next words end the wait
    if (m.closed.length || !m.words.length) this.forget() // those drafts were emitted or discarded
    this.heard.heard(m)
  }

  on_draft(m) {
    const column = this.columns.get(m.target)
    if (!column) return
    const { words, accessible } = this.heard
    column.draft.replaceChildren(...m.tokens.slice(m.said).map(([text], k) => {
      const span = document.createElement('span'), number = k + m.said
      span.className = number < m.accepted ? 'ok' : number === m.accepted ? 'no' : 'later'
      span.textContent = text; span.dataset.number = number
      return span
    }))
    column.last = m
    column.why.put(() => explain(m, words, accessible))
    this.explainToken(column)
    this.heard.note(m.target, { edge: m.edge })
  }

  // Shows the attention of a draft token: the waiting token or the token under the pointer.
  explainToken({ last, detail }, number = last?.accepted) {
    if (!last || number === undefined) return
    detail.textContent = technical({ ...last, accepted: +number }, this.heard.words)
    if (+number !== last.accepted) this.heard.note(last.target, { place: last.tokens[number][1] })
  }

  on_said(m) {
    const column = this.columns.get(m.target)
    if (!column || !m.units.length) return
    this.speak(m.target, column, column.text.append(m.units))
    mark([...this.columns.values()].map(({ text }) => text))
    this.lag = Math.max(0, m.audio_s - m.units.at(-1)[2])
    this.time(m.audio_s)
    $('policy').textContent = `${this.lag.toFixed(1)} s`
  }

  // Screen readers read one language.
  speak(code, column, sentences) { if (column === this.columns.values().next().value) speak(sentences, code) }

  on_gap(m) { for (const { text } of this.columns.values()) text.gap(m) }

  on_status(m, recorded) {
    this.time(m.audio_s)
    this.answer = { audio_s: m.audio_s, waiting_s: m.behind_s + (m.step_ms ?? 0) / 1000, at: performance.now() }
    $('behind').textContent = `${m.behind_s.toFixed(1)} s`
    $('rtf').textContent = m.rtf.toFixed(2)
    if (m.viewers !== undefined) $('watching').textContent = say('viewers', m.viewers)
    this.delay(recorded)
  }

  // Called every second while the page is live: the server may not answer.
  tick(recorded) {
    if (this.answer && performance.now() - this.answer.at > 1000 * SILENT) this.delay(recorded)
  }

  // How far the translation is behind: audio waits in the server, and also on this page and on the way.
  delay(recorded) {
    const { audio_s, waiting_s } = this.answer
    const behind = this.lag + Math.max(waiting_s, recorded === null ? 0 : recorded - audio_s)
    $('lag').textContent = behind > 0 ? say('behind', Math.ceil(behind)) : ''
  }

  on_error(m) {
    // A final error ends the connection, which names the reason.
    if (!m.final && m.code === 'engine') this.status.set({ engine: refusal(m.code, m.message) })
  }

  on_end(m) {
    this.forget()
    this.time(m.audio_s ?? 0)
    $('lag').textContent = ''
    this.answer = null
    for (const [code, column] of this.columns) {
      column.why.clear()
      this.speak(code, column, column.text.finish())
    }
    this.status.begin('', say('done'))
  }

  // Removes all drafts and marks.
  forget() {
    for (const { draft, why, detail } of this.columns.values()) {
      draft.replaceChildren(); detail.textContent = ''
      why.put(() => [''])
    }
    this.heard.forget()
  }
}
