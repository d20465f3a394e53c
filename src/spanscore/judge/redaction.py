"""Redaction of secrets and personal data.

Every pattern runs in linear time: its repetitions are bounded, or cannot begin again inside what
they have just passed over. Only ASCII neighbours can make a value part of something else: in
scripts without spaces it stands right beside letters.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spanscore.judge import marks, secrets
from spanscore.judge.port import Prompt
from spanscore.judge.secrets import LABEL_END, Rule

_CARD_LENGTHS = (
    (re.compile("4"), (16, 19)),  # Visa
    (re.compile("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),  # Mastercard
    (re.compile("3[47]"), (15,)),  # American Express
    (re.compile("6011|64[4-9]|65"), (16, 19)),  # Discover
    (re.compile("35(?:2[89]|[3-8])"), (16,)),  # JCB
    (re.compile("3(?:0[0-5]|[689])"), (14,)),  # Diners Club
    (re.compile("62"), (16, 17, 18, 19)),  # UnionPay
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
    if not any(
        prefix.match(digits) and len(digits) in lengths for prefix, lengths in _CARD_LENGTHS
    ):
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


_PHONE = (
    r"(?:(?<![A-Za-z])(?i:(?:tele|home|work|office|business|cell|mobile)?[_"
    r" -]?phone)|(?<=[a-z])(?<!i)(?<!smart)Phone)"
    r"(?i:[_ -]?(?:number|no|nr))?"
)
_MOBILE = (
    r"(?<![A-Za-z])(?i:(?:mobile|cell|fax|whatsapp|tel(?:efon)?\.?)(?:[_ -]?(?:number|no|nr))?)"
)


def _card(value: str) -> int:
    return len(value) if is_card(value) else 0


def _international(value: str) -> int:
    """No signed decimal, no time zone with a date behind it."""
    return 0 if re.search(r"^\+\d+\.\d+$|\d{4}-\d\d-\d\d", value) else len(value)


PERSONAL = (
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
            rf"{_PHONE}{LABEL_END}\\{{0,31}}[\"']?(?P<value>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])"
        ),
        ("phone",),
    ),
    # a plain number beside these may count or cost something: it is quoted, grouped or begins with
    # 0
    Rule(
        "phone",
        re.compile(
            rf"{_MOBILE}{LABEL_END}(?:\\{{0,31}}[\"'](?P<quoted>\(?[0-9][0-9 ()./-]{{5,18}}[0-9])"
            r"|(?P<value>(?:\(?0|[0-9]{1,5}[ /-])[0-9 ()./-]{4,18}[0-9]))"
        ),
        ("mobile", "cell", "fax", "whatsapp", "tel"),
    ),
)


MAX_CHARACTERS = 1_000_000
"""A longer text loses its middle before it is searched."""

RULES: tuple[Rule, ...] = (
    *secrets.KEYS,
    secrets.CURL,
    secrets.BEARER,
    secrets.URL,
    *secrets.LABELLED,
    *secrets.PAIRS,
    secrets.XML,
    secrets.TABLE,
    *secrets.TRANSLATED,
    *secrets.HEADERS,
    secrets.OPTION,
    secrets.TOKEN,
    secrets.SENTENCE,
    *PERSONAL,
)
"""What is redacted unless configured otherwise, in the order in which it is looked for."""

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
