import { kept } from './stored.js'

// Settings of a viewer, stored in the browser: text size and theme.
const $ = id => document.getElementById(id)
const SMALLEST = 0.9, LARGEST = 6, STEP = 0.15 // rem

export function setUpReading() {
  const root = document.documentElement
  let size = Number(kept('size')) || 1.75 // 28 px
  const resize = by => {
    size = Math.min(LARGEST, Math.max(SMALLEST, size + by))
    root.style.setProperty('--size', `${size}rem`)
    if (by) kept('size', size)
  }
  $('smaller').onclick = () => resize(-STEP)
  $('larger').onclick = () => resize(STEP)
  resize(0)
  $('theme').value = kept('theme') ?? ''
  $('theme').onchange = () => { root.dataset.theme = $('theme').value; kept('theme', $('theme').value) }
  root.dataset.theme = $('theme').value
}

// The name of a language in that language: Deutsch, italiano, 中文.
export function ownName({ code, name }) {
  const found = new Intl.DisplayNames([code], { type: 'language', fallback: 'none' }).of(code) ?? name
  return found[0].toLocaleUpperCase(code) + found.slice(1)
}

// Keeps the screen on while wanted() is true, even after the page was hidden.
export function stayAwake(wanted) {
  let lock = null
  const renew = async () => {
    if (!wanted() || document.hidden) return lock?.release?.()
    if (!lock || lock.released) lock = await navigator.wakeLock?.request('screen').catch(() => null)
  }
  document.addEventListener('visibilitychange', renew)
  return renew
}

export function clock(seconds) {
  const s = Math.floor(seconds), two = n => String(n).padStart(2, '0')
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
}
