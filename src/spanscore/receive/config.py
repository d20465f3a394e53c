"""Configuration of the OTLP servers, with the collector's names."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from spanscore.model.options import ByteSize, Duration, Options, duration_ns

_ENDPOINT = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^\s:/\[\]]+):([0-9]{1,5})")


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises ValueError on anything else.

    >>> split_endpoint("[::1]:4327")
    ('::1', 4327)
    """
    match = _ENDPOINT.fullmatch(endpoint)
    if not match or int(match[2]) > 65535:
        raise ValueError(
            f"{endpoint!r} is no endpoint: write host:port, such as 127.0.0.1:4327 or [::1]:4327"
        )
    return match[1].strip("[]"), int(match[2])


def _checked(endpoint: str) -> str:
    split_endpoint(endpoint)
    return endpoint


Endpoint = Annotated[str, AfterValidator(_checked)]
"""A configuration field that is written as host:port; port 0 takes any free one."""


class Tls(Options):
    """TLS of a server. Not set: none."""

    cert_file: Path
    """The server's certificate with those between it and its authority, in PEM."""

    key_file: Path
    """The private key of `cert_file`, in PEM."""

    client_ca_file: Path | None = None
    """Mutual TLS: clients must show a certificate that leads back to one of these, in PEM.

    Not set: they need none.
    """

    min_version: Literal["1.2", "1.3"] = "1.2"
    """The oldest version of TLS that is accepted. gRPC takes 1.2 and 1.3 and cannot be limited to
    one of them.
    """

    reload_interval: Duration = Field(default=duration_ns("10s"), ge=0)
    """How often a new connection looks whether the files have changed; the new ones are then used
    from it on.
    """


class BearerToken(Options):
    """Tokens that senders must show, `authorization: Bearer TOKEN`; an exporter shows the first of
    them.
    """

    type: Literal["bearertokenauth"] = Field(default="bearertokenauth", exclude=True)
    """Follows from the extension's name."""

    scheme: str = Field(default="Bearer", min_length=1)
    """What stands before the token in the header."""

    token: SecretStr | None = None
    """The token, such as `${env:TOKEN}`."""

    tokens: list[SecretStr] = []
    """Several tokens, any of which will do."""

    filename: Path | None = None
    """A file with one token a line, and after it, where it may not do all, `scopes=read,write`, and
    with `tenancy` `tenant=NAME`, the only tenant that it reaches; it is read again when it changes.
    Scopes: `read` (ask), `write` (send, evaluate, change), `admin` (all). A line that begins with
    `#` is a comment.
    """

    @model_validator(mode="after")
    def _has_a_token(self) -> Self:
        given = [x.get_secret_value() for x in (self.token, *self.tokens) if x is not None]
        if not self.filename and not given:
            raise ValueError("give token, tokens or filename; without any nobody could send")
        if not all(given):
            raise ValueError("a token is empty; is its environment variable set?")
        return self


class Auth(Options):
    """Who may send."""

    authenticator: str = Field(min_length=1)
    """The name under `extensions` of what checks requests: `bearertokenauth`, or
    `bearertokenauth/NAME`.
    """


class ServerParameters(Options):
    """How long connections are kept, and how it is found out that one is dead."""

    max_connection_idle: Duration | None = None
    """Close a connection that has had no request for this long. Not set: never."""

    max_connection_age: Duration | None = None
    """Close a connection that is this old, so that clients spread anew over several servers.

    Not set: never.
    """

    max_connection_age_grace: Duration | None = None
    """How long the requests of a connection that is closed for its age may take.

    Not set: as long as they need.
    """

    time: Duration = duration_ns("2h")
    """Ping a client that has been silent for this long."""

    timeout: Duration = duration_ns("20s")
    """Close the connection when such a ping has no answer for this long."""


class EnforcementPolicy(Options):
    """How often clients may ping."""

    min_time: Duration = duration_ns("5m")
    """A client that pings more often while no request is under way is disconnected."""

    permit_without_stream: bool = False
    """Whether clients may ping while no request is under way."""


class Keepalive(Options):
    """Keepalive of gRPC connections."""

    server_parameters: ServerParameters = ServerParameters()
    """How long connections are kept, and how it is found out that one is dead."""

    enforcement_policy: EnforcementPolicy = EnforcementPolicy()
    """How often clients may ping."""


def _grpc_tls(tls: Tls | None) -> Tls | None:
    if tls is not None and tls.min_version != "1.2":
        raise ValueError("gRPC for Python cannot refuse TLS 1.2: leave min_version out")
    return tls


GrpcTls = Annotated[Tls | None, AfterValidator(_grpc_tls)]
"""TLS of a gRPC server."""


class Grpc(Options):
    """OTLP over gRPC."""

    endpoint: Endpoint = "127.0.0.1:4327"
    """Host and port to listen on. On an address that others reach, set `tls` and `auth`."""

    tls: GrpcTls = None
    """TLS. Not set: none."""

    auth: Auth | None = None
    """Who may send. Not set: everybody who reaches the endpoint."""

    include_metadata: bool = False
    """Whether the headers of requests are there for a `headers_setter` of the exporters to choose
    from.
    """

    max_recv_msg_size_mib: int = Field(default=32, ge=1, le=1024)
    """MiB that one request may have, decompressed. gRPC answers a larger one so that senders drop
    it: keep batches below.
    """

    max_concurrent_streams: int = Field(default=100, ge=1)
    """Requests under way at once on one connection; a client holds further ones back."""

    read_timeout: Duration = Field(default=duration_ns("30s"), gt=0)
    """How long a client may take to send the message of a request."""

    max_connections: int = Field(default=1000, ge=1)
    """Connections that may be open at once; further ones are closed at once."""

    keepalive: Keepalive = Keepalive()
    """Keepalive of the connections."""


class Http(Options):
    """OTLP over HTTP/1.1, in protobuf or JSON."""

    endpoint: Endpoint = "127.0.0.1:4328"
    """Host and port to listen on. On an address that others reach, set `tls` and `auth`."""

    tls: Tls | None = None
    """TLS. Not set: none."""

    auth: Auth | None = None
    """Who may send. Not set: everybody who reaches the endpoint."""

    include_metadata: bool = False
    """Whether the headers of requests are there for a `headers_setter` of the exporters to choose
    from.
    """

    max_request_body_size: ByteSize = Field(default=20 * 2**20, ge=1)
    """Bytes that the body of a request may have, both as it is sent and decompressed.

    A larger one is answered 413.
    """

    read_timeout: Duration = Field(default=duration_ns("30s"), gt=0)
    """How long a client may take to send the body of a request."""

    read_header_timeout: Duration = Field(default=duration_ns("10s"), gt=0)
    """How long a new connection may be open without the headers of a request; then it is closed."""

    idle_timeout: Duration = Field(default=duration_ns("1m"), gt=0)
    """How long a connection may be open without another request; then it is closed."""

    max_connections: int = Field(default=1000, ge=1)
    """Connections that may be open at once; for a further one, that with no request for the longest
    is closed.
    """


def _path(path: str) -> str:
    if path in _PAGES:
        raise ValueError(f"{path} is taken: there are {', '.join(_PAGES)} beside it")
    return path


_PAGES = ("/livez", "/readyz", "/metrics")


class Health(Options):
    """The health check, as the collector has it: 200 while requests are taken, else 503."""

    endpoint: Endpoint = "127.0.0.1:13133"
    """Host and port to listen on; 127.0.0.1:13134 where the default is not free. It shows counts,
    never contents. `/livez` says whether the process answers, `/readyz` whether requests are taken,
    `/metrics` is for Prometheus.
    """

    path: Annotated[str, Field(pattern="^/[^?#]*$"), AfterValidator(_path)] = "/"
    """The path that answers as the collector's health check."""


class KafkaTls(Options):
    """TLS to the brokers."""

    insecure: bool = False
    """Connect without TLS."""

    insecure_skip_verify: bool = False
    """Use TLS without checking the brokers' certificates."""

    ca_file: Path | None = None
    """The certificates, in PEM, that the brokers' must lead back to; null: those of the system."""

    cert_file: Path | None = None
    """Our own certificate, in PEM, for brokers that ask for one."""

    key_file: Path | None = None
    """The private key, in PEM, of `cert_file`."""


class KafkaSasl(Options):
    """Name and password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    """How they are shown. PLAIN sends them as they are: use it with `tls`."""

    username: str = Field(min_length=1)
    """The name."""

    password: SecretStr = Field(min_length=1)
    """The password, such as `${env:KAFKA_PASSWORD}`."""


class KafkaAuth(Options):
    """Who we are to the brokers."""

    sasl: KafkaSasl
    """Name and password."""


class KafkaTopics(Options):
    """Topics of one signal."""

    topics: list[str]
    """The topics. Empty: none."""

    encoding: Literal["otlp_proto", "otlp_json"] = "otlp_proto"
    """What their messages are, as the collector's `kafka` exporter names it."""

    @property
    def is_json(self) -> bool:
        """Whether they are JSON."""
        return self.encoding == "otlp_json"


class KafkaSpans(KafkaTopics):
    """Where spans are read from."""

    topics: list[str] = ["otlp_spans"]
    """The topics. Empty: none."""


class KafkaLogs(KafkaTopics):
    """Where log records are read from."""

    topics: list[str] = ["otlp_logs"]
    """The topics. Empty: none."""


class Kafka(Options):
    """OTLP from Kafka, as the collector's `kafka` exporter writes it; needs `spanscore[kafka]`."""

    brokers: list[str] = Field(default=["localhost:9092"], min_length=1)
    """Host and port of brokers to find the others by."""

    client_id: str = "spanscore"
    """The name that brokers know their client by."""

    group_id: str = Field(default="spanscore", min_length=1)
    """The consumer group. Servers of one group share the partitions, so they must share the store
    too.
    """

    initial_offset: Literal["earliest", "latest"] = "earliest"
    """Where a group begins that has read nothing yet. The collector's receiver begins at `latest`,
    which leaves out what was written before the first start, and to a partition that is added later
    before it is found.
    """

    traces: KafkaSpans = KafkaSpans()
    """Where spans are read from."""

    logs: KafkaLogs = KafkaLogs()
    """Where log records are read from."""

    rekeyed_topic: str | None = Field(default="spanscore_spans", min_length=1)
    """Where messages that are not keyed by their one trace are written, a message for each trace,
    so that one server gets all of it; made if it is not there. null: they are read as they are,
    which is right for one server only.
    """

    tls: KafkaTls | None = None
    """TLS. Not set: none."""

    auth: KafkaAuth | None = None
    """Who we are to the brokers. Not set: nobody."""

    @property
    def topics(self) -> list[str]:
        """All topics that are read."""
        rekeyed = [] if self.rekeyed_topic is None else [self.rekeyed_topic]
        return [*self.traces.topics, *self.logs.topics, *rekeyed]

    @model_validator(mode="after")
    def _topics_are_different(self) -> Self:
        if len(set(self.topics)) < len(self.topics) or not self.traces.topics + self.logs.topics:
            raise ValueError(
                "traces.topics and logs.topics must name a topic at least, and each, like"
                " rekeyed_topic, another one"
            )
        return self


class Config(Options):
    """Where OTLP comes in."""

    grpc: Grpc = Grpc()
    """OTLP over gRPC."""

    http: Http = Http()
    """OTLP over HTTP."""

    kafka: Kafka | None = None
    """OTLP from Kafka, beside the servers. Not set: none is read."""

    max_bytes_in_flight: ByteSize = Field(default=256 * 2**20, ge=2**20)
    """Bytes of requests that are being received or worked on at once, over both protocols. Past it
    requests that have not arrived whole give way, and senders are asked to send again.
    """

    max_elements: int = Field(default=2_000_000, ge=1000)
    """Spans, attributes, values and other parts that one request may have.

    One with more is put aside undecoded.
    """

    health: Health = Health()
    """The health check."""
