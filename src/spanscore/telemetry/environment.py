"""Where OpenTelemetry's environment variables send metrics, written as the configuration file
writes it.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

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
