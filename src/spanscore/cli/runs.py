"""`spanscore runs`: evaluation runs over stored traces."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spanscore import config, dialects
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.agent_trace_pb2 import AgentTrace
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_UNSPECIFIED
from spanscore.api.v1.trace_service_pb2 import ImportTracesRequest
from spanscore.cli import server
from spanscore.cli.options import add_actions, add_config, argument
from spanscore.cli.server import as_json, id_of, print_one, word
from spanscore.cli.terminal import Columns, on_one_line, print_items, print_json, printable, utc
from spanscore.errors import InputError

if TYPE_CHECKING:
    from spanscore.offline.recordings import Recordings

_TRIES = 30
_WAIT_S = 2.0
_MAX_BYTES: Final = 3 * 2**20
_MAX_TRACES: Final = 1000


def _add_create(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--metric NAME", "measure this metric", repeated=True)
    argument(parser, "--model MODEL", "the model that judges, in place of the configured one")
    argument(parser, "--where FILTER", "only what meets this, as 'label.faithfulness = fail'")
    argument(parser, "--service NAME", "only of this service")
    argument(parser, "--since TIME", "only what started since then: 24h, or 2026-05-01T12:00 (UTC)")
    argument(parser, "--count N", "so many of them, at random")
    argument(parser, "--source NAME", "from this source of the server, in place of its store")
    argument(parser, "--sessions", "evaluate sessions, in place of traces")
    argument(parser, "--file PATH", "the traces here or at this URL, sent there", repeated=True)
    add_config(parser, "with --file: a configuration, whose span_names and assemble.stitch hold")
    server.add_file(parser, "all of the run, as the API's Run has it")
    _add_budget(parser)
    argument(parser, "--name TEXT", "a name for people")
    argument(parser, "--dry-run", "only say what a judge would be asked, and its cost")
    argument(parser, "--watch", "show the progress until the run has ended")


def _add_budget(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--max-usd X", "spend at most so many USD on the judge in all")


def wanted(args: argparse.Namespace) -> pb.Run:
    """The run that the file of `--spec` and, before it, the options ask for. Raises InputError."""
    found = pb.Run()
    if args.spec is not None:
        server.read_message(args.spec, found)
    if (args.count or 0) < 0:
        raise InputError(f"--count {args.count}: give a number of at least 0")
    since_ns = server.since_ns(args.since)
    scope = SCOPE_SESSION if args.sessions else SCOPE_UNSPECIFIED
    target = pb.RunTarget(scope=scope, source=args.source, where=args.where)
    if args.service or since_ns is not None:
        target.filter.MergeFrom(pb.TraceFilter(service=args.service, started_after_ns=since_ns))
    if args.count is not None:
        target.sampling.count = args.count
    measure, budget = pb.RunMeasure(metrics=args.metric, model=args.model), _budget_of(args)
    given = pb.Run(display_name=args.name, target=target, measure=measure, budget=budget)
    found.MergeFrom(given)
    return found


def _budget_of(args: argparse.Namespace) -> pb.RunBudget | None:
    return None if args.max_usd is None else pb.RunBudget(max_usd=args.max_usd)


def _create(args: argparse.Namespace, ask: server.Ask) -> int | None:
    wanted_run = wanted(args)
    if args.config and not args.file:
        raise InputError("--config: goes with --file; the server has a configuration of its own")
    if args.file:
        _require_files_alone(args, wanted_run.target)
        with server.service(args, "Trace") as traces:
            _send_files(args, traces, wanted_run)
    if args.dry_run:
        print_one(args, ask("EstimateRun", pb.EstimateRunRequest(run=wanted_run)), print_estimate)
        return 0
    created = ask("CreateRun", pb.CreateRunRequest(run=wanted_run))
    if args.watch:
        return _watched(args, ask, created.name)
    print_one(args, created)
    return 0


def _require_files_alone(args: argparse.Namespace, target: pb.RunTarget) -> None:
    """Refuse what does not go together with files. Raises InputError."""
    given = [x.name for x, _ in target.ListFields() if x.name not in {"scope", "sampling"}]
    if given:
        how = "conditions may stand in a URL: 'file:///PATH?service=shop'"
        raise InputError(f"--file and {given[0]} of a target: give one; {how}")
    if args.dry_run:
        how = "`spanscore eval PATH --dry-run` says what judging a file costs"
        raise InputError(f"--file and --dry-run: {how}")


def _send_files(args: argparse.Namespace, ask: server.Ask, wanted_run: pb.Run) -> None:
    """Send the traces of all files, and have `wanted_run` name them, or their sessions.

    Raises InputError.
    """
    from spanscore.api.requests import id_in  # noqa: PLC0415 - which only this needs
    from spanscore.specs import MAX_IDS  # noqa: PLC0415 - as above

    settings = config.load(args.config)
    dialects.configure(settings.span_names)
    plural = "sessions" if wanted_run.target.scope == SCOPE_SESSION else "traces"
    names: dict[str, None] = {}
    count = 0
    for traces in _requests(_recordings(args.file, settings.assemble.stitch_off)):
        answer = ask("ImportTraces", ImportTracesRequest(traces=traces))
        count += len(traces)
        names |= dict.fromkeys(getattr(answer, plural))
        if len(names) > MAX_IDS:
            how = "let the server read them by --source"
            raise InputError(f"--file: more than {MAX_IDS:,} traces or sessions; {how}")
        print(f"sent {count:,} traces", file=sys.stderr)
    if not names:
        raise InputError("--file: none of the traces has a session, and the run's scope is that")
    ids = wanted_run.target.session_ids if plural == "sessions" else wanted_run.target.trace_ids
    ids.extend(id_in(x, plural) for x in names)


def _recordings(places: Sequence[str], stitch_off: Collection[str]) -> "Recordings":
    from spanscore.offline.recordings import Recordings  # noqa: PLC0415 - as above
    from spanscore.sources import place  # noqa: PLC0415 - as above

    found = [place(x) for x in places]
    return Recordings(found, warn=lambda what: print(what, file=sys.stderr), stitch_off=stitch_off)


def _requests(found: "Recordings") -> Iterator[list[AgentTrace]]:
    """The traces in messages of a bounded size; one that is too large for any is left out, with a
    warning.
    """
    from spanscore.api.convert import encode_trace  # noqa: PLC0415 - as above

    waiting: list[AgentTrace] = []
    size_bytes = 0
    for message in (encode_trace(x) for batch in found.batches() for x in batch):
        more_bytes = message.ByteSize()
        if more_bytes > _MAX_BYTES:
            problem = f"trace {message.id} is too large to be sent, and left out"
            print(f"warning: {problem}", file=sys.stderr)
            continue
        if size_bytes + more_bytes > _MAX_BYTES or len(waiting) == _MAX_TRACES:
            yield waiting
            waiting, size_bytes = [], 0
        waiting.append(message)
        size_bytes += more_bytes
    if waiting:
        yield waiting


def _watched(args: argparse.Namespace, ask: server.Ask, name: str) -> int:
    """Show a run until it has ended or is paused; the exit code is 1 where it failed or was
    cancelled.
    """
    last: pb.Run | None = None
    is_line, state = sys.stderr.isatty() and not args.json, ""
    for last in _states(ask, pb.WatchRunRequest(name=name)):
        if args.json:
            print_json(as_json(last))
        else:
            _show(last, state, is_line=is_line)
        state = word(last, "state")
    if is_line and state:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if last is None:
        return 1
    if not args.json:
        print_one(args, last)
    return 1 if last.state in {pb.RUN_STATE_FAILED, pb.RUN_STATE_CANCELLED} else 0


def _states(
    ask: server.Ask, request: Any, sleep: Callable[[float], Any] = time.sleep
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


def print_estimate(estimate: pb.RunEstimate) -> None:
    """Print what a run would cost."""
    models = ", ".join(printable(x) for x in estimate.models)
    known = f"at most {estimate.max_cost_usd:.4f} USD"
    cost = known if estimate.HasField("max_cost_usd") else "at a price not known"
    print(f"{estimate.items:,} of {estimate.candidates:,} that the target names would be evaluated")
    if not estimate.calls:
        print("no judge would be asked; nothing was sent")
        return
    tokens = f"{estimate.max_input_tokens:,} tokens in and {estimate.max_output_tokens:,} out"
    print(f"{estimate.calls:,} calls of {models}, at most {tokens}, {cost}; nothing was sent")
    if estimate.planned < estimate.items:
        print(f"scaled up from {estimate.planned:,} of them, drawn by the run's seed")


def _show(run: pb.Run, before: str, *, is_line: bool) -> None:
    """Show a run as it is now on standard error: on a terminal in one line that changes, else where
    its state was another one before.
    """
    state, counts = word(run, "state"), _counts(run.progress)
    if is_line:
        line = f"{state}  {counts}{_eta(run.progress)}"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
    elif state != before:
        print(f"{state}: {counts}", file=sys.stderr)


def _counts(progress: pb.RunProgress) -> str:
    worked = progress.done + progress.failed + progress.gone
    drawn = "" if progress.listed else " so far"
    parts = [f"{worked:,} of {progress.items:,}{drawn}"]
    parts += [f"{progress.failed:,} failed"] if progress.failed else []
    parts += [f"{progress.gone:,} no longer stored"] if progress.gone else []
    parts += [f"drawn from {progress.candidates:,}"] if progress.sampling < 1 else []
    return ", ".join(parts)


def _eta(progress: pb.RunProgress) -> str:
    is_known = progress.HasField("eta_s")
    return f"  {timedelta(seconds=round(progress.eta_s))} left" if is_known else ""


def _usd(progress: pb.RunProgress) -> str:
    usage = progress.usage
    if usage.HasField("cost_usd"):
        return f"{usage.cost_usd:.4f}"
    return "?" if usage.calls else f"{0:.4f}"


_COLUMNS: Columns = (
    ("run", id_of),
    ("name", lambda x: on_one_line(x.display_name, 30)),
    ("state", lambda x: word(x, "state")),
    ("created (UTC)", lambda x: f"{utc(x.created_ns):%m-%d %H:%M}"),
    ("items", lambda x: f"{x.progress.items:,}"),
    ("done", lambda x: f"{x.progress.done:,}"),
    ("failed", lambda x: f"{x.progress.failed:,}"),
    ("USD", lambda x: _usd(x.progress)),
)
_NUMBERS = ("items", "done", "failed", "USD")
_ITEMS: Columns = (
    ("trace or session", lambda x: on_one_line(x.subject_id, 64)),
    ("tries", lambda x: str(x.tries)),
    ("error", lambda x: on_one_line(x.error, 200)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    add_actions(parser, ACTIONS)


_ABOUT = "the run's id, or its name runs/ID"
_RUNS: Final = server.Resource("Run", pb, "RUN", _ABOUT)

ACTIONS = {
    "create": _RUNS.action(
        "score what is stored, or say what that would cost", _create, _add_create
    ),
    "list": _RUNS.list(
        "list the runs, the newest first",
        "ListRuns",
        partial(print_items, _COLUMNS, _NUMBERS, none="no runs", wrapped={"name"}),
        {"text": "only runs in this state", "repeated": True},
    ),
    "get": _RUNS.of_one(
        "show a run: how far it is, and what was skipped or failed and why", "GetRun"
    ),
    "watch": _RUNS.action(
        "show a run's progress until it has ended",
        lambda args, ask: _watched(args, ask, _RUNS.name(args.name)),
        lambda parser: argument(parser, "name RUN", _ABOUT),
    ),
    "items": _RUNS.list(
        "list the traces or sessions of a run that failed, or are in another state",
        "ListRunItems",
        partial(print_items, _ITEMS, (), none="none", wrapped={"error"}),
        {"text": "default: failed", "default": "failed"},
    ),
    "pause": _RUNS.of_one("stop a run for now", "PauseRun"),
    "resume": _RUNS.of_one("have a paused run go on", "ResumeRun"),
    "cancel": _RUNS.of_one("end a run for good", "CancelRun"),
    "retry": _RUNS.of_one(
        "evaluate again what failed of a run",
        "RetryRun",
        declare=_add_budget,
        more=lambda args: {"budget": _budget_of(args)},
    ),
    "delete": _RUNS.delete(
        "delete runs, with or without their scores",
        lambda args: " with its scores" if args.with_scores else "; its scores are kept",
        lambda parser: argument(parser, "--with-scores", "delete the scores that they made too"),
        lambda args: {"delete_scores": args.with_scores},
    ),
}
