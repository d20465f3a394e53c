"""A provider's embeddings in the file of recorded answers, so that tests get the same scores again,
without a key.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from spanscore.embed.port import Embedder
from spanscore.errors import EmbeddingError
from spanscore.judge import redaction
from spanscore.judge.secrets import Rule
from spanscore.naming import short_path
from spanscore.sdk.cassettes import Cassette, Mode, Vector, compared_text, may_ask

_STEPS = 32767
"""Into how many steps a component is rounded between 0 and 1: a cosine of such vectors is the exact
one to 0.0001.
"""
_LITTLE_ENDIAN = np.dtype("<i2")
_SHOWN_CHARS = 160


class CassetteEmbedder:
    """An `Embedder` that gives the recorded vectors, and passes on to another one what its mode
    lets it.

    What it gives is rounded as what is written, so that a score is the same when it is recorded and
    replayed.
    """

    def __init__(
        self,
        cassette: Cassette,
        mode: Mode,
        name: str,
        embedder: Callable[[], Embedder | None],
        rules: Sequence[Rule] = (),
    ) -> None:
        """`embedder` is called when a text is to be passed on.

        `rules` are for what is written of texts.
        """
        self._cassette = cassette
        self._mode = mode
        self._name = name
        self._embedder = embedder
        self._rules = rules

    @property
    def name(self) -> str:
        """That of the embedding which is recorded, or is asked."""
        return self._name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        known = {text: self._known(text) for text in dict.fromkeys(texts)}
        missing = [text for text, found in known.items() if found is None]
        if missing:
            made = rounded(await self._vectors_of(missing))
            for text, vector in zip(missing, made, strict=True):
                known[text] = vector
                if self._mode != "replay":
                    self._record(text, vector)
        return np.stack([unit(x) for x in known.values() if x is not None])[_places(texts)]

    async def _vectors_of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        embedder = self._embedder() if may_ask(self._mode, self._cassette) else None
        if embedder is None:
            where, text = short_path(self._cassette.path), texts[0][:_SHOWN_CHARS]
            how = (
                "record it with --spanscore-record=new, or all of them again with"
                " --spanscore-record=all"
            )
            raise EmbeddingError(f"{where} has no embedding by {self._name} of {text!r}; {how}")
        return await embedder.embed(texts)

    def _known(self, text: str) -> NDArray[np.int16] | None:
        found = self._cassette.vectors.get(self._key(text))
        if found is None:
            return None
        self._cassette.replayed += 1
        try:
            return np.frombuffer(base64.b64decode(found.values, validate=True), _LITTLE_ENDIAN)
        except ValueError:
            raise EmbeddingError(
                f"{short_path(self._cassette.path)}: a recorded embedding cannot be used; record it"
                " again"
            ) from None

    def _record(self, text: str, vector: NDArray[np.int16]) -> None:
        shown = " ".join(self._compared(text).split())[:_SHOWN_CHARS]
        values = base64.b64encode(vector.astype(_LITTLE_ENDIAN).tobytes()).decode()
        self._cassette.record_vector(self._key(text), Vector(self._name, shown, values))

    def _key(self, text: str) -> str:
        """SHA-256, in hex, of the embedding's name and the text, as texts are compared."""
        seed = f"{self._name}\n{self._compared(text)}"
        return hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()

    def _compared(self, text: str) -> str:
        return compared_text(redaction.redact(text, self._rules).text)


def rounded(vectors: NDArray[np.float32]) -> NDArray[np.int16]:
    """Vectors of length 1 as they are written.

    >>> rounded(np.array([[1.0, 0.0]], dtype=np.float32))
    array([[32767,     0]], dtype=int16)
    """
    return np.rint(np.clip(vectors, -1, 1) * _STEPS).astype(np.int16)


def unit(vector: NDArray[np.int16]) -> NDArray[np.float32]:
    """A written vector, of length 1 again; zeros stay zeros."""
    found = vector.astype(np.float32)
    length = np.linalg.norm(found)
    return found / (length or np.float32(1))


def _places(texts: Sequence[str]) -> list[int]:
    """For each text its place among the different ones."""
    places: dict[str, int] = {}
    return [places.setdefault(text, len(places)) for text in texts]
