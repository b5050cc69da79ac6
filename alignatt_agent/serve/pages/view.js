// Shows what the server tells: one column a language, what was heard, and why it waits.
const $ = id => document.getElementById(id)

const REASONS = {
  'source-frontier': (token, word) => word
    ? `waits: “${token}” looks at “${word}”, which is not certain enough yet`
    : `waits: “${token}” looks at what was not heard for sure yet`,
  'argmax-mass-weak': token => `waits: “${token}” looks at no word in particular`,
  'provenance-weak': token => `waits: “${token}” hardly looks at what was heard`,
  'held-back': token => `waits: “${token}” is held back by count`,
  'disagreement': token => `waits: the draft before did not say “${token}”`,
  'unsure': token => `waits: the model is not sure of “${token}”`,
  'draft-end': () => 'all that can be said is said',
}
const ENDS = /[.!?…。！？؟।]["”’»)）]*$/

export class View {
  // known: languages by code, as /health tells them; query: what links for viewers carry, e.g. their
  // token; address: of the server for viewers, if this page was opened under another one.
  constructor(known, query, address) {
    Object.assign(this, { known, query, address: address ? `${address}/` : '' }); this.columns = new Map(); this.words = []
  }

  show(message) { this['on_' + message.type]?.(message) }

  state(kind, text) { $('state').className = kind; $('state').textContent = text }

  on_ready(m) {
    if (!m.resumed || !this.columns.size) {
      $('columns').replaceChildren(); this.columns.clear(); this.words = []
      $('heard').replaceChildren()
      for (const id of ['lag', 'behind', 'rtf']) $(id).textContent = '–'
    }
    $('heard').lang = m.source
    for (const code of m.targets) if (!this.columns.has(code)) this.columns.set(code, this.column(code, m.room))
    this.state('live', `live · ${m.model.split('/').pop()} · ${m.policy} · ${m.chunk_ms} ms`)
  }

  column(code, room) {
    const article = $('column').content.cloneNode(true).firstElementChild
    const { name, rtl } = this.known.get(code) ?? { name: code, rtl: false }
    const title = article.querySelector('h2'), said = article.querySelector('.said')
    title.textContent = name; title.id = `title-${code}`
    said.setAttribute('aria-labelledby', title.id)
    for (const part of [said, article.querySelector('.draft')]) { part.lang = code; part.dir = rtl ? 'rtl' : 'ltr' }
    const link = (text, path, query, attributes) => {
      const a = document.createElement('a')
      a.href = `${path}?${new URLSearchParams({ room, target: code, ...query, ...this.query })}`
      a.textContent = text; a.setAttribute('aria-label', `${text}, ${name}`)
      Object.assign(a, attributes); article.querySelector('.links').append(a)
    }
    const beside = { target: '_blank', rel: 'noopener' }
    link('captions', `${this.address}captions`, {}, beside)
    link('QR code', 'qr', {}, beside)
    for (const format of ['srt', 'vtt', 'txt']) link(format.toUpperCase(), 'transcript', { format }, { download: '' })
    article.querySelector('.draft').addEventListener('pointerover', event => this.explain(event.target))
    article.querySelector('.draft').addEventListener('click', event => this.explain(event.target))
    $('columns').append(article)
    return article
  }

  on_heard(m) {
    if (m.closed.length || !m.words.length) this.forget() // those drafts were said, or taken back
    this.words = m.words
    const line = $('heard'), sign = (kind, text) => {
      const span = document.createElement('span')
      span.className = kind; span.textContent = text; line.append(span)
      return span
    }
    line.replaceChildren()
    this.places = m.words.map(([text, , , state], place) => {
      if (place === m.accessible) sign('frontier', '┊')
      sign('edge', '').dataset.place = place
      const word = sign(state, text)
      line.append(' ')
      return word
    })
    if (m.words.length && m.accessible >= m.words.length) sign('frontier', '┊')
    sign('edge', '').dataset.place = m.words.length
    this.showEdge()
  }

  showEdge() {
    for (const sign of $('heard').querySelectorAll('.edge')) sign.textContent = +sign.dataset.place === this.edge ? '▏' : ''
  }

  on_draft(m) {
    const article = this.columns.get(m.target)
    if (!article) return
    this.edge = m.edge
    this.showEdge()
    const line = article.querySelector('.draft'), spans = m.tokens.slice(m.said).map(([text, place, mass], k) => {
      const span = document.createElement('span'), number = k + m.said
      span.className = number < m.accepted ? 'ok' : number === m.accepted && m.reason !== 'draft-end' ? 'no' : 'later'
      span.textContent = text
      if (place !== null) { span.dataset.place = place; span.dataset.mass = mass }
      return span
    })
    line.replaceChildren(...spans)
    const stop = m.tokens[m.accepted], place = stop?.[1] ?? null
    const reason = REASONS[m.reason]
    const text = !reason ? m.reason : stop || m.reason === 'draft-end' ? reason(stop?.[0].trim(), this.words[place]?.[0]) : ''
    Object.assign(article.querySelector('.why'), { textContent: text })
    article.querySelector('.why').dataset.reason = m.reason
    this.mark(m.reason === 'source-frontier' ? place : null)
  }

  explain(token) {
    if (token.dataset?.place === undefined) return
    const place = +token.dataset.place
    this.mark(place)
    token.title = `looks at “${this.words[place]?.[0] ?? '?'}”, ${Math.round(100 * token.dataset.mass)} % of it on certain words`
  }

  mark(place) { this.places?.forEach((word, k) => word.classList.toggle('mark', k === place)) }

  on_said(m) {
    const article = this.columns.get(m.target)
    if (!article) return
    const box = article.querySelector('.said'), spaced = this.known.get(m.target)?.spaced ?? true
    const follow = box.scrollHeight - box.scrollTop - box.clientHeight < 40
    for (const [text, start, end] of m.units) {
      let last = box.lastElementChild
      if (!last || ENDS.test(last.textContent.trimEnd())) box.append(last = document.createElement('p'))
      const unit = document.createElement('span')
      unit.textContent = text
      unit.title = `spoken at ${start}–${end} s, said at ${m.audio_s} s`
      last.append(unit, spaced ? ' ' : '')
      $('lag').textContent = `${Math.max(0, m.audio_s - end).toFixed(1)} s`
    }
    if (follow) box.scrollTop = box.scrollHeight
  }

  on_status(m) {
    const s = Math.floor(m.audio_s)
    $('clock').textContent = `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`
    $('behind').textContent = `${m.behind_s.toFixed(1)} s`
    $('rtf').textContent = m.rtf.toFixed(2)
  }

  on_error(m) { if (m.final) this.state('error', m.message) }

  on_end() { this.forget(); this.state('', 'done') }

  // No draft waits.
  forget() {
    for (const article of this.columns.values()) {
      article.querySelector('.draft').replaceChildren(); article.querySelector('.why').textContent = ''
    }
  }
}
