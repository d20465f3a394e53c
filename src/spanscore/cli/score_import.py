"""`spanscore scores import`: send a file of scores."""

import argparse
import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from spanscore import calibration
from spanscore.api.v1 import score_service_pb2 as pb
from spanscore.api.v1.score_pb2 import Evaluator, Score
from spanscore.cli import server
from spanscore.cli.terminal import print_json
from spanscore.errors import FieldError, InputError, SpanscoreError

BATCH = 500
_MAX_SHOWN = 20
_COLUMNS = {
    **{
        x: x
        for x in (
            "trace_id",
            "span_id",
            "session_id",
            "metric",
            "value",
            "label",
            "scale",
            "reason",
            "time",
        )
    },
    "score": "value",
    "comment": "reason",
    "annotator": "author",
    "author": "author",
    "source": "source",
    "metadata": "metadata",
}
"""What each column is; those of labels for `spanscore calibrate` are among them."""

_TEXTS = ("trace_id", "span_id", "session_id", "metric", "label", "reason", "source", "author")
_PLACE = re.compile(r"requests\[(\d+)\]\.(?:score\.)?")


class _Line(NamedTuple):
    number: int
    request: pb.CreateScoreRequest


def run(args: argparse.Namespace) -> int:
    """Check the file, and send what is in it. Returns the exit code."""
    lines = _lines(args)
    batches = [lines[start : start + BATCH] for start in range(0, len(lines), BATCH)]
    _check(args.file, batches)
    if args.dry_run and args.json:
        print_json({"lines": len(lines), "created": 0, "already_there": 0})
        return 0
    if args.dry_run:
        print(f"{len(lines):,} scores can be imported; nothing was sent")
        return 0
    there = _send(args, batches, len(lines))
    if args.json:
        print_json({"lines": len(lines), "created": len(lines) - there, "already_there": there})
    else:
        print(f"{len(lines) - there:,} scores were created, {there:,} were there already")
    return 0


def scale_of(where: str, text: str) -> tuple[float, float]:
    """The scale that a text such as 1:5 names. Raises InputError."""
    low, _, high = text.partition(":")
    return _number(where, low), _number(where, high)


def time_ns(where: str, text: str) -> int:
    """The Unix nanoseconds of a time, in UTC unless it says otherwise. Raises InputError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{where}: {text[:40]!r} is no time: write it as 2026-05-01T12:00, in UTC"
        ) from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(
        1970, 1, 1, tzinfo=UTC
    )
    return max(0, (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000)


def _lines(args: argparse.Namespace) -> list[_Line]:
    """The scores in the file. Raises InputError, which names all lines that cannot be read."""
    found, wrong = [], []
    for number, fields in calibration.read_rows(args.file):
        try:
            found.append(_Line(number, _request(args, f"{args.file}:{number}", fields)))
        except InputError as error:
            wrong.append(str(error))
    _refuse(wrong)
    if not found:
        raise InputError(f"{args.file}: a heading and no score; columns are {', '.join(_COLUMNS)}")
    return found


def _request(
    args: argparse.Namespace, where: str, fields: Mapping[str, Any]
) -> pb.CreateScoreRequest:
    """The request of a line. Raises InputError."""
    given = _by_name(where, fields)
    texts = {name: _text(where, name, given[name]) for name in _TEXTS if name in given}
    by = Evaluator(source=texts.pop("source", "human"), author=texts.pop("author", args.author))
    score = Score(metric=texts.pop("metric", args.metric) or "", evaluator=by)
    for name, text in texts.items():
        setattr(score, name, text)
    _set_others(score, where, given)
    return pb.CreateScoreRequest(score=score, request_id=_request_id(score))


def _by_name(where: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a line contains, by the names of a score's fields, without what is empty.

    Raises InputError.
    """
    given: dict[str, Any] = {}
    for column, value in fields.items():
        if column not in _COLUMNS:
            raise InputError(
                f"{where}: there is no column {column[:40]!r}; columns are {', '.join(_COLUMNS)}"
            )
        name = _COLUMNS[column]
        if value in (None, ""):
            continue
        if name in given:
            raise InputError(f"{where}: {name} is given twice, by two of its columns; keep one")
        given[name] = value
    return given


def _set_others(score: Any, where: str, given: Mapping[str, Any]) -> None:
    """Set what is no text. Raises InputError."""
    if "value" in given:
        score.value = _number(f"{where}: value", given["value"])
    if "scale" in given:
        score.scale.low, score.scale.high = scale_of(
            f"{where}: scale", _text(where, "scale", given["scale"])
        )
    if "metadata" in given:
        metadata = given["metadata"]
        score.metadata_json = metadata if isinstance(metadata, str) else json.dumps(metadata)
    if "time" in given:
        score.evaluated_at_ns = time_ns(f"{where}: time", _text(where, "time", given["time"]))


def _request_id(score: Any) -> str:
    """The same for the same line, so that a file that is imported again creates nothing twice."""
    return hashlib.sha256(b"import\n" + score.SerializeToString(deterministic=True)).hexdigest()[
        :32
    ]


def _check(file: Path, batches: Sequence[Sequence[_Line]]) -> None:
    """Refuse what the server would refuse, before anything is sent. Raises InputError."""
    from spanscore.api import score_drafts  # noqa: PLC0415 - as above

    wrong: list[str] = []
    for batch in batches:
        try:
            score_drafts.drafts(
                pb.BatchCreateScoresRequest(requests=[x.request for x in batch]), ""
            )
        except FieldError as error:
            wrong += [
                _of_line(file, batch, f"{x.field}: {x.problem}") for x in (error, *error.others)
            ]
    _refuse(wrong)


def _send(args: argparse.Namespace, batches: Sequence[Sequence[_Line]], count: int) -> int:
    """Send all batches; returns how many scores were there already."""
    there = sent = 0
    for batch in batches:
        request = pb.BatchCreateScoresRequest(requests=[x.request for x in batch])
        try:
            with server.service(args, "Score") as ask:
                there += ask("BatchCreateScores", request).already_there
        except InputError as error:
            raise InputError(_of_line(args.file, batch, str(error))) from None
        except SpanscoreError as error:
            kept = f"{sent:,} of {count:,} scores are kept; run it again, and none is created twice"
            raise SpanscoreError(f"{error} ({kept})") from None
        sent += len(batch)
        _progress(sent, count)
    return there


def _progress(sent: int, count: int) -> None:
    if sys.stderr.isatty() and count > BATCH:
        print(
            f"\r{sent:,} of {count:,}",
            end="\n" if sent == count else "",
            file=sys.stderr,
            flush=True,
        )


def _of_line(file: Path, batch: Sequence[_Line], problem: str) -> str:
    """What is wrong, by the line of the file in place of its place in a batch."""
    found = _PLACE.search(problem)
    if found is None or int(found[1]) >= len(batch):
        return f"{file}: {problem}"
    return f"{file}:{batch[int(found[1])].number}: {problem[found.end() :]}"


def _refuse(wrong: Sequence[str]) -> None:
    if not wrong:
        return
    more = [f"and {len(wrong) - _MAX_SHOWN:,} more lines"] if len(wrong) > _MAX_SHOWN else []
    raise InputError("\n".join([*wrong[:_MAX_SHOWN], *more, "nothing was imported"]))


def _text(where: str, name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{where}: {name} is no text")
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
