"""Monitors of the configuration, kept in the store."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from spanscore.control import ticks
from spanscore.control.runs import Runs
from spanscore.errors import ConfigError, FieldError, InputError, NotFoundError
from spanscore.model.options import read_spec
from spanscore.specs import Monitor, MonitorSpec
from spanscore.store.monitor_tables import MonitorState, MonitorTables, StoredMonitor
from spanscore.store.monitors import begin_anew

Key: TypeAlias = tuple[str, str]
Receivers: TypeAlias = Iterable[str]
"""The names of those that alerts go to."""


def configured(monitors: Mapping[str, Monitor], runs: Runs) -> dict[Key, Monitor]:
    """The monitors of a configuration, by tenant and id.

    Raises ConfigError where one starts runs that cannot be.
    """
    for name, monitor in monitors.items():
        _refuse_impossible(name, monitor.tenant, monitor.spec, runs)
    return {(x.tenant, name): x for name, x in monitors.items()}


def refuse_taken(tables: MonitorTables, wanted: Mapping[Key, Monitor]) -> None:
    """Raise ConfigError where a monitor was created through the API under the id of one of these.

    Both would have one history.
    """
    for tenant, name in wanted:
        stored = tables.get(tenant, name)
        if stored is not None and not stored.is_configured:
            of_tenant = f" of tenant {tenant}" if tenant else ""
            raise ConfigError(
                f"monitors.{name}: a monitor {name!r}{of_tenant} was created through the API; give"
                " this one another name, or start without it, delete that one (spanscore monitors"
                f" delete {name}), and start again with it"
            )


def keep(
    tables: MonitorTables, wanted: Mapping[Key, Monitor], receivers: Receivers, now_ns: int
) -> None:
    """Have the store contain these monitors of the configuration, and no others.

    One that is new begins now. Of one that is gone a firing alert ends, and its runs and scores
    stay.
    """
    there = {(x.tenant, x.id): x for x in tables.all() if x.is_configured}
    for key in there.keys() - wanted.keys():
        why = "its monitor was taken out of the configuration"
        retire(tables, there[key], receivers, why, now_ns)
    for key, monitor in wanted.items():
        if key in there:
            _renew(tables, there[key], monitor, receivers, now_ns)
        else:
            create(tables, key, monitor.spec, now_ns, configured=_state(monitor))


def retire(
    tables: MonitorTables, stored: StoredMonitor, receivers: Receivers, why: str, now_ns: int
) -> None:
    """Delete a monitor with its history; its firing alert ends."""
    alerts = ticks.ends(stored, receivers, why, now_ns)
    tables.delete(begin_anew(tables, stored, now_ns, alerts))


def create(
    tables: MonitorTables,
    key: Key,
    spec: MonitorSpec,
    now_ns: int,
    request_id: str | None = None,
    configured: MonitorState | None = None,
) -> StoredMonitor:
    """Keep a new monitor, which begins now; `configured` is the state of one of the
    configuration.
    """
    state, is_configured = configured or "ACTIVE", configured is not None
    given = (*key, state, spec.model_dump_json(), now_ns, now_ns, now_ns, tables.last_row)
    new = StoredMonitor(*given, request_id=request_id, is_configured=is_configured)
    tables.create(new)
    return new


def _state(monitor: Monitor) -> MonitorState:
    return "PAUSED" if monitor.paused else "ACTIVE"


def _renew(
    tables: MonitorTables,
    stored: StoredMonitor,
    monitor: Monitor,
    receivers: Receivers,
    now_ns: int,
) -> None:
    """Have a monitor do what the configuration says by now."""
    former, state = _spec_of(stored), _state(monitor)
    if former == monitor.spec and stored.state == state:
        return
    if stored.state != state:
        stored = replace(stored, state=state, due_from_ns=now_ns)
    change(tables, stored, former, monitor.spec, receivers, now_ns)


def change(
    tables: MonitorTables,
    stored: StoredMonitor,
    former: MonitorSpec | None,
    spec: MonitorSpec,
    receivers: Receivers,
    now_ns: int,
) -> StoredMonitor:
    """Have a monitor do what `spec` says, in place of `former`; None where that is not known."""
    if former is None or former.schedule != spec.schedule:
        stored = replace(stored, due_from_ns=now_ns)
    if former is None or _watch_digest(former) != _watch_digest(spec):
        alerts = None
        if spec.watch is None:
            alerts = ticks.ends(stored, receivers, "its metric is watched no more", now_ns)
        stored = begin_anew(tables, stored, now_ns, alerts)
    return write(tables, replace(stored, spec=spec.model_dump_json()), now_ns)


def write(tables: MonitorTables, stored: StoredMonitor, now_ns: int) -> StoredMonitor:
    """Write a monitor that was changed, as its next revision."""
    changed = replace(stored, revision=stored.revision + 1, updated_ns=now_ns)
    tables.change(changed)
    return changed


def _spec_of(stored: StoredMonitor) -> MonitorSpec | None:
    """None where this version does not understand it."""
    try:
        return read_spec(MonitorSpec, stored.spec)
    except InputError:
        return None


def _watch_digest(spec: MonitorSpec) -> str | None:
    """What changes where a monitor begins anew; None where it watches nothing."""
    if spec.watch is None:
        return None
    return ticks.digest_of_watch(spec.watch, of_runs=spec.run is not None)


def _refuse_impossible(name: str, tenant: str, spec: MonitorSpec, runs: Runs) -> None:
    if spec.run is None:
        return
    try:
        with fields_of_run():
            runs.refuse_impossible(tenant, spec.run.run_spec(""))
        refuse_unmeasured(spec, runs)
    except FieldError as error:
        raise ConfigError(f"monitors.{name}.{error}") from None


@contextmanager
def fields_of_run() -> Iterator[None]:
    """Name the field of a monitor at which a run cannot be."""
    try:
        yield
    except FieldError as error:
        raise error.within("run") from None
    except NotFoundError:
        raise
    except InputError as error:
        raise FieldError("run.measure", str(error)) from None


def refuse_unmeasured(spec: MonitorSpec, runs: Runs) -> None:
    """Raise FieldError where a monitor watches a metric of which there are no scores."""
    run = None if spec.run is None else spec.run.run_spec("")
    try:
        if spec.watch is not None:
            runs.measurers.refuse_unmeasured(spec.watch.metric, spec.watch.scope, run)
    except InputError as error:
        raise FieldError("metric", str(error)) from None
