"""Claims that name a state and no deed, as in "the table is booked" or "der Tisch ist reserviert",
in the words of several languages.

The thing is named by a word or two: "the table by the window is reserved for regulars" claims
nothing.
"""

import re

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
_START = r"(?:^|[.!,:;\n]\s*|\b(?:and|und|y|et|e|en)\s+)"


def _wording(subject: str, state: str, *, between: str = "") -> str:
    return (
        rf"{_START}(?:{subject})[\w\-]+(?:\s+#?\d\w*)?{_FOR_WHOM}\s+(?:{state})"
        rf"(?:{between}){{0,2}}\s+(?:{{verbs}}){_END}"
    )


ENGLISH = _wording(r"the\s(?!whole\b|entire\b)|(?=\w+\s+#?\d)", "is|are", between=r"\s+(?:now|all)")
GERMAN = _wording(
    r"(?:(?:der|die|das|den|ihre?|deine?)\s(?!wunsch))?(?!all|es\b|leider\b|er\b|sie\b)",
    "ist|sind",
    between=(
        r"\s+(?:jetzt|nun|hiermit|damit|erfolgreich|für (?:sie|dich|euch)|ihnen|dir)"
        r"|\s+(?:für|um|am|ab)\s+(?:(?:den|die|dem)\s+)?(?:\d[\w:.]*(?:\s+uhr)?|heute|morgen|zwei|"
        r"\w+tag)"
    ),
)
DUTCH = _wording(r"(?:de|het|uw|je|jouw)\s", "is|zijn", between=r"\s+(?:nu|voor \d+\S*(?: uur)?)")
SPANISH = _wording(
    r"(?:el|la|los|las|tus?|sus?)\s",
    r"(?:ya\s+)?(?:está|están|queda|quedan|ha quedado|fue|fueron)",
    between=r"\s+(?:ya|ahora)",
)
FRENCH = _wording(
    r"(?:l['\u2019]|(?:la|le|les|votre|vos|ta|ton|tes)\s)",
    "est|sont",
    between=r"\s+(?:bien|désormais|maintenant)",
)
ITALIAN = _wording(
    r"(?:l['\u2019]|(?:il|la|lo|i|le|gli)\s)(?:(?:tu[ao]|su[ao]|vostr[ao])\s)?",
    "è|sono",
    between=r"\s+(?:ora|adesso|stat[oaie])",
)
PORTUGUESE = _wording(
    r"(?:o|a|os|as|(?:[oa]s? )?(?:sua|seu|tua|teu)s?)\s",
    r"(?:já\s+)?(?:está|estão|foi|foram)",
    between=r"\s+(?:já|agora)",
)
JAPANESE = r"(?:{verbs})(?:は|が)?(?:完了)?(?:済みです|されました(?!ら|か))"

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
