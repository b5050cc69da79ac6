// What a browser remembers of its user. OBS 27 uses Chromium 75: only JavaScript of 2019.
export function kept(key, value) {
  try { // a page in a frame may have no storage
    if (value === undefined) return localStorage.getItem(key)
    if (value === null) localStorage.removeItem(key)
    else localStorage.setItem(key, value)
  } catch (error) { return null }
}
