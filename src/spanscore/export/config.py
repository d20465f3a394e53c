"""Where scores go and in which forms, under the names that the OpenTelemetry Collector uses for its
exporters.

In goes the section `export` of a configuration file, such as `exporters: {otlp_grpc: {endpoint:
"collector:4317"}}`; out comes a `Config`, here with a `GrpcConfig` in it. The docstring of a field
is its entry in docs/configuration.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    model_validator,
)

from spanscore.export.connection_config import RetryOnFailure, Tls
from spanscore.export.named_by_type import NamedByType, name_the_types
from spanscore.export.sink_config import LangfuseConfig, MlflowConfig, PhoenixConfig, SinkSettings
from spanscore.model.options import Options
from spanscore.model.quantity import Duration, duration_ns

EXPORTER_TYPES = ("otlp_grpc", "otlp_http", "otlp_json_file", "phoenix", "mlflow", "langfuse")


class SendingQueue(Options):
    """Received requests that wait to leave again in inline mode; scores need no queue, they wait in
    the store.
    """

    queue_size: int = Field(default=1000, ge=1)
    """Requests, or bytes, at most; past it, senders get UNAVAILABLE."""

    sizer: Literal["requests", "bytes"] = "requests"
    """What `queue_size` counts.

    A request that is larger than the whole queue waits until that is empty.
    """

    num_consumers: int = Field(default=10, ge=1, le=100)
    """Requests that are sent at the same time."""

    @model_validator(mode="before")
    @classmethod
    def _without_foreign_fields(cls, given: Any) -> Any:
        """Take the collector's settings as far as they ask for what is so anyway."""
        if not isinstance(given, Mapping):
            return given
        for name, (harmless, why) in _OF_THE_COLLECTOR.items():
            if name in given and given[name] != harmless:
                raise ValueError(f"{name}: {why}; leave it out")
        return {name: value for name, value in given.items() if name not in _OF_THE_COLLECTOR}


_OF_THE_COLLECTOR: dict[str, tuple[Any, str]] = {
    "enabled": (
        True,
        "what waits is on disk and leaves through this queue, which cannot be switched off",
    ),
    "storage": (
        None,
        "what waits is on disk already, in the journal (journal.path) or the store (store.url)",
    ),
    "block_on_overflow": (
        False,
        "senders are told to come back (UNAVAILABLE) and are not kept waiting",
    ),
    "wait_for_result": (False, "senders are answered once what they sent is on disk"),
    "batch": (
        None,
        "how many scores leave together is export.batch, and what passes through leaves as it came",
    ),
}


class ExporterAuth(Options):
    """Who adds credentials, or other headers, to what leaves."""

    authenticator: str = Field(min_length=1)
    """The name under `extensions`: `bearertokenauth`, `headers_setter`, or either as
    `TYPE/NAME`.
    """


class ClientKeepalive(Options):
    """How it is found out that a connection is dead."""

    time: Duration = Field(default=duration_ns("10s"), gt=0)
    """Ping a server that has been silent for this long. Servers disconnect clients that ping more
    often than they allow; many allow one in five minutes.
    """

    timeout: Duration = Field(default=duration_ns("10s"), gt=0)
    """Close the connection when such a ping has no answer for this long."""

    permit_without_stream: bool = False
    """Whether to ping while no request is under way."""


def _one_of(known: Any) -> BeforeValidator:
    """Accept the values of the Literal `known`; as in the collector, "" and null are `none`."""

    def check(value: Any) -> Any:
        if value in ("", None):
            return "none"
        if value not in get_args(known):
            raise ValueError(f"{value} is not known here: use one of {', '.join(get_args(known))}")
        return value

    return BeforeValidator(check)


_OfGrpc = Literal["gzip", "deflate", "zlib", "none"]  # gRPC for Python knows no other
_OfHttp = Literal["gzip", "deflate", "zlib", "zstd", "snappy", "x-snappy-framed", "lz4", "none"]


class _Exporter(Options):
    signals: tuple[Literal["traces", "logs", "metrics"], ...] = Field(
        default=("traces", "logs", "metrics"), min_length=1
    )
    """What is sent: `traces` (evaluation spans), `logs` (events), `metrics` (the histogram), and in
    inline mode what passes through of these signals.
    """

    retry_on_failure: RetryOnFailure = RetryOnFailure()
    """When to send again what was not taken."""

    sending_queue: SendingQueue = SendingQueue()
    """Requests that wait to leave again in inline mode."""


class NetworkConfig(_Exporter):
    """What all exporters have in common that send over the network."""

    tls: Tls = Tls()
    """How the connection is secured."""

    auth: ExporterAuth | None = None
    """Who adds credentials, or other headers. Not set: nobody."""

    headers: dict[str, SecretStr] = {}
    """Sent with every request, such as `authorization: "Bearer ${env:TOKEN}"`."""

    timeout: Duration = Field(default=duration_ns("5s"), gt=0)
    """How long one request may take."""

    evaluation_spans: bool | None = None
    """Whether evaluation spans are sent there. null: not where a tool with an API of its own shows
    the same scores, which are those under `phoenix`, `mlflow` and `langfuse`: an exporter to the
    same host and port gets none, and where no exporter has a tool's host and port, the tool is
    taken to be behind all of them, so none gets any.
    """


def _grpc_tls(tls: Tls) -> Tls:
    if tls.insecure_skip_verify:
        raise ValueError(
            "gRPC for Python cannot skip the check; give ca_file, or insecure: true for no TLS"
            " at all"
        )
    return tls


class GrpcConfig(NetworkConfig):
    """OTLP over gRPC."""

    type: Literal["otlp_grpc"] = Field(default="otlp_grpc", exclude=True)
    """Follows from the exporter's name."""

    endpoint: str = Field(default="127.0.0.1:4317", min_length=1)
    """host:port, or any target that gRPC knows."""

    compression: Annotated[_OfGrpc, _one_of(_OfGrpc)] = "gzip"
    """Or `deflate`, `zlib` (the same), `none`, which spares CPU where the backend is on the same
    machine.
    """

    tls: Annotated[Tls, AfterValidator(_grpc_tls)] = Tls()
    """How the connection is secured."""

    keepalive: ClientKeepalive | None = None
    """Pings on the connection. Not set: none."""


class HttpConfig(NetworkConfig):
    """OTLP over HTTP, protobuf."""

    type: Literal["otlp_http"] = Field(default="otlp_http", exclude=True)
    """Follows from the exporter's name."""

    endpoint: str = Field(default="http://127.0.0.1:4318", pattern="^https?://.")
    """The URL that `/v1/traces`, `/v1/logs` and `/v1/metrics` are added to."""

    compression: Annotated[_OfHttp, _one_of(_OfHttp)] = "gzip"
    """Or `deflate`, `zlib` (the same), `zstd`, `snappy`, `x-snappy-framed`, `lz4`, `none`, which
    spares CPU where the backend is on the same machine.
    """

    traces_endpoint: str | None = Field(default=None, pattern="^https?://.")
    """The whole URL for spans, where it is another."""

    logs_endpoint: str | None = Field(default=None, pattern="^https?://.")
    """The whole URL for events, where it is another."""

    metrics_endpoint: str | None = Field(default=None, pattern="^https?://.")
    """The whole URL for the histogram, where it is another."""


class JsonFileConfig(_Exporter):
    """A file of OTLP/JSON, one request a line, as the collector's file exporter writes it."""

    type: Literal["otlp_json_file"] = Field(default="otlp_json_file", exclude=True)
    """Follows from the exporter's name."""

    path: Path
    """The file; what is there stays, and new lines are added.

    One that was moved away or deleted is made anew.
    """

    group_readable: bool = False
    """Let the file's group read it too, as for a collector that runs as another user; else only its
    owner may.
    """


class InProcess(_Exporter):
    """The application's own providers, for scoring in the agent's process; no configuration file
    can name it.
    """


ExporterConfig: TypeAlias = (
    GrpcConfig | HttpConfig | JsonFileConfig | PhoenixConfig | MlflowConfig | LangfuseConfig
)


class Emit(Options):
    """The forms in which each score goes out."""

    spans: bool = True
    """An evaluation span under the evaluated one; every tracing backend shows it."""

    events: bool = True
    """A `gen_ai.evaluation.result` log event for the evaluated span."""

    metrics: bool = True
    """The histogram `gen_ai.evaluation.score`."""


class Batch(Options):
    """How many scores leave together."""

    flush_timeout: Duration = Field(default=duration_ns("200ms"), ge=0)
    """How long a score waits for others to leave with it."""

    max_size: int = Field(default=512, ge=1, le=8192)
    """Scores in one request at most."""


class Config(Options):
    """Where scores go, and in which forms."""

    exporters: Annotated[
        dict[str, Annotated[ExporterConfig, Field(discriminator="type")]],
        BeforeValidator(lambda given: name_the_types(given, "exporter", EXPORTER_TYPES)),
        NamedByType(),
    ] = {}
    """By name: `otlp_grpc`, `otlp_http`, `otlp_json_file`, or a tool's own API: `phoenix`,
    `mlflow`, `langfuse`; for a further one of a type `TYPE/NAME`. None: scores are kept in the
    store only.
    """

    @property
    def otlp_exporters(self) -> dict[str, GrpcConfig | HttpConfig | JsonFileConfig | InProcess]:
        """Those of `exporters` that send OTLP."""
        return {name: x for name, x in self.exporters.items() if isinstance(x, _Exporter)}

    @property
    def sinks(self) -> dict[str, SinkSettings]:
        """Those of `exporters` that are tools with an API of their own."""
        return {name: x for name, x in self.exporters.items() if isinstance(x, SinkSettings)}

    emit: Emit = Emit()
    """The forms in which each score goes out."""

    spans: Literal["failing", "summary", "all"] = "failing"
    """Of which scores there are evaluation spans, beside the one that sums up all of a trace.
    `failing`: of those that failed, could not be measured or take the place of one that failed.
    `summary`: of none. `all`: of all.
    """

    placement: Literal["child", "linked"] = "child"
    """`child`: the evaluation span is in the evaluated span's trace. `linked`: in a trace of its
    own with a link, for backends that refuse late spans.
    """

    batch: Batch = Batch()
    """How many scores leave together."""

    max_text_length: int = Field(default=8192, ge=64)
    """Characters of a reason, and of a metric's metadata, that leave; what is longer is cut, and
    marked as cut.
    """

    max_waiting: int = Field(default=20_000, ge=1)
    """Scores kept in memory for exporters that are a little behind; one that is further behind
    reads from the store.
    """


class Inline(Options):
    """What holds in inline mode only."""

    max_delay: Duration = duration_ns("60s")
    """How long a root span waits for its scores; then it leaves without, and they follow as
    evaluation spans.
    """

    max_held_roots: int = Field(default=20_000, ge=1)
    """Root spans held back at once; above it the one that has waited longest leaves without its
    scores.
    """
