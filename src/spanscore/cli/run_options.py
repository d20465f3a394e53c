"""The options and files of `spanscore runs create`."""

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spanscore import config, dialects
from spanscore.cli import server
from spanscore.errors import InputError
from spanscore.model.json import loads

if TYPE_CHECKING:
    from spanscore.api.v1.agent_trace_pb2 import AgentTrace
    from spanscore.api.v1.run_service_pb2 import Run, RunBudget, RunMeasure, RunTarget
    from spanscore.offline.recordings import Recordings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    which = parser.add_argument_group("which traces or sessions")
    add_target(which)
    add_file_arguments(which)
    add_measure(parser.add_argument_group("by what"))
    add_budget(parser)
    parser.add_argument("--name", metavar="TEXT", default="", help="a name for people")
    parser.add_argument(
        "--export", action="store_true", help="export the scores by OTLP, each with the run's id"
    )
    parser.add_argument(
        "--request-id", metavar="KEY", help="create no second run under the same key"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what a judge would be asked, and its cost"
    )
    parser.add_argument(
        "--watch", action="store_true", help="show the progress until the run has ended"
    )


def add_budget(parser: Any) -> None:
    """Declare the options of the budget."""
    parser.add_argument(
        "--max-usd", metavar="X", type=float, help="spend at most so many USD on the judge in all"
    )
    parser.add_argument(
        "--max-tokens",
        metavar="N",
        type=int,
        help="spend at most so many tokens on the judge in all",
    )


def wanted(args: argparse.Namespace) -> "Run":
    """The run that the options ask for. Raises InputError."""
    from spanscore.api.v1.run_service_pb2 import Run  # noqa: PLC0415 - --help needs no protobuf

    found = Run(
        display_name=args.name, target=target(args), measure=measure(args), export=args.export
    )
    if (given := budget(args)) is not None:
        found.budget.CopyFrom(given)
    return found


def budget(args: argparse.Namespace) -> "RunBudget | None":
    """The budget that the options give; None where they give none."""
    from spanscore.api.v1.run_service_pb2 import RunBudget  # noqa: PLC0415 - as above

    if args.max_usd is None and args.max_tokens is None:
        return None
    if args.max_tokens is not None and args.max_tokens < 1:
        raise InputError(f"--max-tokens {args.max_tokens}: give a number of at least 1")
    return RunBudget(max_usd=args.max_usd, max_tokens=args.max_tokens)


def add_target(group: Any) -> None:
    """Declare the options of the target."""
    group.add_argument(
        "--sessions", action="store_true", help="evaluate sessions, in place of traces"
    )
    group.add_argument(
        "--source", metavar="NAME", help="from this source of the server, in place of its store"
    )
    group.add_argument(
        "--trace", action="append", default=[], metavar="ID", help="this trace; may be repeated"
    )
    group.add_argument(
        "--session", action="append", default=[], metavar="ID", help="this session; may be repeated"
    )
    group.add_argument(
        "--ids-file",
        metavar="FILE",
        type=Path,
        help="the traces in it, or with --sessions the sessions: one id a line",
    )
    for name in ("service", "agent", "environment", "user"):
        group.add_argument(f"--{name}", metavar="NAME", help=f"only of this {name}")
    group.add_argument(
        "--resource",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only with this resource attribute",
    )
    group.add_argument(
        "--since",
        metavar="TIME",
        help="only what started since then: 24h, or 2026-05-01T12:00 (UTC)",
    )
    group.add_argument("--until", metavar="TIME", help="only what started before that")
    group.add_argument("--errors", action="store_true", help="only where a tool call failed")
    group.add_argument(
        "--min-duration", metavar="S", type=float, help="only what took so many seconds at least"
    )
    group.add_argument(
        "--min-tokens", metavar="N", type=int, help="only with so many tokens at least"
    )
    group.add_argument(
        "--where",
        metavar="FILTER",
        default="",
        help=(
            "only what meets this filter, as `spanscore traces` lists it: 'label.faithfulness ="
            " fail'"
        ),
    )
    group.add_argument(
        "--share", metavar="X", type=float, help="a random share of them, such as 0.1"
    )
    group.add_argument("--count", metavar="N", type=int, help="so many of them, at random")
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="another seed draws others; default: 0"
    )


def add_measure(group: Any) -> None:
    """Declare the options of what is measured."""
    group.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="this metric; may be repeated"
    )
    group.add_argument(
        "--model", metavar="MODEL", help="the model that judges, in place of the configured one"
    )
    group.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="METRIC=X",
        help="from which score on the label is pass",
    )
    group.add_argument(
        "--signal-weight",
        action="append",
        default=[],
        metavar="METRIC=X",
        help="how much it counts in session metrics",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="METRIC:OPTION=VALUE",
        help="an option of a metric, as JSON",
    )


def target(args: argparse.Namespace) -> "RunTarget":
    """The target that the options name. Raises InputError."""
    from spanscore.api.v1.run_service_pb2 import (  # noqa: PLC0415 - as above
        RunSampling,
        RunTarget,
        TraceFilter,
    )
    from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE  # noqa: PLC0415 - as above

    for option in ("min_tokens", "count", "seed"):
        if (getattr(args, option) or 0) < 0:
            raise InputError(
                f"--{option.replace('_', '-')} {getattr(args, option)}: give a number of at least 0"
            )
    listed = [] if args.ids_file is None else _ids(args.ids_file)
    conditions = TraceFilter(
        service=args.service,
        agent=args.agent,
        environment=args.environment,
        user=args.user,
        resource=dict(pairs(args.resource, "--resource")),
        started_after_ns=server.since_ns(args.since),
        started_before_ns=server.since_ns(args.until),
        has_error=True if args.errors else None,
        min_duration_s=args.min_duration,
        min_tokens=args.min_tokens,
    )
    return RunTarget(
        scope=SCOPE_SESSION if args.sessions else SCOPE_TRACE,
        source=args.source or "",
        where=args.where,
        filter=conditions if conditions.ListFields() else None,
        trace_ids=[*args.trace, *([] if args.sessions else listed)],
        session_ids=[*args.session, *(listed if args.sessions else [])],
        sampling=RunSampling(share=args.share, count=args.count, seed=args.seed),
    )


def measure(args: argparse.Namespace) -> "RunMeasure":
    """What the options have measured. Raises InputError."""
    from spanscore.api.v1.run_service_pb2 import RunMeasure  # noqa: PLC0415 - as above

    found = RunMeasure(
        metrics=args.metric,
        model=args.model,
        thresholds=_numbers(args.threshold, "--threshold"),
        signal_weights=_numbers(args.signal_weight, "--signal-weight"),
    )
    for place, value in pairs(args.option, "--option"):
        metric, _, option = place.partition(":")
        if not option:
            raise InputError(f"--option {place}={value}: write METRIC:OPTION=VALUE")
        found.options[metric].update({option: _json(value)})
    return found


def pairs(given: Iterable[str], option: str) -> Iterable[tuple[str, str]]:
    """The NAME=VALUE that an option gives. Raises InputError."""
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError(f"{option} {text}: write NAME=VALUE")
        yield name, value


def _numbers(given: Iterable[str], option: str) -> dict[str, float]:
    found = {}
    for name, text in pairs(given, option):
        try:
            found[name] = float(text)
        except ValueError:
            raise InputError(f"{option} {name}={text}: {text!r} is no number") from None
    return found


def _json(text: str) -> Any:
    """A JSON value; what is none is a text."""
    try:
        return loads(text)
    except ValueError:
        return text


def _ids(path: Path) -> list[str]:
    """The ids in a file, one a line; empty lines do not count."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"--ids-file {path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"--ids-file {path}: not UTF-8 text; give one id a line") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise InputError(f"--ids-file {path}: contains no id; give one a line")
    return found


_MAX_BYTES: Final = 3 * 2**20
_MAX_TRACES: Final = 1000
_CONDITIONS: Final = (
    "source",
    "trace",
    "session",
    "ids_file",
    "where",
    "service",
    "agent",
    "environment",
    "user",
)
_MORE_CONDITIONS: Final = ("resource", "since", "until", "errors", "min_duration", "min_tokens")


def add_file_arguments(group: Any) -> None:
    """Declare the options."""
    group.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="PATH",
        help=(
            "the traces in this file or folder, or at this URL, read here and sent to the server;"
            " may be repeated"
        ),
    )
    group.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        type=Path,
        help="with --file: a configuration, whose assemble.stitch holds",
    )


def check_files(args: argparse.Namespace) -> None:
    """Refuse options that do not go together with files. Raises InputError."""
    given = [
        x
        for x in (*_CONDITIONS, *_MORE_CONDITIONS)
        if getattr(args, x) not in (None, "", [], False)
    ]
    if given:
        option = given[0].replace("_", "-")
        raise InputError(
            f"--file and --{option}: give one; conditions may stand in a URL:"
            " 'file:///PATH?service=shop'"
        )
    if args.dry_run:
        raise InputError(
            "--file and --dry-run: `spanscore eval PATH --dry-run` says what judging a file costs"
        )


def send_files(args: argparse.Namespace, ask: "server.Ask", wanted: "Run") -> None:
    """Send the traces of all files, and have `wanted` name them, or their sessions.

    Raises InputError.
    """
    from spanscore.api.v1.trace_service_pb2 import (  # noqa: PLC0415 - --help needs no protobuf
        ImportTracesRequest,
    )
    from spanscore.specs import MAX_IDS  # noqa: PLC0415 - as above

    settings = config.load(args.config) if args.config else config.default()
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


def _name(wanted: "Run", names: Sequence[str], *, are_sessions: bool) -> None:
    from spanscore.api.requests import id_in  # noqa: PLC0415 - as above

    if are_sessions:
        wanted.target.session_ids.extend(id_in(x, "sessions") for x in names)
    else:
        wanted.target.trace_ids.extend(id_in(x, "traces") for x in names)
