"""Which sentences announce steps, by the words of several languages for what comes first, then and
last.
"""

import re
from collections.abc import Iterator

_APOSTROPHES = str.maketrans({"\u2019": "'", "\u02bc": "'"})
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_TRIMMED = " \t,.;:!。，、"
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff]")
_LEAST_UNSPACED = 3
"""Characters of a script without spaces that name something to do, where nothing more is asked
for.
"""

_FIRST = (
    r"first(?:ly| of all)?|to start(?: with)?|zuerst|zunächst|als erstes|d'abord|premièrement|tout"
    r" d'abord|primero|"
    r"en primer lugar|prima|innanzitutto|per prima cosa|primeiro|em primeiro lugar|eerst|ten"
    r" eerste|najpierw|"
    r"сначала|сперва|во-первых|önce|ilk"
    r" olarak|först|først|ensin|nejprve|спочатку|أولا|أولاً|पहले|首先|まず|먼저|우선"
)
_THEN_BY_LANGUAGE = (
    (
        "and |, ",
        (
            r"then|after that|afterwards?|next|finally|lastly|subsequently|followed"
            r" by|second(?:ly)?|third(?:ly)?"
        ),
    ),
    (
        "und ",
        (
            "dann|danach|anschließend|anschliessend|daraufhin|schließlich|zuletzt|abschließend|als"
            " nächstes"
        ),
    ),
    ("et ", "puis|ensuite|après cela|enfin|finalement"),
    ("y ", "luego|después|a continuación|por último|finalmente"),
    ("e ", "poi|dopo|successivamente|infine"),
    ("e ", "depois|em seguida|por fim"),
    ("en ", "dan|daarna|vervolgens|tenslotte|ten slotte|tot slot"),
    ("i |a ", "potem|następnie|na koniec|wreszcie|potom|pak|nakonec"),
    ("и |а ", "затем|потом|после этого|наконец|потім|нарешті"),
    ("ve ", "sonra|ardından|son olarak"),
    ("och |og ", "sedan|därefter|slutligen|derefter|til slutt|til sidst"),
    ("ja ", "sitten|lopuksi"),
    ("و", "ثم|بعد ذلك|أخيرا|أخيراً"),
    ("और ", "फिर|उसके बाद|अंत में"),
)
"""What may stand before the words, and the words."""

_THEN = "|".join(f"(?:{before})?(?:{words})" for before, words in _THEN_BY_LANGUAGE)
_UNSPACED_THEN = (
    "然后|然後|接着|接著|接下来|接下來|随后|隨後|之后|之後|其次|最后|最後|再(?=[^次见見])|その後|次に|それから|最後に|"
    "그다음|그 다음|그런 다음|이후|그 후|마지막으로"
)
_MARK_FIRST = re.compile(
    rf"(?<!\w)(?:{_FIRST})(?!\w)|首先|まず|먼저|우선|先(?!生|日|进)", re.IGNORECASE
)
_MARK_THEN = re.compile(
    rf"[,，、;]?\s*(?:(?<!\w)(?:{_THEN})(?!\w)|{_UNSPACED_THEN})[\s,，、:]*", re.IGNORECASE
)
_SPLIT_AND = re.compile(
    r",?\s+(?:and|&)\s+(?:also\s+)?(?=(?:add|analy[sz]e|apply|ask|book|buy|call|cancel|change|check|choose|collect|"
    r"compare|compile|compute|calculate|confirm|contact|convert|create|delete|deliver|determine|draft|email|explain|"
    r"fetch|file|find|fix|forward|gather|generate|get|give|identify|inform|list|look|make|notify|open|order|pay|pick|"
    r"place|prepare|present|process|provide|pull|put|query|read|recommend|record|refund|remove|report|request|reserve|"
    r"retrieve|return|review|run|save|schedule|search|select|send|set|share|show|submit|suggest|summari[sz]e|tell|test|"
    r"transfer|translate|update|use|verify|write)\s)"
    r"|\s+(?:et|y|e)\s+(?=[^\W\d_]{2,}(?:er|ir|re|ar)\s)"
    r"|\s+before\s+(?=(?:I|we)\s|[a-z]{2,}ing\s(?:an?|the|your|it)\b)",
    re.IGNORECASE,
)
_OPENING = (
    r"(?<!\w)(?:(?:i|we)(?:'ll| will| am going to|'m going to| are going to|'re going to| plan to|"
    r" intend to| need to|"
    r" should| must| have to| want to)|let me|let's|let us|going to|"
    r"ich (?:werde|muss|will|möchte)|wir (?:werden|müssen)|lass(?:en sie)? (?:mich|uns)|"
    r"je (?:vais|dois)|nous allons|laissez-moi|voy a|vamos a|déja?me|debo|tengo que|"
    r"vou|vamos|preciso|deixe-me|vado a|devo|dobbiamo|lasciami|ik (?:ga|zal|moet)|laat me|"
    r"я (?:сейчас |сначала )?\w{3,}ю|мне нужно|muszę|zamierzam)(?!\w)"
    r"|我(?:会|會|将|將|来|來|要|需要|先|打算)|让我|讓我|します|ましょう|하겠습니다|할게요|겠습니다"
)
_OPENER = re.compile(_OPENING, re.IGNORECASE)
_SIGN_IN_LOWER_CASE = re.compile(
    rf"\b(?:{_FIRST}|{'|'.join(words for _, words in _THEN_BY_LANGUAGE)})\b|{_OPENING}".replace(
        "ı",
        "i",  # the two are the same where case is ignored
    )
)
"""What is found in each ASCII text in lower case in which one of the three is found: much faster
than these.
"""

_PAST = re.compile(
    r"(?<!\w)(?:I|we)(?: have|'ve| found| see| was| were| had| got| did)(?!\w)", re.IGNORECASE
)
_COURTESY_AND_GOING_ON = (
    "a about again ahead all alright also am an and are as at away back be before begin can"
    " certainly check come continue do everything few first fine for forward further get give go"
    " going got great happy have help here hold how i i'd i'll i'm in is it it's just keep kindly"
    " know let let's look looking me minute moment more move moving my need next nice no now of off"
    " ok okay on one onto our out over part perfect phase please proceed right second seconds see"
    " shall should so some something start step steps still stuff sure take task thank thanks that"
    " that's the them then there these thing things think this those thought to try two up us very"
    " wait want we we'll well what will with work would yes you your alles augenblick bitte da"
    " danke das dein den der die dies dir doch ein eine einen etwas gern gerne gut helfe ich ihnen"
    " ihr jetzt kurz mache mal mich mir nach nächster nun prüfe schaue schritt sehe sekunde sie um"
    " und warten weiter werde wir zu alors ça ce cela continuons d'accord de des du et instant je"
    " l'étape la le les maintenant merci passons patientez plaît regarde suivante s'il très un une"
    " vais voir vous étape ahora al bien claro con continuamos continúo el en espere eso esto favor"
    " gracias lo los momento muy paso para por que siguiente sigamos una vale vamos ver voy y"
    " adesso allora attimo bene certo che così di grazie il ora passo procedo prossimo subito va"
    " vediamo vado agora aguarde depois obrigado próximo sim vou dank een even het ik kijk nu"
    " ogenblik stap verder volgende wacht да минуту момент пожалуйста подождите сейчас следующий"
    " хорошо шаг я это chwila chwilę dobrze krok następny proszę już tak "
)
_NO_DEED = frozenset(_COURTESY_AND_GOING_ON.split())
"""Words that name neither a deed nor a thing: pronouns, courtesy, and verbs that only go on."""

_NO_DEED_UNSPACED = re.compile(
    "好的?|当然|當然|没问题|沒問題|请|請|稍等|稍候|一下|等|下一步|步骤|继续|繼續|进行|我们?|我們|来|來|看看|看|吧|了|的|谢谢|"
    "はい|かしこまりました|承知しました|少々|お待ちください|次|ステップ|続け|進み|確認し|します|ます|です|それでは|では|"
    "[\\s、。，！？]"
)


def steps_in_sentences(text: str) -> list[str]:
    """The steps that sentences announce: their clauses, parted by words such as "then" and
    "finally".

    >>> steps_in_sentences("Zuerst suche ich den Flug, dann buche ich das Hotel.")
    ['Zuerst suche ich den Flug', 'buche ich das Hotel']
    """
    # most texts announce nothing
    if text.isascii() and _SIGN_IN_LOWER_CASE.search(text.lower()) is None:
        return []
    text = text.translate(_APOSTROPHES)
    sentences = [x for x in _SENTENCE.split(text) if x and not x.rstrip().endswith(("?", "？"))]
    if not any(
        _MARK_FIRST.search(x) or _OPENER.search(x) or _MARK_THEN.search(x) for x in sentences
    ):
        return []
    return [x for sentence in sentences for x in _clauses(sentence)]


def announces(text: str) -> bool:
    """Whether a text says that its author is about to do something.

    >>> announces("I'll do this:"), announces("Here is what I found:")
    (True, False)
    """
    return _OPENER.search(text.translate(_APOSTROPHES)) is not None


def is_definite(text: str, least: int = 1) -> bool:
    """Whether a text holds so many words at least that name something to do, and not only that it
    goes on.

    >>> is_definite("book it"), is_definite("next step"), is_definite("one moment please")
    (True, False, False)
    """
    if _UNSPACED.search(text):
        return len(_NO_DEED_UNSPACED.sub("", text)) >= _LEAST_UNSPACED + least - 1
    words = [x.lower() for x in _WORD.findall(text.translate(_APOSTROPHES))]
    if not any(len(x) > 1 and x not in _NO_DEED for x in words):
        return False
    return len(words) >= least


def _clauses(sentence: str) -> Iterator[str]:
    """The clauses of a sentence that announce a step; none of one that neither announces nor is one
    of a series.
    """
    is_series = _MARK_FIRST.search(sentence) or _MARK_THEN.search(sentence)
    if _PAST.search(sentence) and not _OPENER.search(sentence):
        return
    if not is_series and not _OPENER.search(sentence):
        return
    for part in _MARK_THEN.split(sentence):
        for clause in _SPLIT_AND.split(part):
            if is_definite(_OPENER.sub(" ", _MARK_FIRST.sub(" ", clause))):
                yield clause.strip(_TRIMMED)
