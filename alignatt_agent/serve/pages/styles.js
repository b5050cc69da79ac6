// The appearance of captions: font, size, colors, opacity of the background and edge of the letters, as EN 301 549 7.1.4
// asks. It is stored in the browser and set as CSS variables. OBS 27 uses Chromium 75: only JavaScript of 2019.
import { kept } from './stored.js'
import { say } from './words.js'

const FONTS = {
  sans: 'Arial, "Noto Sans", "Noto Sans CJK SC", sans-serif',
  serif: 'Georgia, "Noto Serif", "Noto Serif CJK SC", serif',
  mono: '"Noto Sans Mono", "DejaVu Sans Mono", monospace',
  wide: 'Verdana, "DejaVu Sans", "Noto Sans", sans-serif',
}
const EDGES = {
  outline: '-0.04em -0.04em 0 EDGE, 0.04em -0.04em 0 EDGE, -0.04em 0.04em 0 EDGE, 0.04em 0.04em 0 EDGE, 0 0 0.08em EDGE',
  shadow: '0.07em 0.07em 0.12em EDGE',
  raised: '-0.03em -0.03em 0 EDGE, 0.06em 0.06em 0 EDGE',
  depressed: '0.03em 0.03em 0 EDGE, -0.06em -0.06em 0 EDGE',
}
const COLOR = /^#?([0-9a-f]{6})$/i
const LEAST = 4.5 // contrast of text, WCAG 1.4.3

// place: prefix of the stored values; query: the values in the address; first: 'address' or 'user', whose value wins;
// before: colors and opacity before any choice; size: the default size in rem, or null if the page has buttons for it.
export class Styles {
  constructor({ place, query, first, before, size }) {
    Object.assign(this, { place, before, size, values: {}, fields: {}, changed() {} })
    for (const key of ['font', 'color', 'background', 'opacity', 'edge', 'size']) {
      if (key === 'size' && size === null) continue
      const choices = [valid(key, query.get(key)), valid(key, kept(place + key))]
      if (first === 'user') choices.reverse()
      this.values[key] = choices[0] || choices[1]
    }
    this.apply()
  }

  set(key, value) {
    this.values[key] = valid(key, value)
    kept(this.place + key, this.values[key] || null)
    this.apply()
  }

  reset() {
    for (const key in this.values) { this.values[key] = ''; kept(this.place + key, null) }
    this.apply()
  }

  apply() {
    const { font, color, background, opacity, edge, size } = this.values, style = document.documentElement.style
    const put = (name, value) => { if (value) style.setProperty(name, value); else style.removeProperty(name) }
    put('--caption-font', FONTS[font])
    put('--caption-ink', color)
    const before = this.before(), ground = background || before.ground
    put('--caption-ground', background || opacity ? mixed(ground, opacity ? opacity / 100 : background ? Math.max(before.opacity, 0.75) : before.opacity) : '')
    // The edge has the opposite brightness of the text.
    put('--caption-edge', edge ? EDGES[edge].replace(/EDGE/g, luminance(color || before.ink) > 0.4 ? '#000' : '#fff') : '')
    if (this.size !== null) put('--size', size && `${size}rem`)
    this.show()
    this.changed()
  }

  // The parameters of an address that has this appearance.
  parameters() {
    const parameters = {}
    for (const key in this.values) if (this.values[key]) parameters[key] = this.values[key].replace('#', '')
    return parameters
  }

  // Adds the fields of all choices to a box.
  build(box) {
    const field = (key, word, control) => {
      const label = document.createElement('label'), name = document.createElement('span')
      name.textContent = say(word)
      label.append(name, ' ', control)
      control.id = `style-${key}`
      control.oninput = () => this.set(key, control.value)
      this.fields[key] = control
      box.append(label)
    }
    const select = (key, word, options, none) => {
      const control = document.createElement('select')
      control.append(new Option(say(none), ''))
      for (const option of options) control.append(new Option(say(option), option))
      field(key, word, control)
    }
    const input = (key, word, attributes) => field(key, word, Object.assign(document.createElement('input'), attributes))
    select('font', 'font', Object.keys(FONTS), 'normal')
    if (this.size !== null) input('size', 'size', { type: 'number', min: 0.5, max: 30, step: 0.1 })
    input('color', 'ink', { type: 'color' })
    input('background', 'ground', { type: 'color' })
    input('opacity', 'opacity', { type: 'range', min: 0, max: 100, step: 5 })
    select('edge', 'edge', Object.keys(EDGES), 'nothing')
    const reset = Object.assign(document.createElement('button'), { type: 'button', textContent: say('reset') })
    reset.onclick = () => this.reset()
    this.warning = document.createElement('p')
    this.warning.setAttribute('role', 'status')
    this.warning.className = 'warning'
    box.append(reset, this.warning)
    this.show()
  }

  // Shows the values in the fields.
  show() {
    if (!this.warning) return
    const { font, color, background, opacity, edge, size } = this.values, before = this.before()
    const ink = color || before.ink, ground = background || before.ground
    const shown = { font, edge, size: size || this.size, color: ink, background: ground, opacity: opacity || String(100 * (background ? Math.max(before.opacity, 0.75) : before.opacity)) }
    for (const key in this.fields) if (this.fields[key] !== document.activeElement || this.fields[key].type !== 'number') this.fields[key].value = shown[key]
    const ratio = contrast(ink, ground)
    this.warning.textContent = ratio < LEAST ? say('contrast', ratio.toFixed(1)) : ''
  }
}

function valid(key, value) {
  if (value === null || value === undefined || value === '') return ''
  if (key === 'font') return Object.keys(FONTS).includes(value) ? value : ''
  if (key === 'edge') return Object.keys(EDGES).includes(value) ? value : ''
  if (key === 'color' || key === 'background') return COLOR.test(value) ? `#${value.match(COLOR)[1].toLowerCase()}` : ''
  const number = Number(value), limits = key === 'size' ? [0.5, 30] : [0, 100]
  return number >= limits[0] && number <= limits[1] ? String(number) : ''
}

function parts(color) { return [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16)) }

function mixed(color, opacity) { return `rgba(${parts(color).join(', ')}, ${opacity})` }

// WCAG's relative luminance.
function luminance(color) {
  const [r, g, b] = parts(color).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(one, other) {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a)
  return (high + 0.05) / (low + 0.05)
}

// The color of a CSS variable as #rrggbb.
export function variable(name) {
  const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  return /^#[0-9a-f]{3}$/i.test(value) ? value.replace(/[0-9a-f]/gi, digit => digit + digit) : value
}
