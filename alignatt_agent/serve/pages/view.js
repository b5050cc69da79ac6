// Shows the server's messages: the recognized speech, one column per language, and why each translation waits.
import { Follower } from './follow.js'
import { Heard } from './heard.js'
import { Held, explain, technical } from './reasons.js'
import { clock, ownName } from './settings.js'
import { speak, Text } from './text.js'

const $ = id => document.getElementById(id)

export class View {
  // known: languages by code, from /health; query: the parameters of viewers' links, e.g. their
  // token; address: the server's address for viewers, if this page was opened at another address;
  // save(code): writes the text of a language to a file.
  constructor(known, query, address, save) {
    const here = new URL('.', location.href), there = new URL(address || here)
    if (there.pathname === '/') there.pathname = here.pathname // behind a proxy with a path
    Object.assign(this, { known, query, here: here.pathname, base: there.href.replace(/\/?$/, '/'), save })
    this.columns = new Map(); this.heard = new Heard()
    new Follower($('said'), $('columns'), $('back'))
  }

  show(message) { this['on_' + message.type]?.(message) }

  state(kind, text) { $('state').className = kind; $('state').textContent = text }

  on_ready(m) {
    if (!m.resumed || !this.columns.size) this.clear()
    this.heard.begin(m.source)
    $('readers').href = this.link(`${this.base}captions`, { room: m.room })
    $('qr').href = this.link('qr', { room: m.room, path: this.here })
    $('share').hidden = $('save').hidden = $('hearing').hidden = false
    for (const code of m.targets) if (!this.columns.has(code)) this.columns.set(code, this.column(code, m.room))
    if (!document.querySelector('article.chosen')) this.choose(m.targets[0])
    $('model').textContent = `${m.model.split('/').pop()}, ${m.policy}, ${m.chunk_ms} ms`
    this.state('live', m.text_s === undefined ? 'live' : 'live; the server has only the text from now on, so save the text of this page')
  }

  link(path, query) { return `${path}?${new URLSearchParams({ ...query, ...this.query })}` }

  clear() {
    for (const id of ['columns', 'tabs', 'overlays']) $(id).replaceChildren()
    $('overlays').textContent = 'For OBS or a projector: '
    for (const item of [...$('save').querySelectorAll('div')]) item.remove()
    this.columns.clear(); this.heard.clear()
    for (const id of ['policy', 'behind', 'rtf']) $(id).textContent = '–'
    for (const id of ['lag', 'clock']) $(id).textContent = ''
    $('share').hidden = $('save').hidden = $('hearing').hidden = true
  }

  // On a phone, one language is shown.
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
    const link = (into, text, path, query, attributes) => {
      const a = Object.assign(document.createElement('a'), { href: this.link(path, { room, target: code, ...query }), textContent: text }, attributes)
      a.setAttribute('aria-label', `${text}, ${name}`); into.append(a)
    }
    link($('overlays'), own, `${this.base}captions`, {}, { target: '_blank', rel: 'noopener' })
    const row = Object.assign(document.createElement('div'), { className: 'tools', textContent: own })
    const save = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Text with times' })
    save.setAttribute('aria-label', `Text with times, ${name}`)
    save.onclick = () => this.save(code) // needs no server
    row.append(save)
    for (const format of ['txt', 'srt', 'vtt']) link(row, format.toUpperCase(), 'transcript', { format }, { download: '' })
    $('save').append(row)
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
    if (this.waits) { this.waits = false; this.state('live', 'live') }
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
    this.lag = Math.max(0, m.audio_s - m.units.at(-1)[2])
    $('policy').textContent = `${this.lag.toFixed(1)} s`
  }

  // Screen readers read one language.
  speak(code, column, sentences) { if (column === this.columns.values().next().value) speak(sentences, code) }

  on_gap(m) { for (const { text } of this.columns.values()) text.gap(m) }

  on_status(m) {
    $('clock').textContent = clock(m.audio_s)
    $('behind').textContent = `${m.behind_s.toFixed(1)} s`
    const behind = this.lag + m.behind_s + (m.step_ms ?? 0) / 1000
    $('lag').textContent = behind ? `captions are about ${Math.ceil(behind)} s behind your speech` : ''
    $('rtf').textContent = m.rtf.toFixed(2)
    if (m.problems) this.state('error', m.problems.join(' '))
    else if (this.problems) this.state('live', 'live')
    this.problems = m.problems
  }

  on_error(m) {
    this.waits = !m.final && m.code === 'engine' // the next words end the wait
    if (m.final || this.waits) this.state('error', m.message)
  }

  on_end() {
    this.forget()
    $('lag').textContent = ''
    for (const [code, column] of this.columns) {
      column.why.clear()
      this.speak(code, column, column.text.finish())
    }
    this.state('', 'done')
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
