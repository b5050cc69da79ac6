// Lets the user choose a microphone; shows the level and problems of the input.
const $ = id => document.getElementById(id)
const QUIET = 0.01 // of full scale; speech into a working microphone is louder
const QUIET_S = 10

const GONE = {
  unplugged: 'The microphone was unplugged. Plug it in again, or choose another one.',
  muted: 'The microphone is muted by this computer.',
  paused: 'The browser paused the audio (hidden page, locked screen or call). To continue the talk, return to this page or tap it.',
}

export class Input {
  // use(device): changes the microphone during a talk.
  constructor(use) {
    Object.assign(this, { use, live: false, gone: '', loud: 0 })
    $('device').onchange = () => this.change()
    navigator.mediaDevices?.addEventListener('devicechange', async () => {
      await this.list()
      if (this.live && this.gone === 'unplugged' && $('device').options.length) this.change()
    })
    setInterval(() => this.check(), 500)
    this.list()
  }

  // Browsers reveal the names only after the user has allowed a microphone.
  async list() {
    const found = (await navigator.mediaDevices?.enumerateDevices().catch(() => []) ?? [])
      .filter(item => item.kind === 'audioinput' && item.label && item.deviceId !== 'default')
    const chosen = $('device').value
    const options = [{ deviceId: '', label: 'default microphone' }, ...found, { deviceId: 'file', label: 'a recording …' }]
    $('device').replaceChildren(...options.map(item => new Option(item.label, item.deviceId)))
    $('device').value = options.some(item => item.deviceId === chosen) ? chosen : ''
    $('device').lastElementChild.disabled = this.live && chosen !== 'file'
  }

  async change() {
    $('file').hidden = $('device').value !== 'file'
    if (!this.live || $('device').value === 'file') return
    try {
      await this.use($('device').value)
      this.tell('')
    } catch (error) { this.tell(`This microphone cannot be used: ${error.message}`) }
  }

  begin() { this.live = true; this.loud = performance.now(); this.tell(''); this.list() }

  end() { this.live = false; $('level').value = 0; this.tell('') }

  level(peak) {
    $('level').value = peak
    if (peak > QUIET) this.loud = performance.now()
  }

  tell(gone) { this.gone = gone; this.loud = performance.now(); this.check() }

  check() {
    const quiet = this.live && performance.now() - this.loud > 1000 * QUIET_S
    const text = GONE[this.gone] || this.gone || (quiet ? `No speech for ${QUIET_S} s. Is this the right microphone, and is it switched on?` : '')
    if ($('notice').textContent !== text) $('notice').textContent = text
    if (this.gone) $('level').value = 0
  }
}
