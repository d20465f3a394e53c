"""The turns, scores, tests and figures of a report."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from spanscore.calibration import Verdict as JudgedVerdict, estimated, passing
from spanscore.model.external import spans_of
from spanscore.model.score import Evaluation, reaches
from spanscore.model.trace import AgentTrace
from spanscore.stats import Estimate, Interval, mean

Status: TypeAlias = Literal["pass", "fail", "error", "skipped", "unmatched"]
"""How a test came out. `error`: that is not known; `unmatched`: nothing is recorded for it."""

Verdict: TypeAlias = Literal["better", "worse", "cannot tell"]

Score: TypeAlias = Evaluation | Mapping[str, Any]
"""A score, or its JSON object as `Evaluation.to_json` gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number of the whole run or of one test, with its interval; `note` is what a reader must
    know of it.

    `scale` is the range that the value can have. `unit` is written after it: "%" makes a share of 1
    a percentage.
    """

    name: str
    estimate: Estimate
    note: str = ""
    scale: tuple[float, float] = (0.0, 1.0)
    unit: str = "%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt at a test: how it came out and why, in which turns, and its scores.

    `trace_ids` are those of OpenTelemetry traces, or the ids of agent traces. `score` is 0..100, or
    None.
    """

    status: Status
    reasons: tuple[str, ...] = ()
    trace_ids: tuple[str, ...] = ()
    scores: Sequence[Score] = ()
    score: float | None = None
    latency_s: float | None = None
    session_id: str | None = None
    user_input: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test of a suite, or one test function.

    `detail` is further text, such as a failed assertion's traceback.
    """

    name: str
    status: Status
    trials: Sequence[Trial] = ()
    reasons: tuple[str, ...] = ()
    figures: Sequence[Figure] = ()
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run: what a report is made of.

    `scores` are those of `traces` and of their sessions; a trial's own are listed with the trial. A
    score whose turn is not among `traces` is shown without steps. `figures` are of the whole run.
    `notes` are sentences for the reader, such as what was left out. `trace_url` is the address of a
    trace in the reader's own backend, with `{trace_id}` in it.
    """

    name: str
    traces: Sequence[AgentTrace] = ()
    scores: Sequence[Score] = ()
    cases: Sequence[Case] = ()
    figures: Sequence[Figure] = ()
    started_at_ns: int | None = None
    notes: tuple[str, ...] = ()
    trace_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One measure in both runs: `difference` is the run's own value minus the baseline's, over
    pairs that both have.

    `unit` is as of a `Figure`, such as "s". `regression` says which limit is passed, or is empty.
    `counted` says what a share is of, such as "of 4 traces", where its name does not.
    """

    name: str
    baseline: Estimate
    own: Estimate
    difference: Estimate
    verdict: Verdict
    unit: str = ""
    regression: str = ""
    note: str = ""
    counted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One test, turn or session in both runs: its status in the baseline and its own, and what is
    sure of that.
    """

    name: str
    baseline: str
    own: str
    measure: str = ""
    values: tuple[float, float] | None = None
    verdict: Verdict = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run beside its baseline.

    `remarks` are sentences: how sure the intervals are, what is not comparable.
    """

    baseline: str
    verdict: Verdict
    differences: Sequence[Difference] = ()
    changes: Sequence[Change] = ()
    only_in_baseline: Sequence[str] = ()
    only_in_own: Sequence[str] = ()
    remarks: tuple[str, ...] = ()


_STATUSES: Mapping[str, Status] = {x: x for x in get_args(Status) if x != "skipped"}
_LEVEL = 0.95


def of_run(
    run: Mapping[str, Any], traces: Sequence[AgentTrace] = (), scores: Sequence[Score] = ()
) -> Results:
    """The results of a run of a suite; `run` is what `suites.to_json` gives, and a run file
    contains.

    `traces` are the agent traces that it was a run over, whose steps are shown then; `scores` are
    further ones of them. Raises KeyError, TypeError, ValueError or AttributeError where it is no
    run.
    """
    return Results(
        name=f"{run['suite']}, run {run['run_id']}",
        traces=traces,
        scores=scores,
        cases=list(map(_case, run["cases"])),
        figures=list(_whole(run["overall"])),
        started_at_ns=int(datetime.fromisoformat(run["started_at"]).timestamp()) * 10**9,
    )


def _case(case: Mapping[str, Any]) -> Case:
    return Case(
        name=str(case["id"]),
        status=_STATUSES[case["status"]],
        trials=[_trial(x) for x in case["trials"]],
        reasons=tuple(map(str, case["reasons"])),
        figures=list(_of_case(case)),
    )


def _trial(trial: Mapping[str, Any]) -> Trial:
    return Trial(
        status=_STATUSES[trial["status"]],
        reasons=tuple(map(str, trial["reasons"])),
        trace_ids=tuple(map(str, trial["trace_ids"])),
        scores=list(trial["evaluations"]),
        score=trial.get("score"),
        latency_s=trial.get("latency_s"),
        session_id=trial.get("session_id"),
        user_input=trial.get("user_input"),
    )


def _of_case(case: Mapping[str, Any]) -> Iterator[Figure]:
    if case.get("pass_rate"):
        yield Figure(name="trials that pass", estimate=_estimate(case["pass_rate"]))
    if len(case["trials"]) < 2:
        return
    for name, sign in (("pass_at_k", "@"), ("pass_pow_k", "^")):
        if case.get(name) is not None:
            interval = _interval(case.get(f"{name}_ci_low"), case.get(f"{name}_ci_high"))
            how = str(case["statistics"])
            estimate = Estimate(float(case[name]), int(case["n"]), interval, how)
            yield Figure(name=f"pass{sign}{case['k']}", estimate=estimate, note=how)


def _whole(overall: Mapping[str, Any]) -> Iterator[Figure]:
    titles = {"case_pass_rate": "cases that pass", "pass_rate": "trials that pass, over cases"}
    for name, title in titles.items():
        if overall.get(name):
            yield Figure(name=title, estimate=_estimate(overall[name]))
    for name, sign in (("pass_at_k", "@"), ("pass_pow_k", "^")):
        if overall.get(name):
            title, note = f"pass{sign}{overall['k']} over cases", overall[name]["statistics"]
            yield Figure(name=title, estimate=_estimate(overall[name]), note=note)
    for rate in overall.get("corrected_pass_rates") or ():
        if rate["corrected"]:
            name = f"{rate['metric']}: pass rate, corrected"
            yield Figure(name=name, estimate=_estimate(rate["corrected"]), note=str(rate["note"]))
    if overall.get("mean_score"):
        estimate = _estimate(overall["mean_score"])
        yield Figure(name="mean score of 100", estimate=estimate, scale=(0.0, 100.0), unit="")


def _estimate(found: Mapping[str, Any]) -> Estimate:
    """The inverse of `Estimate.to_json`."""
    interval = _interval(found["low"], found["high"], found["level"] or _LEVEL)
    value, n, method = float(found["value"]), int(found["n"]), str(found["method"])
    return Estimate(value, n, interval, method, None, found["note"] or "")


def _interval(low: Any, high: Any, level: Any = _LEVEL) -> Interval | None:
    if low is None or high is None:
        return None
    return Interval(float(low), float(high), float(level))


FAIL, ERROR, PASS, UNSCORED = "fail", "error", "pass", "none"
ORDER = (FAIL, ERROR, PASS, UNSCORED)
"""The states of what was scored, in the order in which a reader should see them."""


def as_json(score: Score) -> Mapping[str, Any]:
    """The score's JSON object."""
    return score.to_json() if isinstance(score, Evaluation) else score


@dataclass(frozen=True, slots=True)
class Scored:
    """One score: what decides where it is shown. `passed` is None where there is no verdict.

    `source` is None where spanscore measured, else who gave the score ("human", another evaluator's
    name).
    """

    raw: Score
    metric: str
    status: str
    passed: bool | None
    source: str | None = None

    @classmethod
    def of(cls, raw: Score) -> "Scored":
        """The score of a value or a JSON object.

        Raises KeyError, TypeError or ValueError where it is none.
        """
        if isinstance(raw, Evaluation):
            passed = {"pass": True, "fail": False}.get(raw.label or "", raw.passed)
            return cls(raw, raw.metric, raw.status, passed, raw.evaluator.source)
        source = (raw.get("evaluator") or {}).get("source")
        named = None if source is None else str(source)
        return cls(raw, str(raw["metric"]), str(raw["status"]), _passed(raw), named)

    @property
    def name(self) -> tuple[str, str | None]:
        """What scores of one kind share: nobody else's are counted with spanscore's own."""
        return self.metric, self.source


@dataclass(slots=True)
class Joined:
    """Scores by what they are of: the id of an agent trace, the key of a session, or an evaluated
    span.
    """

    of_turn: defaultdict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))
    of_session: defaultdict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))
    strays: defaultdict[tuple[str, str], list[Scored]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @property
    def all(self) -> list[Scored]:
        """Every score."""
        groups = (self.of_turn, self.of_session, self.strays)
        return [x for group in groups for own in group.values() for x in own]


def join(traces: Sequence[AgentTrace], scores: Iterable[Score]) -> Joined:
    """Scores by their turns and sessions; those of turns that are not among `traces` by trace id
    and span id.

    Where several turns share a span and the score does not say of which one it is, each metric's
    first score is of the first turn, and so on, as they are written. What somebody else gave to any
    span of one turn is of that turn. Of several revisions the newest counts.
    """
    places = _Places(traces)
    found = Joined()
    for raw in newest(scores):
        scored = Scored.of(raw)
        scope, subject, session, target = _where(raw)
        if scope == "session":
            found.of_session[session].append(scored)
        elif (turn := places.turn_of(subject, target, scored)) is not None:
            found.of_turn[turn].append(scored)
        else:
            found.strays[target].append(scored)
    return found


class _Places:
    """Finds the turn that a score is of."""

    def __init__(self, traces: Sequence[AgentTrace]) -> None:
        self._known = {x.id for x in traces}
        self._of_target: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._of_trace: defaultdict[str, list[AgentTrace]] = defaultdict(list)
        self._seen: Counter[tuple[Any, ...]] = Counter()
        for trace in traces:
            self._of_target[trace.target.trace_id, trace.target.span_id].append(trace.id)
            for trace_id in trace.trace_ids:
                self._of_trace[trace_id].append(trace)

    def turn_of(self, subject: str, target: tuple[str, str], scored: Scored) -> str | None:
        """The id of the agent trace."""
        if subject in self._known:
            return subject
        if scored.source is not None:
            return self._with_span(*target)
        if turns := self._of_target.get(target):
            place = self._seen[target, scored.name]
            self._seen[target, scored.name] += 1
            return turns[min(place, len(turns) - 1)]
        return None

    def _with_span(self, trace_id: str, span_id: str) -> str | None:
        """The one turn of an OTel trace that has a span; the only one whichever span it is; else
        None.
        """
        turns = self._of_trace.get(trace_id, [])
        found = turns if len(turns) == 1 else [x for x in turns if span_id in spans_of(x)]
        return found[0].id if len(found) == 1 else None


def newest(scores: Iterable[Score]) -> list[Score]:
    """The scores without those that a later one takes the place of, in their order.

    That is one of a later revision; of what somebody else gave, the last that the same author gave.
    """
    items = list({id(x): x for x in scores}.values())
    if all(_rank(x) <= (1, 0) for x in items):
        return items
    latest: dict[tuple[Any, ...], tuple[int, int]] = {}
    for item in items:
        key = _identity(item)
        latest[key] = max(latest.get(key, (0, 0)), _rank(item))
    return [x for x in items if _rank(x) == latest[_identity(x)]]


def state(scores: Iterable[Scored]) -> str:
    """What a turn or session came to: it fails where one score does, and passes where one does and
    none fails.

    By what spanscore measured: what others say is shown beside it.
    """
    own = (x for x in scores if x.source is None)
    found = {
        FAIL if x.passed is False else PASS if x.passed else ERROR if x.status == "failed" else ""
        for x in own
    }
    return next((x for x in ORDER if x in found), UNSCORED)


def _where(raw: Score) -> tuple[str, str, str, tuple[str, str]]:
    """Scope, agent trace id ("" where it is not known), session key, and the evaluated span."""
    if isinstance(raw, Evaluation):
        session = raw.subject_id if raw.scope == "session" else ""
        return raw.scope, raw.subject_id, session, (raw.target.trace_id, raw.target.span_id)
    scope, subject, session = (str(raw[x] or "") for x in ("scope", "subject_id", "session_key"))
    return scope, subject, session, (str(raw["trace_id"]), str(raw["span_id"]))


def _identity(raw: Score) -> tuple[Any, ...]:
    if isinstance(raw, Evaluation):
        by = raw.evaluator
        return (*_where(raw), raw.metric, by.name, by.source, by.author)
    given = raw.get("evaluator") or {}
    return (*_where(raw), str(raw["metric"]), *(given.get(x) for x in ("name", "source", "author")))


def _rank(raw: Score) -> tuple[int, int]:
    """The revision; of what somebody else gave also the time."""
    if isinstance(raw, Evaluation):
        return raw.revision, raw.evaluated_at_ns if raw.is_external else 0
    is_external = (raw.get("evaluator") or {}).get("source") is not None
    return int(raw.get("revision") or 1), int(raw.get("evaluated_at_ns") or 0) if is_external else 0


def _passed(score: Mapping[str, Any]) -> bool | None:
    if score["status"] != "scored":
        return None
    if score.get("label") in {"pass", "fail"}:
        return bool(score["label"] == "pass")
    value, threshold = score.get("value"), score.get("threshold")
    if not isinstance(value, int | float) or not isinstance(threshold, int | float):
        return None
    return reaches(value, threshold)


def estimate_of(found: Estimate | None) -> dict[str, Any] | None:
    """An estimate as a page shows it: value, limits, n, and how they were made."""
    if found is None:
        return None
    given = found.to_json()
    facts = {x: given[x] for x in ("value", "low", "high", "n")}
    return facts | {x: given[x] for x in ("method", "level", "note") if given[x]}


def shown(found: Figure | Difference | Change) -> dict[str, Any]:
    """The fields of a figure, or of what differs, as a page shows them."""
    fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
    estimates = {k: estimate_of(x) for k, x in fields.items() if isinstance(x, Estimate)}
    return fields | estimates


def by_metric(scores: Iterable[Scored]) -> list[dict[str, Any]]:
    """For each metric its counts, mean and pass rate; those with a failing score first, what others
    gave last.

    Sessions are the units of the estimates: scores of one session are not independent.
    """
    groups: defaultdict[tuple[str, str | None], list[Scored]] = defaultdict(list)
    for scored in scores:
        groups[scored.name].append(scored)
    rows = [{**_row(metric, own), "source": source} for (metric, source), own in groups.items()]
    counts = ("failing", "errors", "scored")
    return sorted(rows, key=lambda x: (x["source"] is not None, *(x[y] == 0 for y in counts)))


def passing_turns(states: Sequence[tuple[str, str | None]]) -> Estimate | None:
    """The share of turns that pass among those with a verdict, each given with its session;
    sessions are the units.
    """
    decided = [(float(found == PASS), x) for found, x in states if found in {PASS, FAIL}]
    if not decided:
        return None
    clusters = [x or f"turn {place}" for place, (_, x) in enumerate(decided)]
    clustered = clusters if len(set(clusters)) < len(clusters) else None
    return mean([x for x, _ in decided], level=_LEVEL, clusters=clustered)


def _row(metric: str, own: Sequence[Scored]) -> dict[str, Any]:
    states = Counter(x.status for x in own)
    verdicts = [found for x in own if (found := _verdict(as_json(x.raw))) is not None]
    return {
        "metric": metric,
        "scored": states["scored"],
        "skipped": states["skipped"],
        "errors": states["failed"],
        "passing": sum(x.passed is True for x in own),
        "failing": sum(x.passed is False for x in own),
        "scale": list(verdicts[0].scale) if verdicts else None,
        "mean": estimate_of(_mean(verdicts)),
        "rate": estimate_of(_rate(verdicts)),
    }


def _mean(verdicts: Sequence[JudgedVerdict]) -> Estimate | None:
    if not verdicts:
        return None
    low = min(min(x.scale[0], x.value) for x in verdicts)
    high = max(max(x.scale[1], x.value) for x in verdicts)
    return estimated([x.value for x in verdicts], verdicts, _LEVEL, (low, high))


def _rate(verdicts: Sequence[JudgedVerdict]) -> Estimate | None:
    """The share that pass; where several judges scored, of all their verdicts together, which its
    note says.
    """
    decided = [x for x in verdicts if x.passed is not None]
    if not decided:
        return None
    found = estimated(passing(decided), decided, _LEVEL)
    judges = len({x.judge for x in decided})
    return found if judges == 1 else replace(found, note=f"of {judges} judges or prompts together")


def _verdict(score: Mapping[str, Any]) -> JudgedVerdict | None:
    """The verdict of a score; None where it has no value on a scale."""
    try:
        return JudgedVerdict.of_json(score)
    except (KeyError, TypeError, ValueError):
        return None
