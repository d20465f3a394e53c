"""`spanscore runs`: evaluation runs over what a running server has stored."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from spanscore.cli import run_files, run_options, run_tables, sources
from spanscore.cli.messages import as_json, print_all, print_one
from spanscore.cli.terminal import print_json
from spanscore.errors import InputError

if TYPE_CHECKING:
    from spanscore.api.v1.run_service_pb2 import Run

_DEFAULT_SERVER = "127.0.0.1:4329"
_STATES = ("pending", "running", "paused", "succeeded", "failed", "cancelled")
_TRIES = 30
_WAIT_S = 2.0
_ITEM_STATES = ("failed", "done", "pending", "gone")


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
    from spanscore.api.v1.run_service_pb2_grpc import (  # noqa: PLC0415 - --help needs no gRPC
        RunServiceStub,
    )

    with sources.service(args, RunServiceStub) as ask:
        code: int = _DONE[args.action](args, ask)
    return code


def _create(args: argparse.Namespace, ask: "sources.Ask") -> int:
    from spanscore.api.v1 import run_service_pb2 as pb  # noqa: PLC0415 - as above

    wanted = run_options.wanted(args)
    if args.file:
        _send_files(args, wanted)
    elif args.config:
        raise InputError("--config: goes with --file; the server has a configuration of its own")
    if args.dry_run:
        estimate = ask("EstimateRun", pb.EstimateRunRequest(run=wanted))
        print_one(args, estimate, run_tables.print_estimate)
        return 0
    created = ask("CreateRun", pb.CreateRunRequest(run=wanted, request_id=args.request_id or ""))
    if args.watch:
        return _watched(args, ask, created.name)
    print_one(args, created, run_tables.print_run)
    return 0


def _send_files(args: argparse.Namespace, wanted: "Run") -> None:
    from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub  # noqa: PLC0415 - as above

    run_files.check(args)
    with sources.service(args, TraceServiceStub) as ask:
        run_files.send(args, ask, wanted)


def _list(args: argparse.Namespace, ask: "sources.Ask") -> int:
    from spanscore.api.v1 import run_service_pb2 as pb  # noqa: PLC0415 - as above

    states = [pb.RunState.Value(f"RUN_STATE_{x.upper()}") for x in args.state or ()]
    request = pb.ListRunsRequest(states=states, order_by=args.order_by)
    found = sources.pages(ask, "ListRuns", request, "runs", args.limit)
    print_all(args, found, run_tables.print_runs)
    return 0


def _items(args: argparse.Namespace, ask: "sources.Ask") -> int:
    from spanscore.api.v1 import run_service_pb2 as pb  # noqa: PLC0415 - as above

    state = pb.RunItemState.Value(f"RUN_ITEM_STATE_{args.state.upper()}")
    request = pb.ListRunItemsRequest(parent=_name(args), state=state)
    print_all(
        args,
        sources.pages(ask, "ListRunItems", request, "items", args.limit),
        run_tables.print_items,
    )
    return 0


def _get(args: argparse.Namespace, ask: "sources.Ask") -> int:
    return _moved("GetRun", args, ask)


def _watch(args: argparse.Namespace, ask: "sources.Ask") -> int:
    return _watched(args, ask, _name(args))


def _moved(method: str, args: argparse.Namespace, ask: "sources.Ask", **fields: Any) -> int:
    """Ask for a method that takes a run's name, and print the run."""
    from spanscore.api.v1 import run_service_pb2 as pb  # noqa: PLC0415 - as above

    print_one(
        args,
        ask(method, getattr(pb, f"{method}Request")(name=_name(args), **fields)),
        run_tables.print_run,
    )
    return 0


def _retry(args: argparse.Namespace, ask: "sources.Ask") -> int:
    budget = run_options.budget(args)
    return _moved("RetryRun", args, ask, **({} if budget is None else {"budget": budget}))


def _delete(args: argparse.Namespace, ask: "sources.Ask") -> int:
    from spanscore.api.v1 import run_service_pb2 as pb  # noqa: PLC0415 - as above

    ask("DeleteRun", pb.DeleteRunRequest(name=_name(args), delete_scores=args.with_scores))
    if not args.json:
        print(
            "deleted"
            f" {args.run}{' with its scores' if args.with_scores else '; its scores are kept'}"
        )
    return 0


def _watched(args: argparse.Namespace, ask: "sources.Ask", name: str) -> int:
    """Show a run until it has ended or is paused; the exit code is 1 where it failed or was
    cancelled.
    """
    from spanscore.api.v1 import run_service_pb2 as pb  # noqa: PLC0415 - as above

    last: Run | None = None
    shown = run_tables.Watched(is_terminal=sys.stderr.isatty() and not args.json)
    for last in _states(ask, pb.WatchRunRequest(name=name)):
        if args.json:
            print_json(as_json(last))
        else:
            shown.show(last)
    shown.end()
    if last is None:
        return 1
    if not args.json:
        run_tables.print_run(last)
    return 1 if last.state in {pb.RUN_STATE_FAILED, pb.RUN_STATE_CANCELLED} else 0


def _states(
    ask: "sources.Ask", request: Any, sleep: Callable[[float], Any] = time.sleep
) -> "Iterator[Run]":
    """What WatchRun answers; where the server restarts meanwhile, again, for a minute without an
    answer.
    """
    import grpc  # noqa: PLC0415 - as above

    tries = 0  # a server that has never answered is not waited for
    while True:
        try:
            for state in ask("WatchRun", request, is_stream=True):
                tries = _TRIES
                yield state
        except grpc.RpcError as error:
            tries -= 1
            if tries < 0 or error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            sleep(_WAIT_S)
        else:
            return


def _name(args: argparse.Namespace) -> str:
    given: str = args.run
    return given if given.startswith("runs/") else f"runs/{given}"


def _of_one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the run's id, or its name runs/ID")


def _of_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", action="append", choices=_STATES, help="only runs in this state; may be repeated"
    )
    parser.add_argument(
        "--order-by",
        metavar="FIELD",
        default="",
        help='created_ns or updated_ns, as in "updated_ns desc"',
    )
    parser.add_argument(
        "-n", "--limit", metavar="N", type=int, default=50, help="at most so many, 0 for all"
    )


def _of_items(parser: argparse.ArgumentParser) -> None:
    _of_one(parser)
    parser.add_argument(
        "--state", choices=_ITEM_STATES, default="failed", help="in which state; default: failed"
    )
    parser.add_argument(
        "-n", "--limit", metavar="N", type=int, default=50, help="at most so many, 0 for all"
    )


def _of_retry(parser: argparse.ArgumentParser) -> None:
    _of_one(parser)
    run_options.add_budget(parser)


def _of_delete(parser: argparse.ArgumentParser) -> None:
    _of_one(parser)
    parser.add_argument(
        "--with-scores", action="store_true", help="delete the scores that it made too"
    )


_ACTIONS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "create": ("score what is stored, or say what that would cost", run_options.add_arguments),
    "list": ("list the runs, the newest first", _of_list),
    "get": ("show a run: how far it is, and what was skipped or failed and why", _of_one),
    "watch": ("show a run's progress until it has ended", _of_one),
    "items": (
        "list the traces or sessions of a run that failed, or are in another state",
        _of_items,
    ),
    "pause": ("stop a run for now", _of_one),
    "resume": ("have a paused run go on", _of_one),
    "cancel": ("end a run for good", _of_one),
    "retry": ("evaluate again what failed of a run", _of_retry),
    "delete": ("delete a run, with or without its scores", _of_delete),
}

_DONE: dict[str, Callable[[argparse.Namespace, "sources.Ask"], int]] = {
    "create": _create,
    "list": _list,
    "get": _get,
    "watch": _watch,
    "items": _items,
    "pause": lambda args, ask: _moved("PauseRun", args, ask),
    "resume": lambda args, ask: _moved("ResumeRun", args, ask),
    "cancel": lambda args, ask: _moved("CancelRun", args, ask),
    "retry": _retry,
    "delete": _delete,
}
