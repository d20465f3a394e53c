"""What a score rests on: the steps and turns that its reason and findings name, and the texts that
it quotes.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Segment: TypeAlias = str | dict[str, Any]
"""A part of a text: plain, or `{"t": text, "step": row, "turn": id}`, with the row of a step, the
turn, or both.
"""

Resolve: TypeAlias = Callable[[str, int], "Place | None"]
"""Finds what a number behind a word ("step", "call", "turn", "trace") stands for."""

_NUMBERS = r"\d{1,6}(?:\s?(?:,\s?and|,|and|or|&|to|through|\u2013|-)\s?\d{1,6})*"
_NAMED = re.compile(rf"\b(steps?|calls?|turns?|traces?)\s({_NUMBERS})", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_RANGE = re.compile(r"\s?(?:to|through|\u2013|-)\s?")
_MAX_RANGE = 1_000
_QUOTED = re.compile(r"\"([^\"\n]{2,400})\"|“([^”\n]{2,400})”|`([^`\n]{2,400})`")
_FIGURE = re.compile(r"(?<![\w.])[A-Za-z$€£]{0,12}[-:/.,#]?\d[\w:./,#%°-]{1,40}")
_MAX_QUOTES = 40
_SHORTEST_FIGURE = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a turn's steps, counted from 0, or the turn itself where `step` is None; `turn`
    None: this one.
    """

    step: int | None
    turn: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Without what is None."""
        own = {} if self.step is None else {"step": self.step}
        return own if self.turn is None else {**own, "turn": self.turn}


@dataclass(slots=True)
class Evidence:
    """What was found in the texts of one score: places in their order, each once, and quoted
    texts.
    """

    places: dict[Place, None] = field(default_factory=dict)
    quotes: dict[str, None] = field(default_factory=dict)


def linked(
    text: str, resolve: Resolve, evidence: Evidence, *, has_quotes: bool = True
) -> list[Segment]:
    """`text` in parts, each number of a step, call, turn or trace that is there being one; notes
    them in `evidence`.

    Not `has_quotes`: what it quotes is not noted.

    >>> found = Evidence()
    >>> linked("Steps 1 to 3 failed.", lambda _, number: Place(number - 1), found)
    [{'t': 'Steps 1', 'step': 0}, ' to ', {'t': '3', 'step': 2}, ' failed.']
    >>> [x.step for x in found.places]
    [0, 1, 2]
    """
    parts: list[Segment] = []
    end = 0
    for match in _NAMED.finditer(text):
        word = match[1].lower().removesuffix("s")
        found = list(_placed(match, word, resolve, evidence))
        if not found:
            continue
        for start, stop, place in found:
            parts += [text[end:start], {"t": text[start:stop], **place.to_json()}]
            end = stop
    parts.append(text[end:])
    if has_quotes:
        _note_quotes(text, evidence)
    return [x for x in parts if x]


def finding_places(
    metric: str, metadata: Mapping[str, Any], resolve: Resolve
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The calls that a check's findings, or a judge's verdicts of single calls, name, each with
    what it says of it.
    """
    for name, word in (("findings", "call"), ("verdicts", "step")):
        items = metadata.get(name)
        for item in items if isinstance(items, Sequence) and not isinstance(items, str) else ():
            if not isinstance(item, Mapping) or not isinstance(item.get("call"), int):
                continue
            place = resolve(word, item["call"])
            if place is not None:
                yield place, _explained(metric, item)


def _explained(metric: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """A note beside a call: the metric, whether it speaks against the call, and the text."""
    is_fine = item.get("verdict") == "yes"
    text = str(item.get("text") or item.get("reason") or "")
    argument = item.get("argument")
    return {
        "metric": metric,
        "ok": is_fine,
        "text": text,
        **({"argument": str(argument)} if argument else {}),
    }


def _placed(
    match: re.Match[str], word: str, resolve: Resolve, evidence: Evidence
) -> Iterator[tuple[int, int, Place]]:
    """Start and end of each number that stands for something; the first has the word with it."""
    text, before = match.string, None
    for found in _NUMBER.finditer(text, match.start(2), match.end(2)):
        number = int(found[0])
        if before is not None and _RANGE.fullmatch(text, before[0], found.start()):
            for between in range(before[1] + 1, min(number, before[1] + _MAX_RANGE)):
                if (place := resolve(word, between)) is not None:
                    evidence.places[place] = None
        place = resolve(word, number)
        if place is not None:
            evidence.places[place] = None
            yield (match.start() if before is None else found.start()), found.end(), place
        before = found.end(), number


def _note_quotes(text: str, evidence: Evidence) -> None:
    """Texts in quotation marks, and figures such as `R-4821` or `20:00`, which a reader would look
    for in the steps.
    """
    found = [next(filter(None, x.groups())).strip(" .,;…") for x in _QUOTED.finditer(text)]
    found += [x[0].rstrip(".,:;/-") for x in _FIGURE.finditer(text)]
    for quote in found:
        if len(quote) >= _SHORTEST_FIGURE and len(evidence.quotes) < _MAX_QUOTES:
            evidence.quotes[quote] = None


def quotes_in(evidence: Evidence, texts: Sequence[str]) -> list[str]:
    """The quoted texts that are in one of `texts`, longest first; those inside another one left
    out.
    """
    found: list[str] = []
    for quote in sorted(evidence.quotes, key=len, reverse=True):
        if not any(quote in x for x in found) and any(quote in x for x in texts):
            found.append(quote)
    return found
