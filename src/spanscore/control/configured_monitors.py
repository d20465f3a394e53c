"""Monitors of the configuration, kept in the store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from spanscore.control import ticks
from spanscore.control.runs import Runs
from spanscore.errors import ConfigError, FieldError, InputError
from spanscore.specs import Monitor, MonitorSpec, read_spec
from spanscore.store.monitor_tables import MonitorState, MonitorTables, StoredMonitor
from spanscore.store.monitors import Advanced, begin_anew

Key: TypeAlias = tuple[str, str]
End: TypeAlias = Callable[[str], Callable[[dict[str, Any]], Advanced]]
"""What is still to be sent of a monitor whose state goes, for a reason."""


@dataclass(frozen=True, slots=True)
class Configured:
    """A monitor as the configuration has it."""

    spec: MonitorSpec
    state: MonitorState


def configured(monitors: Mapping[str, Monitor], runs: Runs) -> dict[Key, Configured]:
    """The monitors of a configuration, by tenant and id.

    Raises ConfigError where one starts runs that cannot be.
    """
    for name, monitor in monitors.items():
        _refuse_impossible(name, monitor.tenant, monitor.spec, runs)
    return {
        (x.tenant, name): Configured(x.spec, "PAUSED" if x.paused else "ACTIVE")
        for name, x in monitors.items()
    }


def refuse_taken(tables: MonitorTables, wanted: Mapping[Key, Configured]) -> None:
    """Raise ConfigError where a monitor was created through the API under the id of one of these.

    Both would have one history.
    """
    for tenant, name in wanted:
        if tables.is_of_api(tenant, name):
            of_tenant = f" of tenant {tenant}" if tenant else ""
            raise ConfigError(
                f"monitors.{name}: a monitor {name!r}{of_tenant} was created through the API; give"
                " this one another name, or start without it, delete that one (spanscore monitors"
                f" delete {name}), and start again with it"
            )


def keep(tables: MonitorTables, wanted: Mapping[Key, Configured], end: End, now_ns: int) -> None:
    """Have the store contain these monitors of the configuration, and no others.

    One that is new begins now. Of one that is gone a firing alert ends, and its runs and scores
    stay.
    """
    there = {(x.tenant, x.id): x for x in tables.configured()}
    for key in there.keys() - wanted.keys():
        retire(tables, there[key], end("its monitor was taken out of the configuration"), now_ns)
    for key, monitor in wanted.items():
        if key in there:
            _renew(tables, there[key], monitor, end("its metric is watched no more"), now_ns)
        else:
            tables.create(_new(key, monitor, tables.last_row, now_ns))


def retire(
    tables: MonitorTables,
    stored: StoredMonitor,
    end: Callable[[dict[str, Any]], Advanced],
    now_ns: int,
) -> None:
    """Delete a monitor with its history; its firing alert ends."""
    begin_anew(tables, stored.tenant, stored.id, now_ns, end)
    tables.delete(stored)


def _new(key: Key, monitor: Configured, last_row: int, now_ns: int) -> StoredMonitor:
    tenant, id_ = key
    text = monitor.spec.model_dump_json()
    return StoredMonitor(
        tenant, id_, monitor.state, text, now_ns, now_ns, now_ns, last_row, is_configured=True
    )


def _renew(
    tables: MonitorTables,
    stored: StoredMonitor,
    monitor: Configured,
    end: Callable[[dict[str, Any]], Advanced],
    now_ns: int,
) -> None:
    """Have a monitor do what the configuration says by now."""
    former, spec = _spec_of(stored), monitor.spec
    if former == spec and stored.state == monitor.state:
        return
    is_due_anew = (
        former is None or former.schedule != spec.schedule or stored.state != monitor.state
    )
    if former is None or watch_digest(former) != watch_digest(spec):
        begin_anew(tables, stored.tenant, stored.id, now_ns, end if spec.watch is None else None)
    tables.change(
        replace(
            stored,
            spec=spec.model_dump_json(),
            state=monitor.state,
            due_from_ns=now_ns if is_due_anew else stored.due_from_ns,
            revision=stored.revision + 1,
            updated_ns=now_ns,
        )
    )


def _spec_of(stored: StoredMonitor) -> MonitorSpec | None:
    """None where this version does not understand it."""
    try:
        return read_spec(MonitorSpec, stored.spec)
    except InputError:
        return None


def watch_digest(spec: MonitorSpec) -> str | None:
    """What changes where a monitor begins anew; None where it watches nothing."""
    if spec.watch is None:
        return None
    return ticks.digest_of_watch(spec.watch, of_runs=spec.run is not None)


def _refuse_impossible(name: str, tenant: str, spec: MonitorSpec, runs: Runs) -> None:
    if spec.run is None:
        return
    run = spec.run.run_spec("")
    try:
        runs.refuse_impossible(tenant, run)
    except FieldError as error:
        raise ConfigError(f"monitors.{name}.run.{error}") from None
    except InputError as error:
        raise ConfigError(f"monitors.{name}.run.measure: {error}") from None
    if (watched := spec.watch) is None:
        return
    try:
        runs.refuse_unmeasured(watched.metric, watched.scope, run)
    except InputError as error:
        raise ConfigError(f"monitors.{name}.metric: {error}") from None
