"""The options of `spanscore monitors create` and `update`, and the monitor that they ask for."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spanscore.cli import run_options
from spanscore.errors import InputError
from spanscore.model.quantity import duration_ns

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from spanscore.api.v1.monitor_service_pb2 import (
        Monitor,
        MonitorRun,
        MonitorSchedule,
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
    from spanscore.api.monitor_requests import with_cleared  # noqa: PLC0415 - as above

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
