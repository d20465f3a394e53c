"""`spanscore monitors`: scheduled watches and runs."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spanscore.cli import run_options, server
from spanscore.cli.server import print_all, print_one
from spanscore.cli.terminal import console, on_one_line, plain_table, printable
from spanscore.errors import InputError
from spanscore.model.options import duration_ns

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from spanscore.api.v1.monitor_service_pb2 import (
        Monitor,
        MonitorFindings,
        MonitorRun,
        MonitorSchedule,
        MonitorTick,
        MonitorWatch,
    )

_OVERLAPS = ("skip", "queue", "cancel_previous")


def add_create(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `create`."""
    parser.add_argument(
        "monitor", metavar="ID", nargs="?", default="", help="its id; without one it gets one"
    )
    parser.add_argument(
        "--request-id", metavar="KEY", help="create no second monitor under the same key"
    )
    _add_fields(parser)


def add_update(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `update`."""
    parser.add_argument("monitor", metavar="ID", help="the monitor's id")
    parser.add_argument(
        "--etag", metavar="ETAG", default="", help="only where it has not changed since this etag"
    )
    parser.add_argument(
        "--clear",
        action="append",
        default=[],
        metavar="FIELD",
        help="unset a field, such as watch.agent",
    )
    _add_fields(parser)


def wanted(args: argparse.Namespace) -> "Monitor":
    """The monitor that the options ask for. Raises InputError."""
    from spanscore.api.v1.monitor_service_pb2 import (  # noqa: PLC0415 - --help needs no protobuf
        Monitor,
    )

    found = Monitor(display_name=args.name)
    for field, message in (
        ("schedule", _schedule(args)),
        ("watch", _watch(args)),
        ("run", _run(args)),
    ):
        if message.ListFields():
            getattr(found, field).CopyFrom(message)
    if args.run:
        found.run.SetInParent()
    return found


def changed(monitor: "Monitor", clear: list[str]) -> list[str]:
    """The paths of what a monitor's options give, of what that takes the place of, and of what is
    to be cleared.
    """
    from spanscore.api.client_requests import with_cleared  # noqa: PLC0415 - as above

    return [*with_cleared(_paths(monitor)).paths, *clear]


def _add_fields(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="TEXT", default="", help="a name for people")
    group = parser.add_argument_group("when it ticks")
    group.add_argument(
        "--every", metavar="DURATION", help="how often, such as 5m; default: each minute"
    )
    group.add_argument(
        "--cron",
        metavar="FIELDS",
        help="minute, hour, day, month, day of the week: '0 3 * * mon-fri'",
    )
    group.add_argument(
        "--time-zone",
        metavar="ZONE",
        default="",
        help="of --cron, such as Europe/Berlin; default: UTC",
    )
    group.add_argument("--jitter", metavar="DURATION", help="each tick is later by up to this")
    group.add_argument(
        "--no-catch-up",
        action="store_true",
        help="make up for no ticks missed while the server was down",
    )
    group = parser.add_argument_group("which metric it watches")
    group.add_argument(
        "--watch", metavar="METRIC", default="", help="raise an alert when this metric falls"
    )
    group.add_argument(
        "--watch-sessions", action="store_true", help="its scores of sessions, in place of traces"
    )
    group.add_argument(
        "--of",
        choices=("mean", "pass_rate"),
        default="",
        help="the mean score, or the share that passes",
    )
    group.add_argument("--watch-service", metavar="NAME", help="only its scores of this service")
    group.add_argument("--watch-agent", metavar="NAME", help="only its scores of this agent")
    group.add_argument(
        "--floor", metavar="X", type=float, help="alert below this, on the scale 0..1"
    )
    group.add_argument(
        "--reference", metavar="N", type=int, help="alert below the mean of the first N sessions"
    )
    group.add_argument(
        "--tolerance", metavar="X", type=float, help="with --reference: how much lower it may be"
    )
    group.add_argument(
        "--alpha",
        metavar="X",
        type=float,
        help="the chance of ever raising a false alarm; default: 0.01",
    )
    group.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", help="a label of its alerts"
    )
    group = parser.add_argument_group("which runs it starts")
    group.add_argument(
        "--run",
        action="store_true",
        help="start an evaluation run at each tick, by the options below",
    )
    group.add_argument(
        "--look-back",
        metavar="DURATION",
        help="over what was stored in this time; default: since the last",
    )
    group.add_argument("--everything", action="store_true", help="over all of the target each time")
    group.add_argument(
        "--overlap", choices=_OVERLAPS, help="what to do while a run is still going; default: skip"
    )
    group.add_argument(
        "--only-if-changed", action="store_true", help="skip a tick where nothing has changed"
    )
    group.add_argument(
        "--export", action="store_true", help="export the scores by OTLP, each with the run's id"
    )
    run_options.add_budget(group)
    run_options.add_target(parser.add_argument_group("which traces or sessions a run evaluates"))
    run_options.add_measure(parser.add_argument_group("by what a run evaluates them"))


def _schedule(args: argparse.Namespace) -> "MonitorSchedule":
    from spanscore.api.v1.monitor_service_pb2 import MonitorSchedule  # noqa: PLC0415 - as above

    return MonitorSchedule(
        every_s=_seconds(args.every, "--every"),
        cron=args.cron,
        time_zone=args.time_zone,
        jitter_s=_seconds(args.jitter, "--jitter") or 0.0,
        catch_up=False if args.no_catch_up else None,
    )


def _watch(args: argparse.Namespace) -> "MonitorWatch":
    from spanscore.api.v1.monitor_service_pb2 import (  # noqa: PLC0415 - as above
        MonitorReference,
        MonitorWatch,
    )
    from spanscore.api.v1.score_pb2 import (  # noqa: PLC0415 - as above
        SCOPE_SESSION,
        SCOPE_UNSPECIFIED,
    )

    if args.reference is not None and args.reference < 1:
        raise InputError(f"--reference {args.reference}: give a number of at least 1")
    has_reference = args.reference is not None or args.tolerance is not None
    return MonitorWatch(
        metric=args.watch,
        scope=SCOPE_SESSION if args.watch_sessions else SCOPE_UNSPECIFIED,
        of=args.of,
        service=args.watch_service,
        agent=args.watch_agent,
        floor=args.floor,
        reference=(
            MonitorReference(sessions=args.reference, tolerance=args.tolerance)
            if has_reference
            else None
        ),
        alpha=args.alpha,
        labels=dict(run_options.pairs(args.label, "--label")),
    )


def _run(args: argparse.Namespace) -> "MonitorRun":
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above
    from spanscore.api.v1.score_pb2 import SCOPE_SESSION  # noqa: PLC0415 - as above

    overlap = (
        f"MONITOR_OVERLAP_{args.overlap.upper()}" if args.overlap else "MONITOR_OVERLAP_UNSPECIFIED"
    )
    found = pb.MonitorRun(
        export=args.export,
        look_back_s=_seconds(args.look_back, "--look-back"),
        everything=args.everything,
        overlap=pb.MonitorOverlap.Value(overlap),
        only_if_changed=args.only_if_changed,
        budget=run_options.budget(args),
    )
    target, measure = run_options.target(args), run_options.measure(args)
    if target.scope != SCOPE_SESSION:
        target.ClearField("scope")
    if not target.sampling.ListFields():
        target.ClearField("sampling")
    if target.ListFields():
        found.target.CopyFrom(target)
    if measure.ListFields():
        found.measure.CopyFrom(measure)
    if found.ListFields() and not args.run:
        raise InputError(
            "options of runs are given, but no --run: add it, or watch live scores with"
            " --watch-service …"
        )
    return found


def _seconds(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        return duration_ns(text) / 1e9
    except ValueError as error:
        raise InputError(f"{option} {text}: {error}") from None


def _paths(message: "Message", before: str = "") -> Iterator[str]:
    """The paths of all fields that are set."""
    for field, value in message.ListFields():
        path = f"{before}{field.name}"
        is_message: Any = field.message_type is not None and not field.is_repeated
        inner = list(_paths(value, f"{path}.")) if is_message else []
        yield from inner or [path]


_DEFAULT_SERVER = "127.0.0.1:4329"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, (summary, declare) in _ACTIONS.items():
        action = actions.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        server.add_server_arguments(action, default=_DEFAULT_SERVER)
        action.add_argument("--json", action="store_true", help="print JSON, one object a line")
        declare(action)


def run(args: argparse.Namespace) -> int:
    """Do what the action says. Returns the exit code."""
    from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub  # noqa: PLC0415 - --help needs no gRPC

    with server.service(args, MonitorServiceStub) as ask:
        _DONE[args.action](args, ask)
    return 0


def _create(args: argparse.Namespace, ask: "server.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.CreateMonitorRequest(
        monitor=wanted(args), monitor_id=_id(args), request_id=args.request_id or ""
    )
    print_one(args, ask("CreateMonitor", request), print_monitor)


def _update(args: argparse.Namespace, ask: "server.Ask") -> None:
    from google.protobuf.field_mask_pb2 import FieldMask  # noqa: PLC0415 - as above

    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    monitor = wanted(args)
    paths = changed(monitor, args.clear)
    if not paths:
        raise InputError("give what is to change, such as --floor 0.7")
    monitor.name, monitor.etag = _name(args), args.etag
    # of what is not set a mask clears a field only where the message around it is there
    for path in paths:
        parent: Any = monitor
        for part in path.split(".")[:-1]:
            parent = getattr(parent, part, None)
            if not hasattr(parent, "SetInParent"):
                break
            parent.SetInParent()
    request = pb.UpdateMonitorRequest(monitor=monitor, update_mask=FieldMask(paths=paths))
    print_one(args, ask("UpdateMonitor", request), print_monitor)


def _list(args: argparse.Namespace, ask: "server.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    found = server.pages(ask, "ListMonitors", pb.ListMonitorsRequest(), "monitors", args.limit)
    print_all(args, found, print_monitors)


def _history(args: argparse.Namespace, ask: "server.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.ListMonitorTicksRequest(parent=_name(args))
    print_all(
        args,
        server.pages(ask, "ListMonitorTicks", request, "ticks", args.limit),
        print_ticks,
    )


def _delete(args: argparse.Namespace, ask: "server.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    ask("DeleteMonitor", pb.DeleteMonitorRequest(name=_name(args), etag=args.etag))
    if not args.json:
        print(f"deleted {_id(args)}; its runs and their scores are kept")


def _trigger(args: argparse.Namespace, ask: "server.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.TriggerMonitorRequest(name=_name(args), request_id=args.request_id or "")
    print_one(args, ask("TriggerMonitor", request), print_tick)


def _of_one(method: str) -> Callable[[argparse.Namespace, "server.Ask"], None]:
    """What asks for a method that takes a monitor's name, and prints the monitor."""

    def do(args: argparse.Namespace, ask: "server.Ask") -> None:
        from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

        request = getattr(pb, f"{method}Request")(name=_name(args))
        print_one(args, ask(method, request), print_monitor)

    return do


def _id(args: argparse.Namespace) -> str:
    given: str = args.monitor
    return given.removeprefix("monitors/")


def _name(args: argparse.Namespace) -> str:
    return f"monitors/{_id(args)}"


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("monitor", metavar="ID", help="the monitor's id")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--limit", metavar="N", type=int, default=50, help="at most so many, 0 for all"
    )


def _add_history(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    _add_limit(parser)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    parser.add_argument(
        "--etag", metavar="ETAG", default="", help="only where it has not changed since this etag"
    )


def _add_trigger(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    parser.add_argument(
        "--request-id", metavar="KEY", help="make no second tick under the same key"
    )


_ACTIONS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "list": ("list the monitors, with what each knows", _add_limit),
    "get": ("show a monitor", _add_name),
    "create": ("create a monitor", add_create),
    "update": ("change what a monitor does", add_update),
    "delete": (
        "delete a monitor with its history; its runs and their scores are kept",
        _add_delete,
    ),
    "pause": ("have a monitor wait", _add_name),
    "resume": ("have a paused monitor go on with the next of its times", _add_name),
    "trigger": ("make a tick now", _add_trigger),
    "history": ("list the ticks of a monitor, the newest first", _add_history),
}

_DONE: dict[str, Callable[[argparse.Namespace, "server.Ask"], None]] = {
    "list": _list,
    "get": _of_one("GetMonitor"),
    "create": _create,
    "update": _update,
    "delete": _delete,
    "pause": _of_one("PauseMonitor"),
    "resume": _of_one("ResumeMonitor"),
    "trigger": _trigger,
    "history": _history,
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


def print_monitors(monitors: "Sequence[Monitor]") -> None:
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


def _last_tick(monitor: "Monitor") -> str:
    return _time(monitor.last_tick.made_ns) if monitor.HasField("last_tick") else "-"


def _next_tick(monitor: "Monitor") -> str:
    return _time(monitor.next_tick_ns) if monitor.HasField("next_tick_ns") else "-"


def print_monitor(monitor: "Monitor") -> None:
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


def _ref(monitor: "Monitor") -> str:
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
