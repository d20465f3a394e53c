"""Secrets and personal data are replaced before a transcript leaves the process, without hiding
what judging needs.

Every pattern runs in linear time: its repetitions are bounded, or cannot begin again inside what
they have just passed over. A number is only taken for personal data when a checksum, its form or
its label says so, since order ids, dates, amounts and timestamps are what a judge compares. Only
ASCII neighbours can make a value part of something else: in scripts without spaces it stands right
beside letters.
"""

import base64
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from spanscore.judge import marks
from spanscore.judge.checksums import iban_extent, is_card
from spanscore.judge.port import Prompt

MAX_CHARACTERS = 1_000_000
"""A longer text loses its middle before it is searched."""

_MAX_ROUNDS = 8
# in a string of JSON quotes are escaped, in one within it twice
_LABEL_END = r"\\{0,31}[\"']?\s{0,4}[:=]\s{0,4}"
_PHONE = (
    r"(?:(?<![A-Za-z])(?i:(?:tele|home|work|office|business|cell|mobile)?[_"
    r" -]?phone)|(?<=[a-z])(?<!i)(?<!smart)Phone)"
    r"(?i:[_ -]?(?:number|no|nr))?"
)
_MOBILE = r"(?<![A-Za-z])(?i:(?:mobile|cell|fax|whatsapp)(?:[_ -]?(?:number|no|nr))?)"
_LABELS = (
    "password|passwd|passphrase|passcode|pwd|api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|secret|"
    "(?:access|refresh|auth|session|id)[_-]?token"
)
_OTHER_LABELS = (
    r"(?:(?i:passwort|kennwort|contraseña|mot de passe|(?<![a-z])senha|wachtwoord|пароль)"
    r"|密码|密碼|口令|パスワード|비밀번호)"
)
_OTHER_LABEL_END = rf"(?:{_LABEL_END}|\s{{0,4}}\uff1a\s{{0,4}})"
_ARE = (
    r"(?:\s{0,4}(?:は|が|是|为|為|은|는|이|가)\s{0,4}"
    r"|[ \t]{1,4}(?i:ist|lautet|es|est|é|is)[ \t]{0,4}[ \t:][ \t]{0,4})"
)
_OTHER_SECRETS = (
    "passwort", "kennwort", "contraseña", "mot de passe", "senha", "wachtwoord", "пароль",
    "密码", "密碼", "口令", "パスワード", "비밀번호",
)  # fmt: skip
_QUOTE = r"\\{0,31}[\"']"
_QUOTE_OR_NOT = rf"(?:{_QUOTE})?"
_NAMED = rf"(?i:{_LABELS})(?i:s)?"
_PLAIN = r"[^\"'\\\n]{4,1024}"
_IN_QUOTES = (  # the first group of a pattern
    r"(\\{1,31})\"(?P<escaped>(?:[^\"\\\n]|(?!\1\")\\{1,63}[^\\\n]){4,})"
    r"|\"(?P<quoted>(?:[^\"\\\n]|\\.){4,})|'(?P<single>[^'\\\n]{4,})"
)
_TYPOGRAPHIC = "„“”«»‹›‚‘’「」『』"  # noqa: RUF001 - quotation marks
_IN_OTHER_QUOTES = rf"{_IN_QUOTES}|[{_TYPOGRAPHIC}](?P<typographic>[^{_TYPOGRAPHIC}\"\n]{{4,}})"
# up to punctuation that ends a clause or begins the next field; Chinese, Japanese and Korean stand
# right beside a value
_WORD = (
    r"(?:(?![,;&)\]}>.]{1,8}(?:[\s\"'\\]|$|[\w.-]{1,32}[:=]))"
    r"[^\s\"'\\\u2013-\u206f\u2e80-\ud7ff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40"
    r"\uff5b-\uffef\U00020000-\U0003ffff]){4,}+"
)
_ENDS = r"(?=[,;&)\]}>.]{0,8}(?:[ \t]{0,4}(?:$|[\r\n\"'<\\]|[\w-]{1,32} ?[:=])))"
_VALUE = (
    rf"{_QUOTE}(?i:value|val|secret|plain|plaintext|raw|current|new|old|password|token){_QUOTE}"
    rf"\s{{0,4}}:\s{{0,4}}{_QUOTE}"
)
_NAME = rf"[\"'](?i:name|key|field|header|variable|label){_QUOTE}\s{{0,4}}:\s{{0,4}}{_QUOTE}"
_NO_SECRET = re.compile(
    r"(none|null|true|false|string|str|text|bytes|required|optional|undefined|unknown|empty|missing|invalid|incorrect|"
    r"wrong|expired|changed|reset|protected|must|should|cannot|hidden)[.!?:]*|[*.x_•-]+|\$\{?[a-z0-9_]+\}?|(/[\w.-]+){2,}/?|<[^>]*>|\[.*|\(redacted.*",
    re.IGNORECASE | re.DOTALL,
)
_NO_OTHER_SECRET = re.compile(
    r"(falsch|ungültig|erforderlich|leer|keine?s?|geändert|vergessen|zurückgesetzt|abgelaufen|unbekannt|muss|"
    r"incorrect[ao]|inválid[ao]|requerid[ao]|obligatori[ao]|vací[ao]|ningun[ao]|olvidad[ao]|cambiad[ao]|caducad[ao]|"
    r"incorrect|invalide|requis|obligatoire|oublié|aucun|vide|expiré|modifié|"
    r"incorret[ao]|obrigatóri[ao]|vazi[ao]|nenhuma?|esquecid[ao]|expirad[ao]|alterad[ao]|"
    r"onjuist|ongeldig|verplicht|leeg|geen|vergeten|gewijzigd|verlopen|verkeerd|"
    r"неверный|неверен|неправильный|обязателен|обязательно|пустой|забыт|изменен|изменён|истёк|истек)[.!?:]*",
    re.IGNORECASE,
)
_COOKIE = rf"(?<![A-Za-z])(?i:(?:set[_-]?)?cookies?){_LABEL_END}"
_COOKIE_NAME = r"[^\s=:;,\"'\\\[\]{}()<>]{1,64}"
_COOKIE_VALUE = rf"(?:[^\s;\"'\\]{{1,4096}}|{_QUOTE}[^\s;\"'\\]{{1,4096}}{_QUOTE}|)"
_LONG_COOKIE = re.compile(r"=[^\s;]{16}")
_CURL_SWITCHES = "#0-46afgGiIjJklLMnNOpqRsSvVZ"
# a backslash goes on in the next line; what another curl has is found from there
_SAME_COMMAND = (
    r"(?:(?!curl\b|[ \t](?:\|\|?|&&)\s|(?:docker|podman|nerdctl|kubectl)\s)"
    r"(?:[^\n]|(?<=\\)\n|(?<=\\\r)\n))"
)
_USER = r"[^\s:\"'\\]{0,128}"
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
_SECRETS = ("pass", "pwd", "key", "secret", "token")
_SHORTEST = 4  # characters of what a label makes a secret
_SAME = {"email": str.casefold} | dict.fromkeys(
    ("card", "iban", "phone", "ssn"), lambda value: re.sub(r"[^0-9A-Za-z]", "", value)
)


def _whole(value: str) -> int:
    return len(value)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of thing to redact.

    A named group of `pattern` is the candidate, else the whole match; `extent` says how many of its
    characters are replaced (0: it is a false alarm). Where a text in lower case holds none of
    `hints`, the pattern is not tried.
    """

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    extent: Callable[[str], int] = _whole


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text with markers, and how many times each kind was replaced."""

    text: str
    counts: Mapping[str, int]


def _credential(value: str) -> int:
    """A letter and a digit, as credentials have and words have not."""
    return len(value) if any(c.isdigit() for c in value) and any(c.isalpha() for c in value) else 0


def _secret(value: str) -> int:
    """No type, word of prose, path, reference or mask."""
    return 0 if _NO_SECRET.fullmatch(value) else len(value)


def _other_secret(value: str) -> int:
    """No such word of English, nor of the other languages that have labels."""
    return 0 if _NO_OTHER_SECRET.fullmatch(value) else _secret(value)


def _no_word(value: str) -> int:
    """A letter and a digit, a number that is no year, a capital or sign within: prose has none."""
    number = value.isdigit() and not re.fullmatch(r"(?:19|20)\d\d", value)
    within = any(x.islower() and y.isupper() for x, y in pairwise(value))
    signs = re.search(r"\w[!@#$%^&*+=~]+\w", value)
    return len(value) if _credential(value) or number or within or signs else 0


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
    return len(value) if _credential(value) or _LONG_COOKIE.search(value) else 0


def _listed(value: str) -> int:
    """A list of which something is a secret."""
    items = (x.strip().strip("\\\"'") for x in value.split(","))
    return len(value) if any(len(x) >= _SHORTEST and _secret(x) for x in items) else 0


def _card(value: str) -> int:
    return len(value) if is_card(value) else 0


def _international(value: str) -> int:
    """No signed decimal, no time zone with a date behind it."""
    return 0 if re.search(r"^\+\d+\.\d+$|\d{4}-\d\d-\d\d", value) else len(value)


_NAMES: Final = ((r"[^\s\"'\\]{0,64}?", _secret), (r"[^\"'\\\n]{0,64}?", _credential))
"""What may stand before the label in the name of a pair, and what its value then must be: beside
words, such as of a button "Forgot password", it looks like a credential.
"""


def _pairs(name: str, extent: Callable[[str], int]) -> Iterator[Rule]:
    """The rules for a name and a value in an object, in either order.

    Not for `content`, which is what a tool returned of whose name the label is a part.
    """
    named = rf"{_NAME}{name}{_NAMED}"
    value = rf"[\"'](?i:value|val){_QUOTE}\s{{0,4}}:\s{{0,4}}{_QUOTE}(?P<value>{_PLAIN})"
    between = rf"{_QUOTE}\s{{0,4}},\s{{0,64}}\\{{0,31}}"
    # {"name": "DB_PASSWORD", "value": "…"}
    yield Rule("password", re.compile(named + between + value), _SECRETS, extent)
    # {"value": "…", "name": "DB_PASSWORD"}
    yield Rule("password", re.compile(value + between + named + _QUOTE), _SECRETS, extent)


RULES = (
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
    Rule(  # curl -u user:…, ["curl", "-u", "user:…"]
        "password",
        re.compile(
            rf"\bcurl\b{_SAME_COMMAND}{{0,4000}}?(?:[\s,\[]|\\n){_QUOTE_OR_NOT}"
            rf"(?:-[{_CURL_SWITCHES}]{{0,12}}[uU]|--(?:proxy-)?user)"
            rf"(?:{_QUOTE_OR_NOT}\s{{0,4}},\s{{0,64}}|[ \t=]{{0,4}})"
            rf"(?:(\\{{0,31}}[\"']){_USER}:(?P<quoted>(?:(?!\1)[^\n]){{4,1024}})"
            rf"|{_USER}:(\\{{0,31}}[\"'])(?P<inner>(?:(?!\3)[^\n]){{4,1024}})"
            rf"|{_USER}:(?P<bare>(?:[^\s\"'\\]|\\{{1,8}}[^\s\w\"'\\]){{4,1024}}))"
        ),
        ("curl",),
        _secret,
    ),
    Rule(
        "token",
        re.compile(
            r"(?i:(?<![a-z0-9])bearer[ \t]{1,4}"
            r"|(?<![a-z0-9])authorization\\{0,31}[\"']?[ \t]{0,4}[:=]["
            r" \t]{0,4}\\{0,31}[\"']?(?:basic|token)[ \t]{1,4})"
            r"(?P<value>[A-Za-z0-9._~+/=-]{12,})"
        ),
        ("bearer", "authorization"),
        _credential,
    ),
    Rule(
        "password", re.compile(r"://[^\s:/@\"'\\]{0,128}:(?P<value>[^\s/@\"'\\]{1,256})@"), ("://",)
    ),
    Rule(
        "password",
        re.compile(
            rf"{_NAMED}{_LABEL_END}(?:{_IN_QUOTES}|(?P<bare>[^\s\"'\\,;&<>{{}}()\[\]]{{4,}}))"
        ),
        _SECRETS,
        _secret,
    ),
    Rule(  # {"passwords": ["…"]}
        "password",
        re.compile(rf"{_NAMED}{_LABEL_END}\[(?P<value>\s{{0,64}}{_QUOTE}[^\[\]{{}}]{{4,4096}})\]"),
        _SECRETS,
        _listed,
    ),
    Rule(  # {"apiKey": {"value": "…"}}, not a schema's {"password": {"type": "string"}}
        "password",
        re.compile(rf"{_NAMED}{_LABEL_END}\{{[^{{}}]{{0,512}}?{_VALUE}(?P<value>{_PLAIN})"),
        _SECRETS,
        _secret,
    ),
    *(rule for name, extent in _NAMES for rule in _pairs(name, extent)),
    Rule("password", re.compile(rf"{_NAMED}>(?P<value>[^<>\n]{{4,1024}})</"), _SECRETS, _secret),
    Rule(  # {"passwort": "…"}
        "password",
        re.compile(rf"{_OTHER_LABELS}{_OTHER_LABEL_END}(?:{_IN_OTHER_QUOTES})"),
        _OTHER_SECRETS,
        _other_secret,
    ),
    Rule(  # Passwort: …, where nothing but the next field follows
        "password",
        re.compile(rf"{_OTHER_LABELS}{_OTHER_LABEL_END}(?P<value>{_WORD}){_ENDS}"),
        _OTHER_SECRETS,
        _other_secret,
    ),
    Rule(  # Passwort: … in a sentence, 密码是…
        "password",
        re.compile(
            rf"{_OTHER_LABELS}(?:{_OTHER_LABEL_END}|{_ARE})(?:{_IN_OTHER_QUOTES}|(?P<value>{_WORD}))"
        ),
        _OTHER_SECRETS,
        _no_word,
    ),
    Rule(  # Authorization: Basic …
        "token",
        re.compile(
            rf"(?<![A-Za-z])(?i:authorization){_LABEL_END}\\{{0,31}}[\"']?(?i:basic)[ \t]{{1,4}}"
            r"(?P<value>[A-Za-z0-9+/]{8,2048}={0,2})"
        ),
        ("authorization",),
        _basic,
    ),
    Rule(  # {"Set-Cookie": ["session=…; Path=/", "user=…"]}
        "token",
        re.compile(
            rf"{_COOKIE}\[\s{{0,64}}{_QUOTE}(?P<value>{_COOKIE_NAME}=[^\[\]]{{1,32768}}?){_QUOTE}\s{{0,64}}\]"
        ),
        ("cookie",),
        _cookies,
    ),
    Rule(  # Cookie: session=…; user=…
        "token",
        re.compile(
            rf"{_COOKIE}(?:\[\s{{0,64}})?{_QUOTE_OR_NOT}"
            rf"(?P<value>{_COOKIE_NAME}={_COOKIE_VALUE}"
            rf"(?:;[ \t]{{0,4}}{_COOKIE_NAME}(?:={_COOKIE_VALUE})?){{0,200}})"
        ),
        ("cookie",),
        _cookies,
    ),
    Rule(  # --password …, ["--password", "…"]
        "password",
        re.compile(
            rf"--[\w-]{{0,24}}?{_NAMED}(?:[ \t]{{1,4}}|{_QUOTE}\s{{0,4}},\s{{0,4}})"
            rf"(?:{_IN_QUOTES}|(?P<value>[^\s\"'\\-][^\s\"'\\]{{3,}}))"
        ),
        _SECRETS,
        _credential,
    ),
    Rule(
        "token",
        re.compile(
            rf"(?<![A-Za-z_-])(?i:token){_LABEL_END}{_QUOTE}(?P<value>[A-Za-z0-9._~+/=-]{{16,}})"
        ),
        ("token",),
        _credential,
    ),
    Rule(
        "password",
        re.compile(rf"(?i:{_LABELS}) is (?P<value>[^\s\"',;&<>{{}}()\[\]]{{4,}})"),
        (" is ",),
        _credential,
    ),
    Rule(
        "email",
        re.compile(
            r"(?<![\w.%+-])[\w.%+-]+@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9_-])"
        ),
        ("@",),
    ),
    Rule(
        "iban",
        re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,40}"),
        extent=iban_extent,
    ),
    Rule(
        "card",
        re.compile(
            r"(?<![A-Za-z0-9_.])(?:[0-9]{14,19}|[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}"
            r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})(?![A-Za-z0-9_]|[.-][0-9])"
        ),
        extent=_card,
    ),
    Rule(
        "ssn",
        re.compile(
            r"(?<![A-Za-z0-9_-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![A-Za-z0-9_-])"
        ),
        ("-",),
    ),
    Rule(
        "phone",
        re.compile(r"(?<![A-Za-z0-9_+])\+(?=[1-9])(?:[ ().-]{0,2}[0-9]){8,15}(?![0-9])"),
        ("+",),
        _international,
    ),
    Rule(
        "phone",
        re.compile(
            r"(?<![A-Za-z0-9_.+-])(?:1[ .-])?(?:\([2-9][0-9]{2}\)"
            r" ?|[2-9][0-9]{2}[.-])[2-9][0-9]{2}[.-][0-9]{4}"
            r"(?![A-Za-z0-9_-]|\.[0-9])"
        ),
    ),
    Rule(
        "phone",
        re.compile(
            rf"{_PHONE}{_LABEL_END}\\{{0,31}}[\"']?(?P<value>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])"
        ),
        ("phone",),
    ),
    # a plain number beside these may count or cost something: it is quoted, grouped or begins with
    # 0
    Rule(
        "phone",
        re.compile(
            rf"{_MOBILE}{_LABEL_END}(?:\\{{0,31}}[\"'](?P<quoted>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])"
            r"|(?P<value>(?:\(?0|[0-9]{1,5}[ /-])[0-9 ()./-]{4,18}[0-9]))"
        ),
        ("mobile", "cell", "fax", "whatsapp"),
    ),
)
"""What is redacted unless configured otherwise, in the order in which it is looked for."""


def rules(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """The built-in rules, behind one for each of `patterns` (kind: regular expression)."""
    return (*(Rule(kind, re.compile(pattern)) for kind, pattern in patterns.items()), *RULES)


class Redactor:
    """Redacts the texts of one transcript, so that a value has the same mark in all of them.

    The first value of a kind becomes `[REDACTED:kind]`, the second `[REDACTED:kind:2]`, so that a
    judge still sees whether two values are the same. Not `numbered`: each becomes
    `[REDACTED:kind:?]`. `tag` is what its marks end in before the bracket (`marks.tag_of`); marks
    that do so are left as they are. Threads may share it.
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
        if not self._numbered:
            return marks.withheld(kind, None, self._tag)
        numbers = self._numbers[kind]
        number = numbers.setdefault(_SAME.get(kind, str)(value), len(numbers) + 1)
        return marks.withheld(kind, number, self._tag)


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
    )


def redact(text: str, rules: Sequence[Rule] = RULES) -> Redacted:
    """Redact one text.

    >>> redact("Write to anna@example.com or bo@example.com, not to anna@example.com!").text
    'Write to [REDACTED:email] or [REDACTED:email:2], not to [REDACTED:email]!'
    """
    redactor = Redactor(rules)
    return Redacted(redactor.redact(text), dict(redactor.counts))
