"""What a user's input asks for, in the words of several languages: whether it only asks to see
something.
"""

import re
from itertools import islice

_LOOKS = re.compile(
    r"^\W*(?:(?:please|can you|could you|would you|hi|hello|hey|bitte|kannst du|können sie|"
    r"por favor|s['\u2019]il (?:te|vous) plaît|ciao|buongiorno|per favore|(?:mi )?puoi|può|olá|oi|"
    r"bom dia|(?:você )?pode|(?:kun|kan|wil) (?:je|u|jij)|hoi|dag|alsjeblieft|graag|"
    r"and|so|but|ok(?:ay)?|well|great|thanks|thank you|und|y|et|e|en)[\s,.!]+)*"
    r"(?:show|list|display|view|see|tell|what|which|who|when|where|how (?:many|much|old|long)|"
    r"how (?:is|are) (?:my|the|our)|find|"
    r"look up|get me(?! (?:\w+ ){1,3}?(?:tables?|rooms?|seats?|flights?|tickets?|appointments?)\b)|"
    r"get (?:the|my|our|all|a list)(?=\s)"
    r"(?![^.?!\n]{0,60}\b\w+(?:ed|off|on|out|in|done|back|down|up)\b)|"
    r"check|(?:fetch|retrieve|pull up)(?=\s)|"
    r"give me (?:the (?:details|status|list|number|name|date|latest)|an overview|a list|details)|"
    r"i(?:['\u2019]d like| would like| want| need) to (?:see|know|view|check)|(?:can|may) i see|"
    r"let me see|confirm (?:that|whether|if)|"
    r"is there|are there|do i have|(?:is|are|was|were|has|have|did|does|do)"
    r" (?:my|the|our|it|they|you|i)|"
    r"zeig\w*|liste|was|welche\w*|wie viele?|wann|wo|finde|such\w*|"
    r"mu[eé]stra\w*|lista|qu[eé](?! tal| dirai)|cu[aá]l\w*|cu[aá]nt\w*|busca|"
    r"montre\w*|affiche\w*|quel\w*|combien|cherche|trouve|"
    r"mostra\w*|quali?|quant\w*|cerca\w*|elenca\w*|trova\w*|fammi vedere|dimmi|chi|dove|"
    r"(?:che|che cosa|cosa)(?! ne (?:dici|pensi))(?=[^.!\n]*\?)|quando(?=[^.,!\n]*\?)|"
    r"(?:ho|hai|ha|abbiamo|avete|hanno) (?:già )?(?:prenotat|pagat|annullat|cancellat|ordinat|"
    r"acquistat|comprat|inviat|spedit|ricevut|fatt)\w*+(?=[^.!\n]*\?)|"
    r"mostr[ae]\w*|exib[ae]|list[ae]|diga|encontr[ae]|procur[ae]|qua(?:l|is)|onde|quem|"
    r"que(?! tal| dirai)(?=[^.!\n]*\?)|"
    r"(?:já )?(?:está|estão|foi|foram|é|são) (?:pag|reserv|cancel|compr|envi|feit|o |a |"
    r"os |as |meu|minha|nosso|nossa|seu|sua)\w*+(?=[^.!\n]*\?)|"
    r"toon|geef (?:me |mij )?een (?:overzicht|lijst)|laat [^.,!?\n]{1,60} zien|lijst|welke?|"
    r"hoeveel|wanneer(?=[^.,!\n]*\?)|waar|wie (?:is|zijn|heeft|hebben|was|waren)|"
    r"wat(?! dacht)|zoek|vind|bekijk|"
    r"(?:is|zijn|was|waren|werd|werden|heb|hebt|heeft|hebben) (?:mijn|jouw|je|uw|de|het|ons|onze|"
    r"deze|dit|die|dat|er|ik|u|jij|jullie|wij|we|zij|ze|hij)(?=[^.!\n]*\?)|"
    r"(?:wurden?|ist|sind|hat|habt?|haben|war|waren|habe ich)"
    r" (?:mein|dein|der|die|das|es|ich|sie|wir|unser)\w*|"
    r"(?:se )?(?:ha|han|está|están|fue|fueron)"
    r" (?:sido|mi|mis|el|la|los|las|reserv|cancel|envi|pag)\w*|"
    r"est-ce que|ma \w+ (?:a|est)|mon \w+ (?:a|est))\b|"
    r"了吗|了没有|^(?:显示|查看|列出|给我看|查询|看一下)|"
    r"(?:見せて|表示して|教えて|ましたか|ています(?:でしょう)?か|てあります(?:でしょう)?か|済みで(?:す|しょう)か)|"
    r"^(?:どの|どれ|いくら|誰(?!か)|どこ(?!か)|いつ(?!も|か))(?![^。、\uff01\uff1f\n]{0,20}でも)|"
    r"(?:一覧|リスト)を(?:見|出して)|"
    r"^\W*(?!(?:se|si|wenn|als|indien|if)\b)[^.,;!?\n]{1,80}\b(?:è|sono|foi|foram|está|estão|están|is|zijn)\s+"
    r"(?:(?:già|stat[oaie]|já|ya|al|reeds|gi[àa])\s+){0,2}"
    r"(?:\w+at[oaie]|\w+ad[oa]s?|pag[oa]s?|ge\w+[dt]|b(?:etaald|esteld)|disdett\w)\b[^.,;!?\n]{0,60}\?|"
    r"^\W*(?:è|sono) (?:(?:già|stat[oaie]) |(?:il|la|lo|i|gli|le) |l['\u2019]|mi[oae]|miei|tu[oae]|"
    r"su[oae]|nostr)[^.!\n]*\?",
    re.IGNORECASE,
)
_JOINED = (
    r"(?:[,.;:!?\n]|"
    r"\b(?:and|so|then|und|also|dann|e|poi|quindi|y|luego|así que|et|puis|donc|en|dus|então)\b)"
    r"[^\S\n]{0,5}(?:(?:and|so|then|please|just|und|also|dann|bitte|e|poi|quindi|per favore|y|"
    r"luego|así que|por favor|et|puis|donc|en|dan|dus|então)[\s,]{1,5}){0,3}"
)
"""What begins a part of a request: a mark or a conjunction, and words such as "please"."""
_ORDERS = re.compile(
    rf"{_JOINED}(?:"
    r"(?:book|reserve|cancel|order|buy|purchase|pay|settle|refund|send|resend|forward|e-?mail|"
    r"delete|remove|transfer|schedule|reschedule)\s+"
    r"(?=(?:it|them|one|that|this|those|these|the|my|our|me|us|an?|both|all)\b)|"
    r"(?:buche?|reservier(?:e|en sie)|stornier(?:e|en sie)|kündige|bestelle?|bezahle|überweise|"
    r"lösche|sende|schicke?|verschicke)\s+"
    r"(?=(?:ihn|sie|es|mir|uns|den|die|das|einen?|meine?n?|unsere?n?|diese\w*|alles|bitte)\b)|"
    r"(?:boek|annuleer|reserveer|bestel|betaal|stuur|verwijder)\s+"
    r"(?=(?:hem|het|de|die|dat|een|er|mijn|ze|onze)\b)|"
    r"(?:prenota|annulla|cancella|ordina|compra|acquista|paga|invia|rimborsa|disdici|elimina)"
    r"(?:(?:me|te|ce|ne|glie)?l[oaie]|mi|ci)\b|"
    r"(?:res[eé]rva|canc[eé]la|an[uú]la|c[oó]mpra|p[aá]ga|env[ií]a|b[oó]rra|elim[ií]na|p[ií]de)"
    r"(?:me|nos)?l[oae]s?\b|"
    r"(?:reserve|cancele|anule|compre|pague|env[ií]e|elimine)"
    r"(?:-[oa]s?\b|\s+(?=(?:el|las?|los|una?|mis?|[oa]s?|uma?|meus?|minhas?)\b))|"
    r"(?:réserve|annule|commande|achète|paie|envoie|supprime|rembourse)-(?:l[ea]s?|moi|nous)\b|"
    r"(?:réservez|annulez|commandez|achetez|payez|envoyez|supprimez|remboursez)"
    r"(?:-(?:l[ea]s?|moi|nous)\b|\s+(?=(?:l[ea]s?|une?|m[ao]n?|mes|nos|notre)\b)))"
    r"(?P<thing>[^,.;:!?\n]{0,100}+)(?=[^.?!\n]{0,200}+(?:[.!\n]|$))"
    r"|[:.]\s{0,5}(?:prenota|annulla|cancella|ordina|disdici)"
    r"(?=\s{0,5}(?:[.!]|$)|\s{1,5}(?:il|la|un[ao]?)\b)"
    r"|(?:并|然后|再)(?:请|帮我){0,2}(?:预订|预定|取消|支付|删除|购买)"
    r"(?=它|这|那|一|吧|\s{0,5}[\u3002\uff01]|\s{0,5}$)"
    r"|て(?:から|、)[^。\n]{0,20}(?:予約|キャンセル|注文|削除|購入)を?して"
    r"(?=ください|下さい|ほしい|[\u3002\uff01]|$)",
    re.IGNORECASE,
)
"""A deed that is ordered in a part of its own, with its thing: "Find a flight and book it". A verb
that may be a noun counts only before an object, and in no question.
"""
_HOW = re.compile(
    r"\b(?:how|wie|come|cómo|comment|como|hoe|whether|ob|steps?|way|"
    r"(?:can|could|should|must|do|would|if) (?:i|we|you)|"
    r"(?:kann|soll|muss|wenn) (?:ich|wir|man)|need(?:ed|s)? to|"
    r"(?:to|zu) (?:find|search|look|list|open|view|check|get|see|show|go|click))\b|"
    r"方法|如何|怎么",
    re.IGNORECASE,
)
"""What makes the orders behind it in a sentence steps that are asked about."""
_SENTENCE_ENDS = re.compile(r"[.!?\n]\s")
_MAX_ORDERS = 20
_HOW_CHARS = 300
"""Places of a request that are looked at, and characters before each."""
_FURTHER = re.compile(r"[.;!?\n\u3002\uff01\uff1f]\s*\w")
_PART = re.compile(r"[,:\uff0c\u3001\uff1a]\s*\w|(?:ので|から)\w")
_DECIMAL = re.compile(r"\d[.,]\d|\w[.@]\w")


def ordered_things(request: str) -> list[str]:
    """What deeds are ordered of, each in a part of its own; "" where no thing is named.

    >>> ordered_things("My flight was late, so cancel my order."), ordered_things("Cancel it")
    (['my order'], [])
    >>> ordered_things("Show me how I find a flight and book it")
    []
    """
    return [
        (place["thing"] or "").strip()
        for place in islice(_ORDERS.finditer(request), _MAX_ORDERS)
        if _HOW.search(_sentence_before(request, place)) is None
    ]


def _sentence_before(text: str, place: re.Match[str]) -> str:
    return _SENTENCE_ENDS.split(f"{text[max(0, place.start() - _HOW_CHARS) : place.start()]} ")[-1]


def asks_to_see(request: str) -> bool:
    """Whether a request begins as one to show, find or tell something, and orders nothing else.

    >>> asks_to_see("Could you show me invoice 42?"), asks_to_see("Could you book a table?")
    (True, False)
    >>> asks_to_see("Find a flight and book it")
    False
    """
    return _LOOKS.search(request) is not None and not ordered_things(request)


def only_asks_to_see(request: str) -> bool:
    """Whether that is all it is: no second sentence follows, nor a part behind a comma.

    >>> only_asks_to_see("Show me invoice 42."), only_asks_to_see("How much do I owe? Settle it.")
    (True, False)
    """
    found = _LOOKS.search(request)
    if found is None or ordered_things(request) or _FURTHER.search(_DECIMAL.sub("", request)):
        return False
    return _PART.search(_DECIMAL.sub("", request[found.end() :])) is None
