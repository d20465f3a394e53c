"""`spanscore monitors`: scheduled watches and runs."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.messages import words
from spanscore.api.v1 import monitor_service_pb2 as pb
from spanscore.cli import server
from spanscore.cli.options import add_actions
from spanscore.cli.server import print_one
from spanscore.cli.terminal import console, on_one_line, print_rows, utc
from spanscore.errors import InputError

_SETTABLE = ("display_name", "schedule", "watch", "run")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's actions and their options."""
    add_actions(parser, ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Do what the action says. Returns the exit code."""
    return ACTIONS[args.action].run(args)


def _wanted(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """The monitor in a file, and the paths of the fields that an update by it changes.

    What only a server sets is left out, so that what `get --json` prints can be edited and given
    back. Raises InputError.
    """
    monitor: Any = pb.Monitor()
    fields = server.read_message(args.spec, monitor)
    given = {path: value for path, value in fields if path.split(".")[0] in _SETTABLE}
    if not monitor.name:
        raise InputError(f"{args.spec}: name: is missing; give the monitor's id, such as nightly")
    monitor.name = _MONITORS.name(monitor.name)
    for field, _ in monitor.ListFields():
        if field.name not in {*_SETTABLE, "name", "etag"}:
            monitor.ClearField(field.name)
    return monitor, sorted(given)


def _create(args: argparse.Namespace, ask: server.Ask) -> None:
    monitor, _ = _wanted(args)
    print_one(args, _created(ask, monitor))


def _created(ask: server.Ask, monitor: Any) -> Any:
    monitor_id = _ref(monitor)
    monitor.ClearField("name")
    return ask("CreateMonitor", pb.CreateMonitorRequest(monitor=monitor, monitor_id=monitor_id))


def _apply(args: argparse.Namespace, ask: server.Ask) -> None:
    monitor, paths = _wanted(args)
    if not paths:
        raise InputError(f"{args.spec}: give what is to change, such as watch: {{floor: 0.7}}")
    if ask.or_none("GetMonitor", pb.GetMonitorRequest(name=monitor.name)) is None:
        print_one(args, _created(ask, monitor))
        return
    request = pb.UpdateMonitorRequest(monitor=monitor, update_mask=FieldMask(paths=paths))
    print_one(args, ask("UpdateMonitor", request))


def _add_spec(parser: argparse.ArgumentParser) -> None:
    server.add_file(parser, "the monitor, as the API has it", required=True)


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


def print_monitors(monitors: Sequence[pb.Monitor]) -> None:
    """Print a table of monitors."""
    if not monitors:
        print("no monitors; see docs/monitors.md")
        return
    width = console().width
    columns = [x for x in _COLUMNS if width >= _WIDE or x not in _OF_WIDE_TERMINALS]
    whole = [_NEXT_TICK]
    if all(len(_ref(x)) <= _SHORT_ID for x in monitors):
        whole.append("monitor")
    headings = [*columns, "sessions", "alerts"]
    rows = [[_cells(x)[heading] for heading in headings] for x in monitors]
    print_rows(headings, ("sessions", "alerts"), rows, wrapped=set(columns) - set(whole))


def _cells(monitor: pb.Monitor) -> dict[str, str]:
    """What each column shows of a monitor."""
    return {
        "monitor": on_one_line(_ref(monitor), 64),
        "watches": on_one_line(monitor.watch.metric or "-", 40),
        "runs": "yes" if monitor.HasField("run") else "-",
        "state": _state(monitor),
        "floor": _floor(monitor),
        "evidence": _evidence(monitor.findings),
        "last tick (UTC)": _last_tick(monitor),
        _NEXT_TICK: _next_tick(monitor),
        "sessions": f"{monitor.findings.sessions:,}",
        "alerts": f"{monitor.findings.alerts:,}",
    }


def _last_tick(monitor: pb.Monitor) -> str:
    return _time(monitor.last_tick.made_ns) if monitor.HasField("last_tick") else "-"


def _next_tick(monitor: pb.Monitor) -> str:
    return _time(monitor.next_tick_ns) if monitor.HasField("next_tick_ns") else "-"


def print_ticks(ticks: Sequence[pb.MonitorTick]) -> None:
    """Print a table of ticks."""
    if not ticks:
        print("it has not ticked yet")
        return
    texts = ("due (UTC)", "made (UTC)", "cause", "outcome", "run")
    numbers = ("scores", "sessions")
    rows = [
        [
            _time(x.due_ns),
            _time(x.made_ns),
            _word(x, "cause"),
            _outcome(x),
            x.run.removeprefix("runs/") or "-",
            f"{x.scores:,}",
            f"{x.sessions:,}",
            on_one_line(x.reason, 120),
        ]
        for x in ticks
    ]
    print_rows((*texts, *numbers, "reason"), numbers, rows, wrapped=texts)


def _ref(monitor: pb.Monitor) -> str:
    return monitor.name.removeprefix("monitors/")


def _state(monitor: pb.Monitor) -> str:
    if monitor.state == pb.MONITOR_STATE_PAUSED:
        return "paused"
    return _PHASES.get(monitor.findings.phase, monitor.findings.phase) or "new"


def _floor(monitor: pb.Monitor) -> str:
    """What the mean is held against; before the first look what the monitor was given."""
    known = monitor.findings if monitor.HasField("findings") else monitor.watch
    return f"{known.floor:.3f}" if known.HasField("floor") else "-"


def _evidence(known: pb.MonitorFindings) -> str:
    return (
        f"{known.evidence:.3g} of {known.evidence_for_alert:.0f}"
        if known.HasField("evidence")
        else "-"
    )


def _word(message: Any, field: str) -> str:
    """The value of an enum as a user writes it; "unspecified" where there is none."""
    enum = message.DESCRIPTOR.fields_by_name[field].enum_type
    found: str = ["unspecified", *words(enum)][getattr(message, field)]
    return found


def _outcome(tick: pb.MonitorTick) -> str:
    state = _word(tick, "state")
    return f"{state}: {tick.finding}" if tick.finding else state


def _time(ns: int) -> str:
    return f"{utc(ns):%Y-%m-%d %H:%M:%S}"


_MONITORS: Final = server.Resource("Monitor", pb, "ID", "the monitor's id")

ACTIONS = {
    "list": _MONITORS.list(
        "list the monitors, with what each knows", "ListMonitors", print_monitors
    ),
    "get": _MONITORS.of_one("show a monitor", "GetMonitor"),
    "create": _MONITORS.action("create a monitor", _create, _add_spec),
    "apply": _MONITORS.action(
        "change what a file names of a monitor, or create it", _apply, _add_spec
    ),
    "delete": _MONITORS.delete(
        "delete monitors with their history; their runs and scores are kept",
        lambda _: "; its runs and their scores are kept",
    ),
    "pause": _MONITORS.of_one("have a monitor wait", "PauseMonitor"),
    "resume": _MONITORS.of_one(
        "have a paused monitor go on with the next of its times", "ResumeMonitor"
    ),
    "trigger": _MONITORS.of_one("make a tick now", "TriggerMonitor"),
    "history": _MONITORS.list(
        "list the ticks of a monitor, the newest first", "ListMonitorTicks", print_ticks
    ),
}
