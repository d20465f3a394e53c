"""The port of embeddings, and vectors of recent texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from spanscore.lazy_imports import NDArray, np

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


_Key: TypeAlias = tuple[str, str]
"""A tenant, and a text of its."""


class Recent:
    """Another embedder with a bound on the length of a text and a memory of the texts that came
    last.

    Holds at most `max_texts` texts of `max_chars` characters and their vectors. For one event loop,
    not for threads.
    """

    def __init__(self, embedder: Embedder, *, max_texts: int, max_chars: int) -> None:
        self._embedder = embedder
        self._max_texts = max_texts
        self._max_chars = max_chars
        self._vectors: dict[_Key, NDArray[np.float32]] = {}  # in order of last use

    @property
    def name(self) -> str:
        """The name of the embedder that makes the vectors."""
        return self._embedder.name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the embedder that makes the vectors, each distinct text asked for at most once.

        The rows are remembered and not copied, so nobody is to change them.
        """
        return await self.embed_for("", texts)

    async def embed_for(self, tenant: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """`embed` for one tenant; what was embedded for another is not remembered for this one."""
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        keys = [(tenant, text[: self._max_chars]) for text in texts]
        distinct = dict.fromkeys(keys)
        vectors = {key: self._vectors.pop(key) for key in distinct if key in self._vectors}
        missing = [key for key in distinct if key not in vectors] if vectors else list(distinct)
        if missing:
            made = await self._embedder.embed([text for _, text in missing])
            vectors.update(zip(missing, made, strict=True))
        self._remember(vectors)
        if missing == keys:
            return made
        # as np.stack, in half the time
        return np.concatenate([vectors[key] for key in keys]).reshape(len(keys), -1)

    def _remember(self, vectors: dict[_Key, NDArray[np.float32]]) -> None:
        self._vectors.update(vectors)
        while len(self._vectors) > self._max_texts:
            del self._vectors[next(iter(self._vectors))]


@dataclass(frozen=True, slots=True)
class _OfTenant:
    """The memory of recent texts as one tenant is given it."""

    recent: Recent
    tenant: str

    @property
    def name(self) -> str:
        return self.recent.name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await self.recent.embed_for(self.tenant, texts)


def of_tenant(embedder: Embedder, tenant: str) -> Embedder:
    """`embedder` for one tenant; where it remembers vectors, only those of the tenant's own texts
    are given.
    """
    return _OfTenant(embedder, tenant) if tenant and isinstance(embedder, Recent) else embedder
