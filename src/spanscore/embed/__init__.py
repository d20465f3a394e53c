"""Embeddings: a provider's, a local model's, or n-grams."""

from collections.abc import Callable

from spanscore.embed.config import Config
from spanscore.embed.port import Embedder, Recent
from spanscore.lazy_imports import require_litellm

__all__ = ["Config", "Embedder", "open_embedder"]


def open_embedder(config: Config, *, redact: Callable[[str], str] = str) -> Embedder | None:
    """The embedder of `config.chosen`, with a memory of recent texts; None where none is
    configured.

    What goes to a provider goes through `redact` before; a local model and n-grams see texts as
    they are.

    A local model is loaded here, so that what is wrong with it is known at once: raises
    ConfigError, as it does for a provider's model where the extra `judge` is not installed. A
    provider is not asked before the first text.
    """
    embedder = _made(config, redact)
    if embedder is None:
        return None
    return Recent(embedder, max_texts=config.recent_texts, max_chars=config.max_chars)


def _made(config: Config, redact: Callable[[str], str]) -> Embedder | None:
    match config.chosen:
        case "litellm":
            from spanscore.embed.litellm import LiteLLM  # noqa: PLC0415 - one provider is used, the others not imported

            require_litellm("embedding.model", config.model or "a provider's model")
            return LiteLLM(config, redact=redact)
        case "model2vec":
            from spanscore.embed.model2vec import Model2Vec  # noqa: PLC0415 - as above

            return Model2Vec(config)
        case "ngrams":
            from spanscore.embed.ngrams import Ngrams  # noqa: PLC0415 - as above

            return Ngrams()
        case None:
            return None
