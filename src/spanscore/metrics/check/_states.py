"""Whether what a look-up returned shows that a deed was done, such as an order's status."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from spanscore.model.json import Json, loads
from spanscore.model.tool_names import name_words

_MAX_CHARS = 20_000
_MAX_VALUES = 2_000
"""Characters and values of a result that are looked at."""
_MAX_PARSED_CHARS = 500_000
_MAX_FACTS = 20_000
_MAX_RECORDS = 200
_MAX_RECORD_VALUES = 20
_MAX_NAME_CHARS = 60
_MAX_TURN_CHARS = 5_000
"""Of all results, of records in one, and of what was written, that is searched for their names."""


def _state(words: str, *, chinese_japanese: str = "(?!)") -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b|{chinese_japanese}", re.IGNORECASE)


_STATES = {
    "booked": _state(
        "booked|reserved|confirmed|taken|occupied|sold out|gebucht|reserviert|belegt|ausgebucht|"
        "geboekt|gereserveerd|reservad[oa]s?|confirmad[oa]s?|ocupad[oa]s?|réservée?s?|"
        "confirmée?s?|prenotat[oaie]",
        chinese_japanese="预订|预定|已订|予約",
    ),
    "cancelled": _state(
        "cancell?ed|voided|terminated|storniert|gekündigt|abgesagt|geannuleerd|cancelad[oa]s?|anulad[oa]s?|"
        "annulée?s?|annullat[oaie]|cancellat[oaie]|disdett[oaie]",
        chinese_japanese="取消|キャンセル",
    ),
    "refunded": _state(
        "refunded|reimbursed|^refunds?$|refund (?:has been|was|is)(?: \\w+)? "
        "(?:processed|issued|initiated)|erstattet|reembolsad[oa]s?|remboursée?s?|rimborsat[oaie]",
        chinese_japanese="退款|返金",
    ),
    "paid": _state(
        "paid|settled|bezahlt|beglichen|betaald|pagad[oa]s?|payée?s?|pagat[oaie]|"
        "(?:está|estão|é|são|foi|foram) pag[oa]s?",
        chinese_japanese="支付|付款|支払",
    ),
    "charged": _state("charged"),
    "transferred": _state(
        "transferred|überwiesen|transferid[oa]s?|virée?s?", chinese_japanese="转账|送金"
    ),
    "ordered": _state(
        "ordered|purchased|bestellt|besteld|(?:comprad|encomendad)[oa]s?|commandée?s?|"
        "(?:está|ha sido|fue) pedid[oa]s?|(?:acquistat|ordinat|comprat)[oaie]",
        chinese_japanese="下单|购买|注文|購入",
    ),
    "sent": _state(
        "sent|resent|e?-?mailed|shipped|dispatched|forwarded|delivered|(?:in )?transit|gesendet|"
        "geschickt|verschickt|versandt|zugestellt|verzonden|gestuurd|enviad[oa]s?|entregad[oa]s?|"
        "envoyée?s?|expédiée?s?|livrée?s?|inviat[oaie]|spedit[oaie]",
        chinese_japanese="发送|发货|已发|送达|送信|発送",
    ),
    "deleted": _state(
        "deleted|removed|deactivated|unsubscribed|inactive|gelöscht|verwijderd|eliminad[oa]s?|"
        "borrad[oa]s?|supprimée?s?",
        chinese_japanese="删除|削除",
    ),
    "scheduled": _state("scheduled|rescheduled"),
    "restarted": _state("restarted|rebooted|restarts?|reboots?|uptime|started"),
    "closed": _state("closed|resolved|completed|done"),
    "approved": _state("approved|accepted|granted"),
    "rejected": _state("rejected|declined|denied"),
    "blocked": _state("blocked|frozen|locked|suspended|inactive"),
}
"""The states that each deed leads to, in all languages. The words of claims are among them."""

_IS_NO_FACT = re.compile(
    r"\b(?:can|cannot|may|must|might|will|would|could|should|shall|be|are|if|when|once|unless|"
    r"before|not|never|kann|können|darf|muss|wird|werden|wenn|falls|nicht|kein\w*|"
    r"puede\w*|no (?:ha|han|se|está|fue)|peut|peuvent|si|pas|può|possono|non|niet|kan|kunnen|"
    r"policy|terms)\b|n['\u2019]t\b|"
    r"[可能如若不未没前]|无法|政策|ません|ない|場合|できる|できます|ポリシー|料金?",
    re.IGNORECASE,
)
_IS_FALSE = re.compile(
    r"\s*['\"]?\s*[:=\uff1a]\s*['\"]?(?:false|no|none|null|never|0|nein|nee|non|否|いいえ)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"[^.,;!?\n\u3002\uff0c\uff01\uff1f]+")
_WISH = re.compile(
    r"\b(?:want|like|need|please|möchte|will|wollen|hätte|brauche|bitte|quiero|quisiera|necesito|"
    r"por favor|veux|voudrais|voglio|vorrei|quero|queria|gostaria|wil|graag)\b",
    re.IGNORECASE,
)
_TO_COME = re.compile(
    r"\b(?:when|once|until|after|as soon as|if|make sure|ensure|see to it|get|confirm|tell|say|"
    r"inform|let me know|sobald|wenn|bis|sorg\w*|sag\w*|bestätig\w*|cuando|avís\w*|asegúra\w*|dime|"
    r"confirm\w*|quand|lorsque|dis-moi|assure\w*|quando|appena|dimmi|assicura\w*|avise|diga\w*|"
    r"zodra|wanneer|als|zorg\w*|bevestig\w*)\b",
    re.IGNORECASE,
)
"""What makes of a state one that is to be reached, or told of once it is."""
_BEFORE_A_STATE = re.compile(
    r"\b(?:is|are|was|were|been|being|'s|ist|sind|war|waren|wurden?|worden|est[áa]n?|fue|fueron|sido|"
    r"est|sont|été|è|sono|stat[oaie]|foi|foram|zijn|werd|werden)\b|[:=]\s*$|"
    r"\b(?:i|we|he|she)(?:['\u2019]ve| have| already| just){0,2}\s+$|"
    r"\bich hab|\bj['\u2019]ai\b|\b(?:ya )?he\s+$|\bho (?:già )?$|\bik heb\b",
    re.IGNORECASE,
)
"""What stands before a state that is said of a thing, as in "is paid", or before a deed that is the
user's own, as in "I paid"; not in "paid invoices".
"""
_NEAR = 120
"""Characters around a state in which it is looked for whether it was reached."""
_FIRST_CJK = "\u3000"
_REACHED_BEFORE = re.compile(r"已经?$")
_REACHED_BEHIND = re.compile(
    r"(?:が|は|を)?(?:済|され|しました|して(?:い|あ)|完了|できて)|了(?!吧|$)"
)
"""What makes the Chinese or Japanese word of a deed the name of its state."""
_FALSE_WORDS = frozenset({"", "0", "false", "no", "none", "null", "n/a", "never", "nein", "否"})
_GENERAL_WORDS = (
    "policy policies terms rule rules faq help allowed possible available options choices enum"
    " description conditions not"
)
_GENERAL = frozenset(_GENERAL_WORDS.split())
"""Words of keys under which a result has what goes for all, or may be chosen."""

_DOCUMENTS_WORDS = (
    "policy policies faq faqs doc docs documentation knowledge kb help terms rules article articles"
    " guide guides guideline guidelines manual handbook wiki web"
)
_DOCUMENTS = frozenset(_DOCUMENTS_WORDS.split())


def returns_documents(tool: str) -> bool:
    """Whether a tool, by its name, looks up general texts, which contain nobody's state.

    >>> returns_documents("search_policy"), returns_documents("get_reservation")
    (True, False)
    """
    return not _DOCUMENTS.isdisjoint(name_words(tool))


def reported_facts(results: Iterable[Json], turn: str) -> list[str]:
    """The texts in results, and the names of what is true in them, 20,000 at most.

    Of several records those count that `turn`, what the user and the agent wrote, names by a value;
    all where it names none.

    >>> reported_facts([{"status": "open", "cancelled": False}], "")
    ['status', 'open']
    """
    written = _as_words(turn)
    records = (record for result in results for record in _named(_parsed(result), written))
    return list(islice((text for record in records for text in _facts(record)), _MAX_FACTS))


def shows_state(claim: str, facts: Iterable[str]) -> bool:
    """Whether facts contain a state that the deed of a claim leads to; what may or will be is none.

    >>> [
    ...     shows_state("has been cancelled", [x])
    ...     for x in ("Cancelled", "delivered", "It can be cancelled.")
    ... ]
    [True, False, False]
    """
    states = next((x for x in _STATES.values() if x.search(claim)), None)
    return states is not None and any(_says(states, text) for text in facts)


def is_stated_before(claim: str, request: str, context: Iterable[str]) -> bool:
    """Whether a request states, other than as a wish, the state that the deed of a claim leads to,
    or what was said before states it.

    >>> [
    ...     is_stated_before("Invoice 4 is paid", x, ())
    ...     for x in ("Invoice 4 is paid. Why the reminder?", "Pay it.", "I want it paid.")
    ... ]
    [True, False, False]
    """
    states = next((x for x in _STATES.values() if x.search(claim)), None)
    if states is None:
        return False
    of_request = _SENTENCE.findall(request[:_MAX_CHARS])
    if any(_is_stated(states, x) and not _WISH.search(x) for x in of_request):
        return True
    sentences = (x for text in context for x in _SENTENCE.findall(text[:_MAX_CHARS]))
    return any(_is_stated(states, x) and _says(states, x) for x in sentences)


def _is_stated(states: re.Pattern[str], sentence: str) -> bool:
    """Whether a sentence names a state; where the word may also be the deed's, as one reached."""
    for found in states.finditer(sentence):
        before = sentence[max(0, found.start() - _NEAR) : found.start()]
        behind = sentence[found.end() : found.end() + _NEAR]
        if found[0].isascii() or found[0][0] < _FIRST_CJK:
            if _BEFORE_A_STATE.search(before) and not _TO_COME.search(before):
                return True
            continue
        if _REACHED_BEFORE.search(before) or _REACHED_BEHIND.match(behind):
            return True
    return False


def _named(result: Json, written: str) -> list[Json]:
    """The records of a result that what was written names; all of it where it names none."""
    records = _records(result)
    named = [x for x in records if _is_named(x, written)]
    return named or [result]


def _records(result: Json) -> list[Json]:
    """The entries of a list, or of the one list that a result wraps."""
    if isinstance(result, dict):
        lists = [x for x in result.values() if isinstance(x, list)]
        result = lists[0] if len(lists) == 1 else None
    return result[:_MAX_RECORDS] if isinstance(result, list) else []


def _is_named(record: Json, written: str) -> bool:
    values = list(record.values())[:_MAX_RECORD_VALUES] if isinstance(record, dict) else []
    texts = [str(x) for x in values if isinstance(x, int | str) and not isinstance(x, bool)]
    names = [x for x in texts if len(x) <= _MAX_NAME_CHARS and x.strip()]
    return any(_as_words(x) in written and not _is_state(x) for x in names)


def _is_state(text: str) -> bool:
    return any(x.search(text) for x in _STATES.values())


def _as_words(text: str) -> str:
    words = " ".join(_WORD.findall(text[:_MAX_TURN_CHARS].lower()))
    return f" {words} "


def _says(states: re.Pattern[str], text: str) -> bool:
    for sentence in _SENTENCE.findall(text[:_MAX_CHARS]):
        found = states.search(sentence)
        if found and not _IS_NO_FACT.search(sentence):
            return _IS_FALSE.match(sentence, found.end()) is None
    return False


def _facts(result: Json) -> Iterator[str]:
    """The texts of a result, and the names of what is true in it."""
    left: list[Json] = [result]
    for _ in range(_MAX_VALUES):
        if not left:
            return
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            left.extend(value[:_MAX_VALUES])
        elif isinstance(value, dict):
            particular = _particular(value)
            yield from (key for key, x in particular if not _is_false(x))
            left.extend(x for _, x in particular)


def _particular(record: dict[str, Json]) -> list[tuple[str, Json]]:
    """The entries of a record but those that go for all; a key as words."""
    entries = [(_key_words(key), x) for key, x in islice(record.items(), _MAX_VALUES)]
    return [(" ".join(words), x) for words, x in entries if _GENERAL.isdisjoint(words)]


def _key_words(key: str) -> tuple[str, ...]:
    return name_words(key) if key.isascii() else (key,)


def _is_false(value: Json) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _FALSE_WORDS
    return not value


def _parsed(result: Json) -> Json:
    if not isinstance(result, str) or not result.lstrip().startswith(("{", "[")):
        return result
    try:
        parsed: Json = loads(result[:_MAX_PARSED_CHARS])
    except ValueError:
        return result
    return parsed
