"""`spanscore scores`: the scores of a server, or of files, newest first; and those that could not
be delivered.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from spanscore.cli import (
    annotation_actions,
    exported,
    score_actions,
    score_lines,
    sources,
    undelivered,
)
from spanscore.cli.terminal import print_json
from spanscore.errors import InputError
from spanscore.model.score import Evaluation

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from spanscore.store.listing import ScoreQuery
    from spanscore.store.ordering import Order

_STORED = "stored_ns"
ACTIONS = {**score_actions.ACTIONS, **annotation_actions.ACTIONS}
"""What else the command does, by the word that follows it: `spanscore scores create`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the list."""
    parser.epilog = f"More: spanscore scores ({' | '.join(ACTIONS)}), each with --help."
    parser.add_argument("path", metavar="PATH", nargs="*", type=Path, help=exported.PATH_HELP)
    sources.add_arguments(parser)
    sources.add_conditions(parser, "scores")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="only of this metric, or of a family of them such as rubric",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="only from this source: spanscore, human, programmatic or another evaluator",
    )
    parser.add_argument(
        "--run", metavar="ID", default="", help="only what this evaluation run scored"
    )
    parser.add_argument(
        "--skipped",
        action="store_true",
        help="also what could not be measured for want of something",
    )
    parser.add_argument(
        "--order-by",
        metavar="FIELDS",
        default="",
        help=(
            "in another order than the newest first: stored_ns, or value and evaluated_at_ns, such"
            ' as "value desc, evaluated_at_ns"'
        ),
    )
    undelivered.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """List the scores, or do what an action says. Returns the exit code."""
    if "action" in args:
        return ACTIONS[args.action].run(args)
    if args.undelivered or args.resend or args.forget:
        return undelivered.run(args)
    if args.exporter:
        raise InputError("--exporter: goes with --undelivered, --resend or --forget")
    sources.check(args)
    found = _of_run(args, _found(args)) if args.run and not args.path else _found(args)
    if args.json:
        for score in found:
            print_json({"uid": score.uid, **score.to_json()})
    else:
        score_lines.print_scores(found, args.limit, is_newest_first=not args.order_by)
    return 0


def _run_id(args: argparse.Namespace) -> str:
    run: str = args.run
    return run.removeprefix("runs/")


def _of_run(args: argparse.Namespace, found: Iterator[Evaluation]) -> Iterator[Evaluation]:
    """The scores of a run, also of one that was deleted without them.

    Raises InputError where there is no such run.
    """
    first = next(found, None)
    if first is not None:
        yield first
        yield from found
    elif args.server:
        _require_on_server(args)
    else:
        _require_in_store(args)


def _require_on_server(args: argparse.Namespace) -> None:
    from spanscore.api.v1.run_service_pb2 import GetRunRequest  # noqa: PLC0415 - gRPC, as below
    from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub  # noqa: PLC0415 - likewise

    with sources.service(args, RunServiceStub) as ask:
        ask("GetRun", GetRunRequest(name=f"runs/{_run_id(args)}"))


def _require_in_store(args: argparse.Namespace) -> None:
    from spanscore.store.runs import RunTables  # noqa: PLC0415 - SQLAlchemy, as below

    if (
        sources.read(
            args, lambda connection: RunTables(connection).get(args.tenant or "", _run_id(args))
        )
        is None
    ):
        raise InputError(
            f"--run {args.run}: there is no such run; spanscore runs list has their ids"
        )


def _found(args: argparse.Namespace) -> Iterator[Evaluation]:
    if args.server:
        return _of_server(args)
    from spanscore.store import (  # noqa: PLC0415 - SQLAlchemy, which --help and --server do not need
        listing,
    )

    order = _order(args)
    query = listing.ScoreQuery(
        failing=args.failing,
        skipped=args.skipped,
        since_ns=sources.since_ns(args.since),
        service=args.service,
        metric=args.metric,
        session_id=args.session,
        source=args.source,
        run=_run_id(args),
        oldest_first=_is_by_storage(order) and not order[0].is_falling,
        tenant=args.tenant or "",
    )
    if args.path:
        since = query.since_ns or 0
        wanted = (
            x for x in exported.scores(args.path) if query.wants(x) and x.evaluated_at_ns >= since
        )
        return islice(_arranged(wanted, order), args.limit or None)
    if order and not _is_by_storage(order):
        return iter(
            sources.read(args, lambda connection: _in_order(connection, query, order, args))
        )
    return sources.of_store(
        args, lambda connection, place: listing.scores(connection, query, sources.PAGE, place)
    )


def _order(args: argparse.Namespace) -> "tuple[Order, ...]":
    """Raises FieldError where there is no such order."""
    from spanscore.store import ordered_scores, ordering  # noqa: PLC0415 - SQLAlchemy, as above

    fields = (_STORED, *ordered_scores.FIELDS)
    return ordering.parse(args.order_by, fields, alone=[_STORED])


def _is_by_storage(order: "Sequence[Order]") -> bool:
    """Whether scores come as they were stored, first or last first."""
    return bool(order) and order[0].field == _STORED


def _arranged(found: Iterator[Evaluation], order: "Sequence[Order]") -> Iterator[Evaluation]:
    """The scores of a file, which contains them as they were stored."""
    from spanscore.store import ordered_scores, ordering  # noqa: PLC0415 - SQLAlchemy, as above

    if _is_by_storage(order):
        return reversed(list(found)) if order[0].is_falling else found
    return iter(ordering.arranged(list(found), order, ordered_scores.FIELDS)) if order else found


def _in_order(
    connection: "Connection",
    query: "ScoreQuery",
    order: "Sequence[Order]",
    args: argparse.Namespace,
) -> list[Evaluation]:
    from spanscore.store import ordered_scores  # noqa: PLC0415 - SQLAlchemy, as above

    page = ordered_scores.scores(connection, query, order, args.limit or sys.maxsize)
    found = page.items
    while page.next is not None and len(found) < (args.limit or sys.maxsize):
        page = ordered_scores.scores(
            connection, query, order, (args.limit or sys.maxsize) - len(found), page.next
        )
        found += page.items
    return found


def _of_server(args: argparse.Namespace) -> Iterator[Evaluation]:
    from spanscore.api.decoding import (  # noqa: PLC0415 - gRPC, which reading a store does not need
        decode_score,
    )
    from spanscore.api.v1.score_service_pb2 import ListScoresRequest  # noqa: PLC0415 - likewise
    from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub  # noqa: PLC0415 - likewise

    request = ListScoresRequest(
        failing=args.failing,
        skipped=args.skipped,
        since_ns=sources.since_ns(args.since),
        service_name=args.service,
        metric=args.metric,
        source=args.source,
        session_id=args.session,
        run=f"runs/{_run_id(args)}" if args.run else "",
        order_by=args.order_by,
    )
    limit = args.limit if args.session is None else 0
    found = map(
        decode_score,
        sources.of_server(args, ScoreServiceStub, request, "ListScores", "scores", limit),
    )
    if args.session is None:
        return found
    wanted: Iterator[Evaluation] = (x for x in found if args.skipped or x.status != "skipped")
    if not args.order_by:
        wanted = iter(sorted(wanted, key=lambda x: x.evaluated_at_ns, reverse=True))
    return islice(wanted, args.limit or None)
