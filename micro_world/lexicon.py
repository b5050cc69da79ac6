"""Words of the micro world: English with their German, Italian and Chinese counterparts.

One line an entry, columns separated by ``|``; the parsers below give them names.
"""

# ruff: noqa: E501  (one entry a line)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; ``de`` and ``it`` are (singular, plural), ``kind`` is ``thing`` or ``person``."""

    en: tuple[str, str]
    de: tuple[str, str]
    de_gender: str
    it: tuple[str, str]
    it_gender: str
    zh: str
    zh_measure: str
    kind: str


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb.

    ``en``: base, third person, participle. ``de``: infinitive, third person, participle, and the
    separable prefix or an empty string. ``it``: 1sg, 3sg, 1pl, 3pl, participle, infinitive.
    """

    en: tuple[str, str, str]
    de: tuple[str, str, str]
    de_prefix: str
    it: tuple[str, str, str, str, str, str]
    zh: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A word whose form does not change, one column a language."""

    en: str
    de: str
    it: str
    zh: str


THINGS = """
model models|Modell Modelle n|modello modelli m|模型 个
system systems|System Systeme n|sistema sistemi m|系统 个
method methods|Methode Methoden f|metodo metodi m|方法 种
paper papers|Artikel Artikel m|articolo articoli m|论文 篇
result results|Ergebnis Ergebnisse n|risultato risultati m|结果 个
question questions|Frage Fragen f|domanda domande f|问题 个
answer answers|Antwort Antworten f|risposta risposte f|答案 个
network networks|Netz Netze n|rete reti f|网络 个
sentence sentences|Satz Sätze m|frase frasi f|句子 个
word words|Wort Wörter n|parola parole f|单词 个
language languages|Sprache Sprachen f|lingua lingue f|语言 种
signal signals|Signal Signale n|segnale segnali m|信号 个
experiment experiments|Experiment Experimente n|esperimento esperimenti m|实验 个
collection collections|Sammlung Sammlungen f|raccolta raccolte f|合集 个
table tables|Tabelle Tabellen f|tabella tabelle f|表格 张
figure figures|Abbildung Abbildungen f|figura figure f|图形 张
problem problems|Problem Probleme n|problema problemi m|难题 个
solution solutions|Lösung Lösungen f|soluzione soluzioni f|方案 个
idea ideas|Idee Ideen f|idea idee f|想法 个
task tasks|Aufgabe Aufgaben f|compito compiti m|任务 项
error errors|Fehler Fehler m|errore errori m|错误 个
layer layers|Schicht Schichten f|strato strati m|层次 个
decoder decoders|Decoder Decoder m|decodificatore decodificatori m|解码器 个
translation translations|Übersetzung Übersetzungen f|traduzione traduzioni f|译文 篇
text texts|Text Texte m|testo testi m|文本 篇
book books|Buch Bücher n|libro libri m|书籍 本
letter letters|Brief Briefe m|lettera lettere f|信件 封
machine machines|Maschine Maschinen f|macchina macchine f|机器 台
computer computers|Rechner Rechner m|computer computer m|电脑 台
program programs|Programm Programme n|programma programmi m|程序 个
window windows|Fenster Fenster n|finestra finestre f|窗口 个
picture pictures|Bild Bilder n|immagine immagini f|图片 张
story stories|Geschichte Geschichten f|storia storie f|故事 个
song songs|Lied Lieder n|canzone canzoni f|歌曲 首
project projects|Projekt Projekte n|progetto progetti m|项目 个
house houses|Haus Häuser n|casa case f|房子 座
bridge bridges|Brücke Brücken f|ponte ponti m|桥梁 座
garden gardens|Garten Gärten m|giardino giardini m|花园 座
city cities|Stadt Städte f|città città f|城市 座
river rivers|Fluss Flüsse m|fiume fiumi m|河流 条
rule rules|Regel Regeln f|regola regole f|规则 条
tool tools|Werkzeug Werkzeuge n|strumento strumenti m|工具 个
plan plans|Plan Pläne m|piano piani m|计划 个
"""

PERSONS = """
student students|Schüler Schüler m|studente studenti m|学生 个
teacher teachers|Lehrer Lehrer m|insegnante insegnanti m|老师 位
speaker speakers|Sprecher Sprecher m|relatore relatori m|讲者 位
engineer engineers|Ingenieur Ingenieure m|ingegnere ingegneri m|工程师 位
doctor doctors|Arzt Ärzte m|medico medici m|医生 位
author authors|Autor Autoren m|autore autori m|作者 位
researcher researchers|Forscher Forscher m|ricercatore ricercatori m|研究员 位
user users|Nutzer Nutzer m|utente utenti m|用户 个
friend friends|Freund Freunde m|amico amici m|朋友 个
listener listeners|Hörer Hörer m|ascoltatore ascoltatori m|听众 个
manager managers|Leiter Leiter m|direttore direttori m|经理 位
woman women|Frau Frauen f|donna donne f|女士 位
child children|Kind Kinder n|bambino bambini m|孩子 个
team teams|Team Teams n|squadra squadre f|团队 个
company companies|Firma Firmen f|azienda aziende f|公司 家
"""

VERBS = """
train trains trained|trainieren trainiert trainiert|addestro addestra addestriamo addestrano addestrato addestrare|训练
test tests tested|prüfen prüft geprüft|provo prova proviamo provano provato provare|测试
explain explains explained|erklären erklärt erklärt|spiego spiega spieghiamo spiegano spiegato spiegare|解释
describe describes described|beschreiben beschreibt beschrieben|descrivo descrive descriviamo descrivono descritto descrivere|描述
improve improves improved|verbessern verbessert verbessert|miglioro migliora miglioriamo migliorano migliorato migliorare|改进
measure measures measured|messen misst gemessen|misuro misura misuriamo misurano misurato misurare|测量
translate translates translated|übersetzen übersetzt übersetzt|traduco traduce traduciamo traducono tradotto tradurre|翻译
build builds built|bauen baut gebaut|costruisco costruisce costruiamo costruiscono costruito costruire|建造
write writes written|schreiben schreibt geschrieben|scrivo scrive scriviamo scrivono scritto scrivere|编写
see sees seen|sehen sieht gesehen|vedo vede vediamo vedono visto vedere|看见
find finds found|finden findet gefunden|trovo trova troviamo trovano trovato trovare|找到
use uses used|benutzen benutzt benutzt|uso usa usiamo usano usato usare|使用
choose chooses chosen|wählen wählt gewählt|scelgo sceglie scegliamo scelgono scelto scegliere|选择
buy buys bought|kaufen kauft gekauft|compro compra compriamo comprano comprato comprare|购买
sell sells sold|verkaufen verkauft verkauft|vendo vende vendiamo vendono venduto vendere|出售
open opens opened|öffnen öffnet geöffnet|apro apre apriamo aprono aperto aprire|打开
change changes changed|ändern ändert geändert|cambio cambia cambiamo cambiano cambiato cambiare|改变
check checks checked|kontrollieren kontrolliert kontrolliert|controllo controlla controlliamo controllano controllato controllare|检查
compare compares compared|vergleichen vergleicht verglichen|confronto confronta confrontiamo confrontano confrontato confrontare|比较
show shows shown|zeigen zeigt gezeigt|mostro mostra mostriamo mostrano mostrato mostrare|展示
draw draws drawn|zeichnen zeichnet gezeichnet|disegno disegna disegniamo disegnano disegnato disegnare|绘制
understand understands understood|verstehen versteht verstanden|capisco capisce capiamo capiscono capito capire|理解
discuss discusses discussed|besprechen bespricht besprochen|discuto discute discutiamo discutono discusso discutere|讨论
solve solves solved|lösen löst gelöst|risolvo risolve risolviamo risolvono risolto risolvere|解决
forget forgets forgotten|vergessen vergisst vergessen|dimentico dimentica dimentichiamo dimenticano dimenticato dimenticare|忘记
copy copies copied|kopieren kopiert kopiert|copio copia copiamo copiano copiato copiare|复制
follow follows followed|verfolgen verfolgt verfolgt|seguo segue seguiamo seguono seguito seguire|跟踪
remove removes removed|entfernen entfernt entfernt|rimuovo rimuove rimuoviamo rimuovono rimosso rimuovere|删除
publish publishes published|veröffentlichen veröffentlicht veröffentlicht|pubblico pubblica pubblichiamo pubblicano pubblicato pubblicare|发表
repeat repeats repeated|wiederholen wiederholt wiederholt|ripeto ripete ripetiamo ripetono ripetuto ripetere|重复
prepare prepares prepared|bereiten bereitet bereitet vor|preparo prepara prepariamo preparano preparato preparare|准备
introduce introduces introduced|führen führt geführt ein|introduco introduce introduciamo introducono introdotto introdurre|介绍
send sends sent|schicken schickt geschickt ab|invio invia inviamo inviano inviato inviare|发送
store stores stored|speichern speichert gespeichert ab|salvo salva salviamo salvano salvato salvare|保存
"""

CLAUSE_VERBS = """
think thinks thought|denken denkt gedacht|penso pensa pensiamo pensano pensato pensare|认为
know knows known|wissen weiß gewusst|so sa sappiamo sanno saputo sapere|知道
believe believes believed|glauben glaubt geglaubt|credo crede crediamo credono creduto credere|相信
say says said|sagen sagt gesagt|dico dice diciamo dicono detto dire|说
hope hopes hoped|hoffen hofft gehofft|spero spera speriamo sperano sperato sperare|希望
"""

ADJECTIVES = """
new|neu|nuovo|新
small|klein|piccolo|小
large|groß|grande|大
simple|einfach|semplice|简单
good|gut|buono|好
fast|schnell|veloce|快
slow|langsam|lento|慢
old|alt|vecchio|旧
long|lang|lungo|长
short|kurz|breve|短
important|wichtig|importante|重要
difficult|schwierig|difficile|困难
strong|stark|forte|强
weak|schwach|debole|弱
clear|klar|chiaro|清楚
deep|tief|profondo|深
cheap|billig|economico|便宜
modern|modern|moderno|现代
strange|seltsam|strano|奇怪
beautiful|schön|bello|美丽
famous|berühmt|famoso|著名
useful|nützlich|utile|有用
young|jung|giovane|年轻
happy|glücklich|felice|快乐
green|grün|verde|绿
red|rot|rosso|红
correct|korrekt|corretto|正确
quiet|ruhig|tranquillo|安静
heavy|schwer|pesante|重
perfect|perfekt|perfetto|完美
"""

ADVERBS = """
today|heute|oggi|今天
often|oft|spesso|经常
again|erneut|di nuovo|再次
now|jetzt|ora|现在
here|hier|qui|在这里
together|zusammen|insieme|一起
quickly|rasch|rapidamente|迅速
carefully|sorgfältig|attentamente|仔细
tomorrow|morgen|domani|明天
later|später|dopo|以后
"""

OPENERS = """
First,|zuerst|innanzitutto,|首先，
However,|jedoch|tuttavia,|然而，
Therefore,|deshalb|quindi|因此
Then|dann|poi|然后
Finally,|schließlich|infine,|最后，
So|also|allora|所以
Fortunately,|glücklicherweise|fortunatamente|幸好
Sometimes|manchmal|talvolta|有时
"""

LINKS = """
because|weil|perché|因为
although|obwohl|anche se|虽然
when|wenn|quando|当
if|falls|se|如果
since|da|poiché|由于
"""

PREPOSITIONS = """
with|mit|con|用
for|für|per|为
in|in|in|在
"""

NUMBERS = """
two|zwei|due|两
three|drei|tre|三
four|vier|quattro|四
five|fünf|cinque|五
six|sechs|sei|六
seven|sieben|sette|七
ten|zehn|dieci|十
"""

NAMES = """
Anna|Anna|Anna|安娜
Peter|Peter|Peter|彼得
Maria|Maria|Maria|玛丽亚
Thomas|Thomas|Thomas|托马斯
Laura|Laura|Laura|劳拉
Martin|Martin|Martin|马丁
Julia|Julia|Julia|朱莉娅
David|David|David|大卫
Sarah|Sarah|Sarah|萨拉
"""

PRONOUNS = """
I|ich||我
we|wir||我们
they|sie||他们
he|er|lui|他
she|sie|lei|她
"""

MODALS: dict[str, dict[str, tuple[str, ...]]] = {
    "can": {
        "de": ("kann", "kann", "können", "können"),
        "it": ("posso", "può", "possiamo", "possono"),
        "zh": ("可以",),
    },
    "must": {
        "de": ("muss", "muss", "müssen", "müssen"),
        "it": ("devo", "deve", "dobbiamo", "devono"),
        "zh": ("必须",),
    },
    "should": {
        "de": ("sollte", "sollte", "sollten", "sollten"),
        "it": ("dovrei", "dovrebbe", "dovremmo", "dovrebbero"),
        "zh": ("应该",),
    },
}
"""Forms for 1sg, 3sg, 1pl, 3pl."""


def _rows(table: str) -> list[list[str]]:
    return [line.split("|") for line in table.strip().splitlines()]


def _noun(row: list[str], kind: str) -> Noun:
    en, de, it, zh = (column.split() for column in row)
    return Noun((en[0], en[1]), (de[0], de[1]), de[2], (it[0], it[1]), it[2], zh[0], zh[1], kind)


def _verb(row: list[str]) -> Verb:
    en, de, it, zh = row
    forms = de.split()
    prefix = forms[3] if len(forms) > 3 else ""
    a, b, c, d, e, f = it.split()
    base, third, participle = en.split()
    return Verb(
        (base, third, participle), (forms[0], forms[1], forms[2]), prefix, (a, b, c, d, e, f), zh
    )


def _plain(table: str) -> list[Plain]:
    return [Plain(*row) for row in _rows(table)]


NOUNS = [_noun(row, "thing") for row in _rows(THINGS)] + [
    _noun(row, "person") for row in _rows(PERSONS)
]
TRANSITIVE = [_verb(row) for row in _rows(VERBS)]
CLAUSAL = [_verb(row) for row in _rows(CLAUSE_VERBS)]
ADJECTIVE = _plain(ADJECTIVES)
ADVERB = _plain(ADVERBS)
PAST_ADVERB = [a for a in ADVERB if a.en not in ("now", "tomorrow", "later")]
OPENER = _plain(OPENERS)
LINK = _plain(LINKS)
PREPOSITION = _plain(PREPOSITIONS)
NUMBER = _plain(NUMBERS)
NAME = _plain(NAMES)
PRONOUN = _plain(PRONOUNS)


def english_forms() -> list[str]:
    """Return every English word the grammar can say, in lower case and without marks."""
    fixed = "am is are have has the a an this these our who that and"
    words = set(fixed.split()) | set(MODALS)
    for noun in NOUNS:
        words |= set(noun.en)
    for verb in TRANSITIVE + CLAUSAL:
        words |= set(verb.en)
    for table in (ADJECTIVE, ADVERB, OPENER, LINK, PREPOSITION, NUMBER, NAME, PRONOUN):
        words |= {plain.en for plain in table}
    return sorted({word.strip(",").lower() for word in words})
