"""The options and files of `spanscore runs create`."""

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from spanscore import config, dialects
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.agent_trace_pb2 import AgentTrace
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_UNSPECIFIED
from spanscore.api.v1.trace_service_pb2 import ImportTracesRequest
from spanscore.cli import server
from spanscore.cli.options import add_config, argument
from spanscore.errors import InputError

if TYPE_CHECKING:
    from spanscore.offline.recordings import Recordings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    which = parser.add_argument_group("which traces or sessions")
    argument(which, "--sessions", "evaluate sessions, in place of traces")
    argument(which, "--source NAME", "from this source of the server, in place of its store")
    argument(which, "--trace ID", "this trace", repeated=True)
    argument(which, "--session ID", "this session", repeated=True)
    argument(which, "--service NAME", "only of this service")
    argument(which, "--since TIME", "only what started since then: 24h, or 2026-05-01T12:00 (UTC)")
    argument(which, "--until TIME", "only what started before that")
    argument(which, "--where FILTER", "only what meets this, as 'label.faithfulness = fail'")
    argument(which, "--share X", "a random share of them, such as 0.1")
    argument(which, "--count N", "so many of them, at random")
    argument(which, "--file PATH", "the traces here or at this URL, sent there", repeated=True)
    add_config(which, "with --file: a configuration, whose assemble.stitch holds")
    measure = parser.add_argument_group("by what")
    argument(measure, "--metric NAME", "this metric", repeated=True)
    argument(measure, "--model MODEL", "the model that judges, in place of the configured one")
    argument(measure, "--threshold METRIC=X", "from which score on it passes", repeated=True)
    add_budget(parser)
    argument(parser, "--name TEXT", "a name for people")
    argument(parser, "--export", "export the scores by OTLP, each with the run's id")
    argument(parser, "--spec FILE", "more of the run, in YAML or JSON; -: standard input")
    argument(parser, "--dry-run", "only say what a judge would be asked, and its cost")
    argument(parser, "--watch", "show the progress until the run has ended")


def add_budget(parser: Any) -> None:
    """Declare the options of the budget."""
    argument(parser, "--max-usd X", "spend at most so many USD on the judge in all")
    argument(parser, "--max-tokens N", "spend at most so many tokens on the judge in all")


def wanted(args: argparse.Namespace) -> pb.Run:
    """The run that the file of `--spec` and, before it, the options ask for. Raises InputError."""
    found = pb.Run()
    if args.spec is not None:
        server.read_message(args.spec, found)
    given = pb.Run(display_name=args.name or "", export=args.export)
    given.target.CopyFrom(_target(args))
    given.measure.CopyFrom(_measure(args))
    if (limits := budget(args)) is not None:
        given.budget.CopyFrom(limits)
    found.MergeFrom(given)
    return found


def budget(args: argparse.Namespace) -> pb.RunBudget | None:
    """The budget that the options give; None where they give none."""
    if args.max_usd is None and args.max_tokens is None:
        return None
    if args.max_tokens is not None and args.max_tokens < 1:
        raise InputError(f"--max-tokens {args.max_tokens}: give a number of at least 1")
    return pb.RunBudget(max_usd=args.max_usd, max_tokens=args.max_tokens)


def _target(args: argparse.Namespace) -> pb.RunTarget:
    """The target that the options name. Raises InputError."""
    if (args.count or 0) < 0:
        raise InputError(f"--count {args.count}: give a number of at least 0")
    conditions = pb.TraceFilter(
        service=args.service,
        started_after_ns=server.since_ns(args.since),
        started_before_ns=server.since_ns(args.until, "--until"),
    )
    return pb.RunTarget(
        scope=SCOPE_SESSION if args.sessions else SCOPE_UNSPECIFIED,
        source=args.source,
        where=args.where,
        filter=conditions if conditions.ListFields() else None,
        trace_ids=args.trace,
        session_ids=args.session,
        sampling=pb.RunSampling(share=args.share, count=args.count),
    )


def _measure(args: argparse.Namespace) -> pb.RunMeasure:
    """What the options have measured. Raises InputError."""
    thresholds = {}
    for text in args.threshold:
        metric, _, number = text.partition("=")
        try:
            thresholds[metric] = float(number)
        except ValueError:
            raise InputError(f"--threshold {text}: write METRIC=X, with a number") from None
    return pb.RunMeasure(metrics=args.metric, model=args.model, thresholds=thresholds)


_MAX_BYTES: Final = 3 * 2**20
_MAX_TRACES: Final = 1000


def check_files(args: argparse.Namespace, target: pb.RunTarget) -> None:
    """Refuse what does not go together with files. Raises InputError."""
    given = [x.name for x, _ in target.ListFields() if x.name not in {"scope", "sampling"}]
    if given:
        raise InputError(
            f"--file and {given[0]} of a target: give one; conditions may stand in a URL:"
            " 'file:///PATH?service=shop'"
        )
    if args.dry_run:
        raise InputError(
            "--file and --dry-run: `spanscore eval PATH --dry-run` says what judging a file costs"
        )


def send_files(args: argparse.Namespace, ask: "server.Ask", wanted: pb.Run) -> None:
    """Send the traces of all files, and have `wanted` name them, or their sessions.

    Raises InputError.
    """
    from spanscore.specs import MAX_IDS  # noqa: PLC0415 - as above

    settings = config.load(args.config)
    dialects.configure(settings.span_names)
    names: dict[str, None] = {}
    count = 0
    for traces in _requests(_recordings(args.file, settings.assemble.stitch_off)):
        answer = ask("ImportTraces", ImportTracesRequest(traces=traces))
        count += len(traces)
        names.update(dict.fromkeys(answer.sessions if args.sessions else answer.traces))
        if len(names) > MAX_IDS:
            raise InputError(
                f"--file: more than {MAX_IDS:,} traces or sessions; let the server read them by"
                " --source"
            )
        print(f"sent {count:,} traces", file=sys.stderr)
    if not names:
        raise InputError("--file --sessions: none of the traces has a session")
    _name(wanted, list(names), are_sessions=args.sessions)


def _recordings(places: Sequence[str], stitch_off: Collection[str]) -> "Recordings":
    from spanscore.offline.recordings import Recordings  # noqa: PLC0415 - as above
    from spanscore.sources import place  # noqa: PLC0415 - as above

    found = [place(x) for x in places]
    return Recordings(found, warn=lambda what: print(what, file=sys.stderr), stitch_off=stitch_off)


def _requests(found: "Recordings") -> Iterator[list["AgentTrace"]]:
    """The traces in messages of a bounded size; one that is too large for any is left out, with a
    warning.
    """
    from spanscore.api.convert import encode_trace  # noqa: PLC0415 - as above

    waiting: list[AgentTrace] = []
    size_bytes = 0
    for batch in found.batches():
        for trace in batch:
            message = encode_trace(trace)
            if message.ByteSize() > _MAX_BYTES:
                print(
                    f"warning: trace {trace.id} is too large to be sent, and left out",
                    file=sys.stderr,
                )
                continue
            if waiting and (
                size_bytes + message.ByteSize() > _MAX_BYTES or len(waiting) == _MAX_TRACES
            ):
                yield waiting
                waiting, size_bytes = [], 0
            waiting.append(message)
            size_bytes += message.ByteSize()
    if waiting:
        yield waiting


def _name(wanted: pb.Run, names: Sequence[str], *, are_sessions: bool) -> None:
    from spanscore.api.requests import id_in  # noqa: PLC0415 - as above

    if are_sessions:
        wanted.target.session_ids.extend(id_in(x, "sessions") for x in names)
    else:
        wanted.target.trace_ids.extend(id_in(x, "traces") for x in names)
