"""Actions of `spanscore scores` that ask a server."""

import argparse
import hashlib
import json
import math
import re
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf.field_mask_pb2 import FieldMask

from spanscore import calibration
from spanscore.api.messages import words
from spanscore.api.v1 import (
    annotation_service_pb2 as annotation_pb,
    score_pb2,
    score_service_pb2 as pb,
)
from spanscore.api.v1.score_pb2 import Evaluator, Score
from spanscore.cli import server, terminal
from spanscore.cli.options import SERVER, Action, add_limit, argument
from spanscore.cli.terminal import console, on_one_line, plain_table, print_json, printable, utc
from spanscore.errors import FieldError, InputError, SpanscoreError

BATCH = 500
_MAX_SHOWN = 20
_PLACE = re.compile(r"requests\[(\d+)\]\.(?:score\.)?")
_STATES = {
    "not_stored": "what it is of is not stored (yet)",
    "ambiguous": "its id stands for several turns or sessions, so it counts for none of them",
}


def _add_create(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--trace ID", "the trace, by its agent trace id or OTel trace id")
    argument(parser, "--session ID", "in place of a trace: the session, by its id or key")
    argument(parser, "--metric NAME", "what is scored, such as task_completion")
    argument(parser, "--author NAME", "who gives it, such as a user's name")
    _add_outcome(parser)
    server.add_file(parser, "all of the score, as the API's Score has it")


def _add_import(parser: argparse.ArgumentParser) -> None:
    argument(parser, "file FILE", "the scores, as CSV with a heading or as JSON Lines")
    argument(parser, "--metric NAME", "the metric of lines that name none")
    argument(parser, "--author NAME", "the author of lines that name none")
    argument(parser, "--dry-run", "only check the file")


def _add_update(parser: argparse.ArgumentParser) -> None:
    argument(parser, "name SCORE", _ABOUT)
    _add_outcome(parser)


def _add_outcome(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--value X", "the value, on the metric's scale where that is known")
    argument(parser, "--label LABEL", "the label, such as pass or fail")
    argument(parser, "--reason TEXT", "a comment")


def _create(args: argparse.Namespace, ask: server.Ask) -> None:
    score = Score()
    if args.spec is not None:
        server.read_message(args.spec, score)
    subject = {"trace_id": args.trace, "session_id": args.session, "metric": args.metric}
    by = Evaluator(author=args.author)
    score.MergeFrom(Score(evaluator=by, **subject, **_outcome(args)))
    score.evaluator.source = score.evaluator.source or "human"
    server.print_one(args, ask("CreateScore", pb.CreateScoreRequest(score=score)), _print)


def _update(args: argparse.Namespace, ask: server.Ask) -> None:
    given = {name: x for name, x in _outcome(args).items() if x is not None}
    if not given:
        what = "give what is to be changed, such as --label pass"
        raise InputError(f"{what}; see spanscore scores update --help")
    score, mask = Score(name=_SCORES.name(args.name), **given), FieldMask(paths=given)
    request = pb.UpdateScoreRequest(score=score, update_mask=mask)
    server.print_one(args, ask("UpdateScore", request), _print)


def _outcome(args: argparse.Namespace) -> dict[str, Any]:
    return {"value": args.value, "label": args.label, "reason": args.reason}


def _print(score: Score) -> None:
    value = f"{score.value:g}" if score.HasField("value") else ""
    outcome = " ".join(filter(None, (score.label, value)))
    subject = f"trace {score.trace_id}" if score.trace_id else f"session {score.session_id}"
    given = f"{utc(score.evaluated_at_ns):%Y-%m-%d %H:%M}"
    print(printable(f"{score.name}  {score.metric} {outcome}  {subject}  {given}"))
    if note := _STATES.get(server.word(score, "subject_state")):
        print(f"  {note}")


class _Batch(NamedTuple):
    """A request, and the lines of the file that its scores are in."""

    lines: list[int]
    request: pb.BatchCreateScoresRequest


def _import(args: argparse.Namespace) -> int:
    """Check the file, and send what is in it. Returns the exit code."""
    batches = _batches(args)
    _check(args.file, batches)
    count = sum(len(x.lines) for x in batches)
    there = 0 if args.dry_run else _send(args, batches, count)
    created = 0 if args.dry_run else count - there
    if args.json:
        print_json({"lines": count, "created": created, "already_there": there})
    elif args.dry_run:
        print(f"{count:,} scores can be imported; nothing was sent")
    else:
        print(f"{created:,} scores were created, {there:,} were there already")
    return 0


def _batches(args: argparse.Namespace) -> list[_Batch]:
    """The scores in the file. Raises InputError, which names all lines that cannot be read."""
    found: list[_Batch] = []
    wrong = []
    for number, fields in calibration.read_rows(args.file):
        try:
            request = _request(args, f"{args.file}:{number}", fields)
        except InputError as error:
            wrong.append(str(error))
            continue
        if not found or len(found[-1].lines) == BATCH:
            found.append(_Batch([], pb.BatchCreateScoresRequest()))
        found[-1].lines.append(number)
        found[-1].request.requests.append(request)
    _refuse(wrong)
    if not found:
        raise InputError(f"{args.file}: a heading and no score; columns are {', '.join(_COLUMNS)}")
    return found


def _request(
    args: argparse.Namespace, where: str, fields: Mapping[str, Any]
) -> pb.CreateScoreRequest:
    """The request of a line. Raises InputError."""
    given: dict[str, Any] = {}
    for column, value in fields.items():
        if column not in _COLUMNS:
            known = ", ".join(_COLUMNS)
            raise InputError(f"{where}: there is no column {column[:40]!r}; columns are {known}")
        name, read = _COLUMNS[column]
        if value in (None, ""):
            continue
        if name in given:
            raise InputError(f"{where}: {name} is given twice, by two of its columns; keep one")
        given[name] = read(f"{where}: {column}", value)
    by = Evaluator(source=given.pop("source", "human"), author=given.pop("author", args.author))
    score = Score(evaluator=by, **{"metric": args.metric, **given})
    # the same for the same line, so that a file that is imported again creates nothing twice
    digest = hashlib.sha256(b"import\n" + score.SerializeToString(deterministic=True))
    return pb.CreateScoreRequest(score=score, request_id=digest.hexdigest()[:32])


def _check(file: Path, batches: Sequence[_Batch]) -> None:
    """Refuse what the server would refuse, before anything is sent. Raises InputError."""
    from spanscore.api import score_drafts  # noqa: PLC0415 - which the list of scores does not need

    wrong: list[str] = []
    for batch in batches:
        try:
            score_drafts.drafts(batch.request, "")
        except FieldError as error:
            found = (error, *error.others)
            wrong += [_of_line(file, batch, f"{x.field}: {x.problem}") for x in found]
    _refuse(wrong)


def _send(args: argparse.Namespace, batches: Sequence[_Batch], count: int) -> int:
    """Send all batches; returns how many scores were there already."""
    there = sent = 0
    with terminal.progress("importing", len(batches)) as done:
        for batch in batches:
            try:
                with server.service(args, "Score") as ask:
                    there += ask("BatchCreateScores", batch.request).already_there
            except InputError as error:
                raise InputError(_of_line(args.file, batch, str(error))) from None
            except SpanscoreError as error:
                kept = f"{sent:,} of {count:,} scores are kept"
                how = "run it again, and none is created twice"
                raise SpanscoreError(f"{error} ({kept}; {how})") from None
            sent += len(batch.lines)
            done()
    return there


def _of_line(file: Path, batch: _Batch, problem: str) -> str:
    """What is wrong, by the line of the file in place of its place in a batch."""
    found = _PLACE.search(problem)
    if found is None or int(found[1]) >= len(batch.lines):
        return f"{file}: {problem}"
    return f"{file}:{batch.lines[int(found[1])]}: {problem[found.end() :]}"


def _refuse(wrong: Sequence[str]) -> None:
    if not wrong:
        return
    more = [f"and {len(wrong) - _MAX_SHOWN:,} more lines"] if len(wrong) > _MAX_SHOWN else []
    raise InputError("\n".join([*wrong[:_MAX_SHOWN], *more, "nothing was imported"]))


def _text(where: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{where} is no text")
    return str(value).strip()


def _number(where: str, value: Any) -> float:
    try:
        found = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        how = "write it with a point, as 0.5"
        raise InputError(f"{where}: {str(value)[:40]!r} is no number; {how}")
    return found


def _scale(where: str, value: Any) -> dict[str, float]:
    """The scale that a text such as 1:5 names. Raises InputError."""
    low, _, high = _text(where, value).partition(":")
    return {"low": _number(where, low), "high": _number(where, high)}


def _time_ns(where: str, value: Any) -> int:
    """The Unix nanoseconds of a time, in UTC unless it says otherwise. Raises InputError."""
    text = _text(where, value)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        how = "write it as 2026-05-01T12:00, in UTC"
        raise InputError(f"{where}: {text[:40]!r} is no time: {how}") from None
    return max(0, timegm(moment.utctimetuple()) * 10**9 + moment.microsecond * 1000)


def _json_text(_where: str, value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_TEXTS = ("trace_id", "span_id", "session_id", "metric", "label", "reason", "source", "author")
_COLUMNS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    **{name: (name, _text) for name in _TEXTS},
    "comment": ("reason", _text),
    "annotator": ("author", _text),
    "value": ("value", _number),
    "score": ("value", _number),
    "scale": ("scale", _scale),
    "time": ("evaluated_at_ns", _time_ns),
    "metadata": ("metadata_json", _json_text),
}
"""The field that each column is, and what reads it; those of labels for `spanscore calibrate` are
among them.
"""


_STRATEGIES = words(annotation_pb.AnnotationStrategy.DESCRIPTOR)


def _add_queue(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--metric NAME", "what the labels are held against")
    argument(parser, "--author NAME", "who labels, the author of the labels")
    text = "what comes first; default: random"
    argument(parser, "--strategy NAME", text, choices=list(_STRATEGIES))
    server.add_file(parser, "all of the queue, as the API's AnnotationQueue has it")
    argument(parser, "--lease N", "take so many, so that nobody else gets them meanwhile")
    argument(parser, "--release ID", "give back an item, by its trace id or session key")
    argument(parser, "--skip", "with --release: do not ask this author again")
    add_limit(parser)


def _add_agreement(parser: argparse.ArgumentParser) -> None:
    argument(parser, "--metric NAME", "what the labels are held against", required=True)
    argument(parser, "--label-name NAME", "the name of the labels, where it is not the metric's")
    argument(parser, "--pass-from X", "the value from which on a number is a pass")
    argument(parser, "--calibrate", "keep the judge's error, as spanscore calibrate does")


def _wanted_queue(args: argparse.Namespace) -> annotation_pb.AnnotationQueue:
    """The queue that the file of `--spec` and, before it, the options name."""
    queue = annotation_pb.AnnotationQueue()
    if args.spec is not None:
        server.read_message(args.spec, queue)
    queue.MergeFrom(annotation_pb.AnnotationQueue(metric=args.metric, author=args.author))
    if args.strategy or not queue.strategy:
        queue.strategy = _STRATEGIES[args.strategy or "random"]  # type: ignore[assignment] # a number
    return queue


def _queue(args: argparse.Namespace, ask: server.Ask) -> None:
    if args.skip and not args.release:
        raise InputError("--skip: goes with --release ID")
    queue = _wanted_queue(args)
    if args.release:
        item = {"scope": queue.scope or score_pb2.SCOPE_TRACE, "subject_id": args.release}
        method = "ReleaseAnnotationItem"
        ask(method, _LABELS.request(method, queue=queue, skip=args.skip, **item))
        return
    if args.lease is not None:
        method = "LeaseAnnotationItems"
        items = ask(method, _LABELS.request(method, queue=queue, max_items=args.lease)).items
    else:
        method = "ListAnnotationItems"
        items = server.pages(ask, method, _LABELS.request(method, queue=queue), args.limit)
    server.print_all(args, items, _print_items)


def _agreement(args: argparse.Namespace, ask: server.Ask) -> None:
    method = "CalibrateJudge" if args.calibrate else "GetAgreement"
    named = {"metric": args.metric, "label": args.label_name, "pass_from": args.pass_from}
    found = ask(method, _LABELS.request(method, **named))
    server.print_one(args, found, partial(_print_agreement, args))


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
    of_pass = f"people pass {passed:,}, of which the judge passes {table.true_pass:,}"
    of_fail = f"people fail {failed:,}, of which it fails {table.true_fail:,}"
    print(f"  {title}: {passed + failed:,}; {of_pass}; {of_fail}")
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


_ABOUT = "the score, scores/UID or its uid"
_SCORES: Final = server.Resource("Score", pb, "SCORE", _ABOUT)
_LABELS: Final = server.Resource("Annotation", annotation_pb, "ID", "the item")

ACTIONS = {
    "create": _SCORES.action("give a score to a trace, a span or a session", _create, _add_create),
    "import": Action(
        "give all scores in a file, each once", _add_import, _import, (*SERVER, "json")
    ),
    "update": _SCORES.action("change a score that somebody gave", _update, _add_update),
    "delete": _SCORES.delete("delete scores that somebody gave"),
    "queue": _LABELS.action("list what a person should label next, or take it", _queue, _add_queue),
    "agreement": _LABELS.action(
        "say how far a judge agrees with the stored labels", _agreement, _add_agreement
    ),
}
