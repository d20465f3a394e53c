"""Claims that something was done, in the words of several languages: what only a tool can have
done.
"""

import re
from typing import NamedTuple

from spanscore.metrics.check._requests import asks_to_see

_MAX_CHARS = 20_000
"""Characters of the answer that are looked through, and of a request, which may ask for anything in
what follows.
"""
_QUOTED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|«[^»\n]{0,400}»|„[^“\n]{0,400}“|^>.*$",
    re.DOTALL | re.MULTILINE,
)
_WRITING = re.compile(
    r"\b(?:writ|draft|compos|translat|rephras|reword|rewrit|letter|template|proofread|summari[sz]|story|poem|"
    r"schreib|entw[iu]rf|formulier|übersetz|brief|vorlage|escrib|redact|traduc|carta|écri|rédig|tradui|lettre|"
    r"scriv|traduci|escrev|traduz)\w*|写|翻訳|翻译|訳|書い",
    re.IGNORECASE,
)
_ADVERBS = (
    r"(?:\s+(?:just|now|already|successfully|also|also"
    r" just|gerade|soeben|bereits|jetzt|nun|erfolgreich)){0,2}"
)


class Claim(NamedTuple):
    """A claim, as the answer words it; `by_text`: a text may have been worked on so, without any
    tool.
    """

    text: str
    by_text: bool


def _of(verbs: str, *, subject: str, asked: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(subject.replace("{verbs}", verbs), re.IGNORECASE), re.compile(
        asked, re.IGNORECASE
    )


_ENGLISH = (
    r"(?<![\w'\u2019])(?:(?:I|we)(?:['\u2019]ve| have)?"
    + _ADVERBS
    + r"(?:\s+gone ahead and)?\s+(?:{verbs})\b"
    r"|(?:has|have) been" + _ADVERBS + r"\s+(?:{verbs})\b"
    r"|(?:is|are)(?:\s+(?:now|all|successfully)){1,2}\s+(?:{verbs})\b)"
    r"|(?:^|[.!\n][^\S\n]*)successfully\s+(?:{verbs})\b"
    r"|(?:^|\n)(?:done|all set)[!.,:]\s+(?:(?:the|your)\s+)?(?:\w+\s+){1,3}(?:{verbs})"
    r"(?=\s*[.!\n]|\s*$)"
)
_GERMAN = (
    r"\bich habe\b[^.?!\n]{0,80}\b(?:{verbs})\b"
    r"|\b(?:wurde|wurden|ist|sind)\b[^.?!\n]{0,60}\b(?:{verbs})\s+worden\b"
    r"|\b(?:wurde|wurden)\b(?:\s+\w+){0,3}\s+(?:{verbs})\b"
)
_DUTCH = r"\bik heb\b[^.?!\n]{0,80}\b(?:{verbs})\b"
_ITALIAN = r"\b(?:ho|abbiamo)\s+(?:{verbs})\b"
_PORTUGUESE = r"\b(?:{verbs})\b"
_SPANISH = r"\b(?:se ha|se han|he|hemos)\s+(?:{verbs})s?\b|\bha(?:n)? sido\s+(?:{verbs})s?\b"
_FRENCH = (
    r"\bj['\u2019]ai(?:\s+bien)?\s+(?:{verbs})\b|\ba(?:vons)? (?:bien )?été\s+(?:{verbs})e?s?\b"
)
_CHINESE = (
    r"(?:已(?:经)?(?:为您|帮您|为你|帮你)?|(?:帮您|为您|帮你|为你))"
    r"(?:{verbs})(?:了|好了|成功|完成|\u3002|\uff0c|$)"
)
_JAPANESE = r"(?:{verbs})(?:を|が)?(?:完了)?(?:し|いたし)ました"

_BY_TEXT = re.compile(
    r"ordered|remov|delet|schedul|transfer|gelöscht|eliminado|borrado|supprimé|删除|削除",
    re.IGNORECASE,
)
_CLAIMS = (
    _of("booked|reserved", subject=_ENGLISH, asked=r"\bbook|reserv"),
    _of("cancell?ed", subject=_ENGLISH, asked=r"cancel|call off"),
    _of("refunded", subject=_ENGLISH, asked=r"refund|money back"),
    _of("paid(?! (?:attention|heed))|transferred|charged|purchased|ordered", subject=_ENGLISH,
        asked=r"\bpay|transfer|buy|purchas|order|charge"),
    _of("sent|resent|emailed|e-mailed|shipped|dispatched|forwarded", subject=_ENGLISH,
        asked=r"send|mail|ship|forward|sent"),
    _of("deleted|removed|deactivated|unsubscribed", subject=_ENGLISH,
        asked=r"delet|remov|deactivat|unsubscri|close"),
    _of("scheduled|rescheduled", subject=_ENGLISH, asked=r"schedul|appointment|meeting|remind"),
    _of("confirmed",
        subject=r"\byour (?:booking|reservation|appointment) (?:is|has been)(?: now)?"
        r" (?:{verbs})\b",
        asked=r"\bbook|reserv|schedul|make an appointment"),
    _of("geboekt|gereserveerd|geannuleerd|betaald|verzonden|gestuurd|verwijderd", subject=_DUTCH,
        asked=r"boek|reserve|annule|betaal|zend|stuur|verwijder"),
    _of("prenotato|annullato|cancellato|rimborsato|pagato|inviato|spedito|acquistato",
        subject=_ITALIAN, asked=r"prenot|annull|cancell|rimbors|pag|invia|spedi|acquist"),
    _of("reservei|cancelei|reembolsei|paguei|enviei|comprei", subject=_PORTUGUESE,
        asked=r"reserv|cancel|reembols|pag|envi|mand|compr"),
    _of("gebucht|reserviert", subject=_GERMAN, asked=r"buch|reservier"),
    _of("storniert|gekündigt", subject=_GERMAN, asked=r"stornier|kündig"),
    _of("überwiesen|bezahlt|erstattet|bestellt", subject=_GERMAN,
        asked=r"überweis|bezahl|erstatt|bestell"),
    _of("gesendet|geschickt|verschickt|versandt", subject=_GERMAN, asked=r"send|schick"),
    _of("gelöscht", subject=_GERMAN, asked=r"lösch"),
    _of("reservado|cancelado|reembolsado|transferido|comprado|pedido|enviado|eliminado|borrado|pagado",
        subject=_SPANISH,
        asked=r"reserv|cancel|reembols|transfer|transf|compr|pid|env[ií]|elimin|borr|pag"),
    _of("réservé|annulé|remboursé|payé|commandé|envoyé|supprimé|viré",
        subject=_FRENCH, asked=r"réserv|annul|rembours|pay|command|envo|supprim|vir"),
    _of("预订|预定|取消|退款|支付|转账|下单|发送|删除|购买",
        subject=_CHINESE, asked=r"订|取消|退款|支付|付|转|下单|发|删|买"),
    _of("予約|キャンセル|返金|送信|送金|注文|削除|購入",
        subject=_JAPANESE, asked=r"予約|キャンセル|返金|送|注文|削除|購入|買"),
)  # fmt: skip


def claims(answer: str, request: str) -> list[Claim]:
    """What `answer` claims to have done, where it is no text that `request` asked to be written.

    It counts where the request asks for the deed, and does not just ask how things are. Questions,
    quotations and code are left out. Where the request is longer than is looked through, nothing is
    found.

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
    found: list[Claim] = []
    for claim, asked_by in _CLAIMS:
        for match in claim.finditer(text) if asked_by.search(request) else ():
            if not _is_question_or_condition(text, match.start(), match.end()):
                found.append(
                    Claim(" ".join(match[0].split()), _BY_TEXT.search(match[0]) is not None)
                )
                break
    return found


_ENDS = ".!?\n\u3002\uff01\uff1f"
_CONDITION = re.compile(
    r"\b(?:if|once|when|after|until|unless|whether|wenn|sobald|falls|cuando|si|quand|lorsque)\b",
    re.IGNORECASE,
)


def _is_question_or_condition(text: str, start: int, end: int) -> bool:
    """Whether the sentence around a claim asks, or says only what would be."""
    opening = max(text.rfind(x, 0, start) for x in _ENDS) + 1
    closing = min(
        (x for x in (text.find(sign, end) for sign in _ENDS) if x >= 0), default=len(text)
    )
    asks = text[closing : closing + 1] in {"?", "\uff1f"}
    return asks or _CONDITION.search(text[opening:start]) is not None
