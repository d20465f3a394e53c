"""Do the backends and tools that scores go to take what they are sent, with the credentials they
are sent.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import suppress

from spanscore.cli.checks.endpoints import listens
from spanscore.cli.checks.finding import Finding, cause_of, fail, ok, warn
from spanscore.cli.checks.probe import Probe
from spanscore.config import Settings
from spanscore.errors import PermanentError, RetryableError, SpanscoreError
from spanscore.export.config import GrpcConfig, HttpConfig
from spanscore.export.json_api import JsonApi
from spanscore.export.opening import open_exporter
from spanscore.export.port import Exporter, UnsupportedSignalError
from spanscore.export.sink_config import LangfuseConfig, MlflowConfig, PhoenixConfig, SinkSettings
from spanscore.otlp.signal import Signal
from spanscore.receive.auth import open_authenticators

_NO_TRACE = "0" * 31 + "1"


async def check(settings: Settings, probe: Probe) -> AsyncIterator[Finding]:
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
    except RetryableError as error:
        return fail(
            name,
            f"{config.endpoint} does not take a span: {cause_of(error)}",
            await _fix(name, config),
        )
    except PermanentError as error:
        return fail(
            name, f"{config.endpoint} refuses a span: {cause_of(error)}", await _fix(name, config)
        )
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


async def _fix(name: str, config: GrpcConfig | HttpConfig) -> str:
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
