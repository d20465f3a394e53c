"""What there is to see of monitors: what each knows, and its ticks with the runs that they
started.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.control.ticking import Known
from spanscore.monitoring.watching import State, alpha_of
from spanscore.store.monitor_tables import MonitorTables, Tick
from spanscore.store.monitors import state_of
from spanscore.store.runs import Run


@dataclass(frozen=True, slots=True)
class ShownTick:
    """A tick, and the run that it started; None where there is none, or it was deleted."""

    tick: Tick
    run: Run | None


@dataclass(frozen=True, slots=True)
class Findings:
    """What a monitor knows of its metric. What is None does not apply in its phase."""

    phase: str
    floor: float | None
    sessions: int
    alerts: int
    evidence: float | None = None
    evidence_for_alert: float | None = None
    firing_since_ns: int | None = None
    low_mean: float | None = None
    low_sessions: int | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A monitor with all that there is to see of it. `next_ns` is None where it is paused."""

    known: Known
    next_ns: int | None
    last_tick: ShownTick | None
    findings: Findings | None


def shown(tables: MonitorTables, known: Known, next_ns: int | None) -> Shown:
    """A monitor as it is now."""
    last = ticks(tables, tables.ticks(known.tenant, known.id, 1))
    record = state_of(tables.connection, known.tenant, known.id)
    findings = None if record is None or known.spec.watch is None else findings_of(known, record)
    return Shown(known, next_ns, last[0] if last else None, findings)


def ticks(tables: MonitorTables, found: Sequence[Tick]) -> list[ShownTick]:
    """Ticks with their runs."""
    return [
        ShownTick(x, None if x.run is None else tables.runs.get(x.tenant, x.run)) for x in found
    ]


def findings_of(known: Known, record: dict[str, Any]) -> Findings | None:
    """What a monitor's kept state says; None where it watches nothing."""
    watched, state = known.spec.watch, State.from_json(record["state"])
    if watched is None:
        return None
    is_tested = state.phase in {"watching", "firing"}
    watches, fires = state.phase == "watching", state.phase == "firing"
    return Findings(
        state.phase,
        state.floor if is_tested else watched.floor,
        state.counted,
        state.alarms,
        evidence=state.evidence.value if watches else None,
        evidence_for_alert=1 / alpha_of(watched, state.alarms) if watches else None,
        firing_since_ns=record["began_ns"] if fires else None,
        low_mean=state.low_mean if fires else None,
        low_sessions=state.low_units if fires else None,
    )
