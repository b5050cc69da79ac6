// The texts of the viewers' page, in the language of the browser.
const KEYS = ['captions', 'connecting', 'waiting', 'live', 'paused', 'interrupted', 'over', 'offline', 'which', 'none', 'room', 'open',
  'newest', 'smaller', 'larger', 'settings', 'colors', 'auto', 'light', 'dark', 'later', 'save', 'missing']
const WORDS = {
  en: ['Captions', 'connecting …', 'No one has spoken here yet. The text will appear automatically.', 'live', 'paused', 'interrupted', 'over',
    'no connection; trying again …', 'Which language do you want to read?', 'This talk is not translated into {}.', 'Which room?', 'Open',
    'newest', 'smaller text', 'larger text', 'Settings', 'Colors', 'auto', 'light', 'dark', 'Delay captions by (s)', 'Save the text', 'about {} s are missing here'],
  de: ['Untertitel', 'verbinde …', 'Hier hat noch niemand gesprochen. Der Text erscheint von selbst.', 'live', 'Pause', 'unterbrochen', 'zu Ende',
    'keine Verbindung; neuer Versuch …', 'Welche Sprache möchten Sie lesen?', 'Dieser Vortrag wird nicht in diese Sprache übersetzt: {}.', 'Welcher Raum?', 'Öffnen',
    'neueste', 'kleinere Schrift', 'größere Schrift', 'Einstellungen', 'Farben', 'automatisch', 'hell', 'dunkel', 'Untertitel später um (s)', 'Text speichern', 'hier fehlen etwa {} s'],
  it: ['Sottotitoli', 'connessione …', 'Qui nessuno ha ancora parlato. Il testo appare da solo.', 'in diretta', 'in pausa', 'interrotto', 'finito',
    'nessuna connessione; nuovo tentativo …', 'In quale lingua vuole leggere?', 'Questo intervento non è tradotto in: {}.', 'Quale sala?', 'Apri',
    'ultime parole', 'testo più piccolo', 'testo più grande', 'Impostazioni', 'Colori', 'automatico', 'chiaro', 'scuro', 'Ritardo dei sottotitoli (s)', 'Salva il testo', 'qui mancano circa {} s'],
  fr: ['Sous-titres', 'connexion …', 'Personne n’a encore parlé ici. Le texte apparaîtra tout seul.', 'en direct', 'en pause', 'interrompu', 'terminé',
    'pas de connexion ; nouvel essai …', 'Dans quelle langue voulez-vous lire ?', 'Cet exposé n’est pas traduit dans cette langue : {}.', 'Quelle salle ?', 'Ouvrir',
    'derniers mots', 'texte plus petit', 'texte plus grand', 'Réglages', 'Couleurs', 'automatique', 'clair', 'sombre', 'Retarder les sous-titres de (s)', 'Enregistrer le texte', 'il manque ici environ {} s'],
  es: ['Subtítulos', 'conectando …', 'Aquí nadie ha hablado todavía. El texto aparece solo.', 'en directo', 'en pausa', 'interrumpido', 'terminado',
    'sin conexión; nuevo intento …', '¿En qué idioma quiere leer?', 'Esta charla no se traduce a este idioma: {}.', '¿Qué sala?', 'Abrir',
    'lo último', 'texto más pequeño', 'texto más grande', 'Ajustes', 'Colores', 'automático', 'claro', 'oscuro', 'Retrasar los subtítulos (s)', 'Guardar el texto', 'aquí faltan unos {} s'],
  zh: ['字幕', '正在连接…', '还没有人发言。文字会自动出现。', '直播中', '暂停', '中断', '已结束',
    '没有连接，正在重试…', '您想用哪种语言阅读？', '本次演讲没有翻译成：{}。', '哪个房间？', '打开',
    '最新', '缩小文字', '放大文字', '设置', '颜色', '自动', '浅色', '深色', '字幕延迟（秒）', '保存文字', '此处缺少约 {} 秒'],
}

export const reader = (navigator.languages ?? [navigator.language]).map(tag => tag.split('-')[0]).find(code => code in WORDS) ?? 'en'

export function say(key, value) { return WORDS[reader][KEYS.indexOf(key)].replace('{}', value) }

// Elements with data-say get the text of that key; elements with data-label get a name for screen readers.
export function translate() {
  document.documentElement.lang = reader
  for (const item of document.querySelectorAll('[data-say]')) item.textContent = say(item.dataset.say)
  for (const item of document.querySelectorAll('[data-label]')) item.setAttribute('aria-label', `${item.textContent} ${say(item.dataset.label)}`.trim())
}
