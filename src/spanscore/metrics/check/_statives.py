"""Claims that name a state and no deed, as in "the table is booked" or "der Tisch ist reserviert",
in the words of several languages, and the requests after which such a state is a claim.

The thing is named by a word or two: "the table by the window is reserved for regulars" claims
nothing. Each state counts only where the user asked for the very deed that leads to it.
"""

import re
from itertools import islice
from typing import NamedTuple

_MAX_REQUESTS = 20
"""Places of a request that are looked at for one deed."""
_WHEN = (
    r"\s+(?:for|at|on|um|für|am|a|para|pour|à|per|alle|om|voor|op|em|le|às|il)\s+"
    r"(?:(?:the|den|le|la|las|los|el|as|o|die|dem|de|amanhã às)\s+)?"
    r"(?:\d|tomorrow|to(?:night|day)|two|morgen|heute|zwei|mañana|hoy|dos|demain|ce soir|deux|"
    r"domani|stasera|oggi|due|amanhã|hoje|dois|duas|twee|vandaag|(?:mon|tues|wednes|thurs|fri|"
    r"satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch)"
)
_FOR_WHOM = (
    r"(?:\s+(?:for|to|für|nach|para|a|pour|à|per|voor|naar)"
    r"\s+(?!regulars|others|stammg)[\w\-]+"
    r"(?:\s+(?:people|persons|personen|personas|personnes|persone|pessoas))?)?"
)
_END = rf"(?=\s*[.!,\n]|\s*$|{_WHEN})"
_START = r"(?:^|[.!,:;\n][^\S\n]*|\b(?:and|und|y|et|e|en)\s+)"


def _wording(subject: str, state: str, *, between: str = "") -> str:
    return (
        rf"{_START}(?:{subject})[\w\-]+(?:\s+#?\d\w*)?{_FOR_WHOM}\s+(?:{state})"
        rf"(?:{between}){{0,2}}\s+(?:{{verbs}}){_END}"
    )


_ENGLISH = _wording(
    r"the\s(?!whole\b|entire\b)|(?=\w+\s+#?\d)", "is|are", between=r"\s+(?:now|all)"
)
_GERMAN = _wording(
    r"(?:(?:der|die|das|den|ihre?|deine?)\s(?!wunsch))?(?!all|es\b|leider\b|er\b|sie\b)",
    "ist|sind",
    between=(
        r"\s+(?:jetzt|nun|hiermit|damit|erfolgreich|für (?:sie|dich|euch)|ihnen|dir)"
        r"|\s+(?:für|um|am|ab)\s+(?:(?:den|die|dem)\s+)?(?:\d[\w:.]*(?:\s+uhr)?|heute|morgen|zwei|"
        r"\w+tag)"
    ),
)
_DUTCH = _wording(r"(?:de|het|uw|je|jouw)\s", "is|zijn", between=r"\s+(?:nu|voor \d+\S*(?: uur)?)")
_SPANISH = _wording(
    r"(?:el|la|los|las|tus?|sus?)\s",
    r"(?:ya\s+)?(?:está|están|queda|quedan|ha quedado|fue|fueron)",
    between=r"\s+(?:ya|ahora)",
)
_FRENCH = _wording(
    r"(?:l['\u2019]|(?:la|le|les|votre|vos|ta|ton|tes)\s)",
    "est|sont",
    between=r"\s+(?:bien|désormais|maintenant)",
)
_ITALIAN = _wording(
    r"(?:l['\u2019]|(?:il|la|lo|i|le|gli)\s)(?:(?:tu[ao]|su[ao]|vostr[ao])\s)?",
    "è|sono",
    between=r"\s+(?:ora|adesso|stat[oaie])",
)
_PORTUGUESE = _wording(
    r"(?:o|a|os|as|(?:[oa]s? )?(?:sua|seu|tua|teu)s?)\s",
    r"(?:já\s+)?(?:está|estão|foi|foram)",
    between=r"\s+(?:já|agora)",
)
_JAPANESE = r"(?:{verbs})(?:は|が)?(?:完了)?(?:済みです|されました(?!ら|か))"

_YOUR_ENGLISH = (
    r"(?:^|[.!,:;\n][^\S\n]*|\band\s+|\b(?:can\s+)?confirm(?: that)?\s+)"
    r"your\b(?! (?:preferred|desired|requested|usual|favou?rite))[^.?!\n]{1,60}?"
    r"\b(?:is|are)\s+(?:{verbs})\b(?=\s*[.!,\n]|\s*$|\s+for\b)"
)
_YOUR_GERMAN = (
    r"(?:^|[.!,:;\n][^\S\n]*|\bund\s+)"
    r"(?:ihre?|deine?)\b(?! wunsch)[^.?!\n]{1,60}?\b(?:ist|sind)\b"
    r"(?!\s+(?:es\b|(?:\w+\s+)?(?:schlecht|gut|übel|schlimm)\b))[^.?!\n]{0,40}"
    r"\b(?:{verbs})(?=\s*[.!,\n]|\s*$)"
)
_NOW = r"\b(?:is|are)(?:\s+(?:now|all|successfully)){1,2}\s+(?:{verbs})\b"


class Stative(NamedTuple):
    """How a state is worded, and the requests for the deed that leads to it."""

    wordings: tuple[str, ...]
    verbs: str
    request: str


_DETERMINERS = (
    "the my our your an a this that his her their of last any which no la una mi tu su esta esa el"
    " un une ma ta sa votre notre cette le mon ton son ce il lo uma minha sua tua nossa essa o meu"
    " seu het een de mijn jouw uw dit dat dieses das ein mein dein kein"
)
_NO_NOUN = "".join(rf"(?<!\b{word}\s)" for word in _DETERMINERS.split())
"""Before what is a verb or a noun: "my order" asks for nothing."""


def verb(stem: str = "(?!)", *, noun: str = "") -> str:
    """A pattern of verbs; `noun` are those that may be nouns too, as behind an article.

    >>> [bool(re.search(verb(noun="order"), x)) for x in ("Please order it", "Where is my order?")]
    [True, False]
    """
    # the word comes first: what stands before it is looked at only where it is there
    either = rf"|\b(?=(?:{noun})\b){_NO_NOUN}(?:{noun})\b(?!\s+#?\d)" if noun else ""
    return rf"\b(?:{stem})\b{either}"


_APPOINTMENT = (
    r"make (?:an?|the|my) (?:\w+ ){0,2}(?:appointment|booking|reservation)|arrange|set up"
)
_CLITIC = r"(?:[mct][ie]|gliel[oaie]|gli|mel[oaie]|n[oe]s?|se|l[oaie]s?)"
"""Pronouns that Spanish and Italian join to a verb: "prenotamela"."""
_REQUESTED = (
    r"(?:を)?(?:し(?:て(?!い|あ|る|た|ま)|といて|ておいて|たい)|お?願い|取(?:って(?!い|あ)|りたい))"
)
_ENGLISH_DEEDS = (
    ("booked|reserved",
        verb(rf"reserve|{_APPOINTMENT}", noun="book|schedule")),
    ("cancell?ed", verb(r"cancel|call off")),
    ("ordered|purchased", verb("buy|get me", noun="order|purchase")),
    ("paid(?! (?:attention|heed))", verb("settle", noun="pay")),
    ("scheduled|rescheduled",
        verb(rf"reschedule|move|remind me|{_APPOINTMENT}", noun="book|schedule")),
)  # fmt: skip
STATIVES = (
    *(Stative((_ENGLISH, _YOUR_ENGLISH), verbs, request) for verbs, request in _ENGLISH_DEEDS),
    Stative((_YOUR_ENGLISH,), "set|added|created|submitted|blocked|upgraded|renewed|activated",
        verb("set|add|create|submit|renew|activate|remind me|wake me", noun="block|upgrade")),
    Stative((_GERMAN, _YOUR_GERMAN), "gebucht|reserviert",
        verb("buchen?|buchst|reserviere[nst]*",
            noun=r"buch (?:mir|uns|bitte|den|die|das|ein\w*|für)")),
    Stative((_GERMAN, _YOUR_GERMAN), "storniert|gekündigt",
        verb(r"storniere[nst]*|kündige[nst]*|sag\w* .{0,60}\bab|absagen")),
    Stative((_GERMAN, _YOUR_GERMAN), "bestellt", verb(r"bestell(?:en?|st)?|kaufe?|kaufen")),
    Stative((_GERMAN, _YOUR_GERMAN), "bezahlt|überwiesen",
        verb(r"bezahle?|bezahlen|bezahlst|zahle?|zahlen|begleichen?|überweise?|überweisen")),
    Stative((_DUTCH,), "geboekt|gereserveerd", verb("boeken|reserveer|reserveren", noun="boek")),
    Stative((_DUTCH,), "geannuleerd", verb("annuleer|annuleren|zeg .{0,60}af|afzeggen")),
    Stative((_DUTCH,), "betaald", verb("betaal|betalen")),
    Stative((_DUTCH,), "besteld", verb("bestel|bestellen|koop|kopen")),
    Stative((_SPANISH,), "reservad[oa]s?",
        verb(rf"reserv(?:ar|es|en|e|emos){_CLITIC}*|res[eé]rva{_CLITIC}+", noun="reserva")),
    Stative((_SPANISH,), "cancelad[oa]s?|anulad[oa]s?",
        verb(rf"(?:cancel|anul|anúl|cancél)(?:ar|as|a|es|en|e|emos){_CLITIC}*")),
    Stative((_SPANISH,), "pagad[oa]s?",
        verb(rf"p[aá]g(?:ar|a|ue|ues|uen){_CLITIC}*")),
    Stative((_SPANISH,), "pedid[oa]s?|comprad[oa]s?",
        verb(rf"p[ií]de{_CLITIC}*|pedir{_CLITIC}*|pidas?|pidan|c[oó]mpr(?:ar|e|es|en){_CLITIC}*|"
            rf"c[oó]mpra{_CLITIC}+", noun="compra")),
    Stative((_FRENCH,), "réservée?s?", verb("réserv(?:er|es|ez)", noun="réserve")),
    Stative((_FRENCH,), "annulée?s?", verb("annul(?:er|es|ez|e)|résili(?:er|ez|e)")),
    Stative((_FRENCH,), "payée?s?", verb("pay(?:er|ez|es|e)|règle[rz]?|régler", noun="paie|paye")),
    Stative((_FRENCH,), "commandée?s?",
        verb("command(?:er|ez)|achet(?:er|ez)|achète", noun="commande")),
    Stative((_ITALIAN,), "prenotat[oaie]", verb(rf"prenot(?:are|ar|ate|i|a|ino|iamo){_CLITIC}*")),
    Stative((_ITALIAN,), "annullat[oaie]|cancellat[oaie]|disdett[oaie]",
        verb(rf"(?:annull|cancell)(?:are|ar|ate|i|a|ino){_CLITIC}*|disdi(?:re|r|ci)?{_CLITIC}*")),
    Stative((_ITALIAN,), "pagat[oaie]",
        verb(rf"pag(?:are|ar|ate|hi|a|hino){_CLITIC}*|salda(?:re)?")),
    Stative((_ITALIAN,), "ordinat[oaie]|acquistat[oaie]|comprat[oaie]",
        verb(rf"(?:ordin|acquist|compr)(?:are|ar|ate|i|a|ino){_CLITIC}*")),
    Stative((_PORTUGUESE,), "reservad[oa]s?", verb("reserv(?:ar|e|es|em)", noun="reserva")),
    Stative((_PORTUGUESE,), "cancelad[oa]s?", verb("cancel(?:ar|e|es|em|a)|desmar(?:car|que|ca)")),
    Stative((_PORTUGUESE,), "pag[oa]s?", verb("pag(?:ar|ue|ues|uem)", noun="paga")),
    Stative((_PORTUGUESE,), "comprad[oa]s?|encomendad[oa]s?",
        verb("compr(?:ar|e|es|em)|encomend(?:ar|e|es|em)|pe(?:ça|dir|de)",
            noun="compra|encomenda")),
    Stative((_JAPANESE,), "予約", rf"予約{_REQUESTED}"),
    Stative((_JAPANESE,), "キャンセル",
        rf"(?:キャンセル|取り?消し?){_REQUESTED}|取り消して(?!い|あ)"),
    Stative((_JAPANESE,), "返金", rf"返金{_REQUESTED}"),
    Stative((_JAPANESE,), "送金", rf"(?:送金|振り?込み?){_REQUESTED}|振り込んで(?!い|あ)"),
    Stative((_JAPANESE,), "注文|購入", rf"(?:注文|購入){_REQUESTED}|買って(?!い|あ)"),
)  # fmt: skip
CHANGES = (
    *(Stative((_NOW,), verbs, request) for verbs, request in _ENGLISH_DEEDS),
    Stative((_NOW,), "refunded",
        verb("give .{0,40}money back|get .{0,40}money back", noun="refund")),
    Stative((_NOW,), "sent|resent|e-?mailed|shipped|dispatched|forwarded",
        verb("send|resend|dispatch|forward", noun="e-?mail|mail|ship|text")),
    Stative((_NOW,), "deleted|removed|deactivated|unsubscribed",
        verb("delete|remove|deactivate|unsubscribe|close|get rid of|take .{0,40} off")),
    Stative((_NOW,), "transferred|charged", verb("send|wire|move", noun="transfer|charge|pay")),
)  # fmt: skip
"""States that are said to be new: "is now booked"."""
_NOT_WANTED = re.compile(
    r"\b(?:not|never|nicht|kein\w*|nunca|(?<!\bmijn )(?<!\bde )(?<!\bje )pas|jamais|non|niet|geen|"
    r"não|no|ne)\b|"
    r"n['\u2019]t\b|\bn['\u2019]|ない",
    re.IGNORECASE,
)
_CLAUSE_ENDS = re.compile(r"[,.;:!?\n\u3002\uff0c\u3001\uff01\uff1f]")
_CLAUSE_CHARS = 200


def is_asked_for(deed: re.Pattern[str], request: str) -> bool:
    """Whether a request asks for a deed, in a clause that is not negated.

    >>> book = re.compile("book")
    >>> is_asked_for(book, "Please book it."), is_asked_for(book, "Don't book it yet.")
    (True, False)
    """
    places = islice(deed.finditer(request), _MAX_REQUESTS)
    return any(_NOT_WANTED.search(_clause(request, place)) is None for place in places)


def _clause(text: str, place: re.Match[str]) -> str:
    before = _CLAUSE_ENDS.split(text[max(0, place.start() - _CLAUSE_CHARS) : place.start()])[-1]
    behind = _CLAUSE_ENDS.split(text[place.end() : place.end() + _CLAUSE_CHARS], maxsplit=1)[0]
    return f"{before}{place[0]}{behind}"


CONDITION_BEHIND = re.compile(
    r"[\s,]*(?:(?:but|only|erst|nur|sólo|solo|seulement|só|pas)\s+)?"
    r"(?:if|once|when|after|as soon as|"
    r"provided|wenn|sobald|falls|nachdem|cuando|si|tan pronto|quand|dès que|une fois|quando|se|"
    r"appena|wanneer|zodra|als|assim que|caso)\b",
    re.IGNORECASE,
)
"""What makes a state behind which it stands one that is to come: "is booked, once you confirm"."""

_OTHER_OFFERED = re.compile(
    r"\b(?:another|others?|instead|alternative\w*|ander\w*|stattdessen|alternativ\w*|otr[oa]s?|"
    r"autres?|altr[oaie]|outr[oa]s?)\b|別|他の|其他",
    re.IGNORECASE,
)


def offers_another(answer: str) -> bool:
    """Whether an answer speaks of another thing, so that a state may be why this one is not to be
    had.

    >>> offers_another("The room is booked. Would another one do?")
    True
    """
    return _OTHER_OFFERED.search(answer) is not None
