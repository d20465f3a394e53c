"""What `spanscore runs create --file` sends: the agent traces in files, or at URLs, that this
machine can read.
"""

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spanscore import config
from spanscore.errors import InputError

if TYPE_CHECKING:
    from spanscore.api.v1.agent_trace_pb2 import AgentTrace
    from spanscore.api.v1.run_service_pb2 import Run
    from spanscore.cli import sources
    from spanscore.offline.recordings import Recordings

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


def add_arguments(group: Any) -> None:
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


def check(args: argparse.Namespace) -> None:
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


def send(args: argparse.Namespace, ask: "sources.Ask", wanted: "Run") -> None:
    """Send the traces of all files, and have `wanted` name them, or their sessions.

    Raises InputError.
    """
    from spanscore.api.v1.trace_service_pb2 import (  # noqa: PLC0415 - --help needs no protobuf
        ImportTracesRequest,
    )
    from spanscore.specs.target import MAX_IDS  # noqa: PLC0415 - as above

    settings = config.load(args.config) if args.config else config.default()
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
    from spanscore import sources  # noqa: PLC0415 - as above
    from spanscore.offline.recordings import Recordings  # noqa: PLC0415 - as above

    found = [sources.place(x) for x in places]
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
