"""`spanscore monitors`: what each monitor of a configuration knows, and its last looks, from the server's store."""

import argparse
import json
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.engine import Row

from spanscore import config
from spanscore.cli.terminal import console, on_one_line, print_json
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.monitoring.alerts import moment
from spanscore.monitoring.config import Monitor
from spanscore.monitoring.watching import State, alpha_of
from spanscore.store import connecting
from spanscore.store.monitors import history, states
from spanscore.store.schema import monitor_states
from spanscore.store.transactions import snapshot

_PHASES = {
    "sizing": "gathers its first sessions",
    "reference": "gathers its reference",
    "watching": "watches",
    "firing": "ALERT",
}
_COLUMNS = ("monitor", "metric", "state", "floor", "sessions", "evidence", "alerts", "last look", "next look")
_WRAPPED = frozenset(("monitor", "metric", "state", "last look", "next look"))
"""Columns whose text goes on in the next line where a terminal is narrow."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the monitor whose last looks to list")
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="the server's configuration")
    parser.add_argument("--limit", metavar="N", type=int, default=20, help="with NAME: how many looks (default 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each monitor, or each look")


def run(args: argparse.Namespace) -> int:
    """List the monitors, or the looks of one. Returns the exit code."""
    settings = config.load(args.config) if args.config else config.default()
    if args.limit < 1:
        raise InputError(f"--limit {args.limit}: give a number of looks above 0")
    if args.name is not None and args.name not in settings.monitors:
        known = ", ".join(settings.monitors) or "none"
        raise InputError(f"{args.name}: no such monitor in the configuration; there: {known}")
    kept, looks = _read(settings, args.name, args.limit)
    if args.name is not None:
        _print(looks, as_json=args.json)
    elif settings.monitors:
        now_ns = time.time_ns()
        found = [_described(name, x, kept.get(name), now_ns) for name, x in settings.monitors.items()]
        _print(found, as_json=args.json)
    elif not args.json:
        print("no monitors are configured; see docs/monitors.md")
    return 0


def _read(settings: Settings, name: str | None, limit: int) -> tuple[Mapping[str, Row[Any]], list[dict[str, Any]]]:
    """What the store has of all monitors, and the last looks of one."""
    engine = connecting.connect_reading(settings.store)
    if engine is None:
        return {}, []
    try:
        with snapshot(engine) as connection:
            if not inspect(connection).has_table(monitor_states.name):  # a store that no server of this version opened
                return {}, []
            looks = [_look(x) for x in history(connection, name, limit)] if name is not None else []
            return states(connection), looks
    finally:
        engine.dispose()


def _look(row: Row[Any]) -> dict[str, Any]:
    return {
        "due": moment(row.due_ns),
        "looked": moment(row.looked_ns),
        "outcome": row.outcome,
        "scores": row.scores,
        "sessions": row.sessions,
    }


def _described(name: str, monitor: Monitor, row: Row[Any] | None, now_ns: int) -> dict[str, Any]:
    state = None if row is None else State.from_json(json.loads(row.record)["state"])
    is_tested = state is not None and state.phase in {"watching", "firing"}
    watches = state is not None and state.phase == "watching"
    return {
        "monitor": name,
        "metric": monitor.metric,
        "state": "paused" if monitor.paused else "new" if state is None else state.phase,
        "floor": state.floor if state is not None and is_tested else monitor.floor,
        "sessions": 0 if state is None else state.counted,
        "evidence": state.evidence.value if state is not None and watches else None,
        "evidence_for_alert": 1 / alpha_of(monitor, state.alarms) if state is not None and watches else None,
        "alerts": 0 if state is None else state.alarms,
        "last_look": None if row is None else moment(row.looked_ns),
        "next_look": None if monitor.paused else moment(monitor.schedule(name).next_after(now_ns)),
    }


def _print(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for described in found:
            print_json(described)
        return
    from rich.table import Table  # noqa: PLC0415 - --json needs no rich

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    rows = [_row(x) if "monitor" in x else {name: str(value) for name, value in x.items()} for x in found]
    for heading in rows[0] if rows else ():
        table.add_column(heading, no_wrap=heading not in _WRAPPED, overflow="fold")
    for row in rows:
        table.add_row(*(on_one_line(x, 60) for x in row.values()))
    console().print(table if rows else "it has not looked yet")


def _row(found: Mapping[str, Any]) -> dict[str, str]:
    """A monitor as a row of the table, by _COLUMNS."""
    evidence = "-"
    if found["evidence"] is not None:
        evidence = f"{found['evidence']:.3g} of {found['evidence_for_alert']:.0f}"
    cells = (
        found["monitor"],
        found["metric"],
        _PHASES.get(found["state"], found["state"]),
        "-" if found["floor"] is None else f"{found['floor']:.3f}",
        str(found["sessions"]),
        evidence,
        str(found["alerts"]),
        *(_local(found[name]) for name in ("last_look", "next_look")),
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def _local(text: str | None) -> str:
    return "-" if text is None else datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
