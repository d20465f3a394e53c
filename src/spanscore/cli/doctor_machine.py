"""Checks of disks, backends, clocks and models; and what all checks find."""

import asyncio
import base64
import errno
import json
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import ConfigError, PermanentError, RetryableError, SpanscoreError
from spanscore.export import config as export, open_exporter
from spanscore.export.config import GrpcConfig, HttpConfig, SinkSettings, Tls
from spanscore.export.http import JsonApi, http_context
from spanscore.export.port import Exporter, UnsupportedSignalError
from spanscore.judge import open_for_trial, redactor, trial
from spanscore.judge.cache import load as load_recorded
from spanscore.judge.config import Config
from spanscore.model.options import size_text
from spanscore.otlp import codec
from spanscore.otlp.signal import Signal
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import split_endpoint
from spanscore.store import connections, repair
from spanscore.store.config import Config as StoreConfig, JournalConfig

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_MAX_CHARS = 400


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: `about` is what was looked at, `fix` what to do where that is not
    well.
    """

    about: str
    status: Literal["ok", "warn", "FAIL"]
    message: str
    fix: str | None = None


class Problem(Exception):  # noqa: N818 - a warning is none
    """What is not well: the status, the message and the fix of its Finding."""


def warn(message: str, fix: str) -> Problem:
    """It may become a fault, or could not be looked at."""
    return Problem("warn", message, fix)


def fail(message: str, fix: str) -> Problem:
    """It is a fault."""
    return Problem("FAIL", message, fix)


async def found(about: str, looking: Awaitable[str]) -> Finding:
    """What came of looking at something: a text where it is well, else the Problem."""
    try:
        return Finding(about, "ok", await looking)
    except Problem as problem:
        return Finding(about, *problem.args)


@contextmanager
def failing(
    fix: str, before: str = "", kinds: tuple[type[Exception], ...] = (SpanscoreError,)
) -> Iterator[None]:
    """Raise a Problem where what is done within fails so; `before` stands before the cause."""
    try:
        yield
    except kinds as error:
        raise fail(f"{before}{cause_of(error)}", fix) from error


def cause_of(error: BaseException) -> str:
    """What an error says, on one line, without credentials that a URL in it may have.

    >>> cause_of(OSError("no answer from http://me:secret@there"))
    'no answer from http://there'
    """
    line = " ".join(str(error).split()) or type(error).__name__
    return _CREDENTIALS.sub("", line)[:_MAX_CHARS]


_LITTLE_BYTES = 64 * 2**20
_MIB = 2**20
_SHOWN = 5


async def check_disk(look: "Look") -> AsyncIterator[Finding]:
    """The journal, the store, and files that scores go to."""
    yield await found("journal", asyncio.to_thread(_journal, look.settings.journal))
    yield await found("store", asyncio.to_thread(_store, look.settings.store))
    for name, exporter in look.settings.export.exporters.items():
        if isinstance(exporter, export.JsonFileConfig):
            yield await found(name, asyncio.to_thread(_file, name, exporter.path))


def _journal(config: JournalConfig) -> str:
    _require_sqlite("journal.path", config.path)
    return _room("journal.path", config.path, "journal.max_bytes", config.max_bytes)


def _store(config: StoreConfig) -> str:
    fix = "write store.url as sqlite:///FILE or postgresql+psycopg://…"
    with failing(fix, kinds=(ArgumentError,)):
        url = make_url(config.url)
    path = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
    if path is not None:
        _require_sqlite("store.url", path)
    with failing("start the database, or mend store.url", kinds=(SpanscoreError, OSError)):
        connections.version(config)
        damaged = repair.damaged_records(config)
    if damaged:
        shown = "; ".join(damaged[:_SHOWN]) + ("; …" if len(damaged) > _SHOWN else "")
        problem = f"{len(damaged)} records are damaged and left out of all lists: {shown}"
        fix = "see that the disk is sound; evaluate these again, or let retention delete them"
        raise warn(problem, fix)
    if path is None:
        return f"{url.render_as_string(hide_password=True)} answers"
    bound = "store.retention.max_bytes"
    return _room("store.url", path, bound, config.retention.max_bytes or 0)


def _require_sqlite(key: str, path: Path) -> None:
    """Raise Problem where a file of SQLite is damaged, or cannot be written."""
    folder = path.absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mode = _written(folder)
    except (OSError, sqlite3.Error) as error:
        fix = _fix(folder, key, error)
        raise fail(f"{folder} cannot be written: {cause_of(error)}", fix) from error
    if path.exists() and not os.access(path, os.W_OK):
        raise fail(f"{path} cannot be written", f"make it writable, or set another {key}")
    with failing(f"see {key}"):
        fault = repair.fault_of(path)
    if fault is not None:
        fix = "stop the server and run `spanscore repair` with this --config"
        raise fail(f"{path} is damaged: {fault}", fix)
    if mode != "wal":
        no_wal = f"{folder}: SQLite's WAL does not work there (journal mode {mode})"
        fix = f"set {key} to a local disk: network file systems cannot share what WAL needs"
        raise fail(no_wal, fix)


def _written(folder: Path) -> str:
    """Write a database there, as the journal is written, and remove it; returns the journal mode
    that it got.
    """
    with (
        tempfile.TemporaryDirectory(prefix=".spanscore-doctor-", dir=folder) as name,
        closing(sqlite3.connect(Path(name) / "probe.db")) as db,
    ):
        mode = str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        db.execute("PRAGMA synchronous = FULL")
        with db:
            db.execute("CREATE TABLE probe (body BLOB)")
            db.execute("INSERT INTO probe VALUES (zeroblob(65536))")
    return mode


def _room(key: str, path: Path, bound: str, max_bytes: int) -> str:
    folder = path.absolute().parent
    free = shutil.disk_usage(folder).free
    where = f"{path}: can be written, {_free(folder)}"
    if free < _LITTLE_BYTES:
        raise fail(where, _fix(folder, key))
    if free < max_bytes - (path.stat().st_size if path.exists() else 0):
        lower = f"make room, or set {bound} lower: it allows {size_text(max_bytes)}"
        raise warn(where, f"{lower}, and a full disk refuses requests")
    return where


def _file(name: str, path: Path) -> str:
    key = f"export.exporters.{name}.path"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") if path.exists() else tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        fix = _fix(path.parent, key, error)
        raise fail(f"{path}: {cause_of(error)}", fix) from error
    if shutil.disk_usage(path.parent).free < _LITTLE_BYTES:
        raise fail(f"{path}: can be written, {_free(path.parent)}", _fix(path.parent, key))
    return f"{path}: can be written"


def _free(folder: Path) -> str:
    return f"{shutil.disk_usage(folder).free // _MIB:,} MiB free"


def _fix(folder: Path, key: str, error: Exception | None = None) -> str:
    """What to do where nothing can be written to a folder; a full disk fails in many words."""
    is_forbidden = isinstance(error, OSError) and error.errno in _FORBIDDEN
    with suppress(OSError):
        if not is_forbidden and shutil.disk_usage(folder).free < _LITTLE_BYTES:
            return f"make room on that disk ({_free(folder)}), or set another {key}"
    return f"make it writable, or set another {key}"


_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


SERVICE = "spanscore-doctor"
_MS = 10**6
TIMEOUT_S = 5.0


def _messages(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


_CONTENT = {
    "gen_ai.input.messages": _messages("user", "Does the round trip work?"),
    "gen_ai.output.messages": _messages("assistant", "Yes, the round trip works."),
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One turn: an agent's span that lasted a moment."""

    trace_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    span_id: bytes = field(default_factory=lambda: secrets.token_bytes(8))
    ended_ns: int = field(default_factory=time.time_ns)

    def request(self, *, content: bool, emitted: bool) -> bytes:
        """The span as an export request.

        Without `content` no judge has anything to judge in it. What is marked as `emitted` by
        spanscore is evaluated by none.
        """
        operation = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": SERVICE}
        attributes: dict[str, Any] = {**operation, **(_CONTENT if content else {})}
        if emitted:
            attributes["spanscore.emitted"] = True
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        codec.fill(group.resource.attributes, {"service.name": SERVICE})
        scoped = group.scope_spans.add()
        scoped.scope.name = "spanscore" if emitted else SERVICE
        ids = {"trace_id": self.trace_id, "span_id": self.span_id}
        span = scoped.spans.add(**ids, name=f"invoke_agent {SERVICE}", kind=1)
        span.start_time_unix_nano, span.end_time_unix_nano = self.ended_ns - _MS, self.ended_ns
        codec.fill(span.attributes, attributes)
        return request.SerializeToString()


class Look(NamedTuple):
    """What is looked at: what the health check of the running server says, None where none
    answers; the `probe` for backends; and whether models may be asked.
    """

    settings: Settings
    state: Mapping[str, Any] | None
    probe: Probe
    ask: bool


_NO_TRACE = "0" * 31 + "1"


async def check_backends(look: Look) -> AsyncIterator[Finding]:
    """Each exporter in turn; OTLP backends are sent the probe, marked so that nobody evaluates
    it.
    """
    if not look.settings.export.exporters:
        fix = "name a backend under export.exporters, unless the store is where you want them"
        yield Finding("export", "warn", "no exporter is configured: scores stay in the store", fix)
    for name, config in look.settings.export.exporters.items():
        if isinstance(config, GrpcConfig | HttpConfig):
            yield await found(name, _otlp(name, config, look))
        elif isinstance(config, SinkSettings):
            yield await found(name, _tool(name, config))


async def _otlp(name: str, config: GrpcConfig | HttpConfig, look: Look) -> str:
    settings = look.settings
    with failing(f"mend export.exporters.{name}"):
        known = open_authenticators(settings.authenticators, has_tenants=settings.tenancy.enabled)
        exporter = open_exporter(config, known)
    # In inline mode the server sends the probe on itself; under the same ids it would be there
    # twice.
    probe = look.probe if settings.mode == "branch" else Probe()
    try:
        notes = await _sent(exporter, settings, probe)
    except (RetryableError, PermanentError) as error:
        takes = "refuses" if isinstance(error, PermanentError) else "does not take"
        problem = f"{config.endpoint} {takes} a span: {cause_of(error)}"
        raise fail(problem, await _way_out(name, config)) from error
    finally:
        await exporter.close()
    if notes:
        off = "set export.emit for what it does not take to false, to spare the tries"
        off += "; spans get through all the same"
        raise warn(f"{config.endpoint} took a span, but {'; '.join(notes)}", off)
    trace_id = probe.trace_id.hex()
    return f"{config.endpoint} took a span (trace {trace_id}, service spanscore-doctor)"


async def _way_out(name: str, config: GrpcConfig | HttpConfig) -> str:
    """What to do where a backend took nothing: it may be away, or spoken to in the wrong way."""
    where = config.endpoint.removeprefix("http://").removeprefix("https://").partition("/")[0]
    # a URL may leave out the port, and gRPC knows targets of other forms
    with suppress(ValueError):
        if await listens(where):
            return (
                "something listens there: see its log, and whether it expects what is set under "
                f"export.exporters.{name}: endpoint, tls (insecure, ca_file), headers, auth"
            )
    return f"start what is to listen there, or mend export.exporters.{name}.endpoint"


async def _sent(exporter: Exporter, settings: Settings, probe: Probe) -> list[str]:
    """Send a span, and of the other forms of scores an empty request; returns what was not taken
    but the span.
    """
    remark = await exporter.send("traces", probe.request(content=True, emitted=True))
    notes = [remark] if remark else []
    emit = settings.export.emit
    others: dict[Signal, bool] = {"logs": emit.events, "metrics": emit.metrics}
    for signal in (x for x, is_wanted in others.items() if is_wanted):
        try:
            await exporter.send(signal, b"")
        except UnsupportedSignalError as error:
            notes.append(f"it takes no {signal} ({cause_of(error)})")
        except (RetryableError, PermanentError) as error:
            notes.append(f"{signal} fail ({cause_of(error)})")
    return notes


async def _tool(name: str, config: SinkSettings) -> str:
    """Ask a tool something harmless that needs the credentials."""
    path, headers = "/", {}
    match config:
        case export.PhoenixConfig():
            path = "/v1/projects?limit=1"
        case export.MlflowConfig():
            path = f"/api/3.0/mlflow/traces/tr-{_NO_TRACE}"
        case export.LangfuseConfig():
            path = "/api/public/projects"
            secret = config.secret_key.get_secret_value()
            pair = base64.b64encode(f"{config.public_key}:{secret}".encode())
            headers = {"Authorization": f"Basic {pair.decode()}"}
    fix = f"start it, or mend export.exporters.{name}: its endpoint, headers or keys"
    with failing(fix):
        api = JsonApi(config, headers)
    refused = f"{config.endpoint} does not answer as it should: "
    try:
        with failing(fix, refused, (SpanscoreError, TimeoutError)):
            async with asyncio.timeout(config.timeout / 1e9):
                await api.ask("GET", path, expected=(404,))
    finally:
        await api.close()
    return f"{config.endpoint} answers, with the credentials given"


async def listens(where: str) -> bool:
    """Whether anything takes connections at this `host:port`."""
    host, port = split_endpoint(where)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


_CLOSE_S, _FAR_S = 3.0, 60.0


async def check_clocks(look: Look) -> AsyncIterator[Finding]:
    """One line for each backend and the judge, as far as they speak HTTP."""
    exporters, judge = look.settings.export.exporters, look.settings.judge
    spoken_to = ((k, x) for k, x in exporters.items() if isinstance(x, HttpConfig | SinkSettings))
    places = {name: (x.endpoint, x.tls) for name, x in spoken_to}
    if look.ask and judge.api_base and judge.models:
        places["judge"] = (judge.api_base, Tls())
    if not places:
        none = "neither a backend nor a judge is spoken to by HTTP at a known address"
        yield Finding("clocks", "ok", f"nothing to compare with: {none}")
    for where, (url, tls) in places.items():
        yield await found("clocks", _compared(where, url, tls))


async def _compared(where: str, url: str, tls: Tls) -> str:
    host = urlsplit(url).netloc.rpartition("@")[2]
    try:
        context = http_context(tls).get()
        before_s = time.time()
        async with (
            asyncio.timeout(TIMEOUT_S),
            aiohttp.ClientSession() as session,
            session.get(url, ssl=context, allow_redirects=False) as answer,
        ):
            date = answer.headers.get("Date", "")
        offset_s = _offset_s(date, before_s, time.time())
    except (aiohttp.ClientError, SpanscoreError, OSError, TimeoutError, ValueError) as error:
        untold = f"{where} at {host} tells no time"
        raise warn(untold, "see that it is up, then ask again") from error
    if abs(offset_s) <= _CLOSE_S:
        return f"{where} at {host} has our time"
    side = "ahead of" if offset_s > 0 else "behind"
    problem = fail if abs(offset_s) > _FAR_S else warn
    differs = f"{where} at {host} is {abs(offset_s):.0f} s {side} this machine"
    raise problem(differs, "have both machines keep their clocks by NTP")


def _offset_s(date: str, before_s: float, after_s: float) -> float:
    """How far a Date header, which has whole seconds, lies outside the time in which it was made.

    >>> _offset_s("Thu, 01 Jan 1970 00:00:10 GMT", 10.2, 10.9)
    0.0
    """
    at_s = parsedate_to_datetime(date).timestamp()
    if at_s > after_s:
        return at_s - after_s
    return min(0.0, at_s + 1 - before_s)


async def check_models(look: Look) -> AsyncIterator[Finding]:
    """Each model of the judge, then the embedding."""
    settings, recorded = look.settings, look.settings.judge.recorded_answers
    if not any(x.models for x in settings.judges):
        how = "set judge.model or SPANSCORE_JUDGE_MODEL for one"
        yield Finding("judge", "ok", f"none: judged metrics are skipped; {how}")
    for model, judge in _models(settings).items() if recorded is None else ():
        yield await found("judge", _judge(judge, model, ask=look.ask))
    if recorded is not None:
        yield await found("judge", _recorded(recorded))
    yield await found("embedding", _embedding(settings, ask=look.ask))


def _models(settings: Settings) -> dict[str, Config]:
    """Each model that may be asked, by the judge or where a metric or the rubric names it, with the
    configuration of its judge.
    """
    models: dict[str, Config] = {}
    for variant, judge in zip(settings.evaluation.variants(), settings.judges, strict=True):
        named = chain.from_iterable(variant.models(()).values()) if judge.models else ()
        for model in (*judge.models, *judge.cascade_models, *named):
            models.setdefault(model, judge)
    return models


async def _recorded(path: Path) -> str:
    with failing("correct judge.recorded_answers, or take it out", kinds=(ConfigError,)):
        recording = load_recorded(path)
    return f"{len(recording.answers)} recorded answers of {recording.model}; nothing is sent"


async def _judge(config: Config, model: str, *, ask: bool) -> str:
    if not ask:
        return f"{model}: not asked (--no-judge)"
    started_s = time.monotonic()
    try:
        usage = (await trial.ask(open_for_trial(config), model)).usage
    except SpanscoreError as error:
        raise fail(cause_of(error), trial.advice(error)) from error
    took = f"{model} answered in {time.monotonic() - started_s:.1f} s, {usage.input_tokens} +"
    took = f"{took} {usage.output_tokens} tokens"
    if usage.cost_usd is None:
        fix = f"tell its price under judge.prices.{model}, so that judge.budget.max_usd can hold"
        raise warn(f"{took}, price not known", fix)
    return f"{took}, {usage.cost_usd:.6f} USD"


async def _embedding(settings: Settings, *, ask: bool) -> str:
    config = settings.embedding
    if config.chosen == "litellm" and not ask:
        return f"{config.model}: not asked (--no-judge)"
    started_s = time.monotonic()
    with failing("see embedding.provider, embedding.model and embedding.api_key"):
        embedder = open_embedder(config, redact=redactor(settings.judge))
        if embedder is None:
            return "none is configured, so coherence is skipped: see embedding.model"
        vectors = await embedder.embed(["Does the embedding answer?"])
    took_s = time.monotonic() - started_s
    return f"{embedder.name}: {vectors.shape[1]} dimensions in {took_s:.1f} s"
