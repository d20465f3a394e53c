"""Embedding by a provider, through litellm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spanscore import retry
from spanscore.embed.config import Config
from spanscore.embed.port import PROVIDER
from spanscore.errors import EmbeddingError
from spanscore.lazy_imports import NDArray, load_litellm, np
from spanscore.telemetry import instrumentation_suppressed

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0


class _TruthyZero(int):
    """No retries: litellm reads `max_retries or 2` for embeddings, so that a plain 0 would add its
    retries to ours.
    """

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True)
class LiteLLM:
    """A provider's embedding model; `config.model` is set.

    Nothing leaves that did not go through `redact`.
    """

    config: Config
    redact: Callable[[str], str] = str
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def name(self) -> str:
        """`litellm/` and the model's name."""
        return f"{PROVIDER}{self.config.model}"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), the model's dimensions).

        Raises EmbeddingError when the provider refuses, cannot be reached after all retries, or
        answers with something else than one vector for each text.
        """
        litellm = await asyncio.to_thread(load_litellm)
        size = self.config.batch_size
        batches = [list(texts[i : i + size]) for i in range(0, len(texts), size)]
        return np.concatenate(
            [self._unit_rows(batch, await self._ask(litellm, batch)) for batch in batches]
        )

    async def _ask(self, litellm: Any, texts: list[str]) -> Any:
        failures = 0
        while True:
            try:
                return await self._request(litellm, texts)
            except litellm.exceptions.openai.OpenAIError as error:
                failures += 1
                if failures > self.config.max_retries or not _may_pass(error):
                    what = f"{self.name} gave no embedding: {_one_line(error)}"
                    raise EmbeddingError(what) from error
                await self.sleep(_pause_s(error, failures))

    async def _request(self, litellm: Any, texts: list[str]) -> Any:
        key = self.config.api_key
        with instrumentation_suppressed():
            return await litellm.aembedding(
                model=self.config.model,
                input=[self.redact(text) for text in texts],
                api_base=self.config.api_base,
                api_key=key.get_secret_value() if key else None,
                timeout=self.config.timeout / 1e9,
                max_retries=_TruthyZero(),
                encoding_format="float",
                **{"no-log": True},
            )

    def _unit_rows(self, texts: list[str], response: Any) -> NDArray[np.float32]:
        """The vectors of an OpenAI-style response (`data`: [{index, embedding}]), scaled to length
        1.
        """
        try:
            items = sorted(response.data, key=lambda item: int(item["index"]))
            rows = np.array([item["embedding"] for item in items], dtype=np.float32)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EmbeddingError(
                f"{self.name} answered with something else than vectors: {_one_line(error)}"
            ) from error
        is_whole = rows.ndim == 2 and len(rows) == len(texts) and rows.size
        if not is_whole or not np.isfinite(rows).all():
            raise EmbeddingError(
                f"{self.name} answered with an array of shape {rows.shape} for {len(texts)} texts,"
                " or not all finite"
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0, lengths, 1)
        return rows


def _may_pass(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    return retry.may_pass(status if isinstance(status, int) else None)


def _pause_s(error: Exception, failures: int) -> float:
    """Seconds to wait after the n-th failure: what the provider asks for in Retry-After, else
    doubling; bounded.
    """
    headers = getattr(error, "litellm_response_headers", None) or {}
    asked_s = retry.retry_after_s(headers.get("retry-after"), time.time_ns())
    pause_s = retry.backoff_s(failures, _FIRST_PAUSE_S) if asked_s is None else asked_s
    return min(pause_s, _LONGEST_PAUSE_S)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
