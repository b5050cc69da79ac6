window.told = []
window.sockets = []
window.AudioContext = class extends AudioContext {
  constructor(...given) { super(...given); window.sound = this }
}
window.hide = value => {
  Object.defineProperty(document, 'hidden', { value, configurable: true })
  document.dispatchEvent(new Event('visibilitychange'))
}
const Original = WebSocket
window.WebSocket = class extends Original {
  constructor(...given) {
    super(...given)
    sockets.push(this)
    this.addEventListener('message', ({ data }) => told.push(JSON.parse(data)))
  }
}
