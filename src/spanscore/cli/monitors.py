"""`spanscore monitors`: what watches scores on a running server, or starts evaluation runs, at
times of its own.
"""

import argparse
from collections.abc import Callable
from typing import Any

from spanscore.cli import monitor_options, monitor_tables, sources
from spanscore.cli.messages import print_all, print_one
from spanscore.errors import InputError

_DEFAULT_SERVER = "127.0.0.1:4329"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    for name, (summary, declare) in _ACTIONS.items():
        action = actions.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        sources.add_server_arguments(action, default=_DEFAULT_SERVER)
        action.add_argument("--json", action="store_true", help="print JSON, one object a line")
        declare(action)


def run(args: argparse.Namespace) -> int:
    """Do what the action says. Returns the exit code."""
    from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub  # noqa: PLC0415 - --help needs no gRPC

    with sources.service(args, MonitorServiceStub) as ask:
        _DONE[args.action](args, ask)
    return 0


def _create(args: argparse.Namespace, ask: "sources.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.CreateMonitorRequest(
        monitor=monitor_options.wanted(args), monitor_id=_id(args), request_id=args.request_id or ""
    )
    print_one(args, ask("CreateMonitor", request), monitor_tables.print_monitor)


def _update(args: argparse.Namespace, ask: "sources.Ask") -> None:
    from google.protobuf.field_mask_pb2 import FieldMask  # noqa: PLC0415 - as above

    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    monitor = monitor_options.wanted(args)
    paths = monitor_options.changed(monitor, args.clear)
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
    print_one(args, ask("UpdateMonitor", request), monitor_tables.print_monitor)


def _list(args: argparse.Namespace, ask: "sources.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    found = sources.pages(ask, "ListMonitors", pb.ListMonitorsRequest(), "monitors", args.limit)
    print_all(args, found, monitor_tables.print_monitors)


def _history(args: argparse.Namespace, ask: "sources.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.ListMonitorTicksRequest(parent=_name(args))
    print_all(
        args,
        sources.pages(ask, "ListMonitorTicks", request, "ticks", args.limit),
        monitor_tables.print_ticks,
    )


def _delete(args: argparse.Namespace, ask: "sources.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    ask("DeleteMonitor", pb.DeleteMonitorRequest(name=_name(args), etag=args.etag))
    if not args.json:
        print(f"deleted {_id(args)}; its runs and their scores are kept")


def _trigger(args: argparse.Namespace, ask: "sources.Ask") -> None:
    from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

    request = pb.TriggerMonitorRequest(name=_name(args), request_id=args.request_id or "")
    print_one(args, ask("TriggerMonitor", request), monitor_tables.print_tick)


def _of_one(method: str) -> Callable[[argparse.Namespace, "sources.Ask"], None]:
    """What asks for a method that takes a monitor's name, and prints the monitor."""

    def do(args: argparse.Namespace, ask: "sources.Ask") -> None:
        from spanscore.api.v1 import monitor_service_pb2 as pb  # noqa: PLC0415 - as above

        request = getattr(pb, f"{method}Request")(name=_name(args))
        print_one(args, ask(method, request), monitor_tables.print_monitor)

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
    "create": ("create a monitor", monitor_options.add_create),
    "update": ("change what a monitor does", monitor_options.add_update),
    "delete": (
        "delete a monitor with its history; its runs and their scores are kept",
        _add_delete,
    ),
    "pause": ("have a monitor wait", _add_name),
    "resume": ("have a paused monitor go on with the next of its times", _add_name),
    "trigger": ("make a tick now", _add_trigger),
    "history": ("list the ticks of a monitor, the newest first", _add_history),
}

_DONE: dict[str, Callable[[argparse.Namespace, "sources.Ask"], None]] = {
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
