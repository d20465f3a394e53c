"""OTLP backends named by the OTEL_* variables."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

_CONNECT_TIMEOUT_S = 1.0
_PREFIX = "OTEL_EXPORTER_OTLP_"
_GRPC_PORT, _HTTP_PORT = 4317, 4318


Signal: TypeAlias = Literal["traces", "logs", "metrics"]
SIGNALS: tuple[Signal, ...] = ("traces", "logs", "metrics")


@dataclass(frozen=True, slots=True)
class Backend:
    """Where OTLP of a signal is sent: for gRPC `host` and `port`, for HTTP the URL that
    `/v1/traces` is added to.
    """

    url: str
    host: str
    port: int
    protocol: Literal["grpc", "http"]
    secure: bool
    headers: Mapping[str, str]
    variable: str = f"{_PREFIX}ENDPOINT"
    whole_url: str | None = None
    """Where the signal goes over HTTP, where that is not `url` and `/v1/traces`, or as the signal's
    path is.
    """

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

    @property
    def destination(self) -> tuple[Any, ...]:
        """What signals have in common that one exporter sends."""
        headers = tuple(sorted(self.headers.items()))
        return self.url, self.protocol, self.secure, headers, self.whole_url

    def exporter(self, signals: Sequence[Signal]) -> tuple[str, dict[str, Any]]:
        """The type and the settings of the exporter that sends these signals there."""
        headers = {name: value.replace("$", "$$") for name, value in self.headers.items()}
        settings: dict[str, Any] = {"headers": headers, "signals": list(signals)}
        if self.protocol == "grpc":
            tls = {"insecure": not self.secure}
            return "otlp_grpc", {"endpoint": self.target, "tls": tls, **settings}
        whole = {f"{x}_endpoint": self.whole_url for x in signals if self.whole_url is not None}
        return "otlp_http", {"endpoint": self.url, **whole, **settings}


def exporters(backends: Mapping[Signal, Backend]) -> dict[str, Any]:
    """The entries under `export.exporters` that send each signal to its backend."""
    by_destination: dict[tuple[Any, ...], list[Signal]] = {}
    for signal, backend in backends.items():
        by_destination.setdefault(backend.destination, []).append(signal)
    found = {}
    for signals in by_destination.values():
        kind, settings = backends[signals[0]].exporter(signals)
        found[f"{kind}/{'_'.join(signals)}"] = settings
    return found


def all_from_environment(environ: Mapping[str, str]) -> dict[Signal, Backend]:
    """The backends of all signals for which the environment names one."""
    found = {signal: from_environment(environ, signal) for signal in SIGNALS}
    return {signal: backend for signal, backend in found.items() if backend is not None}


def from_environment(environ: Mapping[str, str], signal: Signal = "traces") -> Backend | None:
    """The backend that the environment names for a signal; None where it names none that can be
    understood.

    What is set for the signal alone goes before what is set for all signals.
    """
    variable = f"{_PREFIX}{signal.upper()}_ENDPOINT"
    is_of_signal = bool(environ.get(variable, "").strip())
    variable = variable if is_of_signal else f"{_PREFIX}ENDPOINT"
    text = environ.get(variable, "").strip()
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        port = url.port
    except ValueError:
        return None
    if not text or not url.hostname:
        return None
    is_http = _is_http(_stated(environ, signal, "PROTOCOL"), port, url.path)
    named = url.geturl().rstrip("/")
    base = named.removesuffix(f"/v1/{signal}") if is_of_signal else named
    return Backend(
        url=base,
        host=url.hostname,
        port=port or _usual_port(url.scheme, is_http=is_http),
        protocol="http" if is_http else "grpc",
        secure=url.scheme == "https",
        headers=_headers(_stated(environ, signal, "HEADERS")),
        variable=variable,
        whole_url=named if is_of_signal and base == named else None,
    )


def _stated(environ: Mapping[str, str], signal: Signal, name: str) -> str:
    """What the environment says for a signal, else for all signals."""
    return environ.get(f"{_PREFIX}{signal.upper()}_{name}") or environ.get(f"{_PREFIX}{name}", "")


def _is_http(protocol: str, port: int | None, path: str) -> bool:
    """Whether OTLP goes by HTTP: gRPC has a usual port, and no path."""
    return protocol.startswith("http") or (
        not protocol and (port == _HTTP_PORT or path.strip("/") != "")
    )


def _usual_port(scheme: str, *, is_http: bool) -> int:
    """The port of a URL that names none, as the exporters take it."""
    if scheme == "https":
        return 443
    return 80 if is_http else _GRPC_PORT


def _headers(text: str) -> dict[str, str]:
    """`key1=value1,key2=value2`, percent-encoded, as the environment variable holds headers."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}
