"""The embedding's one port: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spanscore.arrays import NDArray, np

PROVIDER = "litellm/"
"""How the names of providers' embeddings begin; the model's follows."""


class Embedder(Protocol):
    """Anything that turns texts into vectors."""

    @property
    def name(self) -> str:
        """Which embedding this is, with its version, as a score's provenance states it."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dimensions), each row of length 1 (a row of zeros for a text without
        any feature).

        Raises EmbeddingError when no vectors can be had.
        """
        ...
