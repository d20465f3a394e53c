"""What of a long transcript decides: errors, calls that change something, and what is cited later.

A value counts as cited where a later call's arguments or the final output contain it: the judgement then rests on the
result that it came from. What many results contain is worth little.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from spanscore.judge.eliding import Place
from spanscore.judge.passage import Kind, Passage

_MAX_READ_CHARACTERS = 200_000
_MAX_CITING_CHARACTERS = 20_000
_MAX_PLACES = 200
_TOKEN = re.compile(r"\w+")
_KEY_END = re.compile(r'"\s?:')
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNSPACED = "\u2e80"  # from here on, scripts without spaces between words

_READING = frozenset(
    [
        "analyze",
        "ask",
        "browse",
        "calculate",
        "check",
        "classify",
        "compare",
        "compute",
        "convert",
        "count",
        "describe",
        "detect",
        "diff",
        "display",
        "download",
        "evaluate",
        "explain",
        "extract",
        "fetch",
        "filter",
        "find",
        "forecast",
        "geocode",
        "get",
        "glob",
        "grep",
        "head",
        "inspect",
        "list",
        "load",
        "locate",
        "lookup",
        "look",
        "ls",
        "match",
        "measure",
        "monitor",
        "navigate",
        "open",
        "parse",
        "peek",
        "ping",
        "plan",
        "preview",
        "print",
        "query",
        "read",
        "recall",
        "recommend",
        "retrieve",
        "scan",
        "scrape",
        "search",
        "see",
        "select",
        "show",
        "sort",
        "stat",
        "status",
        "suggest",
        "summarize",
        "tail",
        "think",
        "translate",
        "validate",
        "verify",
        "view",
        "wait",
        "weather",
    ]
)
_WEIGHTS: Mapping[Kind, float] = {
    "note": 1.0,
    "input": 6.0,
    "instructions": 6.0,
    "plan": 3.0,
    "output": 8.0,
    "head": 3.0,
    "arguments": 2.5,
    "result": 1.0,
    "error": 4.0,
    "text": 2.0,
    "reasoning": 0.7,
}
_CITING: Mapping[Kind, float] = {"output": 3.0, "arguments": 1.5, "text": 0.7, "input": 0.5}
_CHANGES, _IN_FOCUS = 2.0, 4.0
_MOST_CITED = 6.0


class Worth(NamedTuple):
    """How much a passage matters beside the others, and which places in it are cited."""

    weight: float
    places: tuple[Place, ...] = ()


def changes(tool: str) -> bool:
    """Whether a tool's name does not begin with, or contain as its verb, a word for reading.

    >>> [changes(x) for x in ("get_user", "listFiles", "update_reservation", "book", "user_search")]
    [False, False, True, True, False]
    """
    words = [word.lower() for part in _TOKEN.findall(tool) for word in _CAMEL.sub("_", part).split("_") if word]
    return not _READING.intersection(words)


def weigh(passages: Sequence[Passage], focus: Collection[int] = ()) -> list[Worth]:
    """The worth of each passage, in order. Linear in the length of the texts that are read."""
    cited_by = _citations(passages, focus)
    found = [list(_cited(passage, at, cited_by)) for at, passage in enumerate(passages)]
    spread = Counter(token for tokens in found for token in {x[0] for x in tokens})
    return [_worth(passage, tokens, spread, focus) for passage, tokens in zip(passages, found, strict=True)]


def _worth(
    passage: Passage, tokens: Sequence[tuple[str, int, float]], spread: Mapping[str, int], focus: Collection[int]
) -> Worth:
    weight = _WEIGHTS[passage.kind]
    if passage.decisive:
        weight *= _CHANGES
    if passage.call is not None and passage.call in focus:
        weight *= _IN_FOCUS
    best: dict[str, float] = {}
    places: list[Place] = []
    for token, at, value in tokens:
        worth = value / spread[token]
        places.append(Place(at, at + len(token), worth if token not in best else worth / 4))
        best[token] = worth
    return Worth(weight + min(sum(best.values()), _MOST_CITED), tuple(places))


def _citations(passages: Sequence[Passage], focus: Collection[int]) -> dict[str, list[tuple[int, float]]]:
    """For each token, the passages that cite it by their place, each with the weight of its citing."""
    cited: dict[str, list[tuple[int, float]]] = {}
    for at, passage in enumerate(passages):
        weight = _CITING.get(passage.kind, 0.0) if passage.part in ("frame", "step") else 0.0
        if not weight:
            continue
        weight *= (_CHANGES if passage.decisive else 1) * (_IN_FOCUS if passage.call in focus else 1)
        for token in {x for x, _, _ in _tokens(passage.text[:_MAX_CITING_CHARACTERS])}:
            cited.setdefault(token, []).append((at, weight))
    return cited


def _cited(
    passage: Passage, at: int, cited_by: Mapping[str, Sequence[tuple[int, float]]]
) -> Iterator[tuple[str, int, float]]:
    """Each token of a passage that another one cites: the token, where it stands, and how much that matters."""
    if passage.kind not in ("result", "error", "reasoning", "text") and passage.part not in ("history", "document"):
        return
    count = 0
    for token, start, value in _tokens(passage.text[:_MAX_READ_CHARACTERS]):
        citing = cited_by.get(token)
        if citing is None or count >= _MAX_PLACES:
            continue
        last, weight = citing[-1]
        if last == at and len(citing) > 1:
            last, weight = citing[-2]
        if last > at:
            weight = max(weight, citing[0][1] if citing[0][0] > at else 0.0)
        elif passage.part == "step":
            weight = _CITING["input"]  # the user named it before
        if last != at:
            count += 1
            yield token, start, value * weight


def _tokens(text: str) -> Iterator[tuple[str, int, float]]:
    """The tokens of a text that can identify something, where each stands, and how well it identifies."""
    for found in _TOKEN.finditer(text):
        token, start = found[0].lower(), found.start()
        if _KEY_END.match(text, found.end()):
            continue
        if any(x.isdigit() for x in token):
            if len(token) > 1:
                yield token, start, 1.0 if len(token) > 2 else 0.3
        elif token[0] >= _UNSPACED:
            for place in range(len(token) - 1):
                yield token[place : place + 2], start + place, 0.05
        elif len(token) > 3:
            yield token, start, 0.15
