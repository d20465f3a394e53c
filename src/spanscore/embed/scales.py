"""The scale of each embedding whose similarities of questions and answers were measured: what is near under it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Similarities of questions and answers under one embedding, as bench/coherence_scale.py measures them.

    `threshold` is the similarity that best separates a question's own answer from an answer to another question;
    `usual` is the median similarity of a question and its own answer.
    """

    threshold: float
    usual: float

    def signal(self, similarity: float) -> float:
        """`similarity` on the scale of the session metrics: 0.5 at the threshold, 1.0 from a usual answer on.

        >>> [Scale(0.2, 0.4).signal(x) for x in (0.0, 0.1, 0.2, 0.3, 0.4, 0.9)]
        [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
        """
        if similarity < self.threshold:
            return 0.5 * max(similarity, 0.0) / self.threshold
        return min(0.5 + 0.5 * (similarity - self.threshold) / (self.usual - self.threshold), 1.0)


MEASURED: Mapping[str, Scale] = {}
"""By the model's name in lower case, without its owner, provider and tag; docs/embeddings.md has the figures."""

_TAG = re.compile(r"[@:].*")


def scale_of(embedding: str | None) -> Scale | None:
    """The scale of the embedding with this name, as `Embedder.name` states it; None where none was measured."""
    model = (embedding or "").rsplit("/", 1)[-1].lower()
    return MEASURED.get(model) or MEASURED.get(_TAG.sub("", model))
