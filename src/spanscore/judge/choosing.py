"""What of a long transcript decides: errors, calls that change something, and what is cited later.

A value counts as cited where a later call's arguments or the final output contain it: the judgement
then rests on the result that it came from. What many results contain is worth little.
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
_UNSPACED = "\u2e80"  # from here on, scripts without spaces between words

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
_CITABLE: Collection[Kind] = ("result", "error", "reasoning", "text")
_DECISIVE, _IN_FOCUS = 2.0, 4.0
_MOST_CITED = 6.0


class Worth(NamedTuple):
    """How much a passage matters beside the others, and which places in it are cited."""

    weight: float
    places: tuple[Place, ...] = ()


class Weighing:
    """The worth of passages beside each other.

    Its making is linear in the length of the texts that are read.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = passages
        cited_by = _citations(passages)
        self._cited = [list(_cited(passage, at, cited_by)) for at, passage in enumerate(passages)]
        self._spread = Counter(token for cited in self._cited for token in {x.token for x in cited})

    def worths(self, focus: Collection[int] = ()) -> list[Worth]:
        """The worth of each passage, in order, where the calls at the places `focus` matter
        most.
        """
        last_in_focus: dict[str, int] = {}
        for at, passage in enumerate(self._passages):
            if passage.call is not None and passage.call in focus:
                last_in_focus |= {
                    token: at for token, _, _ in _tokens(passage.text[:_MAX_CITING_CHARACTERS])
                }
        return [self._worth(at, focus, last_in_focus) for at in range(len(self._passages))]

    def _worth(self, at: int, focus: Collection[int], last_in_focus: Mapping[str, int]) -> Worth:
        passage = self._passages[at]
        weight = _WEIGHTS[passage.kind] * (_DECISIVE if passage.decisive else 1)
        if passage.call is not None and passage.call in focus:
            weight *= _IN_FOCUS
        best: dict[str, float] = {}
        places: list[Place] = []
        for token, start, value, citing in self._cited[at]:
            in_focus = _IN_FOCUS if last_in_focus.get(token, -1) > at else 0.0
            worth = value * max(citing, in_focus) / self._spread[token]
            places.append(
                Place(start, start + len(token), worth if token not in best else worth / 4)
            )
            best[token] = worth
        return Worth(weight + min(sum(best.values()), _MOST_CITED), tuple(places))


class _Cited(NamedTuple):
    """A token of a passage that others cite: where it stands, how well it identifies, how much its
    citing counts.
    """

    token: str
    start: int
    value: float
    citing: float


def _citations(passages: Sequence[Passage]) -> dict[str, list[tuple[int, float]]]:
    """For each token, the passages that cite it by their place, each with the weight of its
    citing.
    """
    cited: dict[str, list[tuple[int, float]]] = {}
    for at, passage in enumerate(passages):
        weight = _CITING.get(passage.kind, 0.0) if passage.part in ("frame", "step") else 0.0
        if not weight:
            continue
        weight *= _DECISIVE if passage.decisive else 1
        for token in {x for x, _, _ in _tokens(passage.text[:_MAX_CITING_CHARACTERS])}:
            cited.setdefault(token, []).append((at, weight))
    return cited


def _cited(
    passage: Passage, at: int, cited_by: Mapping[str, Sequence[tuple[int, float]]]
) -> Iterator[_Cited]:
    """The tokens of a passage that others cite, up to a bound."""
    if passage.kind not in _CITABLE and passage.part not in ("history", "document"):
        return
    count = 0
    for token, start, value in _tokens(passage.text[:_MAX_READ_CHARACTERS]):
        citing = _citing(cited_by.get(token, ()), at)
        if citing:
            yield _Cited(token, start, value, citing)
            count += 1
        if count == _MAX_PLACES:
            return


def _citing(places: Sequence[tuple[int, float]], at: int) -> float:
    """How much it counts that passages at `places` cite one at `at`: those after it, or the user's
    words before it.
    """
    others = [x for x in (*places[:1], *places[-2:]) if x[0] != at]
    if not others:
        return 0.0
    return max((weight for place, weight in others if place > at), default=_CITING["input"])


def _tokens(text: str) -> Iterator[tuple[str, int, float]]:
    """The tokens of a text that can identify something, where each stands, and how well it
    identifies.
    """
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
