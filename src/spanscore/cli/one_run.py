"""A server in this process for one run, and the backends that OTEL_* variables name."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from spanscore.config import Settings
from spanscore.errors import SpanscoreError
from spanscore.export.config import Config as Export
from spanscore.model.options import duration_ns
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace

_WAITS = {
    "complete_after": duration_ns("1s"),
    "idle_after": duration_ns("2s"),
    "stitch_window": duration_ns("2s"),
    "session_idle_after": duration_ns("30s"),
}
_ROUNDS = 3
"""How often parts of a turn may wait for others that wait themselves."""
_STRAGGLERS_S = 0.3
_LOOK_EVERY_S = 0.05
_PAGE = 1000
_LOCAL: dict[str, Any] = {"endpoint": "127.0.0.1:0", "auth": None, "tls": None}
"""A free port on loopback, for whoever is there: no token and no TLS."""
_HTTP2_PREFACE = b"PRI"


def settings_for(settings: Settings, folder: Path, exporters: dict[str, Any] | None) -> Settings:
    """`settings` for one run: everything in `folder`, on free loopback ports, and nothing waits for
    long.

    `exporters` are those of the backend that everything is passed on to, with the scores; None: the
    configured ones.
    """
    receive = settings.receive
    local = {x: getattr(receive, x).model_copy(update=_LOCAL) for x in ("grpc", "http", "health")}
    changed: dict[str, Any] = {
        "receive": receive.model_copy(update=local),
        "journal": settings.journal.model_copy(update={"path": folder / "journal.db"}),
        "store": settings.store.model_copy(update={"url": f"sqlite:///{folder / 'store.db'}"}),
        "assemble": settings.assemble.model_copy(update=_WAITS),
    }
    if exporters is not None:
        changed |= {"mode": "inline", "export": Export.model_validate({"exporters": exporters})}
    return settings.model_copy(update=changed)


class ServerEndedError(SpanscoreError):
    """An error has ended the server while it was needed; the message names it."""


class OneRun:
    """The running server; `endpoint` takes OTLP over gRPC and over HTTP."""

    def __init__(self, settings: Settings) -> None:
        from spanscore.serving.pipeline import Pipeline  # noqa: PLC0415 - the servers' libraries, which --help does not need

        # set forward: what waits for a while need not wait when nothing will come any more
        self._ahead_ns = 0
        self._pipeline = Pipeline(settings, clock_ns=lambda: time.time_ns() + self._ahead_ns)
        self._running: asyncio.Task[None]
        self.endpoint = ""

    @contextlib.asynccontextmanager
    async def serving(self, ended: Callable[[str], None]) -> AsyncIterator[None]:
        """Receive while the block runs; `ended` is told at once why, where an error ends the server
        meanwhile.

        Raises ConfigError where a port cannot be bound, and ServerEndedError at the end of the
        block.
        """
        stopping, ready = asyncio.Event(), asyncio.Event()
        running = self._running = asyncio.create_task(self._pipeline.run(stopping, ready.set))
        door = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.endpoint = f"http://127.0.0.1:{door.sockets[0].getsockname()[1]}"

        def has_ended(_: object) -> None:
            door.close()  # who sends is refused at once, and does not wait for an answer
            if not stopping.is_set():
                ended(_why(running))

        try:
            await _ready(ready, running)
            running.add_done_callback(has_ended)
            yield
        finally:
            door.close()
            stopping.set()
            await asyncio.wait({running})
        if running.exception() is not None:
            raise ServerEndedError(_why(running))

    async def finish(self) -> None:
        """Score all that has come, and the sessions, as nothing will come any more.

        Raises ServerEndedError.
        """
        finishing = asyncio.create_task(self._finish())
        try:
            await asyncio.wait({finishing, self._running}, return_when=asyncio.FIRST_COMPLETED)
            if not finishing.done():
                raise ServerEndedError(_why(self._running))
            await finishing
        finally:
            finishing.cancel()

    async def _finish(self) -> None:
        await asyncio.sleep(_STRAGGLERS_S)
        for _ in range(_ROUNDS):
            self._ahead_ns += _WAITS["idle_after"] + _WAITS["stitch_window"]
            await self._until(lambda x: not (x["open_traces"] or x["waiting_traces"]))
            if not self._pipeline.health()["waiting_parts"]:
                break
        self._ahead_ns += _WAITS["session_idle_after"]
        await self._until(lambda x: not x["open_sessions"])

    async def found(self) -> tuple[list[AgentTrace], list[Evaluation]]:
        """The agent traces, by their start, and the newest of each score, in the order in which
        they were made.
        """
        return await asyncio.to_thread(self._found)

    def _found(self) -> tuple[list[AgentTrace], list[Evaluation]]:
        from spanscore.store.listing import ScoreQuery, TraceQuery  # noqa: PLC0415 - likewise

        query = ScoreQuery(skipped=True, source="spanscore")
        traces = [x.trace for x in _all(self._pipeline.list_traces, TraceQuery())]
        scores = list(_all(self._pipeline.list_scores, query))
        return sorted(traces, key=lambda x: x.started_ns), scores[::-1]

    @property
    def notices(self) -> list[str]:
        """What kept scores from being made: instrumentations that record no content, a judge that
        does not answer.
        """
        notice = [self._pipeline.notice] if self._pipeline.notice else []
        return [*self._pipeline.health()["without_content"], *notice]

    async def _until(self, is_reached: Callable[[dict[str, Any]], bool]) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if is_reached(self._pipeline.health()):
                await self._pipeline.finish_queued()
                if is_reached(self._pipeline.health()):
                    return

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand a connection to the server of its protocol: gRPC begins with HTTP/2's preface."""
        start = await reader.read(len(_HTTP2_PREFACE))
        while start and len(start) < len(_HTTP2_PREFACE) and _HTTP2_PREFACE.startswith(start):
            more = await reader.read(len(_HTTP2_PREFACE) - len(start))
            if not more:
                break
            start += more
        server = self._pipeline.server
        port = server.grpc_port if start == _HTTP2_PREFACE else server.http_port
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # the server has ended
            writer.close()
            return
        inner_writer.write(start)
        await asyncio.gather(_copied(reader, inner_writer), _copied(inner_reader, writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


async def _ready(ready: asyncio.Event, running: "asyncio.Task[None]") -> None:
    """Wait until the server is ready, or raise why it is not."""
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({waiting, running}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not ready.is_set():
        await running


def _why(running: "asyncio.Task[None]") -> str:
    """What ended the server."""
    error = running.exception()
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _all(page: Callable[..., Any], query: Any) -> Any:
    place = None
    while True:
        found = page(query, _PAGE, place)
        yield from found.items
        if (place := found.next) is None:
            return


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
    if protocol:
        return protocol.startswith("http")
    return port == _HTTP_PORT or path.strip("/") != ""


def _usual_port(scheme: str, *, is_http: bool) -> int:
    """The port of a URL that names none, as the exporters take it."""
    if scheme == "https":
        return 443
    return 80 if is_http else _GRPC_PORT


def _headers(text: str) -> dict[str, str]:
    """`key1=value1,key2=value2`, percent-encoded, as the environment variable holds headers."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}
