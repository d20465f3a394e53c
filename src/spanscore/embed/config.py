"""Configuration of embeddings."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, model_validator

from spanscore.model.options import Duration, Options, duration_ns

Provider = Literal["auto", "litellm", "model2vec", "ngrams"]

Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$", to_lower=True)]


class Config(Options):
    """Which embedding the metrics that compare texts use."""

    provider: Provider = "auto"
    """`litellm` asks a provider, `model2vec` runs a model in this process, `ngrams` hashes
    character n-grams.

    `auto` is `litellm` if `model` is set, else `model2vec` if `local_model` is set, else none:
    `coherence` is then skipped. n-grams compare spelling, not meaning, so they run only where they
    are named here; loop detection uses them where there is no embedding.
    """

    model: str | None = None
    """The provider's embedding model by the name litellm gives it, such as
    `text-embedding-3-small`. Needs `pip install 'spanscore[judge]'`.
    """

    api_base: str | None = None
    """Where the provider is reached, if not at its usual address."""

    api_key: SecretStr | None = None
    """The provider's key; without it litellm reads the variable that the provider documents
    (`OPENAI_API_KEY`, …).
    """

    timeout: Duration = duration_ns("10s")
    """How long one request to the provider may take."""

    max_retries: int = Field(default=2, ge=0, le=10)
    """How often a request is sent again after a time-out, 429 or 5xx before the score counts as
    failed.
    """

    batch_size: int = Field(default=64, ge=1, le=2048)
    """The most texts in one request to the provider."""

    local_model: str | None = None
    """A model2vec model: a folder, or a name on the Hugging Face hub.

    Needs `pip install 'spanscore[local]'`.
    """

    sha256: Mapping[str, Sha256] = {}
    """The SHA-256 that files of the local model must have, by path in its folder; unlisted files
    are not checked.
    """

    max_chars: int = Field(default=8192, ge=1)
    """How many characters of a text are embedded; the rest is left out.

    Providers refuse longer texts.
    """

    recent_texts: int = Field(default=1024, ge=0)
    """How many texts' vectors are remembered, so that texts which metrics share are embedded
    once.
    """

    @model_validator(mode="after")
    def _has_what_the_provider_needs(self) -> Self:
        if self.model in {"ngrams", "model2vec"}:
            raise ValueError(
                f"{self.model} is no provider's model: set embedding.provider to {self.model}"
            )
        needed = {"litellm": "model", "model2vec": "local_model"}.get(self.provider)
        if needed and not getattr(self, needed):
            raise ValueError(
                f"provider {self.provider} needs {needed}: set it, or leave provider out"
            )
        return self

    @property
    def chosen(self) -> Literal["litellm", "model2vec", "ngrams"] | None:
        """The configured provider, or what `auto` comes to; None for no embedding."""
        if self.provider != "auto":
            return self.provider
        if self.model:
            return "litellm"
        return "model2vec" if self.local_model else None
