// Lets the user choose a microphone and check its level; shows the level and problems of the input.
import { openSound } from './sound.js'
import { say } from './words.js'

const $ = id => document.getElementById(id)
const QUIET = 0.01 // of full scale; speech into a working microphone is louder
const QUIET_S = 10
const LOW = 0.05, LOUD = 0.98 // peaks of speech, of full scale
const CHECK_S = 30 // s after which the check of the level closes the microphone
const VERDICT_S = 2 // s of sound that the verdict is about

const GONE = ['unplugged', 'muted', 'stopped'] // keys of words

export class Input {
  // use(device): changes the microphone during a talk; changed(): the problems of the input have changed.
  constructor(use, changed) {
    Object.assign(this, { use, changed, live: false, gone: '', loud: 0, warning: '', problems: [] })
    $('device').onchange = () => this.change()
    $('check').onclick = () => this.checking ? this.endCheck() : this.beginCheck()
    navigator.mediaDevices?.addEventListener('devicechange', async () => {
      await this.list()
      if (this.live && this.gone === 'unplugged' && $('device').options.length) this.change()
    })
    setInterval(() => this.look(), 500)
    this.list()
  }

  // Browsers reveal the names only after the user has allowed a microphone.
  async list() {
    const microphones = (await navigator.mediaDevices?.enumerateDevices().catch(() => []) ?? [])
      .filter(device => device.kind === 'audioinput' && device.label && device.deviceId !== 'default')
    const chosen = $('device').value
    const options = [{ deviceId: '', label: say('defaultdevice') }, ...microphones, { deviceId: 'file', label: say('recording') }]
    $('device').replaceChildren(...options.map(device => new Option(device.label, device.deviceId)))
    $('device').value = options.some(device => device.deviceId === chosen) ? chosen : ''
    $('device').lastElementChild.disabled = this.live && chosen !== 'file'
  }

  async change() {
    const file = $('device').value === 'file'
    $('file').hidden = !file
    $('check').hidden = file
    if (this.checking) { this.endCheck(); if (!file) this.beginCheck() }
    if (!this.live || file) return
    try {
      await this.use($('device').value)
      this.tell('')
    } catch (error) { this.tell(say('badmicrophone', error.message)) }
  }

  // Shows the level before the talk; the sound stays in the browser.
  async beginCheck() {
    this.checking = true
    this.peaks = []
    $('check').textContent = say('uncheck')
    $('verdict').textContent = say('speak')
    let sound
    try {
      sound = await openSound('microphone', {
        device: $('device').value, onpcm() {}, onend() {}, ongap() {}, ongone: why => { if (why === 'unplugged') this.endCheck() },
        onlevel: peak => this.judge(peak),
      })
    } catch (error) {
      this.endCheck()
      $('verdict').textContent = why(error)
      return
    }
    if (!this.checking) return sound.stop()
    this.sound = sound
    sound.go()
    this.list()
    this.checkEnds = setTimeout(() => this.endCheck(), 1000 * CHECK_S)
  }

  judge(peak) {
    $('level').value = peak
    this.peaks = [...this.peaks, peak].slice(-10 * VERDICT_S)
    const highest = Math.max(...this.peaks)
    const verdict = highest >= LOUD ? 'loud' : highest >= LOW ? 'good' : highest >= QUIET || this.peaks.length === 10 * VERDICT_S ? 'low' : 'speak'
    if ($('verdict').textContent !== say(verdict)) $('verdict').textContent = say(verdict)
  }

  endCheck() {
    clearTimeout(this.checkEnds)
    this.sound?.stop()
    this.sound = null; this.checking = false
    $('check').textContent = say('check')
    $('verdict').textContent = ''
    $('level').value = 0
  }

  begin() { this.endCheck(); this.live = true; this.loud = performance.now(); this.tell(''); this.list() }

  end() { this.live = false; this.problems = []; $('level').value = 0; this.tell('') }

  level(peak) {
    $('level').value = peak
    if (peak > QUIET) this.loud = performance.now()
  }

  tell(gone) {
    this.gone = gone; this.loud = performance.now()
    this.look(); this.changed()
  }

  // One place writes the notice: the problem of the input, the warning before the talk, and the server's problems.
  look() {
    const quiet = this.live && performance.now() - this.loud > 1000 * QUIET_S
    const input = GONE.includes(this.gone) ? say(this.gone) : this.gone
    const text = [input || (quiet ? say('quiet', QUIET_S) : this.warning), ...this.problems].filter(Boolean).join(' ')
    if ($('notice').textContent !== text) $('notice').textContent = text
    if (this.gone) $('level').value = 0
  }
}

// The reason why there is no sound.
export function why(error) {
  if (error.name === 'NotAllowedError') return say('denied')
  return say('noaudio', error.name === 'NotFoundError' ? say('nomicrophone') : error.message)
}
