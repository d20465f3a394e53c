"""The backend that OTEL_EXPORTER_OTLP_ENDPOINT names, as any OpenTelemetry SDK would understand it."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

_CONNECT_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Backend:
    """Where OTLP is sent: for gRPC `host` and `port`, for HTTP the URL that `/v1/traces` is added to."""

    url: str
    host: str
    port: int
    protocol: Literal["grpc", "http"]
    secure: bool
    headers: Mapping[str, str]

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
            return {"otlp_http": {"endpoint": self.url, "headers": headers}}
        return {"otlp_grpc": {"endpoint": self.target, "tls": {"insecure": not self.secure}, "headers": headers}}


def from_environment(environ: Mapping[str, str]) -> Backend | None:
    """The backend that the environment names; None where it names none that can be understood."""
    text = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        port = url.port
    except ValueError:
        return None
    if not text or not url.hostname:
        return None
    stated = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    http = stated.startswith("http") or (not stated and port == 4318)
    return Backend(
        url=url.geturl().rstrip("/"),
        host=url.hostname,
        port=port or (4318 if http else 4317),
        protocol="http" if http else "grpc",
        secure=url.scheme == "https",
        headers=_headers(environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")),
    )


def _headers(text: str) -> dict[str, str]:
    """`key1=value1,key2=value2`, percent-encoded, as the environment variable holds headers."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}
