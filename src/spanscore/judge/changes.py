"""What of the judge is different for some traces: another model, or other parameters."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from spanscore.judge.config import Config, not_reserved
from spanscore.model.options import Options

_Model = Annotated[str, Field(min_length=1)]


class Changes(Options):
    """Keys of `judge`; those that are not set are as configured there."""

    model: _Model | None = None
    """The model that judges. Where it is another one than `judge.model` there is no cascade, and
    the configured key, address and fallbacks are its own only where it is of the same provider.
    """

    fallback_models: tuple[_Model, ...] = ()
    """Models to ask, in order, when the one before gave no valid answer."""

    plan: Literal["staged", "fused"] = "fused"
    """As `judge.plan`."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """As `judge.temperature`."""

    samples: int = Field(default=1, ge=1, le=20)
    """As `judge.samples`."""

    max_transcript_tokens: int = Field(default=32_000, ge=500)
    """As `judge.max_transcript_tokens`."""

    max_output_tokens: int = Field(default=4096, ge=64)
    """As `judge.max_output_tokens`."""

    max_verdicts: int = Field(default=300, ge=1)
    """As `judge.max_verdicts`."""

    extra: Annotated[dict[str, Any], AfterValidator(not_reserved)] = Field(default={}, repr=False)
    """As `judge.extra`, on top of what is configured there."""

    def applied(self, config: Config) -> Config:
        """The configuration of a judge with these changes.

        Raises ValueError where they do not go with it.
        """
        changed = config
        if self.model is not None and self.model != config.model:
            changed = config.with_model(self.model).model_copy(update={"cascade": None})
        given = {name: getattr(self, name) for name in self.model_fields_set - {"model"}}
        if "extra" in given:
            given["extra"] = {**config.extra, **self.extra}
        changed = changed.model_copy(update=given)
        changed.refuse_equal_samples()
        return changed
