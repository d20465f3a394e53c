"""`spanscore monitors`: scheduled watches and runs."""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.v1 import monitor_service_pb2 as pb
from spanscore.cli import server
from spanscore.cli.options import add_actions
from spanscore.cli.server import id_of, print_one, word
from spanscore.cli.terminal import Columns, console, on_one_line, print_items, utc
from spanscore.errors import InputError

_SETTABLE = ("display_name", "schedule", "watch", "run")


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
    monitor_id = id_of(monitor)
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


def _state(monitor: pb.Monitor) -> str:
    if monitor.state == pb.MONITOR_STATE_PAUSED:
        return "paused"
    return _PHASES.get(monitor.findings.phase, monitor.findings.phase) or "new"


def _floor(monitor: pb.Monitor) -> str:
    """What the mean is held against; before the first look what the monitor was given."""
    known = monitor.findings if monitor.HasField("findings") else monitor.watch
    return f"{known.floor:.3f}" if known.HasField("floor") else "-"


def _evidence(monitor: pb.Monitor) -> str:
    known = monitor.findings
    if not known.HasField("evidence"):
        return "-"
    return f"{known.evidence:.3g} of {known.evidence_for_alert:.0f}"


def _time(ns: int) -> str:
    return f"{utc(ns):%Y-%m-%d %H:%M:%S}" if ns else "-"


_COLUMNS: Columns = (
    ("monitor", lambda x: on_one_line(id_of(x), 64)),
    ("watches", lambda x: on_one_line(x.watch.metric or "-", 40)),
    ("runs", lambda x: "yes" if x.HasField("run") else "-"),
    ("state", _state),
    ("floor", _floor),
    ("evidence", _evidence),
    ("last tick (UTC)", lambda x: _time(x.last_tick.made_ns)),
    ("next tick (UTC)", lambda x: _time(x.next_tick_ns)),
    ("sessions", lambda x: f"{x.findings.sessions:,}"),
    ("alerts", lambda x: f"{x.findings.alerts:,}"),
)
_WIDE = 120
_OF_WIDE_TERMINALS = {"runs", "floor", "evidence", "last tick (UTC)"}
"""Columns that a narrow terminal has no room for; `spanscore monitors get` shows all of one."""
_SHORT_ID = 24


def print_monitors(monitors: Sequence[pb.Monitor]) -> None:
    """Print a table of monitors."""
    is_wide = console().width >= _WIDE
    columns = [x for x in _COLUMNS if is_wide or x[0] not in _OF_WIDE_TERMINALS]
    whole = {"next tick (UTC)", "sessions", "alerts"}
    if all(len(id_of(x)) <= _SHORT_ID for x in monitors):
        whole.add("monitor")
    wrapped = {heading for heading, _ in columns} - whole
    none = "no monitors; see docs/monitors.md"
    print_items(columns, ("sessions", "alerts"), monitors, none=none, wrapped=wrapped)


_TICKS: Columns = (
    ("due (UTC)", lambda x: _time(x.due_ns)),
    ("made (UTC)", lambda x: _time(x.made_ns)),
    ("cause", lambda x: word(x, "cause")),
    ("outcome", lambda x: ": ".join(filter(None, (word(x, "state"), x.finding)))),
    ("run", lambda x: x.run.removeprefix("runs/") or "-"),
    ("scores", lambda x: f"{x.scores:,}"),
    ("sessions", lambda x: f"{x.sessions:,}"),
    ("reason", lambda x: on_one_line(x.reason, 120)),
)
_print_ticks = partial(
    print_items,
    _TICKS,
    ("scores", "sessions"),
    none="it has not ticked yet",
    wrapped=[heading for heading, _ in _TICKS[:5]],
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    add_actions(parser, ACTIONS)


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
        "list the ticks of a monitor, the newest first", "ListMonitorTicks", _print_ticks
    ),
}
