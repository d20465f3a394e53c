"""Where alerts go."""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from spanscore.export.connection_config import Tls
from spanscore.export.named_by_type import NamedByType, name_the_types
from spanscore.model.options import Options
from spanscore.model.quantity import Duration, duration_ns

RECEIVER_TYPES = ("alertmanager", "webhook", "otel_event")


def _is_url(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value().startswith(("http://", "https://")):
        raise ValueError(
            "write a URL that begins with http:// or https://; is its environment variable set?"
        )
    return secret


def _is_not_empty(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value():
        raise ValueError("must not be empty; is its environment variable set?")
    return secret


class _Receiver(Options):
    max_interval: Duration = Field(default=duration_ns("5m"), gt=0)
    """The longest wait before what was not taken is sent again; the first is 5 s, each further one
    twice as long.
    """


class _HttpReceiver(_Receiver):
    tls: Tls = Tls()
    """How an https connection is secured."""

    headers: dict[str, SecretStr] = {}
    """Sent with every request, such as `authorization: "Bearer ${env:TOKEN}"`."""

    timeout: Duration = Field(default=duration_ns("10s"), gt=0)
    """How long one request may take."""


class Alertmanager(_HttpReceiver):
    """Prometheus Alertmanager, by its API v2."""

    type: Literal["alertmanager"] = Field(default="alertmanager", exclude=True)
    """Follows from the receiver's name."""

    endpoint: str = Field(default="http://127.0.0.1:9093", pattern="^https?://.")
    """The URL of Alertmanager, with its prefix where it has one, without `/api/v2/alerts`."""

    resend_interval: Duration = Field(default=duration_ns("1m"), gt=0)
    """How often an alert is sent again while it lasts.

    Alertmanager takes it for resolved after four of these.
    """

    generator_url: str | None = Field(default=None, pattern="^https?://.")
    """A page that the alert refers to, such as a dashboard."""


class Webhook(_HttpReceiver):
    """An HTTP endpoint of yours, which gets a JSON object by POST when an alert begins and when it
    ends.
    """

    type: Literal["webhook"] = Field(default="webhook", exclude=True)
    """Follows from the receiver's name."""

    endpoint: Annotated[SecretStr, AfterValidator(_is_url)]
    """The URL. It may contain a secret, and is never shown."""

    secret: Annotated[SecretStr, AfterValidator(_is_not_empty)] | None = None
    """Signs each request: `X-Spanscore-Signature` is then `sha256=` and the HMAC, in hex, of
    `X-Spanscore-Timestamp`, a full stop and the body.
    """


class OtelEvent(_Receiver):
    """A log record by OTLP, an OpenTelemetry event, when an alert begins and when it ends."""

    type: Literal["otel_event"] = Field(default="otel_event", exclude=True)
    """Follows from the receiver's name."""

    exporter: str = Field(min_length=1)
    """By which of `export.exporters`, one that speaks OTLP, such as `otlp_grpc`."""


AlertReceiver: TypeAlias = Alertmanager | Webhook | OtelEvent


class Alerting(Options):
    """Where the alerts of monitors go.

    Each alert waits in the store until its receiver has taken it.
    """

    receivers: Annotated[
        dict[str, Annotated[AlertReceiver, Field(discriminator="type")]],
        BeforeValidator(lambda given: name_the_types(given, "alert receiver", RECEIVER_TYPES)),
        NamedByType(),
    ] = {}
    """The receivers, each of which gets all alerts: `alertmanager`, `webhook`, `otel_event`, or one
    as `TYPE/NAME`.
    """
