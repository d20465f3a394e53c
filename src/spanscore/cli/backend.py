"""The backend that the environment names for traces, as any OpenTelemetry SDK would understand it."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

_CONNECT_TIMEOUT_S = 1.0
_PREFIX = "OTEL_EXPORTER_OTLP_"
_TRACES_PATH = "/v1/traces"
_GRPC_PORT, _HTTP_PORT = 4317, 4318


@dataclass(frozen=True, slots=True)
class Backend:
    """Where OTLP is sent: for gRPC `host` and `port`, for HTTP the URL that `/v1/traces` is added to."""

    url: str
    host: str
    port: int
    protocol: Literal["grpc", "http"]
    secure: bool
    headers: Mapping[str, str]
    variable: str = f"{_PREFIX}ENDPOINT"
    traces_url: str | None = None
    """Where traces go over HTTP, where that is not `url` and `/v1/traces`."""

    def listens(self) -> bool:
        """Whether anything accepts a connection there, within a second."""
        try:
            socket.create_connection((self.host, self.port), _CONNECT_TIMEOUT_S).close()
        except OSError:
            return False
        return True

    @property
    def target(self) -> str:
        """`host:port`, as gRPC names it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def exporter(self) -> dict[str, Any]:
        """The entry under `export.exporters` that sends scores there."""
        headers = {name: value.replace("$", "$$") for name, value in self.headers.items()}
        if self.protocol == "http":
            apart = {} if self.traces_url is None else {"traces_endpoint": self.traces_url}
            return {"otlp_http": {"endpoint": self.url, **apart, "headers": headers}}
        return {"otlp_grpc": {"endpoint": self.target, "tls": {"insecure": not self.secure}, "headers": headers}}


def from_environment(environ: Mapping[str, str]) -> Backend | None:
    """The backend that the environment names; None where it names none that can be understood.

    What is said of traces alone goes before what is said of all signals.
    """
    variable = f"{_PREFIX}TRACES_ENDPOINT"
    is_of_traces = bool(environ.get(variable, "").strip())
    variable = variable if is_of_traces else f"{_PREFIX}ENDPOINT"
    text = environ.get(variable, "").strip()
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        port = url.port
    except ValueError:
        return None
    if not text or not url.hostname:
        return None
    is_http = _is_http(_stated(environ, "PROTOCOL"), port, url.path)
    named = url.geturl().rstrip("/")
    base = named.removesuffix(_TRACES_PATH) if is_of_traces else named
    return Backend(
        url=base,
        host=url.hostname,
        port=port or _usual_port(url.scheme, is_http=is_http),
        protocol="http" if is_http else "grpc",
        secure=url.scheme == "https",
        headers=_headers(_stated(environ, "HEADERS")),
        variable=variable,
        traces_url=named if is_of_traces and base == named else None,
    )


def _stated(environ: Mapping[str, str], name: str) -> str:
    """What the environment says for traces, else for all signals."""
    return environ.get(f"{_PREFIX}TRACES_{name}") or environ.get(f"{_PREFIX}{name}", "")


def _is_http(protocol: str, port: int | None, path: str) -> bool:
    """Whether OTLP goes by HTTP: gRPC has a usual port, and no path."""
    return protocol.startswith("http") or (not protocol and (port == _HTTP_PORT or path.strip("/") != ""))


def _usual_port(scheme: str, *, is_http: bool) -> int:
    """The port of a URL that names none, as the exporters take it."""
    if scheme == "https":
        return 443
    return 80 if is_http else _GRPC_PORT


def _headers(text: str) -> dict[str, str]:
    """`key1=value1,key2=value2`, percent-encoded, as the environment variable holds headers."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}
