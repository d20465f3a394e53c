"""Secrets and personal data are replaced before a transcript leaves the process, without hiding
what judging needs.

Every pattern runs in linear time: its repetitions are bounded, or cannot begin again inside what
they have just passed over. Only ASCII neighbours can make a value part of something else: in
scripts without spaces it stands right beside letters.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spanscore.judge import marks
from spanscore.judge.port import Prompt
from spanscore.judge.redaction import (
    commands,
    headers,
    keys,
    labelled,
    pairs,
    personal,
    translated,
)
from spanscore.judge.redaction.rule import Rule

MAX_CHARACTERS = 1_000_000
"""A longer text loses its middle before it is searched."""

RULES: tuple[Rule, ...] = (
    *keys.RULES,
    commands.CURL,
    headers.BEARER,
    labelled.URL,
    *labelled.RULES,
    *pairs.RULES,
    labelled.XML,
    labelled.TABLE,
    *translated.RULES,
    *headers.RULES,
    commands.OPTION,
    labelled.TOKEN,
    labelled.SENTENCE,
    *personal.RULES,
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
