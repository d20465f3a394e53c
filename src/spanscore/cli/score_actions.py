"""Actions of `spanscore scores` that ask a server."""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.v1 import annotation_service_pb2 as annotation_pb
from spanscore.api.v1 import score_pb2
from spanscore.api.v1 import score_service_pb2 as pb
from spanscore.api.v1.score_pb2 import Evaluator, Score, SubjectState
from spanscore.cli import score_import, server
from spanscore.cli.options import Action, add_limit, argument
from spanscore.cli.terminal import console, on_one_line, plain_table, printable, utc
from spanscore.errors import InputError

_STATES = {
    "SUBJECT_STATE_NOT_STORED": "what it is of is not stored (yet)",
    "SUBJECT_STATE_AMBIGUOUS": (
        "its id stands for several turns or sessions, so it counts for none of them"
    ),
}


def _declare_create(parser: argparse.ArgumentParser) -> None:
    server.add_action_arguments(parser)
    argument(parser, "--trace ID", "the trace, by its agent trace id or OTel trace id")
    argument(parser, "--span ID", "with --trace: one of its spans")
    argument(parser, "--session ID", "in place of a trace: the session, by its id or key")
    argument(parser, "--metric NAME", "what is scored, such as task_completion", required=True)
    argument(parser, "--source NAME", "who gives it; default: human", default="human")
    argument(parser, "--author NAME", "who of these, such as a user's name")
    _add_outcome(parser)


def _declare_import(parser: argparse.ArgumentParser) -> None:
    server.add_action_arguments(parser)
    argument(parser, "file FILE", "the scores, as CSV with a heading or as JSON Lines")
    argument(parser, "--metric NAME", "the metric of lines that name none")
    argument(parser, "--author NAME", "the author of lines that name none")
    argument(parser, "--dry-run", "only check the file")


def _declare_update(parser: argparse.ArgumentParser) -> None:
    server.add_action_arguments(parser)
    argument(parser, "score SCORE", "the score, scores/UID or its uid")
    _add_outcome(parser)


def _declare_delete(parser: argparse.ArgumentParser) -> None:
    server.add_server_arguments(parser)
    argument(parser, "score SCORE", "the scores, scores/UID or their uids", nargs="+")


def _add_outcome(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--value X", "the value, on the metric's scale where that is known")
    argument(parser, "--label LABEL", "the label, such as pass or fail")
    argument(parser, "--reason TEXT", "a comment")


def _create(args: argparse.Namespace) -> int:
    score = Score(
        trace_id=args.trace,
        span_id=args.span,
        session_id=args.session,
        metric=args.metric,
        evaluator=Evaluator(source=args.source, author=args.author),
        **_outcome(args),
    )
    server.print_one(args, _ask(args, "CreateScore", score=score), _print)
    return 0


def _update(args: argparse.Namespace) -> int:
    given = {name: x for name, x in _outcome(args).items() if x is not None}
    if not given:
        raise InputError(
            "give what is to be changed, such as --label pass; see spanscore scores update --help"
        )
    score, mask = Score(name=_name(args.score), **given), FieldMask(paths=given)
    server.print_one(args, _ask(args, "UpdateScore", score=score, update_mask=mask), _print)
    return 0


def _delete(args: argparse.Namespace) -> int:
    for name in map(_name, args.score):
        _ask(args, "DeleteScore", name=name)
        print(f"deleted {name}")
    return 0


def _ask(args: argparse.Namespace, method: str, **fields: Any) -> Any:
    with server.service(args, "Score") as ask:
        return ask(method, getattr(pb, f"{method}Request")(**fields))


def _outcome(args: argparse.Namespace) -> dict[str, Any]:
    return {"value": args.value, "label": args.label, "reason": args.reason}


def _name(text: str) -> str:
    return text if text.startswith("scores/") else f"scores/{text}"


def _print(score: Score) -> None:
    value = f"{score.value:g}" if score.HasField("value") else ""
    outcome = " ".join(filter(None, (score.label, value)))
    subject = f"trace {score.trace_id}" if score.trace_id else f"session {score.session_id}"
    given = f"{utc(score.evaluated_at_ns):%Y-%m-%d %H:%M}"
    print(printable(f"{score.name}  {score.metric} {outcome}  {subject}  {given}"))
    if note := _STATES.get(SubjectState.Name(score.subject_state)):
        print(f"  {note}")


ACTIONS = {
    "create": Action("give a score to a trace, a span or a session", _declare_create, _create),
    "import": Action("give all scores in a file, each once", _declare_import, score_import.run),
    "update": Action("change a score that somebody gave", _declare_update, _update),
    "delete": Action("delete scores that somebody gave", _declare_delete, _delete),
}


_STRATEGIES = ("random", "uncertain", "disagreeing")


def _declare_queue(parser: argparse.ArgumentParser) -> None:
    _add_selection(parser)
    argument(parser, "--author NAME", "who labels, the author of the labels", required=True)
    argument(parser, "--strategy NAME", "what comes first", choices=_STRATEGIES, default="random")
    argument(parser, "--sessions", "sessions, where the metric scores both")
    argument(parser, "--lease N", "take so many, so that nobody else gets them meanwhile")
    argument(parser, "--release ID", "give back an item, by its trace id or session key")
    argument(parser, "--skip", "with --release: do not ask this author again")
    add_limit(parser)


def _declare_agreement(parser: argparse.ArgumentParser) -> None:
    _add_selection(parser)
    argument(parser, "--pass-from X", "the value from which on a number is a pass")
    argument(parser, "--calibrate", "keep the judge's error, as spanscore calibrate does")


def _add_selection(parser: argparse.ArgumentParser) -> None:
    server.add_action_arguments(parser)
    argument(parser, "--metric NAME", "what the labels are held against", required=True)
    argument(parser, "--label-name NAME", "the name of the labels, where it is not the metric's")


def _queue(args: argparse.Namespace) -> int:
    if args.skip and not args.release:
        raise InputError("--skip: goes with --release ID")
    queue = annotation_pb.AnnotationQueue(
        metric=args.metric,
        label=args.label_name,
        author=args.author,
        strategy=f"ANNOTATION_STRATEGY_{args.strategy.upper()}",  # type: ignore[arg-type] # its name does
        scope=score_pb2.SCOPE_SESSION if args.sessions else score_pb2.SCOPE_UNSPECIFIED,
    )
    with server.service(args, "Annotation") as ask:
        if args.release:
            scope = score_pb2.SCOPE_SESSION if args.sessions else score_pb2.SCOPE_TRACE
            given_back = annotation_pb.ReleaseAnnotationItemRequest(
                queue=queue, scope=scope, subject_id=args.release, skip=args.skip
            )
            ask("ReleaseAnnotationItem", given_back)
            return 0
        if args.lease is not None:
            request = annotation_pb.LeaseAnnotationItemsRequest(queue=queue, max_items=args.lease)
            items = ask("LeaseAnnotationItems", request).items
        else:
            listing = annotation_pb.ListAnnotationItemsRequest(queue=queue)
            items = server.pages(ask, "ListAnnotationItems", listing, "items", args.limit)
        server.print_all(args, items, _print_items)
    return 0


def _agreement(args: argparse.Namespace) -> int:
    method = "CalibrateJudge" if args.calibrate else "GetAgreement"
    request = getattr(annotation_pb, f"{method}Request")
    named = request(metric=args.metric, label=args.label_name, pass_from=args.pass_from)
    with server.service(args, "Annotation") as ask:
        found = ask(method, named)
    server.print_one(args, found, partial(_print_agreement, args))
    return 0


def _print_items(items: Sequence[annotation_pb.AnnotationItem]) -> None:
    for item in items:
        print(printable(f"{item.subject}  {'; '.join(item.reasons)}"))
    if not items:
        print("nothing is to be labelled")


def _print_agreement(args: argparse.Namespace, found: annotation_pb.Agreement) -> None:
    for judge in found.judges:
        _print_judge(judge)
    if not found.judges:
        print(f"no labels of what {printable(args.metric)} has scored")
    if args.calibrate:
        print("Kept in the server's store; pass rates by the same judge are now corrected.")


def _print_judge(judge: annotation_pb.JudgeAgreement) -> None:
    threshold = f", passes from {judge.threshold:g}" if judge.HasField("threshold") else ""
    print(printable(f"{judge.metric} by {judge.model or judge.evaluator}{threshold}"))
    if judge.HasField("at_random"):
        _print_table("labels of the random order", judge.at_random)
    else:
        print("  no label of the random order: `spanscore scores queue` gives what to label")
    _print_table("all labels", judge.all)
    for point in judge.history:
        kappa = f", kappa {point.kappa.value:.2f}" if point.kappa.HasField("value") else ""
        print(f"  after {point.n:>5,} labels: agreement {point.agreement.value:.2f}{kappa}")


def _print_table(title: str, table: annotation_pb.AgreementTable) -> None:
    passed, failed = table.true_pass + table.false_fail, table.false_pass + table.true_fail
    print(
        f"  {title}: {passed + failed:,}; people pass {passed:,}, of which the judge passes"
        f" {table.true_pass:,}; people fail {failed:,}, of which it fails {table.true_fail:,}"
    )
    columns, rows = ("", "value", "interval", "n", ""), map(_cells, table.measures)
    shown = plain_table(columns, ("value", "n"), rows, wrapped={""})
    shown.padding = (0, 2, 0, 2)
    if table.measures:
        console().print(shown)


def _cells(measure: annotation_pb.AgreementMeasure) -> Sequence[str]:
    name = on_one_line(measure.name, 60)
    if not measure.HasField("value"):
        return name, "-", "", "", f"cannot be told: {measure.why_not}"
    interval = f"[{measure.low:.2f}, {measure.high:.2f}]" if measure.HasField("low") else ""
    return name, f"{measure.value:.2f}", interval, str(measure.n), measure.note


ANNOTATION_ACTIONS = {
    "queue": Action("list what a person should label next, or take it", _declare_queue, _queue),
    "agreement": Action(
        "say how far a judge agrees with the stored labels", _declare_agreement, _agreement
    ),
}
