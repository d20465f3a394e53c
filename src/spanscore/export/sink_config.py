"""The settings of exporters that send scores through the API of one tool."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
)

from spanscore.export.connection_config import RetryOnFailure, Tls
from spanscore.model.options import Options
from spanscore.model.quantity import Duration, duration_ns


class SinkSettings(Options):
    """What all tools have in common that show scores natively, through an API of their own."""

    endpoint: str = Field(pattern="^https?://.")
    """The URL of the tool."""

    tls: Tls = Tls()
    """How an https connection is secured."""

    headers: dict[str, SecretStr] = {}
    """Sent with every request, such as `authorization: "Bearer ${env:TOKEN}"`."""

    timeout: Duration = Field(default=duration_ns("10s"), gt=0)
    """How long one request may take."""

    retry_on_failure: RetryOnFailure = RetryOnFailure()
    """When to try again what the tool did not take; the intervals hold for scores whose span it has
    not got yet too.
    """

    max_wait: Duration = Field(default=duration_ns("15m"), ge=0)
    """How long a score waits for its span to be there; then it is dropped, with a log line."""

    max_waiting: int = Field(default=10_000, ge=1)
    """Scores that wait for their span at once; above it the oldest is dropped."""


class PhoenixConfig(SinkSettings):
    """Annotations in Arize Phoenix: on the span and its trace, and on the session for a session's
    score.
    """

    type: Literal["phoenix"] = Field(default="phoenix", exclude=True)
    """Follows from the exporter's name."""

    endpoint: str = Field(default="http://127.0.0.1:6006", pattern="^https?://.")
    """The URL of Phoenix."""


class MlflowConfig(SinkSettings):
    """Assessments in MLflow."""

    type: Literal["mlflow"] = Field(default="mlflow", exclude=True)
    """Follows from the exporter's name."""

    endpoint: str = Field(default="http://127.0.0.1:5000", pattern="^https?://.")
    """The URL of the MLflow server."""


def _not_empty(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value():
        raise ValueError("is empty; is its environment variable set?")
    return secret


class LangfuseConfig(SinkSettings):
    """Scores in Langfuse: on the trace and the observation, and on the session for a session's
    score.
    """

    type: Literal["langfuse"] = Field(default="langfuse", exclude=True)
    """Follows from the exporter's name."""

    endpoint: str = Field(default="https://cloud.langfuse.com", pattern="^https?://.")
    """The URL of Langfuse."""

    public_key: str = Field(min_length=1)
    """The project's public key, `pk-lf-…`."""

    secret_key: Annotated[SecretStr, AfterValidator(_not_empty)]
    """The project's secret key, such as `${env:LANGFUSE_SECRET_KEY}`."""

    trace_scores_on: Literal["both", "trace", "observation"] = "both"
    """Where a trace's score is filed: on the trace, on the evaluated observation of it, or on both,
    which are then two scores to Langfuse.
    """
