"""Human labels as people keep them, JSON Lines or CSV, read strictly: a label misread would make a judge look bad."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanscore.errors import InputError

_MAX_BYTES = 64 * 2**20
_WORDS = {"pass": 1.0, "true": 1.0, "yes": 1.0, "fail": 0.0, "false": 0.0, "no": 0.0}
_KEYS = ("trace_id", "session_id", "metric", "label", "annotator", "notes")
_HOW = "write a trace_id or session_id, a metric, and a label: pass, fail, or a number"


@dataclass(frozen=True, slots=True)
class Label:
    """What one person said of one trace or session: 1 pass, 0 fail, or a grade. `line` says where it is."""

    subject: str
    is_session: bool
    metric: str
    value: float
    annotator: str
    line: int


def read(path: Path) -> list[Label]:
    """The labels in `path`, each once. Raises InputError where it has none, one is broken, or two contradict."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES >> 20} MiB; split it")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; {_HOW}") from None
    if not text.strip():
        raise InputError(f"{path}: the file is empty; {_HOW}")
    lines = _json_lines(path, text) if text.lstrip().startswith("{") else _table(path, text)
    labels = [_label(path, number, fields) for number, fields in lines]
    if not labels:
        raise InputError(f"{path}: a heading and no label; {_HOW}")
    return _once(path, labels)


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}:{number}: not JSON; write one JSON object a line") from None
        if not isinstance(fields, dict):
            raise InputError(f"{path}:{number}: not a JSON object; {_HOW}")
        yield number, fields


def _table(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        headings = rows.fieldnames or ()
        if missing := {"metric", "label"} - set(headings):
            raise InputError(f"{path}:1: no column {' and '.join(sorted(missing))}; columns are {', '.join(_KEYS)}")
        for row in rows:
            yield rows.line_num, {key: value for key, value in row.items() if key and value not in (None, "")}
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}: not CSV ({error})") from None


def _label(path: Path, number: int, fields: Mapping[str, Any]) -> Label:
    where = f"{path}:{number}"
    trace, session, metric = (str(fields.get(key) or "").strip() for key in _KEYS[:3])
    if bool(trace) == bool(session):
        raise InputError(f"{where}: {'both' if trace else 'neither'} trace_id and session_id; {_HOW}")
    if not metric:
        raise InputError(f"{where}: no metric; {_HOW}")
    value = _value(fields.get("label"))
    if value is None:
        raise InputError(f"{where}: label {fields.get('label')!r} is neither pass, fail nor a number; {_HOW}")
    annotator = str(fields.get("annotator") or "").strip()
    return Label(trace.lower() or session, not trace, metric, value, annotator, number)


def _value(label: Any) -> float | None:
    if isinstance(label, str):
        word = label.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        try:
            label = float(word)
        except ValueError:
            return None
    if not isinstance(label, bool | int | float) or not math.isfinite(label):
        return None
    return float(label)


def _once(path: Path, labels: Sequence[Label]) -> list[Label]:
    """Each label once; the same person must not say two things of the same."""
    said: dict[tuple[str, bool, str, str], Label] = {}
    for label in labels:
        first = said.setdefault((label.subject, label.is_session, label.metric, label.annotator), label)
        if first.value != label.value:
            who = f"{label.annotator!r} says" if label.annotator else "without annotator, it says"
            raise InputError(
                f"{path}:{label.line}: {label.metric} of {label.subject}: {who} {label.value:g}, and {first.value:g} "
                f"on line {first.line}; keep one, or name each annotator"
            )
    return list(said.values())
