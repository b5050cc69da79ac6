// Runs in the audio thread: collects mono audio and passes it on in tenths of a second.
registerProcessor('microphone', class extends AudioWorkletProcessor {
  constructor() { super(); this.size = Math.round(sampleRate / 10); this.reset() }
  reset() { this.pcm = new Int16Array(this.size); this.filled = 0; this.peak = 0 }
  process([channels]) {
    if (!channels?.length) return true
    for (let i = 0; i < channels[0].length; i++) {
      let sample = 0
      for (const channel of channels) sample += channel[i] / channels.length
      sample = Math.max(-1, Math.min(1, sample))
      this.peak = Math.max(this.peak, Math.abs(sample))
      this.pcm[this.filled++] = Math.round(sample * 32767)
      if (this.filled === this.size) {
        const { pcm, peak } = this
        this.reset()
        this.port.postMessage({ pcm: pcm.buffer, level: peak }, [pcm.buffer])
      }
    }
    return true
  }
})
