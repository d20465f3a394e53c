"""Claims that something was done, in the words of several languages: what only a tool can have
done.
"""

import re
from itertools import islice
from typing import NamedTuple

from spanscore.metrics.check import _statives
from spanscore.metrics.check._by_thing import DEEDS_BY_THING, is_text_work
from spanscore.metrics.check._clauses import is_ruled_out
from spanscore.metrics.check._requests import asks_to_see

_MAX_CHARS = 20_000
"""Characters of the answer that are looked through, and of a request, which may ask for anything in
what follows.
"""
_MAX_WORDINGS = 50
"""Places of one wording that are looked at."""
_QUOTED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|«[^»\n]{0,400}»|„[^“\n]{0,400}“|^>.*$",
    re.DOTALL | re.MULTILINE,
)
_WRITING = re.compile(
    r"\b(?:writ|(?<!\bthe )(?<!\bmy )draft|compos|translat|rephras|reword|rewrit|"
    r"letter|template|proofread|summari[sz]|story|poem|"
    r"schreib|entw[iu]rf|formulier|übersetz|brief|vorlage|escrib|redact|traduc|carta|écri|rédig|tradui|lettre|"
    r"scriv|traduci|escrev|traduz)\w*|写|翻訳|翻译|訳|書い",
    re.IGNORECASE,
)
_ADVERBS = (
    r"(?:\s+(?:just|now|already|successfully|also|also"
    r" just|gerade|soeben|bereits|jetzt|nun|erfolgreich)){0,2}"
)


class Claim(NamedTuple):
    """A claim, as the answer words it.

    `by_text`: a text may have been worked on so, without any tool. `may_be_anyones`: it does not
    say who did it ("has been cancelled"). `is_state`: it may say how things are ("is booked").
    """

    text: str
    by_text: bool
    may_be_anyones: bool = False
    is_state: bool = False


class _Pattern(NamedTuple):
    """How claims of one kind of deed are worded in one language, and requests for it."""

    wording: re.Pattern[str]
    request: re.Pattern[str]
    is_state: bool
    by_text: bool = False


def _of(verbs: str, *, subject: str, request: str, is_state: bool = False) -> _Pattern:
    wording = re.compile(subject.replace("{verbs}", verbs), re.IGNORECASE)
    return _Pattern(wording, re.compile(request, re.IGNORECASE), is_state)


_ENGLISH = (
    r"(?<![\w'\u2019])(?:(?:I|we)(?:['\u2019]ve| have)?"
    + _ADVERBS
    + r"(?:\s+gone ahead and)?\s+(?:{verbs})\b"
    r"|(?:has|have)" + _ADVERBS + r" been" + _ADVERBS + r"\s+(?:{verbs})\b"
    r")"
    r"|(?:^|[.!\n][^\S\n]*)successfully\s+(?:{verbs})\b"
    r"|(?:^|\n)(?:done|all set)[!.,:]\s+(?:(?:the|your)\s+)?(?:\w+\s+){1,3}(?:{verbs})"
    r"(?=\s*[.!\n]|\s*$)"
)
_GERMAN = (
    r"\bich habe\b[^.?!\n]{0,80}\b(?:{verbs})\b"
    r"|\b(?:wurde|wurden|ist|sind)\b[^.?!\n]{0,60}\b(?:{verbs})\s+worden\b"
    r"|\b(?:wurde|wurden)\b(?:\s+(?:\w+|\d{1,2}\.)){0,4}\s+(?:{verbs})\b"
)
_DUTCH = r"\bik heb\b[^.?!\n]{0,80}\b(?:{verbs})\b"
_ITALIAN = r"\b(?:ho|abbiamo)\s+(?:{verbs})\b"
_PORTUGUESE = r"\b(?:{verbs})\b"
_SPANISH = r"\b(?:se ha|se han|he|hemos)\s+(?:{verbs})s?\b|\bha(?:n)? sido\s+(?:{verbs})s?\b"
_FRENCH = (
    r"\bj['\u2019]ai(?:\s+bien)?\s+(?:{verbs})\b|\ba(?:vons)? (?:bien )?été\s+(?:{verbs})e?s?\b"
)
_CHINESE = (
    r"已(?:经)?(?:[为帮][您你]|[给向][^\u3002\uff0c\n]{1,12}?)?(?:{verbs})"
    r"(?:了|好了|成功|完成|[\d一两三]|\u3002|\uff0c|\uff01|$)"
    r"|(?:帮您|为您|帮你|为你)(?:{verbs})(?:了|好了|成功|完成)"
)
_JAPANESE = r"(?:{verbs})(?:を|が)?(?:完了)?(?:し|いたし)ました(?!ら|か)"
_REFUND = (
    r"(?<![\w'\u2019])(?:I|we)(?:['\u2019]ve| have)?" + _ADVERBS + r"\s+(?:{verbs})\s+"
    r"(?:your|the|a|an)\s+(?:\w+\s+){0,2}refund"
)
_ABLE = r"\b(?:I|we) (?:was|were) able to (?:successfully )?(?:{verbs})\b"

_ASKS_HOW = re.compile(
    r"^\W*(?:(?:please|hi|hello|hey|bitte|hallo|por favor|hola|bonjour|ciao)[\s,!]+)*"
    r"(?:how\b(?! about)|(?:can|could|may) i\b|(?:should|must|do) i\b|"
    r"explain|describe|what happens|why|is it possible|"
    r"wie\b|(?:kann|muss|soll) ich|erklär\w*|beschreib\w*|warum|comment\b|puis-je|dois-je|"
    r"explique\w*|pourquoi|"
    r"cómo|como\b|puedo|debo|"
    r"explica\w*|por qué|come\b|posso|devo|"
    r"spiega\w*|perché|hoe\b|(?:kan|moet) ik|leg uit|"
    r"waarom)|如何|怎么|怎样|^我?(?:可以|能)|どうやって|どうすれば|方法を",
    re.IGNORECASE,
)
_ANYONES = re.compile(
    r"^(?:(?:has|have|is|are|your|ihre?|deine?|wurden?|ist|sind|se|han?|avons)\b|a (?:bien )?été|"
    r"已(?!经?[为帮]))",
    re.IGNORECASE,
)
_BY_TEXT = re.compile(
    r"ordered|remov|delet|schedul|transfer|gelöscht|eliminado|borrado|supprimé|删除|削除",
    re.IGNORECASE,
)
_IN_CHAT = (
    r"(?:me|us) (?:\w+ ){0,3}(?:overview|summary|list|links?|url|pictures?|photos?|image|recipe|"
    r"joke|examples?|details|info\w*|ideas?|tips|instructions|steps)\b"
)
"""What an answer itself sends to the one who asks."""
_NO_TEXT = re.compile(
    r"\b(?:my|our|the) (?:\w+ ){0,2}(?:account|subscription|membership|profile|reservation|booking|"
    r"appointment|reminder|alarm|user|card)\b|"
    r"\border (?:me |us )?(?:an?|some|another|one|two|three|four|\d+)\b|[$€£]|"
    r"\d ?(?:euros?|dollars?|pounds|eur|usd)\b",
    re.IGNORECASE,
)
"""What a request names that is in no text, so that a tool has to work on it."""
_DEEDS = (
    _of("booked|reserved", subject=_ENGLISH,
        request=r"\bbook|reserv|\bget (?:me|us) (?:\w+ ){0,2}(?:tables?|rooms?|seats?|flights?|"
        r"tickets?|appointments?)\b"),
    _of("book|reserve", subject=_ABLE, request=r"\bbook|reserv"),
    _of("cancel", subject=_ABLE, request=r"cancel|call off"),
    _of("refund", subject=_ABLE, request=r"refund|money back"),
    _of("pay|order|buy|purchase", subject=_ABLE, request=r"\bpay|order|buy|purchas"),
    _of("send|e-?mail|forward", subject=_ABLE, request=r"send|mail|forward"),
    _of("delete|remove", subject=_ABLE, request=r"delet|remov"),
    _of("schedule|reschedule", subject=_ABLE, request=r"schedul|appointment|meeting"),
    _of("processed|issued|initiated", subject=_REFUND, request=r"refund|money back"),
    _of("processed|issued|initiated",
        subject=r"\b(?:your|the)\s+(?:\w+\s+){0,2}refund (?:has been|was)(?: successfully)?"
        r" (?:{verbs})\b",
        request=r"refund|money back"),
    _of("cancell?ed", subject=_ENGLISH, request=r"cancel|call off"),
    _of("refunded", subject=_ENGLISH, request=r"refund|money back"),
    _of("paid(?! (?:attention|heed))|transferred|charged|purchased|ordered", subject=_ENGLISH,
        request=r"\bpay|transfer|buy|purchas|charge|order(?! (?:these|those|them|the|all|my)\b"
        r"[^.?!\n]{0,60}\b(?:by|alphabetically|chronologically)\b)"),
    _of("sent|resent|emailed|e-mailed|shipped|dispatched|forwarded", subject=_ENGLISH,
        request=rf"send(?! {_IN_CHAT})|mail|ship|forward|sent"),
    _of("deleted|removed|deactivated|unsubscribed", subject=_ENGLISH,
        request=r"delet|remov|deactivat|unsubscri|close"),
    _of("scheduled|rescheduled", subject=_ENGLISH, request=r"schedul|appointment|meeting|remind"),
    _of("confirmed",
        subject=r"\byour (?:booking|reservation|appointment) (?:is|has been)(?: now)?"
        r" (?:{verbs})\b",
        request=r"\bbook|reserv|schedul|make an appointment"),
    _of("geboekt|gereserveerd|besteld|geannuleerd|betaald|verzonden|gestuurd|verwijderd",
        subject=_DUTCH,
        request=r"\b(?:boek|reserve|bestel|annule|betaa?l|zend|stuur|verwijder)"),
    _of("prenotato|ordinato|annullato|cancellato|rimborsato|pagato|inviato|spedito|acquistato",
        subject=_ITALIAN,
        request=r"\b(?:prenot|ordin|annull|cancell|rimbors|pag[aho]|invia|manda|spedi|acquist)"),
    _of("reservei|cancelei|reembolsei|paguei|enviei|comprei|encomendei|"
        r"pedi(?= (?:um|o|a|dois|duas))", subject=_PORTUGUESE,
        request=r"\b(?:reserv|cancel|reembols|pag[auo]|envi|mand|compr|encomend|pe(?:ç|d))"),
    _of("gebucht|reserviert", subject=_GERMAN, request=r"buch|reservier"),
    _of("storniert|gekündigt|abgesagt", subject=_GERMAN,
        request=r"stornier|kündig|absag|\bsag\w*\b[^.?!\n]{0,60}\bab\b"),
    _of("überwiesen|bezahlt|erstattet|bestellt", subject=_GERMAN,
        request=r"überweis|bezahl|erstatt|bestell"),
    _of("gesendet|geschickt|verschickt|versandt", subject=_GERMAN, request=r"send|schick"),
    _of("gelöscht", subject=_GERMAN, request=r"lösch"),
    _of("reservado|cancelado|reembolsado|transferido|comprado|pedido|enviado|eliminado|borrado|pagado",
        subject=_SPANISH,
        request=r"\b(?:res[eé]rv|canc[eé]l|reembols|transf|c[oó]mpr|p[ií]d|pedir|env[ií]|elimin|borr|pág|"
        r"pag[auo])"),
    _of("réservé|annulé|remboursé|payé|commandé|envoyé|supprimé|viré",
        subject=_FRENCH,
        request=r"\b(?:réserv|annul|rembours|pa[yi]|command|envo|supprim|vir(?:e|er|ez|ements?)\b)"),
    _of("预订|预定|取消|退款|支付|转账|下单|发送|删除|购买",
        subject=_CHINESE,
        request=r"订|点(?:一|两|份|个|餐|外卖)|取消|退款|支付|付|转|下单|发|删|买"),
    _of("予約|キャンセル|返金|送信|送金|注文|削除|購入",
        subject=_JAPANESE, request=r"予約|キャンセル|返金|送|注文|削除|購入|買"),
)  # fmt: skip


def _of_states(statives: tuple[_statives.Stative, ...], *, are_new: bool) -> list[_Pattern]:
    return [
        _of(stative.verbs, subject=wording, request=stative.request, is_state=not are_new)
        for stative in statives
        for wording in stative.wordings
    ]


_CHANGES = _of_states(_statives.CHANGES, are_new=True)
_STATES = _of_states(_statives.STATIVES, are_new=False)
_BY_THING = tuple(
    _Pattern(
        re.compile(deed.wording, re.IGNORECASE),
        re.compile(deed.request, re.IGNORECASE),
        deed.is_state,
        deed.by_text,
    )
    for deed in DEEDS_BY_THING
)


def claims(answer: str, request: str) -> list[Claim]:
    """What `answer` claims to have done, where it is no text that `request` asked to be written.

    It counts where the request asks for the deed, and does not just ask how things are. Questions,
    conditions, negations, quotations, code, and what others did or was done before are left out;
    how things are ("is booked") also where the request asks how something is done. Where the
    request is longer than is looked through, nothing is found.

    >>> [
    ...     x.text
    ...     for x in claims("I've booked a table for two. I have thought about it.", "Book a table")
    ... ]
    ["I've booked"]
    >>> claims("Dear Ann, I have cancelled my stay.", "Draft a letter to the hotel")
    []
    """
    if len(request) > _MAX_CHARS or _WRITING.search(request) or asks_to_see(request):
        return []
    text = _QUOTED.sub(" ", answer[:_MAX_CHARS])
    is_of_texts = is_text_work(request, answer)
    asked_for = _asked_for(request, text, is_of_texts=is_of_texts)
    claimed = [x for x in (_first(pattern, text) for pattern in asked_for) if x is not None]
    if is_of_texts:
        return [x for x in claimed if not x.by_text]
    if _NO_TEXT.search(request):
        return [x._replace(by_text=False) for x in claimed]
    return claimed


def _asked_for(request: str, text: str, *, is_of_texts: bool) -> list[_Pattern]:
    """How claims of those deeds are worded that a request asks for."""
    may_be_states = _ASKS_HOW.search(request) is None and not _statives.offers_another(text)
    wordings = [*_CHANGES, *_STATES] if may_be_states else [*_CHANGES]
    if not is_of_texts:
        wordings += [x for x in _BY_THING if may_be_states or not x.is_state]
    asked_for = [x for x in wordings if _statives.is_asked_for(x.request, request)]
    return [x for x in _DEEDS if x.request.search(request)] + asked_for


def _first(pattern: _Pattern, text: str) -> Claim | None:
    for match in islice(pattern.wording.finditer(text), _MAX_WORDINGS):
        claim = _claim(" ".join(match[0].split()), pattern)
        says_who = not (claim.may_be_anyones or claim.is_state)
        is_to_come = claim.is_state and _statives.CONDITION_BEHIND.match(text, match.end())
        if not (is_to_come or is_ruled_out(text, match, says_who=says_who)):
            return claim
    return None


def _claim(text: str, pattern: _Pattern) -> Claim:
    text = text.lstrip(".!,:; ")
    return Claim(
        text,
        by_text=pattern.by_text or _BY_TEXT.search(text) is not None,
        may_be_anyones=_ANYONES.search(text) is not None,
        is_state=pattern.is_state,
    )
