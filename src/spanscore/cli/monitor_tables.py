"""Monitors and their ticks as people read them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spanscore.cli.plain_table import plain_table
from spanscore.cli.terminal import console, on_one_line, printable

if TYPE_CHECKING:
    from spanscore.api.v1.monitor_service_pb2 import Monitor, MonitorFindings, MonitorTick

_PHASES = {
    "sizing": "gathers its first sessions",
    "reference": "gathers its reference",
    "watching": "watches",
    "firing": "ALERT",
}

_NEXT_TICK = "next tick (UTC)"
_COLUMNS = (
    "monitor",
    "watches",
    "runs",
    "state",
    "floor",
    "evidence",
    "last tick (UTC)",
    _NEXT_TICK,
)
_WIDE = 120
_OF_WIDE_TERMINALS = ("runs", "floor", "evidence", "last tick (UTC)")
"""Columns that a narrow terminal has no room for; `spanscore monitors get` shows all of one."""
_SHORT_ID = 24


def print_monitors(monitors: "Sequence[Monitor]") -> None:
    """Print a table of monitors."""
    if not monitors:
        print("no monitors; see docs/monitors.md")
        return
    output = console()
    columns = [x for x in _COLUMNS if output.width >= _WIDE or x not in _OF_WIDE_TERMINALS]
    whole = [_NEXT_TICK]
    if all(len(_id(x)) <= _SHORT_ID for x in monitors):
        whole.append("monitor")
    folded = [x for x in columns if x not in whole]
    table = plain_table(columns, ("sessions", "alerts"), wrapped=folded)
    for monitor in monitors:
        row = {
            "monitor": on_one_line(_id(monitor), 64),
            "watches": on_one_line(monitor.watch.metric or "-", 40),
            "runs": "yes" if monitor.HasField("run") else "-",
            "state": _state(monitor),
            "floor": _floor(monitor),
            "evidence": _evidence(monitor.findings),
            "last tick (UTC)": _last_tick(monitor),
            _NEXT_TICK: _next_tick(monitor),
        }
        counts = (f"{monitor.findings.sessions:,}", f"{monitor.findings.alerts:,}")
        table.add_row(*(row[x] for x in columns), *counts)
    output.print(table)


def _last_tick(monitor: "Monitor") -> str:
    return _time(monitor.last_tick.made_ns) if monitor.HasField("last_tick") else "-"


def _next_tick(monitor: "Monitor") -> str:
    return _time(monitor.next_tick_ns) if monitor.HasField("next_tick_ns") else "-"


def print_monitor(monitor: "Monitor") -> None:
    """Print one monitor."""
    print(
        "monitor"
        f" {_id(monitor)}{f'  {printable(monitor.display_name)}' if monitor.display_name else ''}"
    )
    print(
        "  state     "
        f" {_state(monitor)}{', of the configuration file' if monitor.configured else ''}"
    )
    after = f", next {_time(monitor.next_tick_ns)} UTC" if monitor.HasField("next_tick_ns") else ""
    print(f"  ticks      {_times(monitor)}{after}")
    if monitor.HasField("watch"):
        _print_findings(monitor)
    if monitor.HasField("run"):
        print(f"  runs       {_window(monitor)}; {_overlap(monitor)} while one is going")
    if monitor.HasField("last_tick"):
        print(f"  last tick  {_time(monitor.last_tick.made_ns)} UTC: {_outcome(monitor.last_tick)}")
    if monitor.etag:
        print(f"  etag       {monitor.etag}")


def print_ticks(ticks: "Sequence[MonitorTick]") -> None:
    """Print a table of ticks."""
    if not ticks:
        print("it has not ticked yet")
        return
    columns = ("due (UTC)", "made (UTC)", "cause", "outcome", "run")
    table = plain_table(columns, ("scores", "sessions"), wrapped=columns)
    table.add_column("reason")
    for tick in ticks:
        table.add_row(
            _time(tick.due_ns),
            _time(tick.made_ns),
            _cause(tick),
            _outcome(tick),
            tick.run.removeprefix("runs/") or "-",
            f"{tick.scores:,}",
            f"{tick.sessions:,}",
            on_one_line(tick.reason, 120),
        )
    console().print(table)


def print_tick(tick: "MonitorTick") -> None:
    """Print one tick."""
    reason = f": {printable(tick.reason)}" if tick.reason else ""
    run = f", run {tick.run.removeprefix('runs/')}" if tick.run else ""
    print(f"tick of {_time(tick.due_ns)} UTC: {_outcome(tick)}{reason}{run}")


def _print_findings(monitor: "Monitor") -> None:
    known = monitor.findings
    print(
        f"  watches    {printable(monitor.watch.metric)}, {known.sessions:,} sessions,"
        f" {known.alerts:,} alerts"
    )
    if known.HasField("floor"):
        print(f"  floor      {known.floor:.4f}")
    if known.HasField("evidence"):
        print(f"  evidence   {_evidence(known)}")
    if known.HasField("low_mean"):
        since = _time(known.firing_since_ns)
        print(
            f"  alert      since {since} UTC: {known.low_mean:.4f} in {known.low_sessions:,}"
            " sessions"
        )


def _times(monitor: "Monitor") -> str:
    schedule = monitor.schedule
    if schedule.HasField("cron"):
        return f"cron {printable(schedule.cron)} {printable(schedule.time_zone or 'UTC')}"
    return f"every {schedule.every_s:g} s" if schedule.HasField("every_s") else "every minute"


def _id(monitor: "Monitor") -> str:
    return monitor.name.removeprefix("monitors/")


def _state(monitor: "Monitor") -> str:
    from spanscore.api.v1.monitor_service_pb2 import (  # noqa: PLC0415 - --help needs no protobuf
        MONITOR_STATE_PAUSED,
    )

    if monitor.state == MONITOR_STATE_PAUSED:
        return "paused"
    return _PHASES.get(monitor.findings.phase, monitor.findings.phase) or "new"


def _floor(monitor: "Monitor") -> str:
    """What the mean is held against; before the first look what the monitor was given."""
    known = monitor.findings if monitor.HasField("findings") else monitor.watch
    return f"{known.floor:.3f}" if known.HasField("floor") else "-"


def _evidence(known: "MonitorFindings") -> str:
    return (
        f"{known.evidence:.3g} of {known.evidence_for_alert:.0f}"
        if known.HasField("evidence")
        else "-"
    )


def _window(monitor: "Monitor") -> str:
    if monitor.run.everything:
        return "over all of the target"
    if monitor.run.HasField("look_back_s"):
        return f"over the last {monitor.run.look_back_s:g} s"
    return "over what was stored since the one before"


def _overlap(monitor: "Monitor") -> str:
    from spanscore.api.v1.monitor_service_pb2 import MonitorOverlap  # noqa: PLC0415 - as above

    return MonitorOverlap.Name(monitor.run.overlap).removeprefix("MONITOR_OVERLAP_").lower()


def _cause(tick: "MonitorTick") -> str:
    from spanscore.api.v1.monitor_service_pb2 import MonitorTickCause  # noqa: PLC0415 - as above

    return MonitorTickCause.Name(tick.cause).removeprefix("MONITOR_TICK_CAUSE_").lower()


def _outcome(tick: "MonitorTick") -> str:
    from spanscore.api.v1.monitor_service_pb2 import MonitorTickState  # noqa: PLC0415 - as above

    state = MonitorTickState.Name(tick.state).removeprefix("MONITOR_TICK_STATE_").lower()
    return f"{state}: {tick.finding}" if tick.finding else state


def _time(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}"
