"""The scale of each embedding whose similarities of questions and answers were measured: what is
near under it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass


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
