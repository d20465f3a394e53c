"""Which exporters get evaluation spans: not those behind which a tool shows the same scores by an
API of its own.
"""

from typing import Final, TypeAlias
from urllib.parse import urlsplit

from spanscore.export.config import Config, GrpcConfig, HttpConfig, NetworkConfig

_Place: TypeAlias = tuple[str, int | None]

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not bound
_PORTS: Final = {"http": 80, "https": 443}


def without_spans(config: Config) -> dict[str, str]:
    """The OTLP exporters that get no evaluation spans, each with the tool that shows the scores in
    their place.

    The tool is "" where `evaluation_spans: false` leaves them out. A tool whose host and port an
    exporter has is behind that exporter. Another one gets its traces in a way that cannot be seen
    from here, mostly through the collector that an exporter sends to, so it is taken to be behind
    all of them.
    """
    network = {name: x for name, x in config.otlp_exporters.items() if isinstance(x, NetworkConfig)}
    places = {name: _place_of(x) for name, x in network.items()}
    found: dict[str, str] = {}
    for tool, sink in config.sinks.items():
        same = [name for name, place in places.items() if place == _place(sink.endpoint)]
        found |= dict.fromkeys(same or network, tool)
    left_out = {
        name: tool for name, tool in found.items() if network[name].evaluation_spans is None
    }
    return left_out | {name: "" for name, x in network.items() if x.evaluation_spans is False}


def _place_of(exporter: NetworkConfig) -> _Place | None:
    if isinstance(exporter, HttpConfig):
        return _place(exporter.traces_endpoint or exporter.endpoint)
    return _place(exporter.endpoint) if isinstance(exporter, GrpcConfig) else None


def _place(endpoint: str) -> _Place | None:
    """Host and port; None where they are not known, as of a gRPC target with a scheme of its own.

    >>> _place("https://phoenix.example/"), _place("localhost:4317")
    (('phoenix.example', 443), ('127.0.0.1', 4317))
    """
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = (parts.hostname or "").lower()
    return ("127.0.0.1" if host in _LOOPBACK else host, port) if host else None
