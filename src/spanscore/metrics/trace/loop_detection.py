"""Loop detection: does the agent repeat itself?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from spanscore.embed.port import Embedder
from spanscore.lazy_imports import NDArray, np
from spanscore.metrics._base import Embedded
from spanscore.metrics.check._check import MAX_TEXT_CHARS, STOP_WORDS, counted
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import AgentTrace


@dataclass(frozen=True)
class LoopDetection(Embedded):
    """How little the final output repeats the outputs of the session's traces just before.

    Against each of the last `window` traces: the cosine of the embeddings times the Jaccard
    similarity of the word sets (lower-cased, without English stop words and words of one letter;
    where that leaves nothing of either text, all their words). Of scripts that put no spaces
    between words, such as Chinese, Japanese and Thai, pairs of neighbouring characters stand for
    words. Equal texts have a product of 1. The score is 1 minus the highest product, clamped to
    0..1. Similar meaning in the same words is a loop; in other words it is enumeration, as it
    should be. Without an earlier output, or with an empty one, the metric does not apply. Where no
    embedding is configured, hashed character n-grams are compared. Metadata: `window_size`,
    `max_hybrid` and `comparisons` [{`trace_index`, `cosine_similarity`, `jaccard_similarity`,
    `hybrid_score`}], the index being the earlier trace's place in the session, from 0.

    >>> LoopDetection(window=5).window
    5
    """

    name: ClassVar[str] = "loop_detection"
    summary: ClassVar[str] = "Is the agent repeating its earlier outputs of the session?"
    run: ClassVar[Literal["trace", "session"]] = "session"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    falls_back_on_ngrams: ClassVar[bool] = True

    window: Annotated[int, Field(ge=1, le=100)] = 3
    """How many traces before this one its output is held against."""

    async def measure(
        self, trace: AgentTrace, earlier: Sequence[AgentTrace], embedder: Embedder
    ) -> Outcome:
        """Measure by one embedding of the output and the earlier ones together."""
        output = trace.final_output or ""
        if not output.strip():
            return Skip(
                "The output is empty: there is nothing that could repeat.", "not_applicable"
            )
        first = max(len(earlier) - self.window, 0)
        outputs = enumerate(map(_recorded_output, earlier[first:]), first)
        recorded = {i: text for i, text in outputs if text is not None}
        texts = {i: text for i, text in recorded.items() if text.strip()}
        if not texts and len(recorded) < len(earlier) - first:
            return Skip(
                "The traces before this one did not record their final_output.", "not_recorded"
            )
        if not texts:
            return Skip(
                "The session has no earlier output: there is nothing to repeat.", "not_applicable"
            )
        vectors = await embedder.embed([output, *texts.values()])
        comparisons = _comparisons(output, texts, vectors)
        if not vectors[0].any() and not any(x["hybrid_score"] for x in comparisons):
            return Skip(f"{embedder.name} knows no word of the output.", "no_words")
        return self._score(comparisons, embedder.name)

    def _score(self, comparisons: list[dict[str, Any]], embedding: str) -> Score:
        nearest = max(comparisons, key=lambda x: x["hybrid_score"])
        metadata = {
            "window_size": self.window,
            "max_hybrid": nearest["hybrid_score"],
            "comparisons": comparisons,
        }
        alike = f"similarity {nearest['cosine_similarity']:.2f} under {embedding}"
        reason = (
            f"The output repeats {nearest['hybrid_score']:.2f} of that of trace"
            f" {nearest['trace_index'] + 1} of the session, the nearest of"
            f" {counted(len(comparisons), 'earlier output')}: {alike}, times"
            f" {nearest['jaccard_similarity']:.2f} of the words in common."
        )
        return Score(min(max(1.0 - nearest["hybrid_score"], 0.0), 1.0), reason, metadata)


def _recorded_output(trace: AgentTrace) -> str | None:
    return None if "final_output" in trace.damaged else trace.final_output


def _comparisons(
    output: str, outputs: dict[int, str], vectors: NDArray[np.float32]
) -> list[dict[str, Any]]:
    """`vectors` holds the output's, then one for each text in `texts`, which is by place in the
    session.
    """
    mine = normalized(output)
    comparisons = []
    for (index, text), vector in zip(outputs.items(), vectors[1:], strict=True):
        other = normalized(text)
        # To the places that float32 holds: the same texts give the same score, whatever they were
        # embedded beside.
        cosine = 1.0 if other == mine else round(float(vector @ vectors[0]), 6)
        jaccard = 1.0 if other == mine else similarity(mine, other)
        comparisons.append(
            {
                "trace_index": index,
                "cosine_similarity": cosine,
                "jaccard_similarity": jaccard,
                "hybrid_score": cosine * jaccard,
            }
        )
    return comparisons


_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Tibetan, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese syllables
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_UNSPACED_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_RUNS: Final = re.compile(f"([{_UNSPACED}]+)|[^{_UNSPACED}]+")


class _Separators(dict[int, str | None]):
    """What `str.translate` makes of a character: punctuation, symbols and control characters become
    spaces.
    """

    def __missing__(self, point: int) -> str:
        character = chr(point)
        kept = character if unicodedata.category(character)[0] in "LMN" else " "
        self[point] = kept
        return kept


_SEPARATORS: Final = _Separators()


def normalized(text: str) -> str:
    """`text` in lower case, its compatibility characters and white space made alike: what is
    compared.

    >>> normalized(" Done,   42 €")
    'done, 42 €'
    """
    return _normalized(text[:MAX_TEXT_CHARS])


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of the word sets of two `normalized` texts: words in both over words
    in either.

    Stop words and words of one letter do not count, unless neither text has another; 0.0 where
    neither has any word.

    >>> similarity("the refund is sent", "a refund was sent today")
    0.6666666666666666
    >>> similarity("yes, it is", "no, it is not")
    0.4
    """
    mine, others = words(one), words(other)
    if not mine and not others:
        mine, others = _all_words(one), _all_words(other)
    common = len(mine & others)
    union = len(mine) + len(others) - common
    return common / union if union else 0.0


@lru_cache(maxsize=64)  # a text is compared several times, within one session and so in short order
def words(text: str) -> frozenset[str]:
    """The distinct words of a `normalized` text, without English stop words and words of one
    letter.

    >>> sorted(words("i've sent the invoice to lyon; the invoice is 42 eur."))
    ['42', 'eur', 'invoice', 'lyon', 'sent']
    >>> sorted(words("天気は晴れ"))
    ['は晴', '天気', '晴れ', '気は']
    """
    return (
        frozenset(word for word in _all_words(text) if len(word) > 1 or _UNSPACED_RUN.match(word))
        - STOP_WORDS
    )


@lru_cache(maxsize=64)
def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _all_words(text: str) -> frozenset[str]:
    separated = text.translate(_SEPARATORS).split()
    if text.isascii():
        return frozenset(separated)
    found: set[str] = set()
    for word in separated:
        for run in _RUNS.finditer(word):
            found.update(_pairs(run[0]) if run[1] else (run[0],))
    return frozenset(found)


def _pairs(run: str) -> list[str]:
    """Pairs of neighbouring characters; a character that stands alone is one by itself."""
    return [run[place : place + 2] for place in range(max(len(run) - 1, 1))]
