"""Human labels from JSON Lines or CSV, matched to scores."""

import codecs
import csv
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from spanscore.calibration.verdicts import Judge, Verdict
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
    return _rows(path, ("label", "value", "score"), (*_KEYS[:4], "value"))


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
    if text.lstrip().startswith("{"):
        return _json_lines(path, text)
    return _table(path, text, needed, columns)


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
    elif passed is None and score.metric == metric and score.scale is not None:
        value, is_grade = score.value, True
    if value is None:
        return None
    is_session, who = score.scope == "session", by.author or by.name
    return Label(score.subject_id, is_session, metric, value, who, number, is_grade)


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
            cells = zip(headings, map(str.strip, row), strict=False)
            if fields := {key: value for key, value in cells if key and value}:
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
    who = str(fields.get("annotator") or "").strip()
    of, subject = named or metric or "", trace.lower() or session
    return Label(subject, not trace, of, value, who, number, is_grade)


def _value(where: str, fields: Mapping[str, Any]) -> tuple[float, bool]:
    """What the label says, and whether that is a grade."""
    given = {key: x for key, x in fields.items() if x != ""}
    label, score = given.get("label"), given.get("score")
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


_MAX_ANNOTATORS = 10
"""That are compared with each other: 45 pairs of them."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What people say of one trace or session, and the judge: `label` a grade or 0 and 1, `passes`
    what it means.
    """

    label: float
    passes: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Matched:
    """The pairs of one judge, and all its other verdicts; `tied` counts what annotators are evenly
    divided on.

    `unscored` counts the labels of what the judge skipped or failed on. `annotators` has each
    person's passes by subject.
    """

    judge: Judge
    pairs: Sequence[Pair]
    others: Sequence[Verdict]
    is_graded: bool
    tied: int
    unscored: int
    annotators: Mapping[str, Mapping[str, bool]]

    @property
    def metric(self) -> str:
        """What the judge measures."""
        return self.judge[0]

    def annotator_pairs(self) -> list[tuple[str, str, list[bool], list[bool], list[str] | None]]:
        """Two annotators at a time, of those with the most labels, with what each says of what both
        labelled.

        Last is the session of each, where some are of the same; else None.
        """
        scored = (*(x.verdict for x in self.pairs), *self.others)
        sessions = {name: x.session_id for x in scored if not x.is_session for name in x.names}
        found = []
        by_labels = sorted(self.annotators, key=lambda name: (-len(self.annotators[name]), name))
        for one, other in combinations(sorted(by_labels[:_MAX_ANNOTATORS]), 2):
            a, b = self.annotators[one], self.annotators[other]
            if both := sorted(a.keys() & b.keys()):
                named = [sessions.get(x) or x for x in both]
                clusters = named if len(set(named)) < len(named) else None
                found.append((one, other, [a[x] for x in both], [b[x] for x in both], clusters))
        return found


def match(
    path: Path,
    labels: Sequence[Label],
    verdicts: Iterable[Verdict],
    seen: Iterable[tuple[str, bool, str]],
) -> list[Matched]:
    """The labels of `path` with the verdicts on the same, by judge.

    `seen` is (subject, is session, metric) of everything that was to be scored. Raises InputError
    where a label is of nothing that was, or could be of several.
    """
    of_metric: defaultdict[str, defaultdict[tuple[str, bool], list[Verdict]]] = defaultdict(
        lambda: defaultdict(list)
    )
    known = set(seen)
    for verdict in _newest(verdicts):
        for name in verdict.names:
            of_metric[verdict.metric][name, verdict.is_session].append(verdict)
            known.add((name, verdict.is_session, verdict.metric))
    _refuse_unknown(path, labels, known)
    found = []
    for metric in dict.fromkeys(x.metric for x in labels):
        own = [x for x in labels if x.metric == metric]
        _refuse_ambiguous(path, own, of_metric[metric])
        everything = dict.fromkeys(x for scored in of_metric[metric].values() for x in scored)
        for judge in dict.fromkeys(x.judge for x in everything):
            by_name = {key: x[0] for key, x in of_metric[metric].items() if x[0].judge == judge}
            of_judge = [x for x in everything if x.judge == judge]
            found.append(_matched(path, judge, own, by_name, of_judge))
    return found


def _newest(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Of each unit's verdicts those of the last revision, each once."""
    last: defaultdict[tuple[str, str], dict[Verdict, None]] = defaultdict(dict)
    for verdict in verdicts:
        own = last[verdict.metric, verdict.unit]
        if own and verdict.revision != (highest := max(x.revision for x in own)):
            if verdict.revision < highest:
                continue
            own.clear()
        own[verdict] = None
    return [x for own in last.values() for x in own]


def _refuse_ambiguous(
    path: Path, labels: Sequence[Label], verdicts: Mapping[tuple[str, bool], Sequence[Verdict]]
) -> None:
    for label in labels:
        scored = verdicts.get((label.subject, label.is_session), ())
        if len(scored) > 1:
            raise InputError(
                f"{path}:{label.line}: {label.metric} of {label.subject} is scored {len(scored)}"
                " times: " + _why_ambiguous(scored)
            )


def _why_ambiguous(scored: Sequence[Verdict]) -> str:
    if len({x.unit for x in scored}) > 1:
        return (
            "it holds several turns; name the turn by its agent trace id, and give the telemetry to"
            " score"
        )
    of_judges = len({x.judge for x in scored}) > 1
    how = "by several judges" if of_judges else "in several runs, or for several cases"
    return f"{how}; give scores of which one is of it"


def _refuse_unknown(path: Path, labels: Sequence[Label], known: set[tuple[str, bool, str]]) -> None:
    unknown = [x for x in labels if (x.subject, x.is_session, x.metric) not in known]
    if not unknown:
        return
    first = unknown[0]
    what = "session" if first.is_session else "trace"
    more = f" (and {len(unknown) - 1} more labels)" if len(unknown) > 1 else ""
    if not any(key[2] == first.metric for key in known):
        why = f"there is no score of {first.metric!r}"
    else:
        why = f"there is no {what} {first.subject!r} with a score of {first.metric}"
    raise InputError(f"{path}:{first.line}: {why}{more}; give the files that the labels are about")


def _matched(
    path: Path,
    judge: Judge,
    labels: Sequence[Label],
    verdicts: Mapping[tuple[str, bool], Verdict],
    everything: Sequence[Verdict],
) -> Matched:
    is_graded = all(x.is_grade for x in labels)
    if any(x.is_grade for x in labels):
        _require_threshold(path, judge, labels)
    by_subject: defaultdict[tuple[str, bool], list[Label]] = defaultdict(list)
    for label in labels:
        by_subject[label.subject, label.is_session].append(label)
    pairs, tied, unscored = [], 0, 0
    for key, own in by_subject.items():
        passes = [_passes(x, judge) for x in own]
        if key not in verdicts or verdicts[key].passed is None:
            unscored += 1
        elif 2 * sum(passes) == len(passes):
            tied += 1
        else:
            mean = sum(x.value for x in own) / len(own)
            majority = 2 * sum(passes) > len(passes)
            pairs.append(Pair(mean if is_graded else float(majority), majority, verdicts[key]))
    paired = {x.verdict.unit for x in pairs}
    others = [x for x in everything if x.unit not in paired and x.passed is not None]
    people = _passes_by_annotator(labels, judge)
    return Matched(judge, pairs, others, is_graded, tied, unscored, people)


def _passes_by_annotator(labels: Sequence[Label], judge: Judge) -> dict[str, dict[str, bool]]:
    """By the annotator's name whether each subject passes."""
    people: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for label in labels:
        people[label.annotator or "unnamed"][label.subject] = _passes(label, judge)
    return people


def _require_threshold(path: Path, judge: Judge, labels: Sequence[Label]) -> None:
    if judge[6] is None:
        graded = next(x for x in labels if x.is_grade)
        raise InputError(
            f"{path}:{graded.line}: score {graded.value:g} is a grade, and {judge[0]} has no"
            " threshold that says which grades pass; write pass or fail"
        )


def _passes(label: Label, judge: Judge) -> bool:
    if label.is_grade and judge[6] is not None:
        return reaches(label.value, judge[6])
    return label.value == 1
