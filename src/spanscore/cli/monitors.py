"""`spanscore monitors`: scheduled watches and runs."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.v1 import monitor_service_pb2 as pb
from spanscore.cli import server
from spanscore.cli.options import Action, add_actions, add_limit, argument
from spanscore.cli.server import print_all, print_one
from spanscore.cli.terminal import console, on_one_line, plain_table, printable, utc
from spanscore.errors import InputError

_SETTABLE = ("display_name", "schedule", "watch", "run")


def wanted(path: Path) -> tuple[pb.Monitor, list[str]]:
    """The monitor in a file, and the paths of the fields that an update by it changes.

    What only a server sets is left out, so that what `get --json` prints can be edited and given
    back. Raises InputError.
    """
    monitor: Any = pb.Monitor()
    given = list(_paths(server.read_message(path, monitor), pb.Monitor.DESCRIPTOR))
    for field, _ in monitor.ListFields():
        if field.name not in {*_SETTABLE, "etag"}:
            monitor.ClearField(field.name)
    given = [(names, value) for names, value in given if names[0] in _SETTABLE]
    return monitor, [".".join(names) for names, _ in given]


def _paths(
    given: Mapping[str, Any], message: "Descriptor", before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path of each field that is given, with its value."""
    for name, value in given.items():
        field = message.fields_by_name.get(name) or message.fields_by_camelcase_name[name]
        path, inner = (*before, field.name), field.message_type
        if isinstance(value, dict) and value and inner and not inner.GetOptions().map_entry:
            yield from _paths(value, inner, path)
        else:
            yield path, value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's actions and their options."""
    add_actions(parser, _ACTIONS, server.add_action_arguments)


def run(args: argparse.Namespace) -> int:
    """Do what the action says. Returns the exit code."""
    with server.service(args, "Monitor") as ask:
        _ACTIONS[args.action].run(args, ask)
    return 0


def _create(args: argparse.Namespace, ask: "server.Ask") -> None:
    monitor, _ = wanted(args.file)
    request = pb.CreateMonitorRequest(monitor=monitor, monitor_id=_id(args))
    print_one(args, ask("CreateMonitor", request), print_monitor)


def _update(args: argparse.Namespace, ask: "server.Ask") -> None:
    monitor, paths = wanted(args.file)
    if not paths:
        raise InputError(f"{args.file}: give what is to change, such as watch: {{floor: 0.7}}")
    monitor.name = _name(args)
    request = pb.UpdateMonitorRequest(monitor=monitor, update_mask=FieldMask(paths=paths))
    print_one(args, ask("UpdateMonitor", request), print_monitor)


def _list(args: argparse.Namespace, ask: "server.Ask") -> None:
    found = server.pages(ask, "ListMonitors", pb.ListMonitorsRequest(), "monitors", args.limit)
    print_all(args, found, print_monitors)


def _history(args: argparse.Namespace, ask: "server.Ask") -> None:
    request = pb.ListMonitorTicksRequest(parent=_name(args))
    print_all(
        args,
        server.pages(ask, "ListMonitorTicks", request, "ticks", args.limit),
        print_ticks,
    )


def _delete(args: argparse.Namespace, ask: "server.Ask") -> None:
    ask("DeleteMonitor", pb.DeleteMonitorRequest(name=_name(args)))
    if not args.json:
        print(f"deleted {_id(args)}; its runs and their scores are kept")


def _trigger(args: argparse.Namespace, ask: "server.Ask") -> None:
    request = pb.TriggerMonitorRequest(name=_name(args))
    print_one(args, ask("TriggerMonitor", request), print_tick)


def _of_one(method: str, args: argparse.Namespace, ask: "server.Ask") -> None:
    """Ask for a method that takes a monitor's name, and print the monitor."""
    request = getattr(pb, f"{method}Request")(name=_name(args))
    print_one(args, ask(method, request), print_monitor)


def _id(args: argparse.Namespace) -> str:
    given: str = args.monitor
    return given.removeprefix("monitors/")


def _name(args: argparse.Namespace) -> str:
    return f"monitors/{_id(args)}"


def _add_name(parser: argparse.ArgumentParser) -> None:
    argument(parser, "monitor ID", "the monitor's id")


def _add_history(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    add_limit(parser)


def _add_file(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    argument(parser, "file FILE", "the monitor, in YAML or JSON; -: standard input")


_ACTIONS = {
    "list": Action("list the monitors, with what each knows", add_limit, _list),
    "get": Action("show a monitor", _add_name, partial(_of_one, "GetMonitor")),
    "create": Action("create a monitor", _add_file, _create),
    "update": Action("change what a monitor does", _add_file, _update),
    "delete": Action(
        "delete a monitor with its history; its runs and their scores are kept", _add_name, _delete
    ),
    "pause": Action("have a monitor wait", _add_name, partial(_of_one, "PauseMonitor")),
    "resume": Action(
        "have a paused monitor go on with the next of its times",
        _add_name,
        partial(_of_one, "ResumeMonitor"),
    ),
    "trigger": Action("make a tick now", _add_name, _trigger),
    "history": Action("list the ticks of a monitor, the newest first", _add_history, _history),
}


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
    output = console()
    columns = [x for x in _COLUMNS if output.width >= _WIDE or x not in _OF_WIDE_TERMINALS]
    whole = [_NEXT_TICK]
    if all(len(_ref(x)) <= _SHORT_ID for x in monitors):
        whole.append("monitor")
    folded = [x for x in columns if x not in whole]
    table = plain_table(columns, ("sessions", "alerts"), wrapped=folded)
    for monitor in monitors:
        row = {
            "monitor": on_one_line(_ref(monitor), 64),
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


def _last_tick(monitor: pb.Monitor) -> str:
    return _time(monitor.last_tick.made_ns) if monitor.HasField("last_tick") else "-"


def _next_tick(monitor: pb.Monitor) -> str:
    return _time(monitor.next_tick_ns) if monitor.HasField("next_tick_ns") else "-"


def print_monitor(monitor: pb.Monitor) -> None:
    """Print one monitor."""
    print(
        "monitor"
        f" {_ref(monitor)}{f'  {printable(monitor.display_name)}' if monitor.display_name else ''}"
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


def print_ticks(ticks: Sequence[pb.MonitorTick]) -> None:
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


def print_tick(tick: pb.MonitorTick) -> None:
    """Print one tick."""
    reason = f": {printable(tick.reason)}" if tick.reason else ""
    run = f", run {tick.run.removeprefix('runs/')}" if tick.run else ""
    print(f"tick of {_time(tick.due_ns)} UTC: {_outcome(tick)}{reason}{run}")


def _print_findings(monitor: pb.Monitor) -> None:
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


def _times(monitor: pb.Monitor) -> str:
    schedule = monitor.schedule
    if schedule.HasField("cron"):
        return f"cron {printable(schedule.cron)} {printable(schedule.time_zone or 'UTC')}"
    return f"every {schedule.every_s:g} s" if schedule.HasField("every_s") else "every minute"


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


def _window(monitor: pb.Monitor) -> str:
    if monitor.run.everything:
        return "over all of the target"
    if monitor.run.HasField("look_back_s"):
        return f"over the last {monitor.run.look_back_s:g} s"
    return "over what was stored since the one before"


def _overlap(monitor: pb.Monitor) -> str:
    return pb.MonitorOverlap.Name(monitor.run.overlap).removeprefix("MONITOR_OVERLAP_").lower()


def _cause(tick: pb.MonitorTick) -> str:
    return pb.MonitorTickCause.Name(tick.cause).removeprefix("MONITOR_TICK_CAUSE_").lower()


def _outcome(tick: pb.MonitorTick) -> str:
    state = pb.MonitorTickState.Name(tick.state).removeprefix("MONITOR_TICK_STATE_").lower()
    return f"{state}: {tick.finding}" if tick.finding else state


def _time(ns: int) -> str:
    return f"{utc(ns):%Y-%m-%d %H:%M:%S}"
