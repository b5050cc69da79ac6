// The texts of the pages, in the language of the browser. OBS 27 uses Chromium 75: only JavaScript of 2019.
const LANGUAGES = ['en', 'de', 'it', 'fr', 'es', 'zh']
const WORDS = {
  captions: ['Captions', 'Untertitel', 'Sottotitoli', 'Sous-titres', 'Subtítulos', '字幕'],
  connecting: ['connecting …', 'verbinde …', 'connessione …', 'connexion …', 'conectando …', '正在连接…'],
  waiting: ['No one has spoken here yet. The text will appear automatically.', 'Hier hat noch niemand gesprochen. Der Text erscheint von selbst.', 'Qui nessuno ha ancora parlato. Il testo appare da solo.', 'Personne n’a encore parlé ici. Le texte apparaîtra tout seul.', 'Aquí nadie ha hablado todavía. El texto aparece solo.', '还没有人发言。文字会自动出现。'],
  live: ['live', 'live', 'in diretta', 'en direct', 'en directo', '直播中'],
  paused: ['paused', 'Pause', 'in pausa', 'en pause', 'en pausa', '暂停'],
  interrupted: ['interrupted', 'unterbrochen', 'interrotto', 'interrompu', 'interrumpido', '中断'],
  over: ['over', 'zu Ende', 'finito', 'terminé', 'terminado', '已结束'],
  offline: ['no connection; trying again …', 'keine Verbindung; neuer Versuch …', 'nessuna connessione; nuovo tentativo …', 'pas de connexion ; nouvel essai …', 'sin conexión; nuevo intento …', '没有连接，正在重试…'],
  which: ['Which language do you want to read?', 'Welche Sprache möchten Sie lesen?', 'In quale lingua vuole leggere?', 'Dans quelle langue voulez-vous lire ?', '¿En qué idioma quiere leer?', '您想用哪种语言阅读？'],
  none: ['This talk is not translated into {}.', 'Dieser Vortrag wird nicht in diese Sprache übersetzt: {}.', 'Questo intervento non è tradotto in: {}.', 'Cet exposé n’est pas traduit dans cette langue : {}.', 'Esta charla no se traduce a este idioma: {}.', '本次演讲没有翻译成：{}。'],
  room: ['Which room?', 'Welcher Raum?', 'Quale sala?', 'Quelle salle ?', '¿Qué sala?', '哪个房间？'],
  open: ['Open', 'Öffnen', 'Apri', 'Ouvrir', 'Abrir', '打开'],
  newest: ['newest', 'neueste', 'ultime parole', 'derniers mots', 'lo último', '最新'],
  smaller: ['smaller text', 'kleinere Schrift', 'testo più piccolo', 'texte plus petit', 'texto más pequeño', '缩小文字'],
  larger: ['larger text', 'größere Schrift', 'testo più grande', 'texte plus grand', 'texto más grande', '放大文字'],
  settings: ['Settings', 'Einstellungen', 'Impostazioni', 'Réglages', 'Ajustes', '设置'],
  colors: ['Colors', 'Farben', 'Colori', 'Couleurs', 'Colores', '颜色'],
  auto: ['auto', 'automatisch', 'automatico', 'automatique', 'automático', '自动'],
  light: ['light', 'hell', 'chiaro', 'clair', 'claro', '浅色'],
  dark: ['dark', 'dunkel', 'scuro', 'sombre', 'oscuro', '深色'],
  later: ['Delay captions by (s)', 'Untertitel später um (s)', 'Ritardo dei sottotitoli (s)', 'Retarder les sous-titres de (s)', 'Retrasar los subtítulos (s)', '字幕延迟（秒）'],
  save: ['Save the text', 'Text speichern', 'Salva il testo', 'Enregistrer le texte', 'Guardar el texto', '保存文字'],
  missing: ['about {} s are missing here', 'hier fehlen etwa {} s', 'qui mancano circa {} s', 'il manque ici environ {} s', 'aquí faltan unos {} s', '此处缺少约 {} 秒'],
  says: ['The server says: {}', 'Der Server meldet: {}', 'Il server risponde: {}', 'Le serveur répond : {}', 'El servidor responde: {}', '服务器消息：{}'],
  languages: ['languages', 'Sprachen', 'lingue', 'langues', 'idiomas', '语言'],
  beside: ['Show beside it', 'Daneben zeigen', 'Mostra accanto', 'Afficher à côté', 'Mostrar al lado', '并排显示'],
  nothing: ['nothing', 'nichts', 'niente', 'rien', 'nada', '无'],
  spoken: ['{} (spoken)', '{} (gesprochen)', '{} (lingua parlata)', '{} (langue parlée)', '{} (idioma hablado)', '{}（原声语言）'],
  search: ['Search', 'Suchen', 'Cerca', 'Rechercher', 'Buscar', '搜索'],
  previous: ['previous match', 'voriger Treffer', 'risultato precedente', 'résultat précédent', 'resultado anterior', '上一个结果'],
  next: ['next match', 'nächster Treffer', 'risultato successivo', 'résultat suivant', 'resultado siguiente', '下一个结果'],
  nomatch: ['not found', 'nicht gefunden', 'non trovato', 'introuvable', 'no encontrado', '未找到'],
  look: ['Appearance', 'Darstellung', 'Aspetto', 'Apparence', 'Apariencia', '外观'],
  font: ['Font', 'Schriftart', 'Carattere', 'Police', 'Tipo de letra', '字体'],
  normal: ['as the page', 'wie die Seite', 'come la pagina', 'comme la page', 'como la página', '与页面相同'],
  sans: ['sans serif', 'ohne Serifen', 'senza grazie', 'sans empattement', 'sin serifa', '无衬线'],
  serif: ['serif', 'mit Serifen', 'con grazie', 'avec empattement', 'con serifa', '衬线'],
  mono: ['equal widths', 'gleiche Breite', 'larghezza fissa', 'chasse fixe', 'ancho fijo', '等宽'],
  wide: ['wide letters', 'breite Buchstaben', 'lettere larghe', 'lettres larges', 'letras anchas', '宽体'],
  ink: ['Text color', 'Textfarbe', 'Colore del testo', 'Couleur du texte', 'Color del texto', '文字颜色'],
  ground: ['Background', 'Hintergrund', 'Sfondo', 'Arrière-plan', 'Fondo', '背景'],
  opacity: ['Opacity of the background', 'Deckkraft des Hintergrunds', 'Opacità dello sfondo', 'Opacité de l’arrière-plan', 'Opacidad del fondo', '背景不透明度'],
  edge: ['Edge of the letters', 'Rand der Buchstaben', 'Bordo delle lettere', 'Contour des lettres', 'Borde de las letras', '字符边缘'],
  outline: ['outline', 'Umriss', 'contorno', 'contour', 'contorno', '描边'],
  shadow: ['shadow', 'Schatten', 'ombra', 'ombre', 'sombra', '阴影'],
  raised: ['raised', 'erhaben', 'in rilievo', 'en relief', 'en relieve', '凸起'],
  depressed: ['depressed', 'vertieft', 'incavato', 'en creux', 'hundido', '凹陷'],
  size: ['Size', 'Größe', 'Dimensione', 'Taille', 'Tamaño', '大小'],
  reset: ['As before', 'Zurücksetzen', 'Ripristina', 'Rétablir', 'Restablecer', '重置'],
  contrast: ['Text and background have a contrast of {} : 1. At least 4.5 : 1 is easy to read.', 'Text und Hintergrund haben einen Kontrast von {} : 1. Gut lesbar ist er ab 4,5 : 1.', 'Il contrasto tra testo e sfondo è {} : 1. Si legge bene a partire da 4,5 : 1.', 'Le contraste entre le texte et le fond est de {} : 1. Il faut au moins 4,5 : 1 pour bien lire.', 'El contraste entre texto y fondo es {} : 1. Se lee bien a partir de 4,5 : 1.', '文字与背景的对比度为 {} : 1，至少 4.5 : 1 才便于阅读。'],
  address: ['Address of captions over a picture, with this appearance', 'Adresse der Untertitel über einem Bild, in dieser Darstellung', 'Indirizzo dei sottotitoli su un’immagine, con questo aspetto', 'Adresse des sous-titres sur une image, avec cette apparence', 'Dirección de los subtítulos sobre una imagen, con esta apariencia', '叠加字幕的地址（使用此外观）'],
  addroom: ['Which room? Add ?room=NAME to the address.', 'Welcher Raum? Ergänzen Sie die Adresse um ?room=NAME.', 'Quale sala? Aggiunga ?room=NOME all’indirizzo.', 'Quelle salle ? Ajoutez ?room=NOM à l’adresse.', '¿Qué sala? Añada ?room=NOMBRE a la dirección.', '哪个房间？请在地址后加上 ?room=名称。'],
  // Refusals, by the code that the server sends.
  'no-token': ['', 'Das Token fehlt oder ist falsch: Ergänzen Sie die Adresse um ?token=…', 'Il token manca o è sbagliato: aggiunga ?token=… all’indirizzo.', 'Le jeton manque ou est faux : ajoutez ?token=… à l’adresse.', 'El token falta o es incorrecto: añada ?token=… a la dirección.', '令牌缺失或错误：请在地址后加上 ?token=…'],
  'no-guesses': ['', 'Zu viele falsche Token: Warten Sie eine Minute.', 'Troppi token sbagliati: attenda un minuto.', 'Trop de jetons faux : attendez une minute.', 'Demasiados tokens incorrectos: espere un minuto.', '错误令牌过多：请等待一分钟。'],
  'no-host': ['', 'Unter diesem Rechnernamen ist der Server nicht erreichbar. Wer ihn betreibt, muss ihn mit --origin zulassen.', 'Il server non risponde a questo nome host: chi lo gestisce deve autorizzarlo con --origin.', 'Le serveur refuse ce nom d’hôte : son exploitant doit l’autoriser avec --origin.', 'El servidor no admite este nombre de host: quien lo administra debe permitirlo con --origin.', '服务器不接受此主机名：管理员须用 --origin 允许它。'],
  'no-origin': ['', 'Diese Seite darf den Server nicht benutzen. Wer ihn betreibt, muss sie mit --origin oder --embed zulassen.', 'Questa pagina non può usare il server: chi lo gestisce deve autorizzarla con --origin o --embed.', 'Cette page ne peut pas utiliser le serveur : son exploitant doit l’autoriser avec --origin ou --embed.', 'Esta página no puede usar el servidor: quien lo administra debe permitirla con --origin o --embed.', '此页面不能使用该服务器：管理员须用 --origin 或 --embed 允许它。'],
  'no-room': ['', 'Ein Raumname besteht aus 1 bis 64 Buchstaben, Ziffern, - oder _.', 'Il nome di una sala ha da 1 a 64 lettere, cifre, - o _.', 'Un nom de salle comporte de 1 à 64 lettres, chiffres, - ou _.', 'El nombre de una sala tiene de 1 a 64 letras, cifras, - o _.', '房间名称须为 1 至 64 个字母、数字、- 或 _。'],
  'no-busy': ['', 'Der Server ist voll besetzt: Versuchen Sie es später.', 'Il server è al completo: riprovi più tardi.', 'Le serveur est complet : réessayez plus tard.', 'El servidor está completo: inténtelo más tarde.', '服务器已满：请稍后再试。'],
  'no-closing': ['', 'Der Server wird beendet.', 'Il server si sta spegnendo.', 'Le serveur s’arrête.', 'El servidor se está cerrando.', '服务器正在关闭。'],
  'no-engine': ['', 'Ein Modell ist ausgefallen und wird neu gestartet.', 'Un modello si è fermato e viene riavviato.', 'Un modèle s’est arrêté et redémarre.', 'Un modelo ha fallado y se está reiniciando.', '一个模型出现故障，正在重启。'],
  'no-internal': ['', 'Der Server hat einen Fehler: siehe sein Protokoll.', 'Errore del server: vedere il suo registro.', 'Erreur du serveur : voir son journal.', 'Error del servidor: vea su registro.', '服务器出错：请查看其日志。'],
}

function chosen() {
  const tags = navigator.languages || [navigator.language]
  return tags.map(tag => tag.split('-')[0]).find(code => LANGUAGES.includes(code)) || 'en'
}

export const reader = chosen()

// Adds the texts of a page.
export function add(words) { Object.assign(WORDS, words) }

export function say(key, value) { return WORDS[key][LANGUAGES.indexOf(reader)].replace('{}', value) }

// The reason of a refusal: the server's own text in English, with its details, or the text for its code.
export function refusal(code, message) {
  const words = WORDS[`no-${code}`]
  return reader !== 'en' && words ? say(`no-${code}`) : message
}

// Elements with data-say get the text of that key; those with data-label, data-hint or data-title get a name for
// screen readers, a placeholder or a tooltip.
export function translate() {
  document.documentElement.lang = reader
  for (const box of document.querySelectorAll('[data-say]')) box.textContent = say(box.dataset.say)
  for (const box of document.querySelectorAll('[data-label]')) box.setAttribute('aria-label', `${box.dataset.sign || ''} ${say(box.dataset.label)}`.trim())
  for (const box of document.querySelectorAll('[data-hint]')) box.placeholder = say(box.dataset.hint)
  for (const box of document.querySelectorAll('[data-title]')) box.title = say(box.dataset.title)
}
