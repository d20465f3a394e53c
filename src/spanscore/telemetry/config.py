"""Configuration of logs and own metrics."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from spanscore.model.options import Duration, Options, duration_ns, duration_text

_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
_COMPRESSIONS = ("gzip", "none")
_PROTOCOLS = ("grpc", "http/protobuf")


def readers(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The reader that the environment asks for; none unless the endpoint *for metrics* is set.

    The endpoint for everything is not enough: it is mostly there for the agents, on the machine of
    a developer.
    """
    endpoint = environ.get(_ENDPOINT, "").strip()
    off = (
        environ.get("OTEL_METRICS_EXPORTER") == "none"
        or environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    )
    if not endpoint or off:
        return []
    otlp: dict[str, Any] = {"endpoint": endpoint}
    protocol, compression = _of(environ, "PROTOCOL"), _of(environ, "COMPRESSION")
    otlp |= {"protocol": protocol} if protocol in _PROTOCOLS else {}
    otlp |= {"compression": compression} if compression in _COMPRESSIONS else {}
    otlp |= {"certificate": path} if (path := _of(environ, "CERTIFICATE")) else {}
    otlp |= {"headers": _headers(text)} if (text := _of(environ, "HEADERS")) else {}
    otlp |= {"timeout": int(text)} if (text := _of(environ, "TIMEOUT")).isdecimal() else {}
    periodic: dict[str, Any] = {"exporter": {"otlp": otlp}}
    interval = environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    periodic |= {"interval": int(interval)} if interval.isdecimal() else {}
    return [{"periodic": periodic}]


def _of(environ: Mapping[str, str], what: str) -> str:
    """The variable for metrics, else that for everything."""
    return environ.get(f"OTEL_EXPORTER_OTLP_METRICS_{what}") or environ.get(
        f"OTEL_EXPORTER_OTLP_{what}", ""
    )


def _headers(text: str) -> dict[str, str]:
    """`key1=value1,key2=value2`, percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}


_NS_PER_MS = 10**6


def _milliseconds(value: Any) -> Any:
    """A plain number is milliseconds, as in the collector; a duration is written with its unit, as
    everywhere here.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return duration_text(value * _NS_PER_MS)
    return value


Milliseconds = Annotated[Duration, BeforeValidator(_milliseconds), Field(gt=0)]
"""A duration that may also be written as a number of milliseconds."""


class Sampling(Options):
    """Of warnings and errors that say the same, how many are logged."""

    enabled: bool = True
    """Whether there is a bound. Without it a fault of every request is logged for every request."""

    tick: Duration = Field(default=duration_ns("1m"), gt=0)
    """The time that `initial` and `thereafter` count in."""

    initial: int = Field(default=10, ge=1)
    """The first so many in a `tick` are logged."""

    thereafter: int = Field(default=0, ge=0)
    """After them each so-and-so-manieth is logged; 0: none.

    The next line that is logged says how many were not.
    """


class Logs(Options):
    """What is logged on standard error, and how."""

    level: Literal["debug", "info", "warn", "error"] = "info"
    """The least severe level that is logged."""

    encoding: Literal["auto", "console", "json"] = "auto"
    """`console` for people, `json` for a log pipeline: one object a line. `auto`: `console` on a
    terminal, else `json`.
    """

    sampling: Sampling = Sampling()
    """Of warnings and errors that say the same, how many are logged."""


class Header(Options):
    """A header, as the collector's telemetry writes one."""

    name: str = Field(min_length=1)
    """Its name."""

    value: SecretStr
    """What it says."""


def _named(headers: Any) -> Any:
    """Headers may be a mapping too, as they are for exporters."""
    return (
        [{"name": k, "value": v} for k, v in headers.items()]
        if isinstance(headers, Mapping)
        else headers
    )


class Otlp(Options):
    """Where metrics are sent to by OTLP."""

    protocol: Literal["grpc", "http/protobuf"] = "http/protobuf"
    """How it is spoken."""

    endpoint: str = Field(default="http://localhost:4318", min_length=1)
    """A URL; without a path `/v1/metrics` is added for `http/protobuf`. `https` means TLS."""

    headers: Annotated[list[Header], BeforeValidator(_named)] = []
    """Sent with every request: `- {name: authorization, value: "Bearer ${env:TOKEN}"}`, or a
    mapping.
    """

    compression: Literal["gzip", "none"] = "gzip"
    """`none` spares CPU where the receiver is on the same machine."""

    timeout: Milliseconds = duration_ns("10s")
    """How long one request may take."""

    insecure: bool | None = None
    """`grpc` only: whether to do without TLS.

    Not set: as the endpoint's scheme says, without one TLS.
    """

    certificate: Path | None = None
    """The certificates, in PEM, that the server's must lead back to; not set: those of the
    system.
    """

    client_key: Path | None = None
    """The private key, in PEM, of `client_certificate`."""

    client_certificate: Path | None = None
    """Our own certificate, in PEM, for a server that asks for one."""


class PushExporter(Options):
    """What sends."""

    otlp: Otlp = Otlp()
    """OTLP."""


class Periodic(Options):
    """Metrics that are sent from time to time."""

    interval: Milliseconds = duration_ns("60s")
    """How often. The last time is when spanscore stops."""

    exporter: PushExporter
    """Where to."""


class Prometheus(Options):
    """A page of its own for Prometheus, beside the one on the health port."""

    host: str = "localhost"
    """The host to listen on."""

    port: int = Field(default=9464, ge=0, le=65535)
    """The port to listen on; 0 takes any free one."""


class PullExporter(Options):
    """What is asked."""

    prometheus: Prometheus = Prometheus()
    """The page `/metrics`."""


class Pull(Options):
    """Metrics that are asked for."""

    exporter: PullExporter
    """How."""


class Reader(Options):
    """One way in which metrics leave: `periodic` or `pull`."""

    periodic: Periodic | None = None
    """They are sent from time to time."""

    pull: Pull | None = None
    """They are asked for."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.periodic is None) == (self.pull is None):
            raise ValueError("a reader is either periodic or pull: give one of them")
        return self


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Metrics(Options):
    """spanscore's own metrics. They are always at `/metrics` on the health port."""

    readers: list[Reader] = []
    """Where else they go: `- periodic: {interval: 60s, exporter: {otlp: {protocol: grpc, endpoint:
    …}}}` sends them, `- pull: {exporter: {prometheus: {host: …, port: …}}}` shows them on a further
    port. Where `metrics` is not given, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT and the variables that
    go with it are followed, if it is set.
    """

    @property
    def periodic(self) -> list[Periodic]:
        """Those of `readers` that send."""
        return [x.periodic for x in self.readers if x.periodic is not None]

    @property
    def scraped(self) -> dict[str, str]:
        """The endpoints of those of `readers` that are asked, by their keys."""
        pages = {
            place: x.pull.exporter.prometheus
            for place, x in enumerate(self.readers)
            if x.pull is not None
        }
        return {
            f"telemetry.metrics.readers.{place}.pull.exporter.prometheus": (
                f"{_host(x.host)}:{x.port}"
            )
            for place, x in pages.items()
        }


def _moved(value: Any) -> Any:
    for key in ("level", "encoding"):
        if isinstance(value, Mapping) and key in value:
            raise ValueError(
                f"{key} has moved: write it under telemetry.logs, as the collector has it"
            )
    return value


class Config(Options):
    """What spanscore says of itself."""

    logs: Logs = Logs()
    """What is logged on standard error, and how."""

    metrics: Metrics = Metrics()
    """spanscore's own metrics."""

    resource: dict[str, str] = {}
    """Attributes of the resource of metrics and log lines, beside `service.name`, `service.version`
    and `service.instance.id`, or in their place.
    """

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_where_it_was(cls, value: Any) -> Any:
        return _moved(value)
