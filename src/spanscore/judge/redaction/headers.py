"""Secrets in HTTP's headers: authorization and cookies, also where an object names the header."""

import base64
import re

from spanscore.judge.redaction.labels import LABEL_END, QUOTE, QUOTE_OR_NOT
from spanscore.judge.redaction.pairs import NAME, PLAIN, SEPARATOR, VALUE
from spanscore.judge.redaction.rule import Rule, credential

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
RULES = (
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
