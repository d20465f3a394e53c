"""Labels beside the scores of the same things: several people's labels as one, each with the judge's score."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from spanscore.calibration.labels import Label
from spanscore.calibration.verdicts import Judge, Verdict
from spanscore.errors import InputError
from spanscore.model.score import reaches


@dataclass(frozen=True, slots=True)
class Pair:
    """What people say of one trace or session, and the judge: `label` a grade or 0 and 1, `passes` what it means."""

    label: float
    passes: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Matched:
    """The pairs of one judge, and all its other verdicts; `tied` counts what annotators are evenly divided on.

    `unscored` counts the labels of what the judge skipped or failed on. `annotators` has each person's passes by
    subject.
    """

    judge: Judge
    pairs: Sequence[Pair]
    others: Sequence[Verdict]
    is_graded: bool
    tied: int
    unscored: int
    annotators: Mapping[str, Mapping[str, bool]]

    def annotator_pairs(self) -> list[tuple[str, str, list[bool], list[bool]]]:
        """Two annotators at a time, with what each says of the things that both labelled."""
        found = []
        for (one, a), (other, b) in combinations(sorted(self.annotators.items()), 2):
            if both := sorted(a.keys() & b.keys()):
                found.append((one, other, [a[x] for x in both], [b[x] for x in both]))
        return found


def match(
    path: Path, labels: Sequence[Label], verdicts: Iterable[Verdict], seen: Iterable[tuple[str, bool, str]]
) -> list[Matched]:
    """The labels of `path` with the verdicts on the same, by judge.

    `seen` is (subject, is session, metric) of everything that was to be scored. Raises InputError where a label is of
    nothing that was, or could be of several.
    """
    by_subject: defaultdict[tuple[str, bool, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_subject[_subject(verdict), verdict.is_session, verdict.metric].append(verdict)
    known = set(seen) | set(by_subject)
    _refuse_unknown(path, labels, known)
    found = []
    for metric in dict.fromkeys(x.metric for x in labels):
        own = [x for x in labels if x.metric == metric]
        of_metric = {key: _newest(path, key, x) for key, x in by_subject.items() if key[2] == metric}
        for judge in dict.fromkeys(x.judge for x in of_metric.values()):
            of_judge = {key[:2]: x for key, x in of_metric.items() if x.judge == judge}
            found.append(_matched(path, judge, own, of_judge))
    return found


def _subject(verdict: Verdict) -> str:
    return (verdict.session_id or "") if verdict.is_session else verdict.trace_id


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


def _newest(path: Path, key: tuple[str, bool, str], verdicts: Sequence[Verdict]) -> Verdict:
    last = max(x.revision for x in verdicts)
    newest = list(dict.fromkeys(x for x in verdicts if x.revision == last))
    if len(newest) > 1:
        raise InputError(
            f"{path}: {key[2]} of {key[0]} is scored {len(newest)} times, as several turns or by several judges; "
            "leave its labels out, or give one run's scores"
        )
    return newest[0]


def _matched(
    path: Path, judge: Judge, labels: Sequence[Label], verdicts: Mapping[tuple[str, bool], Verdict]
) -> Matched:
    is_graded = any(x.value not in (0, 1) for x in labels)
    if is_graded:
        _require_threshold(path, judge, labels)
    said: defaultdict[tuple[str, bool], list[Label]] = defaultdict(list)
    people: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for label in labels:
        said[label.subject, label.is_session].append(label)
        people[label.annotator or "unnamed"][label.subject] = _passes(label.value, judge, is_graded=is_graded)
    pairs, tied, unscored = [], 0, 0
    for key, own in said.items():
        passes = [_passes(x.value, judge, is_graded=is_graded) for x in own]
        if key not in verdicts or verdicts[key].passed is None:
            unscored += 1
        elif 2 * sum(passes) == len(passes):
            tied += 1
        else:
            mean = sum(x.value for x in own) / len(own)
            majority = 2 * sum(passes) > len(passes)
            pairs.append(Pair(mean if is_graded else float(majority), majority, verdicts[key]))
    paired = {id(x.verdict) for x in pairs}
    others = [x for x in verdicts.values() if id(x) not in paired]
    return Matched(judge, pairs, others, is_graded, tied, unscored, people)


def _require_threshold(path: Path, judge: Judge, labels: Sequence[Label]) -> None:
    if judge[6] is None:
        graded = next(x for x in labels if x.value not in (0, 1))
        raise InputError(
            f"{path}:{graded.line}: label {graded.value:g} is a grade, and {judge[0]} has no threshold that says which "
            "grades pass; write pass or fail"
        )


def _passes(value: float, judge: Judge, *, is_graded: bool) -> bool:
    return reaches(value, judge[6]) if is_graded and judge[6] is not None else value == 1
