"""`spanscore runs`: evaluation runs over stored traces."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.cli import run_options, server
from spanscore.cli.options import Action, add_actions, add_limit, argument
from spanscore.cli.server import as_json, print_all, print_one
from spanscore.cli.terminal import console, on_one_line, plain_table, print_json, printable, utc
from spanscore.errors import InputError

_STATES = ("pending", "running", "paused", "succeeded", "failed", "cancelled")
_TRIES = 30
_WAIT_S = 2.0
_ITEM_STATES = ("failed", "done", "pending", "gone")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's actions and their options."""
    add_actions(parser, _ACTIONS, server.add_action_arguments)


def run(args: argparse.Namespace) -> int:
    """Do what the action says. Returns the exit code."""
    with server.service(args, "Run") as ask:
        code: int = _ACTIONS[args.action].run(args, ask)
    return code


def _create(args: argparse.Namespace, ask: "server.Ask") -> int:
    wanted = run_options.wanted(args)
    if args.file:
        _send_files(args, wanted)
    elif args.config:
        raise InputError("--config: goes with --file; the server has a configuration of its own")
    if args.dry_run:
        estimate = ask("EstimateRun", pb.EstimateRunRequest(run=wanted))
        print_one(args, estimate, print_estimate)
        return 0
    created = ask("CreateRun", pb.CreateRunRequest(run=wanted))
    if args.watch:
        return _watched(args, ask, created.name)
    print_one(args, created, print_run)
    return 0


def _send_files(args: argparse.Namespace, wanted: pb.Run) -> None:
    run_options.check_files(args, wanted.target)
    with server.service(args, "Trace") as ask:
        run_options.send_files(args, ask, wanted)


def _list(args: argparse.Namespace, ask: "server.Ask") -> int:
    states = [pb.RunState.Value(f"RUN_STATE_{x.upper()}") for x in args.state or ()]
    request = pb.ListRunsRequest(states=states)
    found = server.pages(ask, "ListRuns", request, "runs", args.limit)
    print_all(args, found, print_runs)
    return 0


def _items(args: argparse.Namespace, ask: "server.Ask") -> int:
    state = pb.RunItemState.Value(f"RUN_ITEM_STATE_{args.state.upper()}")
    request = pb.ListRunItemsRequest(parent=_name(args), state=state)
    print_all(
        args,
        server.pages(ask, "ListRunItems", request, "items", args.limit),
        print_items,
    )
    return 0


def _moved(method: str, args: argparse.Namespace, ask: "server.Ask", **fields: Any) -> int:
    """Ask for a method that takes a run's name, and print the run."""
    print_one(
        args,
        ask(method, getattr(pb, f"{method}Request")(name=_name(args), **fields)),
        print_run,
    )
    return 0


def _retry(args: argparse.Namespace, ask: "server.Ask") -> int:
    budget = run_options.budget(args)
    return _moved("RetryRun", args, ask, **({} if budget is None else {"budget": budget}))


def _delete(args: argparse.Namespace, ask: "server.Ask") -> int:
    ask("DeleteRun", pb.DeleteRunRequest(name=_name(args), delete_scores=args.with_scores))
    if not args.json:
        print(
            "deleted"
            f" {args.run}{' with its scores' if args.with_scores else '; its scores are kept'}"
        )
    return 0


def _watched(args: argparse.Namespace, ask: "server.Ask", name: str) -> int:
    """Show a run until it has ended or is paused; the exit code is 1 where it failed or was
    cancelled.
    """
    last: pb.Run | None = None
    shown = Watched(is_terminal=sys.stderr.isatty() and not args.json)
    for last in _states(ask, pb.WatchRunRequest(name=name)):
        if args.json:
            print_json(as_json(last))
        else:
            shown.show(last)
    shown.end()
    if last is None:
        return 1
    if not args.json:
        print_run(last)
    return 1 if last.state in {pb.RUN_STATE_FAILED, pb.RUN_STATE_CANCELLED} else 0


def _states(
    ask: "server.Ask", request: Any, sleep: Callable[[float], Any] = time.sleep
) -> Iterator[pb.Run]:
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
    argument(parser, "run RUN", "the run's id, or its name runs/ID")


def _of_list(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--state", "only runs in this state", repeated=True, choices=_STATES)
    add_limit(parser)


def _of_items(parser: argparse.ArgumentParser) -> None:
    _of_one(parser)
    argument(parser, "--state", "default: failed", choices=_ITEM_STATES, default="failed")
    add_limit(parser)


def _of_retry(parser: argparse.ArgumentParser) -> None:
    _of_one(parser)
    run_options.add_budget(parser)


def _of_delete(parser: argparse.ArgumentParser) -> None:
    _of_one(parser)
    argument(parser, "--with-scores", "delete the scores that it made too")


_ACTIONS = {
    "create": Action(
        "score what is stored, or say what that would cost", run_options.add_arguments, _create
    ),
    "list": Action("list the runs, the newest first", _of_list, _list),
    "get": Action(
        "show a run: how far it is, and what was skipped or failed and why",
        _of_one,
        partial(_moved, "GetRun"),
    ),
    "watch": Action(
        "show a run's progress until it has ended",
        _of_one,
        lambda args, ask: _watched(args, ask, _name(args)),
    ),
    "items": Action(
        "list the traces or sessions of a run that failed, or are in another state",
        _of_items,
        _items,
    ),
    "pause": Action("stop a run for now", _of_one, partial(_moved, "PauseRun")),
    "resume": Action("have a paused run go on", _of_one, partial(_moved, "ResumeRun")),
    "cancel": Action("end a run for good", _of_one, partial(_moved, "CancelRun")),
    "retry": Action("evaluate again what failed of a run", _of_retry, _retry),
    "delete": Action("delete a run, with or without its scores", _of_delete, _delete),
}


def print_runs(runs: Sequence[pb.Run]) -> None:
    """Print a table of runs."""
    if not runs:
        print("no runs")
        return
    table = plain_table(
        ("run", "name", "state", "created (UTC)"),
        ("items", "done", "failed", "USD"),
        wrapped={"name"},
    )
    for run in runs:
        progress = run.progress
        table.add_row(
            _id(run),
            on_one_line(run.display_name, 30),
            _state(run),
            _time(run.created_ns),
            f"{progress.items:,}",
            f"{progress.done:,}",
            f"{progress.failed:,}",
            _usd(progress),
        )
    console().print(table)


def print_run(run: pb.Run) -> None:
    """Print one run: how far it is, and what is missing and why."""
    progress = run.progress
    print(f"run {_id(run)}{f'  {printable(run.display_name)}' if run.display_name else ''}")
    print(f"  state     {_state(run)}{f': {printable(run.reason)}' if run.reason else ''}")
    print(f"  items     {_counts(progress)}")
    print(f"  scores    {progress.scores:,}")
    usage = progress.usage
    print(
        f"  judge     {usage.calls:,} calls and {usage.cached:,} from the cache,"
        f" {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {_usd(progress)} USD"
    )
    if run.HasField("budget"):
        print(f"  budget    {_budget(run.budget)}")
    for what, missing in (("skipped", progress.skipped), ("failed", progress.errors)):
        for cause in sorted(missing, key=lambda x: -x.count):
            print(f"  {what:<9} {cause.count:,}  {_cause(cause)}")


def print_items(items: Sequence[pb.RunItem]) -> None:
    """Print a table of a run's traces or sessions."""
    if not items:
        print("none")
        return
    table = plain_table(("trace or session", "tries", "error"), wrapped={"error"})
    for item in items:
        table.add_row(
            on_one_line(item.subject_id, 64), str(item.tries), on_one_line(item.error, 200)
        )
    console().print(table)


def print_estimate(estimate: pb.RunEstimate) -> None:
    """Print what a run would cost."""
    models = ", ".join(printable(x) for x in estimate.models)
    cost = (
        f"at most {estimate.max_cost_usd:.4f} USD"
        if estimate.HasField("max_cost_usd")
        else "at a price not known"
    )
    print(f"{estimate.items:,} of {estimate.candidates:,} that the target names would be evaluated")
    if not estimate.calls:
        print("no judge would be asked; nothing was sent")
        return
    print(
        f"{estimate.calls:,} calls of {models}, at most {estimate.max_input_tokens:,} tokens in and"
        f" {estimate.max_output_tokens:,} out, {cost}; nothing was sent"
    )
    if estimate.planned < estimate.items:
        print(f"scaled up from {estimate.planned:,} of them, drawn by the run's seed")


class Watched:
    """A run's progress on standard error: one line that changes on a terminal, else a line for each
    state.
    """

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._state = ""

    def show(self, run: pb.Run) -> None:
        """Show a run as it is now."""
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{_state(run)}  {_counts(run.progress)}{_eta(run.progress)}")
            sys.stderr.flush()
        elif _state(run) != self._state:
            print(f"{_state(run)}: {_counts(run.progress)}", file=sys.stderr)
        self._state = _state(run)

    def end(self) -> None:
        """Clear the line."""
        if self._is_terminal and self._state:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _id(run: pb.Run) -> str:
    return run.name.removeprefix("runs/")


def _state(run: pb.Run) -> str:
    return pb.RunState.Name(run.state).removeprefix("RUN_STATE_").lower()


def _counts(progress: pb.RunProgress) -> str:
    worked = progress.done + progress.failed + progress.gone
    drawn = "" if progress.listed else " so far"
    parts = [f"{worked:,} of {progress.items:,}{drawn}"]
    parts += [f"{progress.failed:,} failed"] if progress.failed else []
    parts += [f"{progress.gone:,} no longer stored"] if progress.gone else []
    if progress.sampling < 1:
        parts.append(f"drawn from {progress.candidates:,}")
    return ", ".join(parts)


def _eta(progress: pb.RunProgress) -> str:
    if not progress.HasField("eta_s"):
        return ""
    minutes, seconds = divmod(round(progress.eta_s), 60)
    return f"  {minutes // 60}:{minutes % 60:02}:{seconds:02} left"


def _usd(progress: pb.RunProgress) -> str:
    usage = progress.usage
    if usage.HasField("cost_usd"):
        return f"{usage.cost_usd:.4f}"
    return "?" if usage.calls else f"{0:.4f}"


def _budget(budget: pb.RunBudget) -> str:
    usd = [f"{budget.max_usd:.4f} USD"] if budget.HasField("max_usd") else []
    tokens = [f"{budget.max_tokens:,} tokens"] if budget.HasField("max_tokens") else []
    return f"at most {' and '.join(usd + tokens)}"


def _cause(missing: pb.MissingScores) -> str:
    where = f"{missing.metric}: " if missing.metric else ""
    return printable(f"{where}{missing.cause}")


def _time(ns: int) -> str:
    """Month, day and time in UTC, as lists of scores have it."""
    return f"{utc(ns):%m-%d %H:%M}"
