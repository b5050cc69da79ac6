// Keeps the end of a scrolling box in view until the user scrolls back; a button returns to the end.
const NEAR = 8 // distance from the end, in pixels, that is treated as the end
const HAND = 1000 // ms after the last touch during which scrolling is attributed to the user; continued scrolling extends this time
const KEYS = ['ArrowUp', 'PageUp', 'Home', ' ']

export class Follower {
  // box: the element that scrolls; content: its growing content; back: the button.
  constructor(box, content, back) {
    Object.assign(this, { box, back, following: true, top: 0, hand: -HAND, pressed: false })
    const observer = new ResizeObserver(() => this.settle())
    observer.observe(box); observer.observe(content)
    const touched = () => { this.hand = performance.now() }
    for (const kind of ['wheel', 'touchmove']) box.addEventListener(kind, touched, { passive: true })
    box.addEventListener('keydown', ({ key }) => { if (KEYS.includes(key)) touched() })
    box.addEventListener('pointerdown', () => { this.pressed = true; touched() }) // on the scroll bar, or for a selection
    for (const kind of ['pointerup', 'pointermove']) addEventListener(kind, ({ buttons }) => { if (!buttons) this.pressed = false }, { passive: true })
    box.addEventListener('scroll', () => this.scrolled(), { passive: true })
    back.onclick = () => { this.follow(true); box.focus({ preventScroll: true }) }
  }

  // After new text, a change of the text size, or a rotation of the phone.
  settle() {
    if (this.following) this.box.scrollTop = this.box.scrollHeight
    this.top = this.box.scrollTop
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box, now = performance.now()
    const byHand = this.pressed || now - this.hand < HAND
    if (byHand) this.hand = now
    if (scrollHeight - scrollTop - clientHeight < NEAR) this.follow(true)
    else if (byHand && scrollTop < this.top - 1) this.follow(false)
    else if (this.following) this.settle()
    this.top = this.box.scrollTop
  }

  follow(on) {
    this.following = on
    this.back.hidden = on
    if (on) this.settle()
  }
}
