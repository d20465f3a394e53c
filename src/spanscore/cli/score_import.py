"""`spanscore scores import`: send a file of scores."""

import argparse
import hashlib
import json
import math
import re
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from spanscore import calibration
from spanscore.api.v1 import score_service_pb2 as pb
from spanscore.api.v1.score_pb2 import Evaluator, Score
from spanscore.cli import server
from spanscore.cli.terminal import print_json, progress
from spanscore.errors import FieldError, InputError, SpanscoreError

BATCH = 500
_MAX_SHOWN = 20
_PLACE = re.compile(r"requests\[(\d+)\]\.(?:score\.)?")


class _Batch(NamedTuple):
    """A request, and the lines of the file that its scores are in."""

    lines: list[int]
    request: pb.BatchCreateScoresRequest


def run(args: argparse.Namespace) -> int:
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
            raise InputError(
                f"{where}: there is no column {column[:40]!r}; columns are {', '.join(_COLUMNS)}"
            )
        name, read = _COLUMNS[column]
        if value in (None, ""):
            continue
        if name in given:
            raise InputError(f"{where}: {name} is given twice, by two of its columns; keep one")
        given[name] = read(f"{where}: {column}", value)
    by = Evaluator(source=given.pop("source", "human"), author=given.pop("author", args.author))
    score = Score(evaluator=by, **{"metric": args.metric, **given})
    return pb.CreateScoreRequest(score=score, request_id=_request_id(score))


def _request_id(score: Any) -> str:
    """The same for the same line, so that a file that is imported again creates nothing twice."""
    content = b"import\n" + score.SerializeToString(deterministic=True)
    return hashlib.sha256(content).hexdigest()[:32]


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
    with progress("importing", len(batches)) as done:
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
        raise InputError(
            f"{where}: {str(value)[:40]!r} is no number; write it with a point, as 0.5"
        )
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
        raise InputError(
            f"{where}: {text[:40]!r} is no time: write it as 2026-05-01T12:00, in UTC"
        ) from None
    return max(0, timegm(moment.utctimetuple()) * 10**9 + moment.microsecond * 1000)


def _json(_where: str, value: Any) -> str:
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
    "metadata": ("metadata_json", _json),
}
"""The field that each column is, and what reads it; those of labels for `spanscore calibrate` are
among them.
"""
