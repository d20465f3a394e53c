"""Deeds whose words are also used of texts, so that the thing decides: "I've added it to your
calendar" takes a tool, "I've added a paragraph" does not.

What claims them is worded in the first person. "Your form has been submitted" names nobody: it
counts as a state, where no tool was called.
"""

import re
from typing import NamedTuple

from spanscore.metrics.check._statives import verb

_GAP = r"[^.?!,;:\n]{0,60}?"
_NO_TEXT_BEHIND = (
    r"(?![ -](?:templates?|forms?|tables?|diagrams?|letters?|plans?|schedules?|descriptions?|"
    r"titles?|texts?|examples?|lists?|pages?|class(?:es)?|schemas?|models?|components?|functions?|"
    r"summar(?:y|ies)|names?|sections?|files?|chapters?|parts?|notes|minutes|agendas?|formats?)\b)"
)
"""What stands behind a thing of which only a text is made: "a ticket template"."""
_NOT_SHOWN = r"(?![^.!?\n]{0,80}:(?!\d|\s*(?:#\d|[a-z]{2,6}-?\d{2}|\d{4})))"
"""No colon follows that has the text itself behind it, but for a time or the number of a ticket."""
_I = (
    r"(?<![\w'\u2019])(?:I|we)(?:['\u2019]ve| have)?(?:\s+(?:just|now|already|successfully|also))"
    r"{0,2}(?:\s+gone ahead and)?\s+"
)
_PASSIVE = r"\b(?:has|have)(?: now| just)? been(?: now| successfully)? (?:{verbs})\b"
_NOUN_FIRST = (
    r"(?:^|[.!\n]\s{0,3})(?:(?:done|okay|ok|sure|great|all set)[!.,:]\s+)?(?:(?:the|your)\s+)?"
    r"(?:e-?mail|message|reminder|alarm|timer|order|booking|reservation|appointment|meeting|"
    r"payment|transfer|table|room|flight|ticket|refund|event|request|card|subscription)\s+"
    r"(?:successfully\s+)?(?:{verbs})\b"
)
_WITHIN = r"(?:[^.?!\n]|(?<=\d)\.|\.(?=\s?\d))"
"""A character of a sentence; the full stop in "30. Juni" and "Hauptstr. 5" ends none."""
_GERMAN = rf"\bich habe\b{_WITHIN}{{0,80}}\b(?:{{verbs}})\b"
_FRENCH = r"\bj['\u2019]ai(?:\s+bien)?\s+(?:{verbs})\b"
_SPANISH = r"\b(?:he|hemos)\s+(?:{verbs})\b"
_ITALIAN = r"\b(?:ho|abbiamo)\s+(?:{verbs})\b"
_DUTCH = r"\bik heb\b[^.?!\n]{0,80}\b(?:{verbs})\b"
_PORTUGUESE = r"\b(?:{verbs})\b"

_OWNED = (
    r"address|phone number|number|e-?mail(?: address)?|password|passcode|PIN|account|profile|"
    r"subscription|membership|seat|reservation|booking|appointment|meeting|flight|limit|settings?|"
    r"preferences|thermostat|temperature|delivery date"
)
_PLACES = (
    r"calendar|cart|basket|shopping bag|wish ?list|"
    r"(?:shopping|to-?do|grocery|waiting|guest|mailing) list|playlist|queue|contacts|"
    r"address book|favou?rites|library|database|CRM|account|profile|reservation|booking|order|"
    r"folder|drive|channel|team|board"
)
_FILED = r"tickets?|case|issue|complaint|claim|support request|return"
_SET_UP = (
    r"reminder|alarm|timer|appointment|reservation|booking|event|meeting|account|playlist|folder"
)
_GERMAN_THINGS = (
    r"\w*(?:adresse|nummer|passwort|kennwort|pin|konto|profil|abo|sitzplatz|termin|buchung|"
    r"kalender|warenkorb|ticket|erinnerung|wecker|besprechung|limit)\w{0,2}"
)
_ROMANCE_THINGS = (
    r"(?:v(?:otre|os)|ton|ta|tes|tu|su|tus|sus|(?:il|la|i|le) (?:tuo|tua|suo|sua|tuoi|suoi)|"
    r"(?:[oa]s? )?(?:seu|sua|teu|tua)s?) (?:adresse|dirección|indirizzo|endereço|mot de passe|"
    r"contraseñ\w+|password|senha|compte|cuenta|conto|conta|rendez-vous|cita|appuntamento|consulta|"
    r"réservation|reserv\w+|prenotazione|profil\w*|perfil)"
)
_ROMANCE_PLACES = (
    r"(?:au|(?:à|dans) (?:votre|ton)|al|a (?:tu|su)|al (?:tuo|suo)|nel|ao?|ao (?:seu|teu)|"
    r"no (?:seu|teu)|na (?:sua|tua)) (?:calend\w+|agenda|panier|carrito|carrello|carrinho)"
)
_DUTCH_THINGS = (
    r"\w*(?:adres|wachtwoord|account|profiel|agenda|kalender|winkelwagen|afspraak|ticket)"
)


class DeedByThing(NamedTuple):
    """How claims of a deed are worded, and the requests for it; as in `Stative`.

    `by_text`: it may have been done to a text all the same. `is_state`: see `Claim`.
    """

    wording: str
    request: str
    by_text: bool = False
    is_state: bool = False


def _english(
    verbs: str, request: str, *, thing: str = "", by_text: bool = False, tells_more: bool = False
) -> DeedByThing:
    """`tells_more`: what follows a colon is the outcome, and no text that was asked for."""
    wording = f"{_I}(?:{verbs})\\b" + (f"{_GAP}{thing}" if thing else "")
    return DeedByThing(wording + ("" if tells_more else _NOT_SHOWN), request, by_text)


def _other(subject: str, verbs: str, request: str) -> DeedByThing:
    return DeedByThing(subject.replace("{verbs}", verbs), rf"\b(?:{request})")


def _passive(verbs: str, request: str, *, is_state: bool = True) -> DeedByThing:
    return DeedByThing(_PASSIVE.replace("{verbs}", verbs) + _NOT_SHOWN, request, is_state=is_state)


def _noun_first(verbs: str, request: str) -> DeedByThing:
    return DeedByThing(_NOUN_FIRST.replace("{verbs}", verbs), request, is_state=True)


_BLOCK = verb("freeze|unfreeze", noun="block|unblock|lock")
_RESTART = verb("restart|reboot")
_SERVICE_DEEDS = (
    ("uploaded", verb("upload")),
    ("installed|uninstalled", verb("install|uninstall")),
    ("deployed", verb("deploy|redeploy|roll out")),
    ("submitted|resubmitted", verb("submit|resubmit|hand in")),
    ("activated|reactivated", verb("activate|reactivate")),
    ("registered|enrolled", verb("enrol|enroll|sign .{1,40} up|sign up",
        noun="register")),
    ("renewed", verb("renew|extend")),
    ("subscribed|unsubscribed", verb("subscribe|unsubscribe")),
    (r"(?:messaged|texted|notified)(?! you\b)",
        verb("notify|inform|tell|let", noun="message|text")),
    ("invited(?!,)", verb("invite|add")),
    (r"exchanged", verb(noun="exchange")),
    ("archived|unarchived|restored", verb("archive|unarchive|restore")),
    ("rolled back|rolled it back|scaled", verb("roll back|roll .{1,40} back|revert", noun="scale")),
    ("rebooked", verb("rebook|move|change", noun="book")),
)  # fmt: skip
DEEDS_BY_THING = (
    _english(r"blocked(?! (?:off|out))|unblocked|frozen|unfrozen", _BLOCK),
    _passive("blocked|frozen", _BLOCK, is_state=False),
    _english("restarted|rebooted", _RESTART),
    _passive("restarted|rebooted", _RESTART, is_state=False),
    *(_english(verbs, request) for verbs, request in _SERVICE_DEEDS),
    *(_passive(verbs, request) for verbs, request in _SERVICE_DEEDS),
    _english("approved|rejected|declined|accepted", verb("approve|reject|decline|accept"),
        thing=r"\b(?:requests?|leave|invitations?|invites?|expenses?|pull request|PR|applications?|"
        rf"orders?|offers?|meetings?|reports?)\b{_NO_TEXT_BEHIND}"),
    _passive("approved|rejected|declined", verb("approve|reject|decline"), is_state=False),
    _passive("closed|resolved", verb("resolve", noun="close"), is_state=False),
    _english("assigned", verb("assign|reassign|give"),
        thing=rf"\b(?:ticket|case|issue|task|incident|lead)\b{_GAP} to (?!each|every|all|them|it)"),
    _english("granted|given", verb("grant|give|add|make"),
        thing=r"\b(?:access|rights|permissions?|privileges|(?:admin|editor|viewer|owner) role)\b"),
    _english("shared", verb(noun="share"),
        thing=r"\b(?:file|folder|document|doc|calendar|album|report|screen)\b"
        rf"{_GAP} with (?!you|me)"),
    _english("started|stopped|paused|resumed|launched|shut down",
        verb("resume|shut down|turn on|turn off|kick off|begin|halt",
            noun="start|stop|pause|launch|run"),
        thing=r"(?:\s+(?:it|them)\b|\s+(?:the|your|all)\s+(?:\w+\s+){0,2}(?:\w*(?:washer|machine|cleaner|"
        r"server|service|cluster|instances?|vm|container|pods?|job|build|pipeline|deployment|"
        r"download|upload|backup|music|playback|playlist|timer|engine|heating|car|recording|robot|"
        r"vacuum|oven|heater|fan|pump|process)))\b"),
    _english("renamed|saved", verb("rename|save|store|keep"),
        thing=r"\b(?:file|folder|note|document|preferences?|settings|contact|card)\b"
        rf"{_NO_TEXT_BEHIND}", by_text=True),
    _english("called|ordered|booked|got", verb("get me|order me|book me", noun="call"),
        thing=r"\s+you an? (?:cab|taxi|uber|ride|car)\b"),
    _english("initiated|started|processed|arranged|requested|submitted|placed|sent",
        verb("cancel|give me|replace|deliver",
            noun="return|exchange|refund|repair|refill|claim|order"),
        thing=r"\s+(?:the|your|an?)\s+(?:\w+\s+){0,2}(?:return|exchange|replacement|cancellation|"
        rf"delivery|pickup|repair|refill|claim|payment|order|request)\b{_NO_TEXT_BEHIND}"),
    DeedByThing(
        r"\byou(?:['\u2019]re| are) (?:now |all )?(?:booked|registered|enrolled|subscribed|"
        r"signed up|checked in)\b",
        verb("reserve|enrol|enroll|subscribe|sign .{1,40} up|check .{1,40} in",
            noun="book|register"),
        is_state=True),
    _english("upgraded|downgraded", verb(noun="upgrade|downgrade"),
        thing=r"\b(?:you|(?:your|the) (?:\w+ ){0,2}(?:account|subscription|plan|seat|ticket|room|"
        r"booking|reservation|membership|flight))\b"),
    _english("turned|switched", verb("turn|switch"), thing=r"\b(?:on|off|up|down)\b"),
    _english("dimmed|locked|unlocked|muted|unmuted",
        verb("dim|unlock|mute|unmute", noun="lock")),
    _english("ran|re-?ran|executed", verb("run|re-?run|execute"),
        thing=r"\b(?:tests?|test suite|build|script|query|queries|migrations?|pipeline|benchmarks?|"
        r"linter|commands?)\b", by_text=True, tells_more=True),
    _english("merged|pushed|committed", verb("merge|push|commit"),
        thing=r"\b(?:pull request|PR|branch|changes|commits?|main|master|remote|origin)\b",
        by_text=True),
    _english("created|opened|filed|logged|raised|lodged|closed|reopened",
        verb("create|raise|lodge|close|reopen|report", noun="open|file|log"),
        thing=rf"\b(?:{_FILED})\b{_NO_TEXT_BEHIND}"),
    _english("created|set up|added", verb("create|make|set up|add|open|remind me|wake me",
        noun="schedule"), thing=rf"\b(?:{_SET_UP})\b{_NO_TEXT_BEHIND}"),
    _english("made", verb("make"),
        thing=rf"\b(?:appointment|reservation|booking)\b{_NO_TEXT_BEHIND}"),
    _english("set", verb("set|remind me|wake me|add|create"),
        thing=r"\b(?:alarm|timer|reminder|thermostat|temperature)\b"),
    _english("added|put|saved|moved|copied|imported",
        verb("add|put|save|move|copy|import"),
        thing=r"\b(?:to|in|into|on) (?:your|the|my|our) (?:\w+ ){0,2}"
        rf"(?:{_PLACES})\b{_NO_TEXT_BEHIND}"),
    _english("updated|changed|modified|switched|moved|corrected|increased|lowered|raised|extended",
        verb("update|modify|correct|set|increase|lower|raise|extend|move",
            noun="change|switch"),
        thing=rf"\b(?:your|the|h(?:is|er)|their|\w+'s) (?:\w+ ){{0,2}}(?:{_OWNED})\b"
        rf"{_NO_TEXT_BEHIND}", by_text=True),
    _english("reset", verb(noun="reset"),
        thing=r"\b(?:password|passcode|PIN|router|device|account|modem|server)\b"),
    _noun_first("sent", verb("send|write to|let \\w+ know|tell \\w+",
        noun="e-?mail|message|text")),
    _noun_first("booked|reserved", verb("reserve", noun="book")),
    _noun_first("cancell?ed", verb("cancel")),
    _noun_first("set|created|added|scheduled",
        verb("set|create|add|remind me|wake me", noun="schedule")),
    _noun_first("placed|submitted|refunded|paid|blocked",
        verb("place|buy|submit|refund|pay", noun="order|block")),
    _other(_GERMAN, "gesperrt|entsperrt|zurückgesetzt|hochgeladen|eingereicht|aktiviert|"
        "angemeldet|neu gestartet|neugestartet|installiert|verlängert|ausgeschaltet|eingeschaltet|"
        "umgebucht", r"(?:ent)?sperr|setze? .{0,60}zurück|lade? .{0,60}hoch|reiche? .{0,60}ein|"
        r"aktivier|melde? .{0,60}an\b|starte? |installier|verlänger|schalte? |mach\w* .{0,60}"
        r"(?:an|aus)\b|buche? .{0,60}um\b"),
    _other(rf"\bich habe\b{_WITHIN}{{0,40}}\b{_GERMAN_THINGS}\b{_WITHIN}{{0,60}}\b(?:{{verbs}})\b",
        "geändert|aktualisiert|hinzugefügt|gelegt|angelegt|erstellt|eröffnet|eingetragen|gestellt|"
        "verschoben",
        r"änder|aktualisier|füge?\b|leg|erstell|eröffne|trage?\b|stell|verschieb"),
    _other(_FRENCH, "bloqué|réinitialisé|activé|désactivé|allumé|éteint|installé|redémarré",
        "bloqu|réinitialis|activ|désactiv|allum|étei|install|redémarr"),
    _other(_SPANISH, "bloqueado|restablecido|activado|desactivado|encendido|apagado|instalado|"
        "reiniciado|agendado", "bloque|restablec|activ|desactiv|enciend|apag|instal|reinici|agend"),
    _other(_ITALIAN, "bloccato|reimpostato|attivato|disattivato|acceso|spento|installato|riavviato",
        "blocc|reimpost|attiv|disattiv|accend|spegn|install|riavvi"),
    _other(_PORTUGUESE, "bloqueei|redefini|ativei|desativei|liguei|desliguei|instalei|reiniciei|"
        "agendei|remarquei", "bloque|redefin|ativ|desativ|lig|deslig|apag|instal|reinici|"
        "agend|marc|remar"),
    *(_other(rf"{subject}[^.?!,;:\n]{{0,60}}?\b(?:{things})\b", verbs, request)
        for subject, things, verbs, request in (
            (_FRENCH, _ROMANCE_THINGS, "modifié|changé|mis à jour|déplacé|mis",
                "modifi|chang|met[st]|déplac"),
            (_FRENCH, _ROMANCE_PLACES, "ajouté|mis", "ajout|met[st]"),
            (_SPANISH, _ROMANCE_THINGS, "modificado|cambiado|actualizado|movido",
                "modifi|cambi|actualiz|m[uo]ev"),
            (_SPANISH, _ROMANCE_PLACES, "añadido|agregado|puesto", "añad|agreg|pon"),
            (_ITALIAN, _ROMANCE_THINGS, "modificato|cambiato|aggiornato|spostato",
                "modific|cambi|aggiorn|spost"),
            (_ITALIAN, _ROMANCE_PLACES, "aggiunto|messo", "aggiung|mett"),
            (_PORTUGUESE, _ROMANCE_THINGS, "modifiquei|mudei|alterei|atualizei",
                "modifi|mud|alter|atualiz"),
            (_PORTUGUESE, _ROMANCE_PLACES, "adicionei|coloquei", "adicion|coloc|colo[qc]"),
        )),
    _other(_DUTCH, "geblokkeerd|geactiveerd|geïnstalleerd|herstart|ingepland|ingeschakeld|"
        "uitgeschakeld", "blokkeer|activeer|installeer|herstart|plan|schakel|zet"),
    _other(rf"\bik heb\b[^.?!\n]{{0,40}}\b{_DUTCH_THINGS}\b[^.?!\n]{{0,60}}\b(?:{{verbs}})\b",
        "gewijzigd|aangepast|bijgewerkt|toegevoegd|aangemaakt|verzet",
        "wijzig|pas|werk|voeg|maak|verzet|verander|zet"),
    DeedByThing(
        r"已(?:经)?(?:为您|帮您|为你|帮你)?(?:把|将)?[^。\n]{0,20}"
        r"(?:(?:添加|加入|加)到?(?:您|你)?的?(?:日历|购物车|日程)|冻结|锁定|(?:地址|密码|电话|手机号)[^。\n]{0,6}"
        r"(?:修改|更改|更新|重置)|(?:修改|更改|更新|重置)(?:了|好)?[^。\n]{0,6}(?:地址|密码|电话|手机号)(?!格式))",
        r"加到|加入|添加|冻结|锁定|挂失|修改|更改|更新|重置|改"),
    DeedByThing(
        r"(?:カレンダー|カート|予定表)に[^。\n]{0,20}(?:追加|登録)(?:し|いたし)ました(?!か)|"
        r"(?:住所|電話番号|パスワード|メールアドレス)[^。\n]{0,20}(?:変更|更新|リセット)(?:し|いたし)ました(?!か)|"
        r"カード[^。\n]{0,10}(?:停止|ブロック)(?:し|いたし)ました(?!か)",
        r"追加|登録|入れて|変更|変えて|更新|リセット|停止|止めて|ブロック"),
)  # fmt: skip
_TEXT_WORDS = re.compile(
    r"\b(?:(?:an?|the|this|my|following) texts?|sentences?|paragraphs?|words?|wording|phrases?|"
    r"essays?|duplicates?|commas?|adjectives?|typos?|spelling|grammar|tone|headings?|bullets?|"
    r"columns?|rows?|cells?|functions?|variables?|code|snippets?|docstrings?|readme|sections?|"
    r"chapters?|slides?|stor(?:y|ies)|recipes?|speech|poems?|proposal|markdown|"
    r"(?:this|the following) list|sätze?|wörter|absatz|absätze|phrases?|mots?|frases?|palabras?|"
    r"frasi|parole|palavras?|zin(?:nen)?|woorden|tekst\w*|texte|texto|testo)\b|"
    r"文章|句子|段落|这段|单词|文を|単語",
    re.IGNORECASE,
)


def is_text_work(request: str, answer: str) -> bool:
    """Whether a request is about a part of a text or of a program, or the answer shows one.

    >>> is_text_work("Remove the last sentence", "It is removed.")
    True
    >>> is_text_work("Remove the last event", "It is removed.")
    False
    """
    return "```" in answer or _TEXT_WORDS.search(request) is not None
