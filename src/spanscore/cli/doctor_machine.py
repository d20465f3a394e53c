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
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import aiohttp
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import ConfigError, PermanentError, RetryableError, SpanscoreError
from spanscore.export import open_exporter
from spanscore.export.config import (
    GrpcConfig,
    HttpConfig,
    JsonFileConfig,
    LangfuseConfig,
    MlflowConfig,
    PhoenixConfig,
    SinkSettings,
    Tls,
)
from spanscore.export.http import JsonApi, http_context
from spanscore.export.port import Exporter, UnsupportedSignalError
from spanscore.judge import open_for_trial, redactor, trial
from spanscore.judge.cache import load as load_recorded
from spanscore.judge.config import Config
from spanscore.model.options import size_text
from spanscore.model.score import JudgeUsage
from spanscore.otlp import codec
from spanscore.otlp.signal import Signal
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import split_endpoint
from spanscore.store import connections, repair

Status: TypeAlias = Literal["ok", "warn", "FAIL"]

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_MAX_CHARS = 400


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: `about` is what was looked at, `fix` what to do where that is not
    well.
    """

    about: str
    status: Status
    message: str
    fix: str | None = None


def ok(about: str, message: str) -> Finding:
    """It is well."""
    return Finding(about, "ok", message)


def warn(about: str, message: str, fix: str) -> Finding:
    """It may become a fault, or could not be looked at."""
    return Finding(about, "warn", message, fix)


def fail(about: str, message: str, fix: str) -> Finding:
    """It is a fault."""
    return Finding(about, "FAIL", message, fix)


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


def check_disk(settings: Settings) -> Iterator[Finding]:
    """The journal, the store, and files that scores go to."""
    yield _sqlite("journal", "journal.path", settings.journal.path, settings.journal.max_bytes)
    try:
        url = make_url(settings.store.url)
    except ArgumentError as error:
        yield fail(
            "store", cause_of(error), "write store.url as sqlite:///FILE or postgresql+psycopg://…"
        )
    else:
        yield _store(settings, url)
    for name, exporter in settings.export.exporters.items():
        if isinstance(exporter, JsonFileConfig):
            yield _file(name, exporter.path)


def _store(settings: Settings, url: URL) -> Finding:
    if url.get_backend_name() == "sqlite":
        wanted = settings.store.retention.max_bytes or 0
        found = _sqlite("store", "store.url", Path(url.database or ""), wanted)
    else:
        found = ok("store", f"{url.render_as_string(hide_password=True)} answers")
    if found.status == "FAIL":
        return found
    try:
        connections.version(settings.store)
        damaged = repair.damaged_records(settings.store)
    except (SpanscoreError, OSError) as error:
        return fail("store", cause_of(error), "start the database, or mend store.url")
    if damaged:
        shown = "; ".join(damaged[:_SHOWN]) + ("; …" if len(damaged) > _SHOWN else "")
        return warn(
            "store",
            f"{len(damaged)} records are damaged and left out of all lists: {shown}",
            "see that the disk is sound; evaluate these again, or let retention delete them",
        )
    return found


def _sqlite(about: str, key: str, path: Path, max_bytes: int) -> Finding:
    folder = path.absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mode = _written(folder)
    except (OSError, sqlite3.Error) as error:
        return fail(
            about, f"{folder} cannot be written: {cause_of(error)}", _fix(folder, key, error)
        )
    if path.exists() and not os.access(path, os.W_OK):
        return fail(about, f"{path} cannot be written", f"make it writable, or set another {key}")
    try:
        fault = repair.fault_of(path)
    except SpanscoreError as error:
        return fail(about, cause_of(error), f"see {key}")
    if fault is not None:
        return fail(
            about,
            f"{path} is damaged: {fault}",
            "stop the server and run `spanscore repair` with this --config",
        )
    if mode != "wal":
        no_wal = f"{folder}: SQLite's WAL does not work there (journal mode {mode})"
        return fail(
            about,
            no_wal,
            f"set {key} to a local disk: network file systems cannot share what WAL needs",
        )
    return _room(about, key, folder, path, max_bytes)


def _written(folder: Path) -> str:
    """Write a database there, as the journal is written, and remove it; returns the journal mode
    that it got.
    """
    with tempfile.TemporaryDirectory(prefix=".spanscore-doctor-", dir=folder) as name:
        db = sqlite3.connect(Path(name) / "probe.db")
        try:
            mode = str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
            db.execute("PRAGMA synchronous = FULL")
            with db:
                db.execute("CREATE TABLE probe (body BLOB)")
                db.execute("INSERT INTO probe VALUES (zeroblob(65536))")
        finally:
            db.close()
    return mode


def _room(about: str, key: str, folder: Path, path: Path, max_bytes: int) -> Finding:
    free = shutil.disk_usage(folder).free
    left = max(0, max_bytes - (path.stat().st_size if path.exists() else 0))
    where = f"{path}: can be written, {_free(folder)}"
    if free < _LITTLE_BYTES:
        return fail(about, where, _fix(folder, key))
    if free < left:
        bound = "journal.max_bytes" if about == "journal" else "store.retention.max_bytes"
        fix = (
            f"make room, or set {bound} lower: it allows {size_text(max_bytes)}, and a full disk"
            " refuses requests"
        )
        return warn(about, where, fix)
    return ok(about, where)


def _file(name: str, path: Path) -> Finding:
    key = f"export.exporters.{name}.path"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") if path.exists() else tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        return fail(name, f"{path}: {cause_of(error)}", _fix(path.parent, key, error))
    if shutil.disk_usage(path.parent).free < _LITTLE_BYTES:
        return fail(name, f"{path}: can be written, {_free(path.parent)}", _fix(path.parent, key))
    return ok(name, f"{path}: can be written")


def _free(folder: Path) -> str:
    return f"{shutil.disk_usage(folder).free // _MIB:,} MiB free"


def _fix(folder: Path, key: str, error: Exception | None = None) -> str:
    """What to do where nothing can be written to a folder; a full disk fails in many words."""
    is_forbidden = isinstance(error, OSError) and error.errno in (
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
    )
    with suppress(OSError):
        if not is_forbidden and shutil.disk_usage(folder).free < _LITTLE_BYTES:
            return f"make room on that disk ({_free(folder)}), or set another {key}"
    return f"make it writable, or set another {key}"


SERVICE = "spanscore-doctor"
_MS = 10**6
_TIMEOUT_S = 5.0


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
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": SERVICE,
        }
        if content:
            attributes["gen_ai.input.messages"] = _messages("user", "Does the round trip work?")
            attributes["gen_ai.output.messages"] = _messages(
                "assistant", "Yes, the round trip works."
            )
        if emitted:
            attributes["spanscore.emitted"] = True
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        codec.fill(group.resource.attributes, {"service.name": SERVICE})
        scoped = group.scope_spans.add()
        scoped.scope.name = "spanscore" if emitted else SERVICE
        span = scoped.spans.add(
            trace_id=self.trace_id,
            span_id=self.span_id,
            name=f"invoke_agent {SERVICE}",
            kind=1,
            start_time_unix_nano=self.ended_ns - _MS,
            end_time_unix_nano=self.ended_ns,
        )
        codec.fill(span.attributes, attributes)
        return request.SerializeToString()


def _messages(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


_NO_TRACE = "0" * 31 + "1"


async def check_backends(settings: Settings, probe: Probe) -> AsyncIterator[Finding]:
    """Each exporter in turn; OTLP backends are sent the `probe`, marked so that nobody evaluates
    it.
    """
    if not settings.export.exporters:
        fix = "name a backend under export.exporters, unless the store is where you want them"
        yield warn("export", "no exporter is configured: scores stay in the store", fix)
    for name, config in settings.export.exporters.items():
        if isinstance(config, GrpcConfig | HttpConfig):
            yield await _otlp(name, config, settings, probe)
        elif isinstance(config, SinkSettings):
            yield await _tool(name, config)


async def _otlp(
    name: str, config: GrpcConfig | HttpConfig, settings: Settings, probe: Probe
) -> Finding:
    try:
        exporter = open_exporter(
            config,
            open_authenticators(settings.authenticators, has_tenants=settings.tenancy.enabled),
        )
    except SpanscoreError as error:
        return fail(name, cause_of(error), f"mend export.exporters.{name}")
    try:
        notes = await _sent(exporter, settings, probe)
    except (RetryableError, PermanentError) as error:
        takes = "refuses" if isinstance(error, PermanentError) else "does not take"
        problem = f"{config.endpoint} {takes} a span: {cause_of(error)}"
        return fail(name, problem, await _way_out(name, config))
    finally:
        await exporter.close()
    if notes:
        off = (
            "set export.emit for what it does not take to false, to spare the tries; spans get"
            " through all the same"
        )
        return warn(name, f"{config.endpoint} took a span, but {'; '.join(notes)}", off)
    return ok(
        name,
        f"{config.endpoint} took a span (trace {probe.trace_id.hex()}, service spanscore-doctor)",
    )


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
    notes: list[str] = []
    if remark := await exporter.send("traces", probe.request(content=True, emitted=True)):
        notes.append(remark)
    others: tuple[tuple[Signal, bool], ...] = (
        ("logs", settings.export.emit.events),
        ("metrics", settings.export.emit.metrics),
    )
    for signal, wanted in others:
        if wanted:
            try:
                await exporter.send(signal, b"")
            except UnsupportedSignalError as error:
                notes.append(f"it takes no {signal} ({cause_of(error)})")
            except (RetryableError, PermanentError) as error:
                notes.append(f"{signal} fail ({cause_of(error)})")
    return notes


async def _tool(name: str, config: SinkSettings) -> Finding:
    """Ask a tool something harmless that needs the credentials."""
    path, headers = "/", {}
    match config:
        case PhoenixConfig():
            path = "/v1/projects?limit=1"
        case MlflowConfig():
            path = f"/api/3.0/mlflow/traces/tr-{_NO_TRACE}"
        case LangfuseConfig():
            path = "/api/public/projects"
            secret = config.secret_key.get_secret_value()
            pair = base64.b64encode(f"{config.public_key}:{secret}".encode())
            headers = {"Authorization": f"Basic {pair.decode()}"}
    fix = f"start it, or mend export.exporters.{name}: its endpoint, headers or keys"
    try:
        api = JsonApi(config, headers)
    except SpanscoreError as error:
        return fail(name, cause_of(error), fix)
    try:
        async with asyncio.timeout(config.timeout / 1e9):
            await api.ask("GET", path, expected=(404,))
    except (SpanscoreError, TimeoutError) as error:
        return fail(name, f"{config.endpoint} does not answer as it should: {cause_of(error)}", fix)
    finally:
        await api.close()
    return ok(name, f"{config.endpoint} answers, with the credentials given")


async def listens(where: str) -> bool:
    """Whether anything takes connections at this `host:port`."""
    host, port = split_endpoint(where)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


_CLOSE_S, _FAR_S = 3.0, 60.0


async def check_clocks(settings: Settings, *, judge: bool) -> AsyncIterator[Finding]:
    """One line for each; `judge` says whether the judge's provider may be asked too."""
    places = dict(_places(settings, judge=judge))
    if not places:
        yield ok(
            "clocks",
            "nothing to compare with: neither a backend nor a judge is spoken to by HTTP at a known"
            " address",
        )
    for where, (url, tls) in places.items():
        yield await _compared(where, url, tls)


def _places(settings: Settings, *, judge: bool) -> Iterator[tuple[str, tuple[str, Tls]]]:
    for name, config in settings.export.exporters.items():
        if isinstance(config, HttpConfig | SinkSettings):
            yield name, (config.endpoint, config.tls)
    if judge and settings.judge.api_base and settings.judge.models:
        yield "judge", (settings.judge.api_base, Tls())


async def _compared(where: str, url: str, tls: Tls) -> Finding:
    host = urlsplit(url).netloc.rpartition("@")[2]
    try:
        context = http_context(tls).get()
        before_s = time.time()
        async with (
            asyncio.timeout(_TIMEOUT_S),
            aiohttp.ClientSession() as session,
            session.get(url, ssl=context, allow_redirects=False) as answer,
        ):
            date = answer.headers.get("Date", "")
        offset_s = _offset_s(date, before_s, time.time())
    except (aiohttp.ClientError, SpanscoreError, OSError, TimeoutError, ValueError):
        return warn(
            "clocks", f"{where} at {host} tells no time", "see that it is up, then ask again"
        )
    if abs(offset_s) <= _CLOSE_S:
        return ok("clocks", f"{where} at {host} has our time")
    difference = (
        f"{where} at {host} is {abs(offset_s):.0f} s"
        f" {'ahead of' if offset_s > 0 else 'behind'} this"
        " machine"
    )
    fix = "have both machines keep their clocks by NTP"
    return (
        fail("clocks", difference, fix)
        if abs(offset_s) > _FAR_S
        else warn("clocks", difference, fix)
    )


def _offset_s(date: str, before_s: float, after_s: float) -> float:
    """How far a Date header, which has whole seconds, lies outside the time in which it was made.

    >>> _offset_s("Thu, 01 Jan 1970 00:00:10 GMT", 10.2, 10.9)
    0.0
    """
    at_s = parsedate_to_datetime(date).timestamp()
    if at_s > after_s:
        return at_s - after_s
    return min(0.0, at_s + 1 - before_s)


_RUNNING = "server's judge"


async def check_models(settings: Settings, *, ask: bool) -> AsyncIterator[Finding]:
    """Each model of the judge, then the embedding; without `ask` no provider is asked."""
    if not any(x.models for x in settings.judges):
        yield ok(
            "judge",
            "none: judged metrics are skipped; set judge.model or SPANSCORE_JUDGE_MODEL for one",
        )
    recorded = settings.judge.recorded_answers
    for model, judge in _models(settings).items() if recorded is None else ():
        yield await _judge(judge, model) if ask else ok("judge", f"{model}: not asked (--no-judge)")
    if recorded is not None:
        yield _recorded(recorded)
    yield await _embedding(settings, ask=ask)


def _models(settings: Settings) -> dict[str, Config]:
    """Each model that may be asked, by the judge or where a metric or the rubric names it, with the
    configuration of its judge.
    """
    found: dict[str, Config] = {}
    for variant, judge in zip(settings.evaluation.variants(), settings.judges, strict=True):
        named = chain.from_iterable(variant.models(()).values()) if judge.models else ()
        for model in (*judge.models, *judge.cascade_models, *named):
            found.setdefault(model, judge)
    return found


def _recorded(path: Path) -> Finding:
    try:
        recording = load_recorded(path)
    except ConfigError as error:
        return fail("judge", str(error), "correct judge.recorded_answers, or take it out")
    return ok(
        "judge", f"{len(recording.answers)} recorded answers of {recording.model}; nothing is sent"
    )


def check_models_of_server(state: Mapping[str, Any]) -> Iterator[Finding]:
    """What the running server says of its models, which it may ask with another key than this
    command has.
    """
    for model, found in state.get("judge", {}).items():
        if found["status"] == "fails":
            yield fail(
                _RUNNING,
                f"the server gets no answer: {found['reason']}",
                f"{found['fix']}; where the server runs",
            )
        elif found["status"] == "answers":
            yield ok(_RUNNING, f"{model} answers the server")


async def _judge(config: Config, model: str) -> Finding:
    started_s = time.monotonic()
    try:
        answer = await trial.ask(open_for_trial(config), model)
    except SpanscoreError as error:
        return fail("judge", cause_of(error), trial.advice(error))
    took = f"{model} answered in {time.monotonic() - started_s:.1f} s, {_cost(answer.usage)}"
    if answer.usage.cost_usd is None:
        return warn(
            "judge",
            took,
            f"tell its price under judge.prices.{model}, so that judge.budget.max_usd can hold",
        )
    return ok("judge", took)


def _cost(usage: JudgeUsage) -> str:
    tokens = f"{usage.input_tokens} + {usage.output_tokens} tokens"
    return (
        f"{tokens}, price not known"
        if usage.cost_usd is None
        else f"{tokens}, {usage.cost_usd:.6f} USD"
    )


async def _embedding(settings: Settings, *, ask: bool) -> Finding:
    config = settings.embedding
    if config.chosen == "litellm" and not ask:
        return ok("embedding", f"{config.model}: not asked (--no-judge)")
    started_s = time.monotonic()
    try:
        embedder = open_embedder(config, redact=redactor(settings.judge))
        if embedder is None:
            return ok(
                "embedding", "none is configured, so coherence is skipped: see embedding.model"
            )
        vectors = await embedder.embed(["Does the embedding answer?"])
    except SpanscoreError as error:
        return fail(
            "embedding",
            cause_of(error),
            "see embedding.provider, embedding.model and embedding.api_key",
        )
    took_s = time.monotonic() - started_s
    return ok("embedding", f"{embedder.name}: {vectors.shape[1]} dimensions in {took_s:.1f} s")
