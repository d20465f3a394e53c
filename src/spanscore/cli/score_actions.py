"""`spanscore scores create|import|update|delete`: scores that people and programs give, kept by a
running server.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.cli import score_import, sources
from spanscore.cli.action import Action
from spanscore.cli.messages import as_json
from spanscore.cli.terminal import print_json, printable
from spanscore.errors import InputError

if TYPE_CHECKING:
    from spanscore.api.v1.score_pb2 import Score

DEFAULT_SERVER = "127.0.0.1:4329"
_STATES = {
    "SUBJECT_STATE_NOT_STORED": "what it is of is not stored (yet)",
    "SUBJECT_STATE_AMBIGUOUS": (
        "its id stands for several turns or sessions, so it counts for none of them"
    ),
}


def _declare_create(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "--trace", metavar="ID", help="the trace, by its agent trace id or OTel trace id"
    )
    parser.add_argument("--span", metavar="ID", help="with --trace: one of its spans")
    parser.add_argument(
        "--session", metavar="ID", help="in place of a trace: the session, by its id or key"
    )
    parser.add_argument(
        "--metric", metavar="NAME", required=True, help="what is scored, such as task_completion"
    )
    parser.add_argument(
        "--source", metavar="NAME", default="human", help="who gives it; default: human"
    )
    parser.add_argument("--author", metavar="NAME", help="who of these, such as a user's name")
    parser.add_argument(
        "--request-id",
        metavar="KEY",
        help="with the key of an earlier call nothing is created again",
    )
    _add_outcome(parser)


def _declare_import(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="the scores, as CSV with a heading or as JSON Lines"
    )
    parser.add_argument("--metric", metavar="NAME", help="the metric of lines that name none")
    parser.add_argument(
        "--source",
        metavar="NAME",
        default="human",
        help="who gave what names no source; default: human",
    )
    parser.add_argument("--author", metavar="NAME", help="the author of lines that name none")
    parser.add_argument("--dry-run", action="store_true", help="only check the file")


def _declare_update(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument("score", metavar="SCORE", help="the score, scores/UID or its uid")
    parser.add_argument(
        "--etag",
        metavar="ETAG",
        help="only where nobody has changed it since it was read with this etag",
    )
    _add_outcome(parser)


def _declare_delete(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "score", metavar="SCORE", nargs="+", help="the scores, scores/UID or their uids"
    )
    parser.add_argument(
        "--etag",
        metavar="ETAG",
        help="of one score: only where nobody has changed it since it was read",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    sources.add_server_arguments(parser, default=DEFAULT_SERVER)
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")


def _add_outcome(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--value",
        metavar="X",
        type=float,
        help="the value, on the metric's scale where that is known",
    )
    parser.add_argument("--label", metavar="LABEL", help="the label, such as pass or fail")
    parser.add_argument("--scale", metavar="LOW:HIGH", help="the lowest and the highest value")
    parser.add_argument("--reason", metavar="TEXT", help="a comment")
    parser.add_argument("--metadata", metavar="JSON", help="a JSON object")
    parser.add_argument(
        "--time", metavar="TIME", help="when it was given, as 2026-05-01T12:00 in UTC; else now"
    )


def _create(args: argparse.Namespace) -> int:
    from spanscore.api.v1 import score_service_pb2 as pb  # noqa: PLC0415 - --help needs no gRPC

    score = _outcome(args)
    score.trace_id, score.span_id, score.metric = args.trace or "", args.span or "", args.metric
    if args.session is not None:
        score.session_id = args.session
    score.evaluator.source = args.source
    if args.author is not None:
        score.evaluator.author = args.author
    request = pb.CreateScoreRequest(score=score, request_id=args.request_id or "")
    _print(args, _ask(args, "CreateScore", request))
    return 0


def _update(args: argparse.Namespace) -> int:
    from spanscore.api.v1 import score_service_pb2 as pb  # noqa: PLC0415 - as above

    score = _outcome(args)
    names = [x.name for x, _ in score.ListFields()] + (["reason"] if args.reason == "" else [])
    if not names:
        raise InputError(
            "give what is to be changed, such as --label pass; see spanscore scores update --help"
        )
    score.name, score.etag = _name(args.score), args.etag or ""
    _print(
        args,
        _ask(
            args,
            "UpdateScore",
            pb.UpdateScoreRequest(score=score, update_mask=FieldMask(paths=names)),
        ),
    )
    return 0


def _delete(args: argparse.Namespace) -> int:
    from spanscore.api.v1 import score_service_pb2 as pb  # noqa: PLC0415 - as above

    if args.etag and len(args.score) > 1:
        raise InputError("--etag is of one score: delete that one alone")
    for score in args.score:
        _ask(args, "DeleteScore", pb.DeleteScoreRequest(name=_name(score), etag=args.etag or ""))
        if args.json:
            print_json({"name": _name(score), "deleted": True})
        else:
            print(f"deleted {_name(score)}")
    return 0


def _ask(args: argparse.Namespace, method: str, request: Any) -> Any:
    from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub  # noqa: PLC0415 - as above

    with sources.service(args, ScoreServiceStub) as ask:
        return ask(method, request)


def _outcome(args: argparse.Namespace) -> "Score":
    """A score with what the options say of it. Raises InputError."""
    from spanscore.api.v1.score_pb2 import Scale, Score  # noqa: PLC0415 - as above

    score = Score(
        value=args.value,
        label=args.label,
        reason=args.reason or "",
        metadata_json=args.metadata or "",
    )
    if args.scale is not None:
        low, high = score_import.scale_of("--scale", args.scale)
        score.scale.CopyFrom(Scale(low=low, high=high))
    if args.time is not None:
        score.evaluated_at_ns = score_import.time_ns("--time", args.time)
    return score


def _name(text: str) -> str:
    return text if text.startswith("scores/") else f"scores/{text}"


def _print(args: argparse.Namespace, score: "Score") -> None:
    from spanscore.api.v1.score_pb2 import SubjectState  # noqa: PLC0415 - as above

    if args.json:
        print_json(as_json(score))
        return
    outcome = " ".join(
        x for x in (score.label, f"{score.value:g}" if score.HasField("value") else "") if x
    )
    subject = f"session {score.session_id}" if not score.trace_id else f"trace {score.trace_id}"
    given = datetime.fromtimestamp(score.evaluated_at_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
    print(
        f"{score.name}  {printable(score.metric)} {printable(outcome)}  {printable(subject)} "
        f" {given}"
    )
    if note := _STATES.get(SubjectState.Name(score.subject_state)):
        print(f"  {note}")


ACTIONS = {
    "create": Action("give a score to a trace, a span or a session", _declare_create, _create),
    "import": Action("give all scores in a file, each once", _declare_import, score_import.run),
    "update": Action("change a score that somebody gave", _declare_update, _update),
    "delete": Action("delete scores that somebody gave", _declare_delete, _delete),
}
