"""Coherence: does the answer speak of what was asked?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from spanscore.embed import ngrams
from spanscore.embed.port import Embedder
from spanscore.metrics._base import Embedded
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import AgentTrace


@dataclass(frozen=True)
class Coherence(Embedded):
    """How near the final output is to the user's input in meaning, as the embedding sees it.

    The score is 1 - d, where d is the cosine distance of their embeddings, clamped to 0..1 and rounded to 4 places;
    metadata `coherence_gap` is d, rounded likewise. Where the input or the output is empty there is nothing to compare.
    Each embedding has its own scale: what is near under one is far under another, so give `threshold` for the one in
    use.

    >>> Coherence(threshold={"ngrams": 0.15, "model2vec": 0.4}).threshold_for("ngrams-1")
    0.15
    """

    name: ClassVar[str] = "coherence"
    summary: ClassVar[str] = "Does the final output speak of what the user's input asked?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")

    def unmeasurable(self, trace: AgentTrace) -> Skip | None:
        """As for every metric; and where a text is empty, since there is nothing to compare then."""
        lacking = super().unmeasurable(trace)
        if lacking is not None:
            return lacking
        blank = [part for part, text in _texts(trace).items() if not text.strip()]
        if not blank:
            return None
        are = "is" if len(blank) == 1 else "are"
        return Skip(f"The {' and the '.join(blank)} {are} empty: there is nothing to compare.", "not_applicable")

    async def measure(self, trace: AgentTrace, earlier: Sequence[AgentTrace], embedder: Embedder) -> Outcome:
        """Measure by one embedding of both texts; `earlier` does not matter."""
        del earlier
        texts = _texts(trace)
        vectors = await embedder.embed(list(texts.values()))
        similarity = float(vectors[0] @ vectors[1])
        if similarity == 0.0:
            unknown = [part for part, vector in zip(texts, vectors, strict=True) if not vector.any()]
            if unknown:
                return Skip(f"{embedder.name} knows no word of the {' and of the '.join(unknown)}.", "no_words")
        distance = 1.0 - similarity
        value = round(min(max(1.0 - distance, 0.0), 1.0), 4)
        return Score(value, _reason(value, embedder.name), {"coherence_gap": round(distance, 4)})


def _texts(trace: AgentTrace) -> dict[str, str]:
    return {"input": trace.user_input or "", "output": trace.final_output or ""}


def _reason(value: float, embedding: str) -> str:
    reason = f"Under {embedding}, the similarity of input and output is {value:.4f}."
    if embedding == ngrams.Ngrams.name:
        low, high = ngrams.OWN_ANSWERS
        reason += f" This embedding compares spelling, not meaning: good answers mostly reach {low} to {high}."
    return reason
