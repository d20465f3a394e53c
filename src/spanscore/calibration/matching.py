"""Labels beside the scores of the same things: several people's labels as one, each with the
judge's score.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from spanscore.calibration.labels import Label
from spanscore.calibration.verdicts import Judge, Verdict
from spanscore.errors import InputError
from spanscore.model.score import reaches

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
        busiest = sorted(self.annotators, key=lambda name: (-len(self.annotators[name]), name))[
            :_MAX_ANNOTATORS
        ]
        for one, other in combinations(sorted(busiest), 2):
            a, b = self.annotators[one], self.annotators[other]
            if both := sorted(a.keys() & b.keys()):
                clusters = [sessions.get(x) or x for x in both]
                repeat = len(set(clusters)) < len(clusters)
                found.append(
                    (
                        one,
                        other,
                        [a[x] for x in both],
                        [b[x] for x in both],
                        clusters if repeat else None,
                    )
                )
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
            found.append(
                _matched(path, judge, own, by_name, [x for x in everything if x.judge == judge])
            )
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
    how = (
        "by several judges"
        if len({x.judge for x in scored}) > 1
        else "in several runs, or for several cases"
    )
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
    return Matched(
        judge, pairs, others, is_graded, tied, unscored, _passes_by_annotator(labels, judge)
    )


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
    return (
        reaches(label.value, judge[6])
        if label.is_grade and judge[6] is not None
        else label.value == 1
    )
