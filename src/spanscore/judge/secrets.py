"""Rules that find secrets."""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final


def _whole(value: str) -> int:
    return len(value)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of thing to redact.

    A named group of `pattern` is the candidate, else the whole match; `extent` says how many of its
    characters are replaced (0: it is a false alarm). Where a text in lower case holds none of
    `hints`, the pattern is not tried. With `within`, the pattern is looked for only inside of what
    that matches, across marks of earlier redactions.
    """

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    extent: Callable[[str], int] = _whole
    within: re.Pattern[str] | None = None


def credential(value: str) -> int:
    """A letter and a digit, as credentials have and words have not."""
    return len(value) if any(c.isdigit() for c in value) and any(c.isalpha() for c in value) else 0


# in a string of JSON quotes are escaped, in one within it twice; in Markdown a label is emphasised
LABEL_END = r"\\{0,31}[\"'`*_]{0,3}\s{0,4}[:=][*_]{0,3}\s{0,4}"
LABELS = (
    r"password|passwd|passphrase|passcode|pwd|(?:api|secret|access|private)[ _-]?key|secret|"
    r"(?:access|refresh|auth|session|id)[ _-]?token"
)
NAMED = rf"(?i:{LABELS})(?i:s)?"
QUOTE = r"\\{0,31}[\"']"
QUOTE_OR_NOT = rf"(?:{QUOTE})?"
IN_QUOTES = (  # the first group of a pattern
    r"(\\{1,31})\"(?P<escaped>(?:[^\"\\\n]|(?!\1\")\\{1,63}[^\\\n]){4,})"
    r"|\"(?P<quoted>(?:[^\"\\\n]|\\.){4,})|'(?P<single>[^'\\\n]{4,})"
)
SECRETS = ("pass", "pwd", "key", "secret", "token")
"""Hints of the labels."""

# a tag, or punctuation that ends a clause or begins the next field
_BARE_END = (
    r"(?!</?[A-Za-z][\w-]{0,15}[\s/>]"
    r"|[,;&)\]}>.]{1,8}(?:[\s\"'\\]|$|[\w.-]{1,32}[:=])|&&|[\u3001\u3002\uff0c\uff1b])"
)
BARE = rf"(?![{{}}()\[\]<>,;&]){_BARE_END}(?:{_BARE_END}[^\s\"'\\]){{4,}}+"
_NO_SECRET = re.compile(
    r"(none|null|true|false|string|str|text|bytes|required|optional|undefined|unknown|empty|missing|invalid|incorrect|"
    r"wrong|expired|changed|reset|protected|must|should|cannot|hidden)[.!?:]*|[*.x_•-]+|\$\{?(?:env:)?[a-z0-9_]+\}?|(/[\w.-]+){2,}/?|<[^>]*>|\[.*|\(redacted.*",
    re.IGNORECASE | re.DOTALL,
)
_CALL = re.compile(r"(?P<name>[A-Za-z_.]{4,64})[(\[]")


def secret(value: str) -> int:
    """No type, word of prose, path, reference or mask, emphasised or not; of code that calls or
    indexes something the name.
    """
    if call := _CALL.match(value):
        return secret(call["name"])
    is_none = _NO_SECRET.fullmatch(value) or _NO_SECRET.fullmatch(value.strip("*_`"))
    return 0 if is_none else len(value)


PLAIN = r"[^\"'\\\n]{4,1024}"
NAME = rf"[\"'](?i:name|key|field|header|variable|label){QUOTE}\s{{0,4}}:\s{{0,4}}{QUOTE}"
VALUE = rf"[\"'](?i:value|val){QUOTE}\s{{0,4}}:\s{{0,4}}{QUOTE}"
SEPARATOR = rf"{QUOTE}\s{{0,4}},\s{{0,64}}\\{{0,31}}"
_NAMES: Final = ((r"[^\s\"'\\]{0,64}?", secret), (r"[^\"'\\\n]{0,64}?", credential))
"""What may stand before the label in the name of a pair, and what its value then must be: beside
words, such as of a button "Forgot password", it looks like a credential.
"""


def _pairs(name: str, extent: Callable[[str], int]) -> Iterator[Rule]:
    """The rules for a name and a value in an object, in either order.

    Not for `content`, which is what a tool returned of whose name the label is a part.
    """
    named = rf"{NAME}{name}{NAMED}"
    value = rf"{VALUE}(?P<value>{PLAIN})"
    # {"name": "DB_PASSWORD", "value": "…"}
    yield Rule("password", re.compile(named + SEPARATOR + value), SECRETS, extent)
    # {"value": "…", "name": "DB_PASSWORD"}
    yield Rule("password", re.compile(value + SEPARATOR + named + QUOTE), SECRETS, extent)


PAIRS = tuple(rule for name, extent in _NAMES for rule in _pairs(name, extent))


_VALUE = (
    rf"{QUOTE}(?i:value|val|secret|plain|plaintext|raw|current|new|old|password|token){QUOTE}"
    rf"\s{{0,4}}:\s{{0,4}}{QUOTE}"
)
_SHORTEST = 4  # characters of what a label makes a secret


def _listed(value: str) -> int:
    """A list of which something is a secret."""
    items = (x.strip().strip("\\\"'") for x in value.split(","))
    return len(value) if any(len(x) >= _SHORTEST and secret(x) for x in items) else 0


URL = Rule(
    "password", re.compile(r"://[^\s:/@\"'\\]{0,128}:(?P<value>[^\s/@\"'\\]{1,256})@"), ("://",)
)
LABELLED = (
    Rule(
        "password",
        re.compile(rf"{NAMED}{LABEL_END}(?:{IN_QUOTES}|(?P<bare>{BARE}))"),
        SECRETS,
        secret,
    ),
    Rule(  # {"passwords": ["…"]}
        "password",
        re.compile(rf"{NAMED}{LABEL_END}\[(?P<value>\s{{0,64}}{QUOTE}[^\[\]{{}}]{{4,4096}})\]"),
        SECRETS,
        _listed,
    ),
    Rule(  # {"apiKey": {"value": "…"}}, not a schema's {"password": {"type": "string"}}
        "password",
        re.compile(rf"{NAMED}{LABEL_END}\{{[^{{}}]{{0,512}}?{_VALUE}(?P<value>{PLAIN})"),
        SECRETS,
        secret,
    ),
)
XML = Rule("password", re.compile(rf"{NAMED}>(?P<value>[^<>\n]{{4,1024}})</"), SECRETS, secret)
TABLE = Rule(  # | Password | … |
    "password",
    re.compile(
        rf"\|[ \t*_`]{{0,4}}{NAMED}[ \t*_`:]{{0,8}}\|[ \t]{{0,64}}(?P<value>[^\s|]{{4,1024}})"
    ),
    SECRETS,
    credential,
)
TOKEN = Rule(
    "token",
    re.compile(rf"(?<![A-Za-z_-])(?i:token){LABEL_END}{QUOTE}(?P<value>[A-Za-z0-9._~+/=-]{{16,}})"),
    ("token",),
    credential,
)
SENTENCE = Rule(
    "password", re.compile(rf"(?i:{LABELS}) is:? (?P<value>{BARE})"), (" is",), credential
)


_CURL_SWITCHES = "#0-46afgGiIjJklLMnNOpqRsSvVZ"
# a backslash goes on in the next line; what another curl has is found from there
_CURL = (
    r"\bcurl\b(?:(?!curl\b|[ \t](?:\|\|?|&&)\s|(?:docker|podman|nerdctl|kubectl)\s)"
    r"(?:[^\n]|(?<=\\)\n|(?<=\\\r)\n)){0,4000}"
)
_USER = r"[^\s:\"'\\]{0,128}"

CURL = Rule(  # curl -u user:… --proxy-user user:…, ["curl", "-u", "user:…"]
    "password",
    re.compile(
        rf"(?:[\s,\[]|\\n){QUOTE_OR_NOT}(?:-[{_CURL_SWITCHES}]{{0,12}}[uU]|--(?:proxy-)?user)"
        rf"(?:{QUOTE_OR_NOT}\s{{0,4}},\s{{0,64}}|[ \t=]{{0,4}})"
        rf"(?:(\\{{0,31}}[\"']){_USER}:(?P<quoted>(?:(?!\1)[^\n]){{4,1024}})"
        rf"|{_USER}:(\\{{0,31}}[\"'])(?P<inner>(?:(?!\3)[^\n]){{4,1024}})"
        rf"|{_USER}:(?P<bare>(?:[^\s\"'\\]|\\{{1,8}}[^\s\w\"'\\]){{4,1024}}))"
    ),
    ("curl",),
    secret,
    within=re.compile(_CURL),
)
OPTION = Rule(  # --password …, ["--password", "…"]
    "password",
    re.compile(
        rf"--[\w-]{{0,24}}?{NAMED}(?:[ \t]{{1,4}}|{QUOTE}\s{{0,4}},\s{{0,4}})"
        rf"(?:{IN_QUOTES}|(?P<value>[^\s\"'\\-][^\s\"'\\]{{3,}}))"
    ),
    SECRETS,
    credential,
)


_COOKIE = rf"(?<![A-Za-z])(?i:(?:set[_-]?)?cookies?){LABEL_END}"
_COOKIE_NAME = r"[^\s=:;,\"'\\\[\]{}()<>]{1,64}"
_COOKIE_VALUE = rf"(?:[^\s;\"'\\]{{1,4096}}|{QUOTE}[^\s;\"'\\]{{1,4096}}{QUOTE}|)"
_COOKIES = (
    rf"(?P<value>{_COOKIE_NAME}={_COOKIE_VALUE}"
    rf"(?:;[ \t]{{0,4}}{_COOKIE_NAME}(?:={_COOKIE_VALUE})?){{0,200}})"
)
_LONG_COOKIE = re.compile(r"=[^\s;]{16}")
_BASIC = r"(?i:basic)[ \t]{1,4}(?P<value>[A-Za-z0-9+/]{8,2048}={0,2})"


def _basic(value: str) -> int:
    """What may be a user and a password in base64, and is no word."""
    is_word = value.isalpha() and (value.isupper() or value[1:].islower())
    return 0 if is_word and not _is_user_and_password(value) else len(value)


def _is_user_and_password(value: str) -> bool:
    try:
        return ":" in base64.b64decode(value + "=" * (-len(value) % 4)).decode()
    except ValueError:
        return False


def _cookies(value: str) -> int:
    """Cookies of which one may be a secret: not only the language or the colours of a page."""
    return len(value) if credential(value) or _LONG_COOKIE.search(value) else 0


def _cookie_value(value: str) -> int:
    """As `_cookies`, for one without its name."""
    return len(value) if _cookies(f"={value}") else 0


BEARER = Rule(
    "token",
    re.compile(
        r"(?i:(?<![a-z0-9])bearer[ \t]{1,4}"
        r"|(?<![a-z0-9])authorization\\{0,31}[\"']?[ \t]{0,4}[:=]["
        r" \t]{0,4}\\{0,31}[\"']?(?:basic|token)[ \t]{1,4})"
        r"(?P<value>[A-Za-z0-9._~+/=-]{12,})"
    ),
    ("bearer", "authorization"),
    credential,
)
HEADERS = (
    Rule(  # Authorization: Basic …
        "token",
        re.compile(rf"(?<![A-Za-z])(?i:authorization){LABEL_END}\\{{0,31}}[\"']?{_BASIC}"),
        ("authorization",),
        _basic,
    ),
    Rule(  # {"name": "Authorization", "value": "Basic …"}
        "token",
        re.compile(rf"{NAME}(?i:(?:proxy-)?authorization){SEPARATOR}{VALUE}{_BASIC}"),
        ("authorization",),
        _basic,
    ),
    Rule(  # {"Set-Cookie": ["session=…; Path=/", "user=…"]}
        "token",
        re.compile(
            rf"{_COOKIE}\[\s{{0,64}}{QUOTE}(?P<value>{_COOKIE_NAME}=[^\[\]]{{1,32768}}?){QUOTE}\s{{0,64}}\]"
        ),
        ("cookie",),
        _cookies,
    ),
    Rule(  # Cookie: session=…; user=…
        "token",
        re.compile(rf"{_COOKIE}(?:\[\s{{0,64}})?{QUOTE_OR_NOT}{_COOKIES}"),
        ("cookie",),
        _cookies,
    ),
    Rule(  # {"name": "Cookie", "value": "session=…"}
        "token",
        re.compile(rf"{NAME}(?i:(?:set-)?cookie){SEPARATOR}{VALUE}{_COOKIES}"),
        ("cookie",),
        _cookies,
    ),
    Rule(  # {"value": "session=…", "name": "Cookie"}
        "token",
        re.compile(rf"{VALUE}{_COOKIES}{SEPARATOR}{NAME}(?i:(?:set-)?cookie){QUOTE}"),
        ("cookie",),
        _cookies,
    ),
    Rule(  # {"name": "session", "value": "…", "domain": ".example.com"}
        "token",
        re.compile(
            rf"{NAME}{_COOKIE_NAME}{SEPARATOR}{VALUE}(?P<value>{PLAIN}){SEPARATOR}"
            rf"[\"'](?i:domain|path|httponly|expires|secure|samesite){QUOTE}"
        ),
        ("domain", "path", "httponly", "expires", "secure", "samesite"),
        _cookie_value,
    ),
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

KEYS = (
    Rule(
        "private_key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:(?!-----)[\s\S]){0,32768}-----END [A-Z0-9 ]{0,60}-----|[A-Za-z0-9+/=\s\\]*)"
        ),
        ("private key",),
    ),
    Rule(
        "jwt",
        re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        ("eyj",),
    ),
    Rule(
        "aws_key",
        re.compile(r"(?<![A-Za-z0-9])A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
        ("akia", "asia", "abia", "acca"),
    ),
    Rule("api_key", re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_API_KEYS)})")),
)


_LABELS = (
    r"(?:(?i:passwort|kennwort|contraseña|mot de passe|(?<![a-z])senha|wachtwoord|пароль)"
    r"|密码|密碼|口令|パスワード|비밀번호)"
)
_OTHER_LABEL_END = rf"(?:{LABEL_END}|\s{{0,4}}\uff1a\s{{0,4}})"
_ARE = (
    r"(?:\s{0,4}(?:は|が|是|为|為|은|는|이|가)\s{0,4}"
    r"|[ \t]{1,4}(?i:ist|lautet|es|est|é|is)[ \t]{0,4}[ \t:][ \t]{0,4})"
)
_HINTS = (
    "passwort", "kennwort", "contraseña", "mot de passe", "senha", "wachtwoord", "пароль",
    "密码", "密碼", "口令", "パスワード", "비밀번호",
)  # fmt: skip
_TYPOGRAPHIC = "„“”«»‹›‚‘’「」『』"  # noqa: RUF001 - quotation marks
_IN_OTHER_QUOTES = rf"{IN_QUOTES}|[{_TYPOGRAPHIC}](?P<typographic>[^{_TYPOGRAPHIC}\"\n]{{4,}})"
# up to punctuation that ends a clause or begins the next field; Chinese, Japanese and Korean stand
# right beside a value
_WORD = (
    r"(?:(?![,;&)\]}>.]{1,8}(?:[\s\"'\\]|$|[\w.-]{1,32}[:=]))"
    r"[^\s\"'\\\u2013-\u206f\u2e80-\ud7ff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
    r"\uff5b-\uffef\U00020000-\U0003ffff]){4,}+"
)
_ENDS = r"(?=[,;&)\]}>.]{0,8}(?:[ \t]{0,4}(?:$|[\r\n\"'<\\]|[\w-]{1,32} ?[:=])))"
_NO_OTHER_SECRET = re.compile(
    r"(falsch|ungültig|erforderlich|leer|keine?s?|geändert|vergessen|zurückgesetzt|abgelaufen|unbekannt|muss|"
    r"incorrect[ao]|inválid[ao]|requerid[ao]|obligatori[ao]|vací[ao]|ningun[ao]|olvidad[ao]|cambiad[ao]|caducad[ao]|"
    r"incorrect|invalide|requis|obligatoire|oublié|aucun|vide|expiré|modifié|"
    r"incorret[ao]|obrigatóri[ao]|vazi[ao]|nenhuma?|esquecid[ao]|expirad[ao]|alterad[ao]|"
    r"onjuist|ongeldig|verplicht|leeg|geen|vergeten|gewijzigd|verlopen|verkeerd|"
    r"неверный|неверен|неправильный|обязателен|обязательно|пустой|забыт|изменен|изменён|истёк|истек)[.!?:]*",
    re.IGNORECASE,
)


def _other_secret(value: str) -> int:
    """No such word of English, nor of the other languages that have labels."""
    return 0 if _NO_OTHER_SECRET.fullmatch(value) else secret(value)


def _no_word(value: str) -> int:
    """A letter and a digit, a number that is no year, a capital or sign within: prose has none."""
    number = value.isdigit() and not re.fullmatch(r"(?:19|20)\d\d", value)
    within = any(x.islower() and y.isupper() for x, y in pairwise(value))
    signs = re.search(r"\w[!@#$%^&*+=~]+\w", value)
    return len(value) if credential(value) or number or within or signs else 0


TRANSLATED = (
    Rule(  # {"passwort": "…"}
        "password",
        re.compile(rf"{_LABELS}{_OTHER_LABEL_END}(?:{_IN_OTHER_QUOTES})"),
        _HINTS,
        _other_secret,
    ),
    Rule(  # Passwort: …, where nothing but the next field follows
        "password",
        re.compile(rf"{_LABELS}{_OTHER_LABEL_END}(?P<value>{_WORD}){_ENDS}"),
        _HINTS,
        _other_secret,
    ),
    Rule(  # Passwort: … in a sentence, 密码是…
        "password",
        re.compile(
            rf"{_LABELS}(?:{_OTHER_LABEL_END}|{_ARE})(?:{_IN_OTHER_QUOTES}|(?P<value>{_WORD}))"
        ),
        _HINTS,
        _no_word,
    ),
)
