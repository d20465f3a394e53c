"""What the clause around a claim adds to it: that it is a question, a condition, a negation, an
instruction, or was done earlier or by others.
"""

import re

_WINDOW_CHARS = 400
_INSTRUCTION_CHARS = 2_000
"""Characters before and behind a claim that are looked at, and where an instruction may precede."""

_SENTENCE_ENDS = re.compile(
    r"[!?\n;\u3002\uff01\uff1f\uff1b]|\.(?!\d)|"
    r"\b(?:but|however|aber|stattdessen|pero|mais|però|maar)\b|但|不过",
    re.IGNORECASE,
)
"""A word such as "but" ends what a condition or a regret goes for."""
_CLAUSE_ENDS = re.compile(
    r",(?!\d)|[():\u2013\u2014\uff0c\uff1a\u3001]|\s-\s|"
    r"\b(?:and|so|because|since|although|though|while|which|und|denn|weil|sodass|y|porque|et|car|"
    r"donc|e|perché|quindi|dus|want|omdat|en (?=u|je|ik|er|het|we|de)\b)\b|"
    r"所以|因为|并且|ので",
    re.IGNORECASE,
)
_QUESTION_MARKS = frozenset("?\uff1f")

_CONDITION = re.compile(
    r"\b(?:if|once|when|after(?! \w+ing\b)|before|until|unless|whether|as soon as|so that|"
    r"wenn|sobald|falls|damit|bevor|nachdem|cuando|si|para que|antes de que|quand|lorsque|"
    r"dès que|une fois que|afin que|quando|finché|(?:non )?appena|una volta che|"
    r"assim que|una vez que|zodra|wanneer|zodat|als (?:u|je))\b|如果|是否|若|一旦",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(
    r"\b(?:not(?! (?:a problem|to worry|only))|never|nothing|none|cannot|nicht|nichts|kein\w*|"
    r"könnte\w*|würde\w*|nunca|nada|(?<!\bde )(?<!\buw )(?<!\bmijn )(?<!\bje )pas|rien|jamais|"
    r"aucune?|niente|niet|geen|não|"
    r"no (?:he|hemos|ha|han|se|puedo|podemos|está|están|queda|fue)|"
    r"non (?:ho|abbiamo|è|sono))\b|n['\u2019]t\b(?! worry)|"
    r"未|没有|没能|可能|也许|不能|无法|無法",
    re.IGNORECASE,
)
_NO_SUBJECT = re.compile(r"^\W*no (?!longer|problem|doubt|wonder|worries)", re.IGNORECASE)
_WOULD_BE = re.compile(
    r"\b(?:may|might|could|would|should|must|will|can|to)\s+(?:(?:also|already|only|then)\s+)?$",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"\s+(?:not|nothing|none|no|neither|nichts|kein\w*|nada|ningun[oa]?|rien|aucune?|niente|"
    r"nessun[oa]?|niets|geen)\b",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    # "for this morning" and "yesterday's" say which one it is
    r"(?<!\bfor )(?<!\bfrom )(?<!\bof )(?<!\bfür )(?<!\bvon )(?<!\bpara )(?<!\bpour )"
    r"(?<!\bper )(?<!\bvoor )(?<!\bde )(?<!\bdi )(?<!\bvan )(?<!\bd['\u2019])"
    r"(?<!\bthe )(?<!\bdie )(?<!\bla )"
    r"\b(?:yesterday|ago|in the past|earlier(?= (?:today|this|on|in)\b|\W*$)|"
    r"last (?:night|week|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day)|this morning|"
    r"vorgestern|gestern|vorhin|damals|letzte[nrs]? (?:woche|nacht|monat|jahr|\w+tag)|"
    r"vor (?:\w+ ){1,3}?(?:minute|stunde|tag|woche|monat|jahr)\w*|"
    r"anteayer|ayer|anoche|esta mañana|la semana pasada|ce matin|auparavant|la semaine dernière|"
    r"ieri|stamattina|gisteren|vanmorgen|ontem)\b(?!['\u2019]s)(?! ge\w+e[mnrs]?\b)|"
    r"(?:昨天|前天|上周|上个月)(?!的)|(?:之前|此前)(?=已|就|曾)|早已|曾经?|(?:昨日|先日)(?!の)",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"(?<=\S)(?<!\bto)(?<!\bfor)(?<!\bwith)(?<!\bfrom)\s(?:you|we|that|who|que|qui|che)\s",
    re.IGNORECASE,
)
"""What follows is about the thing: the hotel you liked last year."""
_RELATIVE_BEFORE = re.compile(r"\b(?:that|which|who)\s+$", re.IGNORECASE)
_INSERTED = re.compile(r",\s(?:der|die|das|den|dem|welche\w*)\b[^,]*,", re.IGNORECASE)
_OTHERS = re.compile(
    r"他の(?:お客様?|方|人|ユーザー|利用者)[がに]|誰かが|(?:お客|貴)様(?:ご自身)?(?:が|により)",
)
_BY_OTHERS = re.compile(
    r"\bby (?:another|others?|some(?:one|body)|your|his|her|their|him|them|you|"
    r"the(?! (?:way|end|time|close|start|deadline|courier|post)))\b|"
    r"\bvon (?:jemand\w*|(?:ein\w* )?ander\w*|ihnen|ihre[mr]|dir|deine[mr]|ihm|ihr)\b|"
    r"\bvon (?:der|dem) (?:airline|fluggesellschaft|bank|hotel|restaurant|klinik|praxis|gast|"
    r"kund|anbieter|händler|verkäufer|veranstalter|betreiber)\w*|"
    r"\b(?:por|para|a) otr[oa]s? (?:client|person|huésped|usuari)\w*|"
    r"\bpor (?:alguien|usted(?:es)?|ti|tu|su)\b|"
    r"\bpar (?:une? autre|d['\u2019]autres|quelqu['\u2019]un|vous|votre|toi|ton|ta|son|sa)\b|"
    r"(?:其他|别的|另一位?)(?:客人|顾客|客户|用户|旅客|人)|别人|他人|您本人",
    re.IGNORECASE,
)
_WISHES = (
    r"(?:request|wish|instruction|preference|specification|wunsch|wünsche|anfrage|auftrag|vorgabe|"
    r"anweisung|angabe|vereinbarung|solicit|indica[cdt]|instruc|preferenc|pedid|petici|dese|acordad|"
    r"demande|souhait|préférence|consigne|richiest|istruzion|preferenz|indicazion|accord|instruç|"
    r"combinad|verzoek|wens|voorkeur|afspraak|plan\b)"
)
_SOURCE = (
    rf"\b(?:according to|laut(?! und\b)|según|selon|volgens|secondo (?=(?:il|la|lo|i|gli|le|quanto|"
    rf"l['\u2019]|su[ao])\b)|segundo (?=(?:[oa]s?|seus?|suas?)\b))"
    rf"(?!\W*(?:[\w'\u2019]+\W+){{0,2}}{_WISHES})|"
    r"(?:によると|によれば)|据系统|根据(?!您|你)"
)
_REPORTED = re.compile(_SOURCE, re.IGNORECASE)
_REPORTED_NEXT = re.compile(rf"[\s,(\u2013\u2014\uff0c\u3001-]*(?:{_SOURCE})", re.IGNORECASE)
"""What follows says who reported it; "according to your wishes" reports nothing."""
_SHOWN = re.compile(
    r"\b(?:shows?|says?|states?|indicates?|zeigt|meldet|indica|muestra|dice|indique|affiche|mostra|"
    r"toont|meldt)\b",
    re.IGNORECASE,
)
_ALREADY = re.compile(r"\b(?:already|bereits|schon|déjà|già|reeds)\b", re.IGNORECASE)
_REGRET = re.compile(
    r"\b(?:unfortunately|regrettably|sorry(?! (?:to|for|that you|you)\b)|afraid|leider|bedaure\w*|"
    r"lamentablemente|desafortunadamente|malheureusement|désolée?|purtroppo|helaas|infelizmente)\b|抱歉|遗憾|可惜",
    re.IGNORECASE,
)
_SO = re.compile(
    r"\b(?:so|therefore|daher|deshalb|así que|por eso|donc|quindi|dus)\b|所以", re.IGNORECASE
)
"""What follows is no longer what a regret goes for."""
_INSTRUCTION = re.compile(
    r"\b(?:click|press|tap|klicken?|drücken?|tippen?|haga? clic|pulsa|pulse|cliquez|clique|"
    r"appuyez|clicca|premi|klik)\b|点击|按下|クリック|タップ",
    re.IGNORECASE,
)


def is_ruled_out(text: str, match: re.Match[str], *, says_who: bool) -> bool:
    """Whether the words around a claim make it none: they ask, name a condition, negate it, or say
    that it was done earlier or by others.

    A question or a condition goes for its sentence, all else for the clause of the claim. Where the
    claim does not name the agent, an "already", another's name and a regret or an instruction
    before it rule it out too.

    >>> claim = re.compile("I've booked")
    >>> [
    ...     is_ruled_out(x, claim.search(x), says_who=True)
    ...     for x in ("If it is free, I've booked it.", "I've booked it, so do not worry.")
    ... ]
    [True, False]
    """
    before, behind = _around(text, match)
    opening = _last_part(_CLAUSE_ENDS, before)
    closing = _first_part(_RELATIVE, _first_part(_CLAUSE_ENDS, behind))
    claim = _INSERTED.sub(" ", match[0])
    clause = f"{opening}{claim}{closing}"
    if _asks(text, match.end() + len(behind)) or _CONDITION.search(before):
        return True
    if _negates(opening, claim, closing) or _EARLIER.search(clause) or _OTHERS.search(clause):
        return True
    return not says_who and (
        _is_reported(before, closing, behind) or _is_about_others(text, match, before, clause)
    )


def _around(text: str, match: re.Match[str]) -> tuple[str, str]:
    """The rest of the sentence before the claim, and behind it."""
    start, end = match.span()
    before = _last_part(_SENTENCE_ENDS, text[max(0, start - _WINDOW_CHARS) : start])
    return before, _first_part(_SENTENCE_ENDS, text[end : end + _WINDOW_CHARS])


def _last_part(ends: re.Pattern[str], text: str) -> str:
    at = 0
    for found in ends.finditer(text):
        at = found.end()
    return text[at:]


def _first_part(ends: re.Pattern[str], text: str) -> str:
    found = ends.search(text)
    return text[: found.start()] if found else text


def _asks(text: str, end: int) -> bool:
    return text[end : end + 1] in _QUESTION_MARKS


def _negates(opening: str, claim: str, closing: str) -> bool:
    if _NOT_DONE.search(f"{opening}{claim}") or _NO_SUBJECT.search(opening):
        return True
    return _WOULD_BE.search(opening) is not None or _NOTHING.match(closing) is not None


def _is_reported(before: str, closing: str, behind: str) -> bool:
    """Whether the sentence says by whom it is known, before the claim or right behind it."""
    if _REPORTED.search(before) or _SHOWN.search(before) or _REPORTED.search(closing):
        return True
    return _REPORTED_NEXT.match(behind) is not None


def _is_about_others(text: str, match: re.Match[str], before: str, clause: str) -> bool:
    if _BY_OTHERS.search(clause) or _ALREADY.search(clause) or _RELATIVE_BEFORE.search(before):
        return True
    regretted = _last_part(_SO, before)
    if _REGRET.search(f"{regretted}{match[0]}"):
        return True
    instructions_from = max(0, match.start() - _INSTRUCTION_CHARS)
    return _INSTRUCTION.search(text, instructions_from, match.start()) is not None
