"""Human labels as people keep them, JSON Lines or CSV, read strictly: a label misread would make a
judge look bad.
"""

import codecs
import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanscore.errors import InputError
from spanscore.model.score import Evaluation, reaches

_MAX_BYTES = 64 * 2**20
_PASSES = ("pass", "passed", "true", "yes", "y", "correct", "1", "1.0")
_FAILS = ("fail", "failed", "false", "no", "n", "incorrect", "0", "0.0")
_WORDS = dict.fromkeys(_PASSES, 1.0) | dict.fromkeys(_FAILS, 0.0)
_KEYS = ("trace_id", "session_id", "metric", "label", "score", "annotator", "comment")
_SEPARATORS = ",;\t"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_SHOWN_CHARS = 40
_HOW = "write a trace_id or session_id, a metric, and a label (pass or fail) or a score (a number)"


@dataclass(frozen=True, slots=True)
class Label:
    """What one person said of one trace or session: 1 pass, 0 fail, or a grade.

    `line` says where it is.

    A grade is on the metric's scale, and passes where it reaches the metric's threshold.
    """

    subject: str
    is_session: bool
    metric: str
    value: float
    annotator: str
    line: int
    is_grade: bool = False


def read(path: Path, metric: str | None = None) -> list[Label]:
    """The labels in `path`, each once; `metric` is that of labels that name none.

    Raises InputError where it has none, one is broken, or two contradict.
    """
    lines = _rows(path, ("label", "score"), _KEYS)
    labels = [_label(path, number, fields, metric) for number, fields in lines]
    if not labels:
        raise InputError(f"{path}: a heading and no label; {_HOW}")
    return _once(path, labels)


def read_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of any file of scores, each with its line: JSON Lines, or CSV with a heading.

    Empty cells are left out. Raises InputError where there is no row, or one is broken.
    """
    return _rows(
        path, ("label", "value", "score"), ("trace_id", "session_id", "metric", "label", "value")
    )


def _rows(
    path: Path, needed: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a file, of which a table has one of the `needed` columns."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES >> 20} MiB; split it")
        text = _decoded(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; give labels as CSV or JSON Lines"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; save it as UTF-8") from None
    if not text.strip():
        raise InputError(f"{path}: the file is empty; {_HOW}")
    if text.lstrip().startswith("["):
        raise InputError(f"{path}:1: a JSON array; write one JSON object a line")
    return (
        _json_lines(path, text)
        if text.lstrip().startswith("{")
        else _table(path, text, needed, columns)
    )


def label_of(
    score: Evaluation, metric: str, number: int, pass_from: float | None = None
) -> Label | None:
    """The label of a metric that a score is which somebody gave; None where it is neither a pass
    nor a fail.

    `pass_from` is the value from which on a number is a pass. Without it a number under the
    metric's own name, on its scale, is a grade. `number` stands for the line.
    """
    by, passed = score.evaluator, score.passed
    value, is_grade = None if passed is None else float(passed), False
    if score.value is not None and pass_from is not None:
        value = float(reaches(score.value, pass_from))
    elif (
        score.value is not None
        and passed is None
        and score.metric == metric
        and score.scale is not None
    ):
        value, is_grade = score.value, True
    if value is None:
        return None
    return Label(
        score.subject_id,
        score.scope == "session",
        metric,
        value,
        by.author or by.name,
        number,
        is_grade,
    )


def _decoded(content: bytes) -> str:
    """As spreadsheets save text: UTF-8, or UTF-16 with its mark. Raises UnicodeDecodeError."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig")


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}:{number}: not JSON; write one JSON object a line") from None
        if not isinstance(fields, dict):
            raise InputError(f"{path}:{number}: not a JSON object; {_HOW}")
        yield number, fields


def _table(
    path: Path, text: str, needed: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows with a value, by what their columns are called; spreadsheets part them by commas,
    semicolons or tabs.
    """
    separator = max(_SEPARATORS, key=text.splitlines()[0].count)
    rows = csv.reader(
        io.StringIO(text, newline=None), delimiter=separator, skipinitialspace=True, strict=True
    )
    try:
        headings = [x.strip().lower() for x in next(rows)]
        if not set(needed) & set(headings):
            raise InputError(
                f"{path}:1: no column {' or '.join(needed)}; columns are {', '.join(columns)}"
            )
        for row in rows:
            if fields := {
                key: value
                for key, x in zip(headings, row, strict=False)
                if key and (value := x.strip())
            }:
                yield rows.line_num, _numbers(fields)
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}: not CSV ({error})") from None


def _label(path: Path, number: int, fields: Mapping[str, Any], metric: str | None) -> Label:
    where = f"{path}:{number}"
    trace, session, named = (str(fields.get(key) or "").strip() for key in _KEYS[:3])
    if bool(trace) == bool(session):
        raise InputError(
            f"{where}: {'both trace_id and' if trace else 'neither trace_id nor'} session_id;"
            f" {_HOW}"
        )
    if not (named or metric):
        raise InputError(
            f"{where}: no metric; name it there, or give --metric NAME for all labels that name"
            " none"
        )
    value, is_grade = _value(where, fields)
    annotator = str(fields.get("annotator") or "").strip()
    return Label(
        trace.lower() or session,
        not trace,
        named or metric or "",
        value,
        annotator,
        number,
        is_grade,
    )


def _value(where: str, fields: Mapping[str, Any]) -> tuple[float, bool]:
    """What the label says, and whether that is a grade."""
    label, score = (
        None if fields.get(key) == "" else fields.get(key) for key in ("label", "score")
    )
    if label is None and score is None:
        raise InputError(f"{where}: no label and no score; {_HOW}")
    if label is None:
        return _grade(where, score), True
    if score is not None:
        raise InputError(f"{where}: both a label and a score; keep one")
    value = _WORDS.get(str(label).strip().lower())
    if value is None:
        raise InputError(
            f"{where}: label {str(label)[:40]!r} is neither pass nor fail; a grade belongs under"
            " score"
        )
    return value, False


def _grade(where: str, score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise InputError(
            f"{where}: score {str(score)[:_SHOWN_CHARS]!r} is no number; {_hint(score)}"
        )
    return float(score)


def _hint(score: Any) -> str:
    """What to write in place of what is no number."""
    if not isinstance(score, str):
        return _HOW
    if _NUMBER.fullmatch(score):
        return "write it without quotes"
    with_point = score.replace(",", ".", 1)
    return f"write it with a point, as {with_point}" if _NUMBER.fullmatch(with_point) else _HOW


def _numbers(fields: dict[str, str]) -> dict[str, Any]:
    """A row with its score as the number that it is; in a table all is text."""
    score = fields.get("score", "")
    return {**fields, "score": float(score)} if _NUMBER.fullmatch(score) else {**fields}


def _once(path: Path, labels: Sequence[Label]) -> list[Label]:
    """Each label once; the same person must not say two things of the same."""
    by_place: dict[tuple[str, bool, str, str], Label] = {}
    for label in labels:
        first = by_place.setdefault(
            (label.subject, label.is_session, label.metric, label.annotator), label
        )
        if (first.value, first.is_grade) != (label.value, label.is_grade):
            who = f"{label.annotator!r} says" if label.annotator else "without annotator, it says"
            raise InputError(
                f"{path}:{label.line}: {label.metric} of {label.subject}: {who} {label.value:g},"
                f" and {first.value:g} on line {first.line}; keep one, or name each annotator"
            )
    return list(by_place.values())
