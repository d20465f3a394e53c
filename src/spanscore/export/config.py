"""Exporters, tools and alert receivers, under the Collector's names.

In goes the section `export` of a configuration file, such as `exporters: {otlp_grpc: {endpoint:
"collector:4317"}}`; out comes a `Config`, here with a `GrpcConfig` in it. The docstring of a field
is its entry in docs/configuration.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SecretStr,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from spanscore.errors import RetryableError
from spanscore.export.port import UndeliveredError
from spanscore.model.options import Duration, Options, duration_ns
from spanscore.model.span import TENANT, Headers


def name_the_types(components: Any, what: str, kinds: Sequence[str]) -> Any:
    """Take a component's type from its name, as in the collector: `otlp_grpc`, or `otlp_grpc/NAME`
    for a further one.

    Raises ValueError for a type that is not among `kinds`; `what` is the word for a component in
    its message.

    >>> name_the_types({"otlp_grpc/b": {"timeout": "5s"}}, "exporter", ["otlp_grpc"])
    {'otlp_grpc/b': {'timeout': '5s', 'type': 'otlp_grpc'}}
    """
    if not isinstance(components, Mapping):
        return components
    typed = {}
    for name, settings in components.items():
        kind = str(name).partition("/")[0]
        if kind not in kinds:
            raise ValueError(
                f"{name}: unknown {what}; known are {', '.join(kinds)}, each also as TYPE/NAME"
            )
        given = {} if settings is None else settings
        typed[name] = {**given, "type": kind} if isinstance(given, Mapping) else given
    return typed


class NamedByType:
    """The JSON schema to go with `name_the_types`: which settings there are depends on the
    exporter's name.
    """

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        union = handler(schema)["additionalProperties"]
        patterns = {
            f"^{kind}(/.+)?$": {"$ref": ref}
            for kind, ref in union["discriminator"]["mapping"].items()
        }
        return {"type": "object", "patternProperties": patterns, "additionalProperties": False}


class Tls(Options):
    """How a connection is secured; as in the collector, by TLS unless `insecure` is true."""

    insecure: bool = False
    """Send without TLS."""

    insecure_skip_verify: bool = False
    """Use TLS without checking the server's certificate.

    Only otlp_http can; for otlp_grpc give `ca_file`.
    """

    ca_file: Path | None = None
    """The certificates, in PEM, that the server's certificate must lead back to; null: those of the
    system.
    """

    cert_file: Path | None = None
    """Our own certificate, in PEM, for a server that asks for one."""

    key_file: Path | None = None
    """The private key, in PEM, of `cert_file`."""

    server_name_override: str | None = None
    """The name that the server's certificate must be for, where it is not the endpoint's."""

    reload_interval: Duration = Field(default=duration_ns("10s"), ge=0)
    """How often a request looks whether the files have changed; the new ones are used from it
    on.
    """

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are named here."""
        return tuple(x for x in (self.ca_file, self.cert_file, self.key_file) if x is not None)


class RetryOnFailure(Options):
    """When to send again what a backend did not take."""

    enabled: bool = True
    """Whether to send again at all."""

    initial_interval: Duration = Field(default=duration_ns("5s"), gt=0)
    """The wait before the first retry.

    What the backend asks for (RetryInfo, Retry-After) comes before it.
    """

    randomization_factor: float = Field(default=0.5, ge=0, le=1)
    """How far a wait may be off, as a share of it, so that many senders do not come back at
    once.
    """

    multiplier: float = Field(default=1.5, ge=1)
    """By what each wait is longer than the one before it."""

    max_interval: Duration = Field(default=duration_ns("30s"), gt=0)
    """The longest wait."""

    max_elapsed_time: Duration = Field(default=duration_ns("0s"), ge=0)
    """After how long to give up; 0: never.

    What waits is in the store, so there is no need to give up.
    """

    max_fault_time: Duration = Field(default=duration_ns("5m"), ge=0)
    """After how long to give up what the backend answers with a fault of its own (HTTP 500, gRPC
    INTERNAL, UNKNOWN), since that can be for what it is sent. Scores that are given up are listed
    by `spanscore scores --undelivered`.
    """


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


class OtlpConfig(Options):
    """An exporter that sends OTLP."""

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


class NetworkConfig(OtlpConfig):
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


class JsonFileConfig(OtlpConfig):
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


class InProcess(OtlpConfig):
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
        return {name: x for name, x in self.exporters.items() if isinstance(x, OtlpConfig)}

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


Authenticator: TypeAlias = Callable[[Mapping[str, str], Headers], dict[str, str]]
"""Gives the headers that a request leaves with: from those of the configuration, and those that it
came with.

Names are in lower case.
"""


def applied(
    authenticator: Authenticator | None, given: Mapping[str, str], received: Headers
) -> Mapping[str, str]:
    """The headers that a request leaves with.

    Raises UndeliveredError where they cannot be determined now.
    """
    if authenticator is None:
        return given
    try:
        return authenticator(given, received)
    except RetryableError as error:
        raise UndeliveredError(str(error)) from error


def _name(key: str) -> str:
    if not _NAME.fullmatch(key):
        raise ValueError(f"{key!r} is no header: write letters, digits, `-`, `_` and `.`")
    return key


_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


class HeaderSetting(Options):
    """One header."""

    key: Annotated[str, AfterValidator(_name)]
    """The header's name, such as `X-Scope-OrgID`."""

    action: Literal["insert", "update", "upsert", "delete"] = "upsert"
    """`insert`: where it is not set. `update`: where it is. `upsert`: always.

    `delete`: take it out.
    """

    value: SecretStr | None = None
    """The value."""

    from_context: str | None = None
    """In the place of `value`: the header of the request that came in that has it. That receiver
    needs `include_metadata: true`. With `tenancy`, its `header` is the tenant, however the request
    named it.
    """

    default_value: SecretStr | None = None
    """The value where the request had no such header. Not set: the header is left as it is."""

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if self.action != "delete" and (self.value is None) == (self.from_context is None):
            raise ValueError(f"{self.key}: give value or from_context, one of the two")
        return self


class HeadersSetter(Options):
    """Headers that are set on requests as they leave."""

    type: Literal["headers_setter"] = Field(default="headers_setter", exclude=True)
    """Follows from the extension's name."""

    headers: list[HeaderSetting] = Field(min_length=1)
    """What to do, in this order."""

    @property
    def wanted(self) -> frozenset[str]:
        """The headers of received requests that are needed, in lower case."""
        return frozenset(
            x.from_context.lower() for x in self.headers if x.from_context is not None
        ) - {TENANT}

    @property
    def names_tenant(self) -> bool:
        """Whether a request that leaves names its tenant."""
        return any(x.from_context == TENANT for x in self.headers)

    def with_tenant_as(self, header: str) -> Self:
        """The same settings, but for `header`, in lower case: its value is the tenant that was
        found for a request.
        """
        of_tenant = {"from_context": TENANT}
        headers = [x.model_copy(update=of_tenant) if _is_of(x, header) else x for x in self.headers]
        return self.model_copy(update={"headers": headers})

    def __call__(self, given: Mapping[str, str], received: Headers) -> dict[str, str]:
        """See `Authenticator`."""
        headers = dict(given)
        for setting in self.headers:
            name = setting.key.lower()
            value = _value(setting, received)
            if setting.action == "delete":
                headers.pop(name, None)
            elif value is not None and setting.action in {
                "upsert",
                "update" if name in headers else "insert",
            }:
                headers[name] = value
        return headers


def _is_of(setting: HeaderSetting, header: str) -> bool:
    return setting.from_context is not None and setting.from_context.lower() == header


def _value(setting: HeaderSetting, received: Headers) -> str | None:
    if setting.value is not None:
        return setting.value.get_secret_value()
    wanted = (setting.from_context or "").lower()
    default = None if setting.default_value is None else setting.default_value.get_secret_value()
    return next((value for name, value in received if name == wanted), default)
