"""What a user's input asks for, in the words of several languages: whether it only asks to see
something.
"""

import re

_LOOKS = re.compile(
    r"^\W*(?:(?:please|can you|could you|hi|hello|hey|bitte|kannst du|können sie|por favor|"
    r"s['\u2019]il (?:te|vous) plaît|ciao|buongiorno|per favore|(?:mi )?puoi|può|olá|oi|bom dia|"
    r"(?:você )?pode|(?:kun|kan|wil) (?:je|u|jij)|hoi|dag|alsjeblieft|graag)[\s,]+)*"
    r"(?:show|list|display|view|see|tell|what|which|who|when|where|how (?:many|much|old|long)|find|"
    r"look up|get me|check|"
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
_FURTHER = re.compile(r"[.;!?\n\u3002\uff01\uff1f]\s*\w")
_PART = re.compile(r"[,:\uff0c\u3001\uff1a]\s*\w|(?:ので|から)\w")
_DECIMAL = re.compile(r"\d[.,]\d|\w[.@]\w")


def asks_to_see(request: str) -> bool:
    """Whether a request begins as one to show, find or tell something.

    >>> asks_to_see("Could you show me invoice 42?"), asks_to_see("Could you book a table?")
    (True, False)
    """
    return _LOOKS.search(request) is not None


def only_asks_to_see(request: str) -> bool:
    """Whether that is all it is: no second sentence follows, nor a part behind a comma.

    >>> only_asks_to_see("Show me invoice 42."), only_asks_to_see("How much do I owe? Settle it.")
    (True, False)
    """
    found = _LOOKS.search(request)
    if found is None or _FURTHER.search(_DECIMAL.sub("", request)):
        return False
    return _PART.search(_DECIMAL.sub("", request[found.end() :])) is None
