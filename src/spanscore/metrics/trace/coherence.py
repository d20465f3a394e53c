"""Coherence: does the answer speak of what was asked?"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from spanscore.embed import ngrams
from spanscore.embed.port import Embedder
from spanscore.metrics._base import Embedded, Threshold
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import AgentTrace


@dataclass(frozen=True)
class Coherence(Embedded):
    """How near the final output is to the user's input in meaning, as the embedding sees it.

    The score is 1 - d, where d is the cosine distance of their embeddings, clamped to 0..1 and
    rounded to 4 places; metadata `coherence_gap` is d, rounded likewise. It is skipped where no
    embedding is configured, and where the input or the output is empty. Each embedding has its own
    scale: what is near under one is far under another. So the threshold is the one that was
    measured for the embedding in use; under an embedding that was not measured (docs/embeddings.md
    lists them and how to measure one) the score has no label unless `threshold` is given, and
    counts in the session metrics only where `signal_weights` gives it a weight.

    >>> Coherence(threshold={"ngrams": 0.15, "model2vec": 0.4}).threshold_for("ngrams-1")
    0.15
    >>> Coherence().threshold_for("ngrams-1") is None
    True
    """

    name: ClassVar[str] = "coherence"
    summary: ClassVar[str] = "Does the final output speak of what the user's input asked?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")

    threshold: Annotated[
        Threshold | Mapping[str, Threshold] | None,
        Field(
            description=(
                "The score from which on the label is `pass`: a number, or one for each embedding,"
                " keyed by the beginning of its name; the longest that fits counts. null, or where"
                " none fits: the threshold that was measured for the embedding, else none, and the"
                " score has no label."
            )
        ),
    ] = None

    @classmethod
    def signal(cls, value: float, embedding: str | None) -> float | None:
        """1.0 from the threshold on that was measured for `embedding`, 0.5 where nothing is
        similar.
        """
        scale = scale_of(embedding)
        return scale.signal(value) if scale else None

    def default_threshold(self, embedding: str | None) -> float | None:
        """The threshold that was measured for `embedding`; None where none was."""
        scale = scale_of(embedding)
        return scale.threshold if scale else None

    def unmeasurable(self, trace: AgentTrace) -> Skip | None:
        """As for every metric; and where a text is empty, since there is nothing to compare
        then.
        """
        lacking = super().unmeasurable(trace)
        if lacking is not None:
            return lacking
        blank = [part for part, text in _texts(trace).items() if not text.strip()]
        if not blank:
            return None
        are = "is" if len(blank) == 1 else "are"
        return Skip(
            f"The {' and the '.join(blank)} {are} empty: there is nothing to compare.",
            "not_applicable",
        )

    async def measure(
        self, trace: AgentTrace, earlier: Sequence[AgentTrace], embedder: Embedder
    ) -> Outcome:
        """Measure by one embedding of both texts; `earlier` does not matter."""
        del earlier
        texts = _texts(trace)
        vectors = await embedder.embed(list(texts.values()))
        similarity = float(vectors[0] @ vectors[1])
        if similarity == 0.0:
            unknown = [
                part for part, vector in zip(texts, vectors, strict=True) if not vector.any()
            ]
            if unknown:
                return Skip(
                    f"{embedder.name} knows no word of the {' and of the '.join(unknown)}.",
                    "no_words",
                )
        distance = 1.0 - similarity
        value = round(min(max(1.0 - distance, 0.0), 1.0), 4)
        return Score(value, _reason(value, embedder.name), {"coherence_gap": round(distance, 4)})


def _texts(trace: AgentTrace) -> dict[str, str]:
    return {"input": trace.user_input or "", "output": trace.final_output or ""}


def _reason(value: float, embedding: str) -> str:
    reason = f"Input and output have a similarity of {value:.4f} under {embedding}."
    if embedding == ngrams.Ngrams.name:
        low, high = ngrams.OWN_ANSWERS
        reason += (
            f" This embedding compares spelling, not meaning: good answers mostly reach {low} to"
            f" {high}."
        )
    return reason


@dataclass(frozen=True, slots=True)
class Scale:
    """Similarities of questions and answers under one embedding, as bench/coherence_scale.py
    measures them.

    `threshold` is the similarity that 95 % of the questions have with their own answers.
    """

    threshold: float

    def signal(self, similarity: float) -> float:
        """`similarity` on the scale of the session metrics: 1.0 from the threshold on, 0.5 where
        there is none.

        Below 0.5 it never is: also among right answers some have nothing in common with the
        question ("Yes, please proceed"), so by itself the similarity can raise a doubt, and no
        more.

        >>> [Scale(0.2).signal(x) for x in (0.0, 0.1, 0.2, 0.9)]
        [0.5, 0.75, 1.0, 1.0]
        """
        return 0.5 + 0.5 * min(max(similarity, 0.0) / self.threshold, 1.0)


MEASURED: Mapping[str, Scale] = {
    **dict.fromkeys(
        ("all-minilm-l6-v2", "all-minilm", "all-minilm:22m", "all-minilm:l6-v2"), Scale(0.19)
    ),
    "wordllama-l2-supercat-256": Scale(0.075),
}
"""By the model's name in lower case, without its owner, provider and digest; docs/embeddings.md has
the figures.
"""

_TAG = re.compile(r"(?:@.*|:latest)$")


def scale_of(embedding: str | None) -> Scale | None:
    """The scale of the embedding with this name, as `Embedder.name` states it; None where none was
    measured.
    """
    model = (embedding or "").rsplit("/", 1)[-1].lower()
    return MEASURED.get(model) or MEASURED.get(_TAG.sub("", model))
