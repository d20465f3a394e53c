"""Redaction of secrets and personal data.

Every pattern runs in linear time: its repetitions are bounded, or cannot begin again inside what
they have just passed over. Only ASCII neighbours can make a value part of something else: in
scripts without spaces it stands right beside letters.
"""

import base64
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from spanscore.judge import marks
from spanscore.judge.port import Prompt

Extent = Callable[[str], int]
"""How many characters of a candidate are replaced; 0: it is a false alarm."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of thing to redact.

    A named group of `pattern` is the candidate, else the whole match. Where a text in lower case
    holds none of `hints`, the pattern is not tried. With `within`, the pattern is looked for only
    inside of what that matches, across marks of earlier redactions.
    """

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    extent: Extent = len
    within: re.Pattern[str] | None = None


def _rule(kind: str, pattern: str, hints: str = "", extent: Extent = len, within: str = "") -> Rule:
    """A rule of patterns as text, with its hints between bars."""
    found = tuple(hints.split("|")) if hints else ()
    return Rule(kind, re.compile(pattern), found, extent, re.compile(within) if within else None)


def _if(is_one: Callable[[str], object]) -> Extent:
    """All of a candidate, where it is one."""
    return lambda value: len(value) if is_one(value) else 0


_CARDS = (
    ("4", (16, 19)),  # Visa
    ("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", (16,)),  # Mastercard
    ("3[47]", (15,)),  # American Express
    ("6011|64[4-9]|65", (16, 19)),  # Discover
    ("35(?:2[89]|[3-8])", (16,)),  # JCB
    ("3(?:0[0-5]|[689])", (14,)),  # Diners Club
    ("62", (16, 17, 18, 19)),  # UnionPay
)
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV", 29: "BR EG PS QA UA",
        30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


def is_card(text: str) -> bool:
    """Whether the digits of `text` are a payment card number: an issuer's prefix and length, and
    Luhn's check digit.

    >>> is_card("4111 1111 1111 1111"), is_card("4111 1111 1111 1112")
    (True, False)
    """
    digits = "".join(c for c in text if c.isdigit())
    if not any(len(digits) in lengths and re.match(prefix, digits) for prefix, lengths in _CARDS):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def iban_extent(text: str) -> int:
    """How many characters at the start of `text` are an IBAN, spaces included; 0: it is none.

    Its country's length and the check digits of ISO 13616 (mod 97) must hold.

    >>> iban_extent("DE89 3704 0044 0532 0130 00 Berlin")
    27
    """
    length = _IBAN_LENGTHS.get(text[:2], 0)
    places = [place for place, character in enumerate(text) if character != " "][:length]
    if not length or len(places) < length:
        return 0
    compact = "".join(text[place] for place in places)
    number = "".join(str(int(character, 36)) for character in compact[4:] + compact[:4])
    return places[-1] + 1 if int(number) % 97 == 1 else 0


def _has_letter_and_digit(value: str) -> bool:
    """Whether it has both, as credentials have and words have not."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _is_no_word(value: str) -> bool:
    """Whether it is what prose has not: a letter and a digit, a number that is no year, a capital
    or sign within.
    """
    is_number = value.isdigit() and not re.fullmatch(r"(?:19|20)\d\d", value)
    has_capital = any(x.islower() and y.isupper() for x, y in pairwise(value))
    has_sign = re.search(r"\w[!@#$%^&*+=~]+\w", value)
    return bool(_has_letter_and_digit(value) or is_number or has_capital or has_sign)


_NO_SECRET = re.compile(
    r"(none|null|true|false|string|str|text|bytes|required|optional|undefined|unknown|empty|missing|invalid|incorrect|"
    r"wrong|expired|changed|reset|protected|must|should|cannot|hidden|"
    r"falsch|ungültig|erforderlich|leer|keine?s?|geändert|vergessen|zurückgesetzt|abgelaufen|unbekannt|muss|"
    r"incorrect[ao]|inválid[ao]|requerid[ao]|obligatori[ao]|vací[ao]|ningun[ao]|olvidad[ao]|cambiad[ao]|caducad[ao]|"
    r"invalide|requis|obligatoire|oublié|aucun|vide|expiré|modifié|"
    r"incorret[ao]|obrigatóri[ao]|vazi[ao]|nenhuma?|esquecid[ao]|expirad[ao]|alterad[ao]|"
    r"onjuist|ongeldig|verplicht|leeg|geen|vergeten|gewijzigd|verlopen|verkeerd|"
    r"неверный|неверен|неправильный|обязателен|обязательно|пустой|забыт|изменен|изменён|истёк|истек)[.!?:]*"
    r"|[*.x_•-]+|\$\{?(?:env:)?[a-z0-9_]+\}?|(/[\w.-]+){2,}/?|<[^>]*>|\[.*|\(redacted.*",
    re.IGNORECASE | re.DOTALL,
)
_CALLED = re.compile(r"(?P<name>[A-Za-z_.]{4,64})[(\[]")


def _secret(value: str) -> int:
    """No type, word of prose, path, reference or mask, emphasised or not; of code that calls or
    indexes something the name.
    """
    if called := _CALLED.match(value):
        return _secret(called["name"])
    is_none = _NO_SECRET.fullmatch(value) or _NO_SECRET.fullmatch(value.strip("*_`"))
    return 0 if is_none else len(value)


def _has_secret(value: str) -> bool:
    """Whether something of a list is a secret."""
    items = (x.strip().strip("\\\"'") for x in value.split(","))
    return any(len(x) >= 4 and _secret(x) for x in items)


def _is_basic(value: str) -> bool:
    """Whether it may be a user and a password in base64, and is no word."""
    is_word = value.isalpha() and (value.isupper() or value[1:].islower())
    try:
        return not is_word or ":" in base64.b64decode(value + "=" * (-len(value) % 4)).decode()
    except ValueError:
        return False


def _has_session(value: str) -> bool:
    """Whether one of these cookies may be a secret: not only a page's language or colours."""
    return _has_letter_and_digit(value) or bool(re.search(r"=[^\s;]{16}", value))


# in a string of JSON quotes are escaped, in one within it twice; in Markdown a label is emphasised
_END = r"(?:\\{0,31}[\"'`*_]{0,3}\s{0,4}[:=][*_]{0,3}\s{0,4}|\s{0,4}\uff1a\s{0,4})"
_ENGLISH = (
    r"password|passwd|passphrase|passcode|pwd|(?:api|secret|access|private)[ _-]?key|secret|"
    r"(?:access|refresh|auth|session|id)[ _-]?token"
)
_FOREIGN = (
    r"passwort|kennwort|contraseña|mot de passe|(?<![a-z])senha|wachtwoord|пароль"
    r"|密码|密碼|口令|パスワード|비밀번호"
)
_FOREIGN_HINTS = (
    "passwort|kennwort|contraseña|mot de passe|senha|wachtwoord|пароль"
    "|密码|密碼|口令|パスワード|비밀번호"
)
_HINTS = "pass|pwd|key|secret|token"
_QUOTE = r"\\{0,31}[\"']"
_TYPOGRAPHIC = "„“”«»‹›‚‘’「」『』"  # noqa: RUF001 - quotation marks
_IN_QUOTES = (  # the first group of a pattern
    r"(\\{1,31})\"(?P<escaped>(?:[^\"\\\n]|(?!\1\")\\{1,63}[^\\\n]){4,})"
    r"|\"(?P<quoted>(?:[^\"\\\n]|\\.){4,})|'(?P<single>[^'\\\n]{4,})"
)
_IN_OTHER_QUOTES = rf"[{_TYPOGRAPHIC}](?P<typographic>[^{_TYPOGRAPHIC}\"\n]{{4,}})"
# a tag, or punctuation that ends a clause or begins the next field
_BARE_END = (
    r"(?!</?[A-Za-z][\w-]{0,15}[\s/>]"
    r"|[,;&)\]}>.]{1,8}(?:[\s\"'\\]|$|[\w.-]{1,32}[:=])|&&|[\u3001\u3002\uff0c\uff1b])"
)
_BARE = rf"(?![{{}}()\[\]<>,;&]){_BARE_END}(?:{_BARE_END}[^\s\"'\\]){{4,}}+"
# the same where Chinese, Japanese and Korean stand right beside a value
_WORD = (
    r"(?:(?![,;&)\]}>.]{1,8}(?:[\s\"'\\]|$|[\w.-]{1,32}[:=]))"
    r"[^\s\"'\\\u2013-\u206f\u2e80-\ud7ff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
    r"\uff5b-\uffef\U00020000-\U0003ffff]){4,}+"
)
_NOTHING_FOLLOWS = r"(?=[,;&)\]}>.]{0,8}(?:[ \t]{0,4}(?:$|[\r\n\"'<\\]|[\w-]{1,32} ?[:=])))"
_IS = (
    r"(?:\s{0,4}(?:は|が|是|为|為|은|는|이|가)\s{0,4}"
    r"|[ \t]{1,4}(?i:ist|lautet|es|est|é|is)[ \t]{0,4}[ \t:][ \t]{0,4})"
)
_PLAIN = r"[^\"'\\\n]{4,1024}"
_COLON = rf"{_QUOTE}\s{{0,4}}:\s{{0,4}}{_QUOTE}"
_NAME = rf"[\"'](?i:name|key|field|header|variable|label){_COLON}"
_VALUE = rf"[\"'](?i:value|val){_COLON}"
_INNER = (
    rf"{_QUOTE}(?i:value|val|secret|plain|plaintext|raw|current|new|old|password|token){_COLON}"
)
_COMMA = rf"{_QUOTE}\s{{0,4}},\s{{0,64}}\\{{0,31}}"


_CREDENTIAL = _if(_has_letter_and_digit)


def _labelled(labels: str, hints: str, bare: str = "") -> list[Rule]:
    """The rules for what stands behind labels that texts with `hints` may hold; `bare` finds values
    without quotation marks.

    In an object a name and its value have either order. `content` is no value: it is what a tool
    returned of whose name the label is a part.
    """
    label, pair = rf"(?i:{labels})(?i:s)?", rf"{_VALUE}(?P<value>{_PLAIN})"
    rules: list[tuple[str, Extent]] = [
        (rf"{label}{_END}(?:{_IN_QUOTES}{bare})", _secret),
        # {"passwords": ["…"]}
        (rf"{label}{_END}\[(?P<value>\s{{0,64}}{_QUOTE}[^\[\]{{}}]{{4,4096}})\]", _if(_has_secret)),
        # {"apiKey": {"value": "…"}}, not a schema's {"password": {"type": "string"}}
        (rf"{label}{_END}\{{[^{{}}]{{0,512}}?{_INNER}(?P<value>{_PLAIN})", _secret),
    ]
    # beside words, such as of a button "Forgot password", only a credential is one
    for before, extent in ((r"[^\s\"'\\]{0,64}?", _secret), (r"[^\"'\\\n]{0,64}?", _CREDENTIAL)):
        name = f"{_NAME}{before}{label}"
        rules += [(name + _COMMA + pair, extent), (pair + _COMMA + name + _QUOTE, extent)]
    rules += [
        (rf"{label}>(?P<value>[^<>\n]{{4,1024}})</", _secret),
        # | Password | … |
        (
            rf"\|[ \t*_`]{{0,4}}{label}[ \t*_`:]{{0,8}}\|[ \t]{{0,64}}(?P<value>[^\s|]{{4,1024}})",
            _CREDENTIAL,
        ),
    ]
    return [_rule("password", pattern, hints, extent) for pattern, extent in rules]


_SECRETS = (
    *_labelled(_ENGLISH, _HINTS, rf"|(?P<bare>{_BARE})"),
    *_labelled(_FOREIGN, _FOREIGN_HINTS, f"|{_IN_OTHER_QUOTES}"),
    _rule(  # Passwort: …, where nothing but the next field follows
        "password",
        rf"(?i:{_FOREIGN}){_END}(?P<value>{_WORD}){_NOTHING_FOLLOWS}",
        _FOREIGN_HINTS,
        _secret,
    ),
    _rule(  # Passwort: … in a sentence, 密码是…
        "password",
        rf"(?i:{_FOREIGN})(?:{_END}|{_IS})(?:{_IN_QUOTES}|{_IN_OTHER_QUOTES}|(?P<value>{_WORD}))",
        _FOREIGN_HINTS,
        _if(_is_no_word),
    ),
)

_COOKIES = r"(?<![A-Za-z])(?i:(?:set[_-]?)?cookies?)" + _END
_COOKIE_NAME = r"[^\s=:;,\"'\\\[\]{}()<>]{1,64}"
_COOKIE = rf"(?:[^\s;\"'\\]{{1,4096}}|{_QUOTE}[^\s;\"'\\]{{1,4096}}{_QUOTE}|)"
_COOKIE_LIST = (
    rf"(?P<value>{_COOKIE_NAME}={_COOKIE}"
    rf"(?:;[ \t]{{0,4}}{_COOKIE_NAME}(?:={_COOKIE})?){{0,200}})"
)
_OF_COOKIE = "domain|path|httponly|expires|secure|samesite"
_BASIC = r"(?i:basic)[ \t]{1,4}(?P<value>[A-Za-z0-9+/]{8,2048}={0,2})"
_HEADERS = tuple(
    _rule("token", pattern, hints, _if(is_one))
    for pattern, hints, is_one in (
        # Authorization: Basic …
        (
            rf"(?<![A-Za-z])(?i:authorization){_END}(?:{_QUOTE})?{_BASIC}",
            "authorization",
            _is_basic,
        ),
        # {"name": "Authorization", "value": "Basic …"}
        (
            rf"{_NAME}(?i:(?:proxy-)?authorization){_COMMA}{_VALUE}{_BASIC}",
            "authorization",
            _is_basic,
        ),
        # {"Set-Cookie": ["session=…; Path=/", "user=…"]}
        (
            rf"{_COOKIES}\[\s{{0,64}}{_QUOTE}(?P<value>{_COOKIE_NAME}=[^\[\]]{{1,32768}}?){_QUOTE}\s{{0,64}}\]",
            "cookie",
            _has_session,
        ),
        # Cookie: session=…; user=…
        (rf"{_COOKIES}(?:\[\s{{0,64}})?(?:{_QUOTE})?{_COOKIE_LIST}", "cookie", _has_session),
        # {"name": "Cookie", "value": "session=…"}
        (rf"{_NAME}(?i:(?:set-)?cookie){_COMMA}{_VALUE}{_COOKIE_LIST}", "cookie", _has_session),
        # {"value": "session=…", "name": "Cookie"}
        (
            rf"{_VALUE}{_COOKIE_LIST}{_COMMA}{_NAME}(?i:(?:set-)?cookie){_QUOTE}",
            "cookie",
            _has_session,
        ),
        # {"name": "session", "value": "…", "domain": ".example.com"}
        (
            rf"{_NAME}{_COOKIE_NAME}{_COMMA}{_VALUE}(?P<value>{_PLAIN}){_COMMA}[\"'](?i:{_OF_COOKIE}){_QUOTE}",
            _OF_COOKIE,
            lambda value: _has_session(f"={value}"),
        ),
    )
)

_SWITCHES = "#0-46afgGiIjJklLMnNOpqRsSvVZ"
# a backslash goes on in the next line; what another curl has is found from there
_CURL = (
    r"\bcurl\b(?:(?!curl\b|[ \t](?:\|\|?|&&)\s|(?:docker|podman|nerdctl|kubectl)\s)"
    r"(?:[^\n]|(?<=\\)\n|(?<=\\\r)\n)){0,4000}"
)
_USER = r"[^\s:\"'\\]{0,128}"
_COMMANDS = (
    _rule(  # curl -u user:… --proxy-user user:…, ["curl", "-u", "user:…"]
        "password",
        rf"(?:[\s,\[]|\\n)(?:{_QUOTE})?(?:-[{_SWITCHES}]{{0,12}}[uU]|--(?:proxy-)?user)"
        rf"(?:(?:{_QUOTE})?\s{{0,4}},\s{{0,64}}|[ \t=]{{0,4}})"
        rf"(?:(\\{{0,31}}[\"']){_USER}:(?P<quoted>(?:(?!\1)[^\n]){{4,1024}})"
        rf"|{_USER}:(\\{{0,31}}[\"'])(?P<inner>(?:(?!\3)[^\n]){{4,1024}})"
        rf"|{_USER}:(?P<bare>(?:[^\s\"'\\]|\\{{1,8}}[^\s\w\"'\\]){{4,1024}}))",
        "curl",
        _secret,
        _CURL,
    ),
    _rule(
        "token",
        r"(?i:(?<![a-z0-9])bearer[ \t]{1,4}"
        r"|(?<![a-z0-9])authorization\\{0,31}[\"']?[ \t]{0,4}[:=]["
        r" \t]{0,4}\\{0,31}[\"']?(?:basic|token)[ \t]{1,4})"
        r"(?P<value>[A-Za-z0-9._~+/=-]{12,})",
        "bearer|authorization",
        _CREDENTIAL,
    ),
    _rule("password", r"://[^\s:/@\"'\\]{0,128}:(?P<value>[^\s/@\"'\\]{1,256})@", "://"),
)
_IN_PROSE = (
    _rule(  # --password …, ["--password", "…"]
        "password",
        rf"--[\w-]{{0,24}}?(?i:{_ENGLISH})(?i:s)?(?:[ \t]{{1,4}}|{_QUOTE}\s{{0,4}},\s{{0,4}})"
        rf"(?:{_IN_QUOTES}|(?P<value>[^\s\"'\\-][^\s\"'\\]{{3,}}))",
        _HINTS,
        _CREDENTIAL,
    ),
    _rule(
        "token",
        rf"(?<![A-Za-z_-])(?i:token){_END}{_QUOTE}(?P<value>[A-Za-z0-9._~+/=-]{{16,}})",
        "token",
        _CREDENTIAL,
    ),
    _rule("password", rf"(?i:{_ENGLISH}) is:? (?P<value>{_BARE})", " is", _CREDENTIAL),
)

_API_KEYS = (
    # OpenAI, Anthropic, OpenRouter, Langfuse, ...
    r"sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{20,400}",
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{40,255}|glpat-[A-Za-z0-9_-]{20,64}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{20,255}",  # Slack
    r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{24,255}",  # Stripe
    r"hf_[A-Za-z0-9]{30,64}|gsk_[A-Za-z0-9]{40,64}|xai-[A-Za-z0-9]{40,128}|r8_[A-Za-z0-9]{30,64}",
    r"pplx-[A-Za-z0-9]{40,64}|lsv2_(?:pt|sk)_[A-Za-z0-9_]{30,128}|dapi[0-9a-f]{32}|tvly-[A-Za-z0-9-]{20,64}",
    r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,255}",
    r"dop_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
)
_KEYS = (
    _rule(
        "private_key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S]){0,32768}-----END [A-Z0-9 ]{0,60}-----|[A-Za-z0-9+/=\s\\]*)",
        "private key",
    ),
    _rule(
        "jwt", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "eyj"
    ),
    _rule(
        "aws_key",
        r"(?<![A-Za-z0-9])A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])",
        "akia|asia|abia|acca",
    ),
    _rule("api_key", rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_API_KEYS)})"),
)

_NUMBER = r"(?:[_ -]?(?:number|no|nr))?"
_PERSONAL = (
    _rule(
        "email",
        r"(?<![\w.%+-])[\w.%+-]+@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9_-])",
        "@",
    ),
    _rule("iban", r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,40}", extent=iban_extent),
    _rule(
        "card",
        r"(?<![A-Za-z0-9_.])(?:[0-9]{14,19}|[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}"
        r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})(?![A-Za-z0-9_]|[.-][0-9])",
        extent=_if(is_card),
    ),
    _rule(
        "ssn",
        r"(?<![A-Za-z0-9_-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![A-Za-z0-9_-])",
        "-",
    ),
    _rule(  # no signed decimal, no time zone with a date behind it
        "phone",
        r"(?<![A-Za-z0-9_+])\+(?=[1-9])(?:[ ().-]{0,2}[0-9]){8,15}(?![0-9])",
        "+",
        _if(lambda value: not re.search(r"^\+\d+\.\d+$|\d{4}-\d\d-\d\d", value)),
    ),
    _rule(
        "phone",
        r"(?<![A-Za-z0-9_.+-])(?:1[ .-])?(?:\([2-9][0-9]{2}\)"
        r" ?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}(?![A-Za-z0-9_-]|\.[0-9])",
    ),
    _rule(
        "phone",
        r"(?:(?<![A-Za-z])(?i:(?:tele|home|work|office|business|cell|mobile)?[_ -]?phone)"
        rf"|(?<=[a-z])(?<!i)(?<!smart)Phone)(?i:{_NUMBER})"
        rf"{_END}\\{{0,31}}[\"']?(?P<value>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])",
        "phone",
    ),
    # a plain number beside these may count or cost something: it is quoted, grouped or begins with
    # 0
    _rule(
        "phone",
        rf"(?<![A-Za-z])(?i:(?:mobile|cell|fax|whatsapp|tel(?:efon)?\.?){_NUMBER})"
        rf"{_END}(?:\\{{0,31}}[\"'](?P<quoted>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])"
        r"|(?P<value>(?:\(?0|[0-9]{1,5}[ /-])[0-9 ()./-]{4,18}[0-9]))",
        "mobile|cell|fax|whatsapp|tel",
    ),
)

RULES: tuple[Rule, ...] = (*_KEYS, *_COMMANDS, *_SECRETS, *_HEADERS, *_IN_PROSE, *_PERSONAL)
"""What is redacted unless configured otherwise, in the order in which it is looked for."""

MAX_CHARACTERS = 1_000_000
"""A longer text loses its middle before it is searched."""

_MAX_ROUNDS = 8
_SAME = {"email": str.casefold} | dict.fromkeys(
    ("card", "iban", "phone", "ssn"), lambda value: re.sub(r"[^0-9A-Za-z]", "", value)
)


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text with markers, and how many times each kind was replaced."""

    text: str
    counts: Mapping[str, int]


def rules(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """The built-in rules, behind one for each of `patterns` (kind: regular expression)."""
    return (*(Rule(kind, re.compile(pattern)) for kind, pattern in patterns.items()), *RULES)


class Redactor:
    """Redacts the texts of one transcript, so that a value has the same mark in all of them.

    The first value of a kind becomes `[REDACTED:kind]`, the second `[REDACTED:kind:2]`, so that a
    judge still sees whether two values are the same; an e-mail address keeps its domain,
    `[REDACTED:email at x.com]`. Not `numbered`: each becomes `[REDACTED:kind:?]`. `tag` is what its
    marks end in before the bracket (`marks.tag_of`); marks that do so are left as they are. Threads
    may share it.
    """

    def __init__(
        self, rules: Sequence[Rule] = RULES, *, numbered: bool = True, tag: str = ""
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.characters_left_out = 0
        self._rules = rules
        self._numbered = numbered
        self._numbers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._lock = threading.Lock()
        self.use(tag)

    def use(self, tag: str) -> None:
        """From now on, marks end in `tag`."""
        self._tag = tag
        self._genuine = marks.genuine(tag)

    def redact(self, text: str) -> str:
        """`text` with marks. Never raises; redacting the result again changes nothing."""
        if not self._rules:
            return text
        if len(text) > MAX_CHARACTERS:
            half = MAX_CHARACTERS // 2
            self.characters_left_out += len(text) - 2 * half
            missing = marks.left_out(f"{len(text) - 2 * half} characters", self._tag)
            text = f"{text[:half]} {missing} {text[-half:]}"
        with self._lock:
            # a replacement can uncover a neighbour that the replaced text had hidden
            for _ in range(_MAX_ROUNDS):
                before, lower = text, text.lower()
                for rule in self._rules:
                    if not rule.hints or any(hint in lower for hint in rule.hints):
                        text = self._apply(rule, text)
                if text == before:
                    break
        return text

    def _apply(self, rule: Rule, text: str) -> str:
        if rule.within is None:
            return self._between_marks(rule, text)
        return rule.within.sub(lambda found: self._between_marks(rule, found[0]), text)

    def _between_marks(self, rule: Rule, text: str) -> str:
        pieces = self._genuine.split(text)
        pieces[::2] = [
            rule.pattern.sub(lambda found: self._replace(rule, found), piece)
            for piece in pieces[::2]
        ]
        return "".join(pieces)

    def _replace(self, rule: Rule, found: re.Match[str]) -> str:
        start, end = found.span(
            next((name for name in rule.pattern.groupindex if found[name] is not None), 0)
        )
        extent = rule.extent(found.string[start:end]) if end > start else 0
        if not extent:
            return found[0]
        self.counts[rule.kind] += 1
        marker = self._marker(rule.kind, found.string[start : start + extent])
        return (
            found.string[found.start() : start]
            + marker
            + found.string[start + extent : found.end()]
        )

    def _marker(self, kind: str, value: str) -> str:
        domain = marks.domain_of(value) if kind == "email" else ""
        if not self._numbered:
            return marks.withheld(kind, None, self._tag, domain)
        numbers = self._numbers[kind]
        number = numbers.setdefault(_SAME.get(kind, str)(value), len(numbers) + 1)
        return marks.withheld(kind, number, self._tag, domain)


def redacted(prompt: Prompt, rules: Sequence[Rule]) -> Prompt:
    """`prompt` as it is sent: redacted once more, whatever it was made of; marks of its transcript
    stay as they are.

    What is found only now has a mark that claims no identity, `[REDACTED:kind:?]`.
    """
    redactor = Redactor(rules, numbered=False, tag=marks.tag_in(prompt.transcript))
    return replace(
        prompt,
        transcript=redactor.redact(prompt.transcript),
        question=redactor.redact(prompt.question),
        pictures=unaffected(prompt.pictures, rules),
    )


def unaffected(texts: Iterable[str], rules: Sequence[Rule]) -> tuple[str, ...]:
    """Those of the texts in which nothing is redacted."""
    return tuple(x for x in texts if redact(x, rules).text == x)


def redact(text: str, rules: Sequence[Rule] = RULES) -> Redacted:
    """Redact one text.

    >>> redact("from anna@x.com or bo@x.com, not anna@x.com").text
    'from [REDACTED:email at x.com] or [REDACTED:email:2 at x.com], not [REDACTED:email at x.com]'
    """
    redactor = Redactor(rules)
    return Redacted(redactor.redact(text), dict(redactor.counts))
