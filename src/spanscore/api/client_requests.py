"""Requests made from keywords, for both clients."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, Required, TypedDict, get_args
from urllib.parse import quote

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from spanscore.api.v1 import analytics_service_pb2 as analytics_pb
from spanscore.api.v1 import monitor_service_pb2 as monitor_pb
from spanscore.api.v1 import run_service_pb2 as run_pb
from spanscore.api.v1 import score_pb2
from spanscore.api.v1 import score_service_pb2 as score_pb
from spanscore.api.v1 import trace_service_pb2 as trace_pb
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, Scope
from spanscore.errors import nearest

ScopeName = Literal["trace", "session"]
_SCOPES: Final[Mapping[str, Scope.ValueType]] = {"trace": SCOPE_TRACE, "session": SCOPE_SESSION}


def fields(wanted: Mapping[str, Any], known: type, what: str, **renamed: str) -> dict[str, Any]:
    """The keywords as fields of a message; those in `renamed` have another name there, and those
    that are None are left out.

    Raises TypeError for a keyword that `known`, a TypedDict, has not.
    """
    for name in wanted:
        if name not in known.__annotations__:
            raise TypeError(
                f"{what} has no {name!r}; {nearest(name, sorted(known.__annotations__))}"
            )
    return {renamed.get(name, name): value for name, value in wanted.items() if value is not None}


def named(collection: str, item: str) -> str:
    """The name of a resource that is given by its name or its id.

    >>> named("monitors", "a1"), named("monitors", "monitors/a1")
    ('monitors/a1', 'monitors/a1')
    """
    return item if item.startswith(f"{collection}/") else f"{collection}/{quote(item, safe='')}"


def one_of(keyword: str, given: object, known: Any) -> None:
    """Check a keyword whose values are those of `known`, a Literal. Raises ValueError.

    >>> one_of("scope", "sessions", ScopeName)
    Traceback (most recent call last):
    ValueError: scope='sessions': give 'trace' or 'session'
    """
    values = get_args(known)
    if given not in values:
        *others, last = map(repr, values)
        raise ValueError(f"{keyword}={given!r}: give {', '.join(others)} or {last}")


def scope_of(name: ScopeName) -> Scope.ValueType:
    """The scope of this name. Raises ValueError where there is none."""
    one_of("scope", name, ScopeName)
    return _SCOPES[name]


class RunOptions(TypedDict, total=False):
    """What a run is asked to do; what is left out is as the server has it."""

    name: str
    """For people; two runs may have the same."""

    sessions: bool
    """Whether sessions are evaluated, and not traces."""

    filter: str
    """Only what meets this filter (AIP-160), as ListTraces has it, or ListSessions with
    `sessions`.
    """

    service: str
    """Only of this service.name."""

    agent: str
    """Only of this agent."""

    environment: str
    """Only of this deployment environment."""

    user: str
    """Only of this user."""

    resource: Mapping[str, str]
    """Only with these attributes of the resource."""

    started_after_ns: int
    """Only what started then or later, in nanoseconds since the Unix epoch."""

    started_before_ns: int
    """Only what started earlier than that."""

    trace_ids: Sequence[str]
    """These traces, by the ids of agent traces or of OpenTelemetry traces."""

    session_ids: Sequence[str]
    """These sessions; of a run of traces, the traces of these sessions."""

    source: str
    """The traces of this source of the server, in place of those that it has stored."""

    share: float
    """The chance of each to be drawn."""

    count: int
    """How many are drawn, in place of a share."""

    seed: int
    """Another seed draws others."""

    metrics: Sequence[str]
    """The metrics; without them the configured ones."""

    model: str
    """The model that judges all of them."""

    thresholds: Mapping[str, float]
    """By metric the score from which on its label is "pass"."""

    signal_weights: Mapping[str, float]
    """How much the traces' metrics count in the session metrics."""

    options: Mapping[str, Mapping[str, Any]]
    """By metric the options that it has in place of the configured ones, as JSON values."""

    max_usd: float
    """What the run may spend on its judge in USD."""

    max_tokens: int
    """What the run may spend on its judge in tokens, of input and output together."""

    export: bool
    """Whether the scores are exported."""


RunStateName = Literal["pending", "running", "paused", "succeeded", "failed", "cancelled"]
ItemStateName = Literal["pending", "done", "failed", "gone"]

_CONDITIONS = (
    "service",
    "agent",
    "environment",
    "user",
    "resource",
    "started_after_ns",
    "started_before_ns",
)


def run_of(wanted: RunOptions) -> run_pb.Run:
    """The run that is asked for; an option that is None is as if it were left out.

    Raises TypeError or ValueError where a field cannot have such a value.
    """
    given = fields(wanted, RunOptions, "a run")
    conditions = _part(given, *_CONDITIONS)
    sampling = _part(given, "share", "count", "seed")
    budget = _part(given, "max_usd", "max_tokens")
    return run_pb.Run(
        display_name=given.get("name", ""),
        target=run_pb.RunTarget(
            scope=SCOPE_SESSION if given.get("sessions") else SCOPE_TRACE,
            where=given.get("filter", ""),
            source=given.get("source", ""),
            filter=run_pb.TraceFilter(**conditions) if conditions else None,
            sampling=run_pb.RunSampling(**sampling) if sampling else None,
            **_part(given, "trace_ids", "session_ids"),
        ),
        measure=_measure(given),
        budget=run_pb.RunBudget(**budget) if budget else None,
        export=given.get("export", False),
    )


def _measure(given: Mapping[str, Any]) -> run_pb.RunMeasure:
    found = run_pb.RunMeasure(**_part(given, "metrics", "model", "thresholds", "signal_weights"))
    for metric, options in given.get("options", {}).items():
        json_format.Parse(json.dumps(options), found.options[metric])
    return found


def _part(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def run_name(run: str) -> str:
    """The name of a run that is given by its name or its id.

    >>> run_name("a1"), run_name("runs/a1")
    ('runs/a1', 'runs/a1')
    """
    return run if run.startswith("runs/") else f"runs/{run}"


def list_runs_request(states: Sequence[RunStateName], order_by: str) -> run_pb.ListRunsRequest:
    """Asks for the runs in some states, without any all, in an order.

    Raises ValueError where there is no such state.
    """
    for state in states:
        one_of("state", state, RunStateName)
    wanted = [run_pb.RunState.Value(f"RUN_STATE_{x.upper()}") for x in states]
    return run_pb.ListRunsRequest(states=wanted, order_by=order_by)


def list_run_items_request(run: str, state: ItemStateName) -> run_pb.ListRunItemsRequest:
    """Asks for the items of a run in a state. Raises ValueError where there is no such state."""
    one_of("state", state, ItemStateName)
    return run_pb.ListRunItemsRequest(
        parent=run_name(run),
        state=run_pb.RunItemState.Value(f"RUN_ITEM_STATE_{state.upper()}"),
    )


def retry_run_request(
    run: str, max_usd: float | None, max_tokens: int | None
) -> run_pb.RetryRunRequest:
    """Asks for what failed of a run to be evaluated again, with another budget where one is
    given.
    """
    has_budget = max_usd is not None or max_tokens is not None
    budget = run_pb.RunBudget(max_usd=max_usd, max_tokens=max_tokens) if has_budget else None
    return run_pb.RetryRunRequest(name=run_name(run), budget=budget)


UnitName = Literal["hour", "day", "week", "month", "quarter", "year"]
_SELECTION: Final = ("filter", "start_ns", "end_ns", "run")


class Selection(TypedDict, total=False):
    """Which scores a question is about; without conditions, all that were made as traces came and
    that others gave.
    """

    filter: str
    """Conditions (AIP-160) such as `metric = faithfulness AND service = "shop"`, as ScoreSelection
    has them.
    """

    start_ns: int
    """Only what was measured, or given, then or later, in nanoseconds since the Unix epoch."""

    end_ns: int
    """Only what was measured, or given, earlier than that."""

    run: str
    """The scores of this evaluation run: its id or `runs/ID`."""


class Summary(Selection, total=False):
    """Which scores are summarized, and how."""

    group_by: Sequence[str]
    """What figures are kept apart by, such as "service" or "model"."""

    level: float
    """How often intervals are to contain the true figure."""


class Trend(Summary, total=False):
    """Which scores are followed over time, and how."""

    unit: UnitName
    """How long the times are; without it days."""

    time_zone: str
    """By whose clocks days begin, such as Europe/Berlin; without it UTC."""


class Distribution(Selection, total=False):
    """Of which scores the spread is asked for, and how."""

    level: float
    """How often intervals are to contain the true figure."""

    bins: int
    """Into how many bins the scale is parted."""

    quantiles: Sequence[float]
    """Which quantiles, such as 0.9."""


def summary_request(wanted: Summary) -> analytics_pb.SummarizeScoresRequest:
    """Asks for summaries. Raises TypeError for an option that there is not."""
    return analytics_pb.SummarizeScoresRequest(**_selected(fields(wanted, Summary, "a summary")))


def trend_request(wanted: Trend) -> analytics_pb.QueryScoreTrendRequest:
    """Asks for trends.

    Raises TypeError for an option that there is not, ValueError for a unit that there is not.
    """
    found = _selected(fields(wanted, Trend, "a trend"))
    if "unit" in found:
        one_of("unit", found["unit"], UnitName)
        found["unit"] = analytics_pb.TimeUnit.Value(f"TIME_UNIT_{found['unit'].upper()}")
    return analytics_pb.QueryScoreTrendRequest(**found)


def distribution_request(
    wanted: Distribution,
) -> analytics_pb.QueryScoreDistributionRequest:
    """Asks for distributions. Raises TypeError for an option that there is not."""
    return analytics_pb.QueryScoreDistributionRequest(
        **_selected(fields(wanted, Distribution, "a distribution"))
    )


def compare_request(
    before: Selection, after: Selection, group_by: Sequence[str], level: float | None
) -> analytics_pb.CompareScoresRequest:
    """Asks how two selections differ. Raises TypeError for a condition that there is not."""
    return analytics_pb.CompareScoresRequest(
        before=_selection(before), after=_selection(after), group_by=group_by, level=level
    )


def rank_request(wanted: Selection) -> analytics_pb.RankSessionsRequest:
    """Asks for the worst sessions. Raises TypeError for a condition that there is not."""
    return analytics_pb.RankSessionsRequest(selection=_selection(wanted))


def history_request(
    metric: str, trace_id: str | None, session_id: str | None
) -> analytics_pb.ListScoreHistoryRequest:
    """Asks for all that was said of one trace or session.

    Raises TypeError where both are given, or none.
    """
    if (trace_id is None) == (session_id is None):
        raise TypeError("give trace_id or session_id, one of the two")
    if trace_id is not None:
        return analytics_pb.ListScoreHistoryRequest(metric=metric, trace_id=trace_id)
    return analytics_pb.ListScoreHistoryRequest(metric=metric, session_id=session_id or "")


def _selection(wanted: Selection) -> analytics_pb.ScoreSelection:
    found: analytics_pb.ScoreSelection = _selected(
        fields(wanted, Selection, "a selection of scores")
    )["selection"]
    return found


def _selected(found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, of which those that select scores are a message of their own."""
    selection = {name: found[name] for name in _SELECTION if name in found}
    if "run" in selection:
        selection["run"] = named("runs", selection["run"])
    others = {name: value for name, value in found.items() if name not in _SELECTION}
    return {"selection": analytics_pb.ScoreSelection(**selection), **others}


class TraceConditions(TypedDict, total=False):
    """Which agent traces are listed; without any, all."""

    filter: str
    """Only what meets this filter (AIP-160), as ListTraces has it."""

    order_by: str
    """In which order, as ListTraces has it."""

    session_id: str
    """Only of the sessions with this id or key."""

    service: str
    """Only of this service.name."""

    failing: bool
    """Only those of which a score does not pass, or could not be measured."""

    since_ns: int
    """Only what was stored then or later, in nanoseconds since the Unix epoch."""

    page_size: int
    """How many are asked for at once, at most 1000."""


class SessionConditions(TypedDict, total=False):
    """Which sessions are listed; without any, all."""

    filter: str
    """Only what meets this filter (AIP-160), as ListSessions has it."""

    order_by: str
    """In which order, as ListSessions has it."""

    page_size: int
    """How many are asked for at once, at most 1000."""


class TraceEvaluation(TypedDict, total=False):
    """How a trace is evaluated again; what is left out is as configured."""

    metrics: Sequence[str]
    """The metrics; without them the configured ones."""

    model: str
    """The model that judges."""

    threshold: float
    """The score from which on the label is "pass"."""

    request_id: str
    """With that of an earlier call its answer is returned, and nothing is evaluated."""


class SessionEvaluation(TraceEvaluation, total=False):
    """How a session is evaluated again; what is left out is as configured."""

    signal_weights: Mapping[str, float]
    """How much the traces' metrics count in the session metrics."""


def traces_request(wanted: TraceConditions) -> trace_pb.ListTracesRequest:
    """Asks for agent traces. Raises TypeError for a condition that there is not."""
    return trace_pb.ListTracesRequest(
        **fields(wanted, TraceConditions, "a list of traces", service="service_name")
    )


def sessions_request(wanted: SessionConditions) -> trace_pb.ListSessionsRequest:
    """Asks for sessions. Raises TypeError for a condition that there is not."""
    return trace_pb.ListSessionsRequest(**fields(wanted, SessionConditions, "a list of sessions"))


def evaluate_trace_request(trace: str, wanted: TraceEvaluation) -> trace_pb.EvaluateTraceRequest:
    """Asks for a trace to be evaluated again. Raises TypeError for an option that there is not."""
    found = fields(wanted, TraceEvaluation, "the evaluation of a trace")
    return trace_pb.EvaluateTraceRequest(name=named("traces", trace), **found)


def evaluate_session_request(
    session: str, wanted: SessionEvaluation
) -> trace_pb.EvaluateSessionRequest:
    """Asks for a session to be evaluated again.

    Raises TypeError for an option that there is not.
    """
    found = fields(wanted, SessionEvaluation, "the evaluation of a session")
    return trace_pb.EvaluateSessionRequest(name=named("sessions", session), **found)


OverlapName = Literal["skip", "queue", "cancel_previous"]


class MonitorOptions(TypedDict, total=False):
    """What a monitor does; what is left out is as the server has it.

    It watches a metric, starts runs, or both.
    """

    name: str
    """For people; two monitors may have the same."""

    metric: str
    """The metric that is watched; without it none is."""

    scope: ScopeName
    """Whether scores of traces are watched, or of sessions."""

    of: Literal["mean", "pass_rate"]
    """What is watched of the scores."""

    service: str
    """Only scores of this service.name."""

    agent: str
    """Only scores of this agent."""

    floor: float
    """Alert when the mean, on the scale 0 to 1, is below this."""

    reference_sessions: int
    """Alert when the mean is below that of so many first sessions, in place of `floor`."""

    tolerance: float
    """How much lower than that of the first sessions the mean may be, on the scale 0 to 1."""

    alpha: float
    """The chance that this monitor ever raises a false alarm."""

    heaviest: float
    """With how many turns a session counts at most."""

    settle_after_s: float
    """For how many seconds a session has had no new score when it is counted."""

    labels: Mapping[str, str]
    """Labels of its alerts."""

    every_s: float
    """It ticks every so many seconds."""

    cron: str
    """It ticks by this cron expression, in place of `every_s`."""

    time_zone: str
    """The time zone of `cron`, such as Europe/Berlin."""

    jitter_s: float
    """Each tick is later by up to so many seconds."""

    catch_up: bool
    """Whether one tick makes up for those that were missed while the server was down."""

    run: RunOptions
    """The run that each tick starts, by the keywords of `runs.create`; without it none is
    started.
    """

    look_back_s: float
    """Its runs are about what was stored in so many seconds before, in place of what is new since
    the run before.
    """

    everything: bool
    """Its runs are about all of the target."""

    overlap: OverlapName
    """What happens at a tick while the run of an earlier one is still going."""

    only_if_changed: bool
    """Whether a tick is skipped where nothing has changed since the run before."""


_WATCH: Final = (
    "metric",
    "of",
    "service",
    "agent",
    "floor",
    "alpha",
    "heaviest",
    "settle_after_s",
    "labels",
)
_SCHEDULE: Final = ("every_s", "cron", "time_zone", "jitter_s", "catch_up")
_REFERENCE: Final = {"reference_sessions": "sessions", "tolerance": "tolerance"}
_RUN: Final = ("look_back_s", "everything", "only_if_changed")
_TAKES_PLACE_OF: Final = {
    "watch.floor": "watch.reference",
    "watch.reference.sessions": "watch.floor",
    "schedule.every_s": "schedule.cron",
    "schedule.cron": "schedule.every_s",
    "run.look_back_s": "run.everything",
    "run.everything": "run.look_back_s",
}
"""Where an update sets a field, it clears the one that a monitor cannot have beside it."""


def create_monitor_request(
    wanted: MonitorOptions, monitor_id: str, request_id: str
) -> monitor_pb.CreateMonitorRequest:
    """Asks for a monitor. Raises TypeError for an option that there is not."""
    return monitor_pb.CreateMonitorRequest(
        monitor=_monitor(wanted), monitor_id=monitor_id, request_id=request_id
    )


def update_monitor_request(
    monitor: str, wanted: MonitorOptions, etag: str
) -> monitor_pb.UpdateMonitorRequest:
    """Asks for a monitor to be changed, in what is given.

    Raises TypeError for an option that there is not.
    """
    changed = _monitor(wanted)
    changed.name, changed.etag = named("monitors", monitor), etag
    mask = with_cleared(_paths(wanted))
    return monitor_pb.UpdateMonitorRequest(monitor=changed, update_mask=mask)


def with_cleared(paths: Iterable[str]) -> FieldMask:
    """The mask of an update that sets these fields, and clears those that they take the place
    of.
    """
    given = set(paths)
    cleared = {_TAKES_PLACE_OF[x] for x in given if x in _TAKES_PLACE_OF}
    return FieldMask(paths=sorted(given | cleared))


def _monitor(wanted: MonitorOptions) -> monitor_pb.Monitor:
    found = fields(wanted, MonitorOptions, "a monitor")
    watch = _part(found, *_WATCH)
    if "scope" in found:
        watch["scope"] = scope_of(found["scope"])
    reference = {field: found[name] for name, field in _REFERENCE.items() if name in found}
    if reference:
        watch["reference"] = monitor_pb.MonitorReference(**reference)
    schedule = _part(found, *_SCHEDULE)
    return monitor_pb.Monitor(
        display_name=found.get("name", ""),
        watch=monitor_pb.MonitorWatch(**watch) if watch else None,
        schedule=monitor_pb.MonitorSchedule(**schedule) if schedule else None,
        run=_run(found),
    )


def _run(found: Mapping[str, Any]) -> monitor_pb.MonitorRun | None:
    options = _part(found, *_RUN)
    if "overlap" in found:
        one_of("overlap", found["overlap"], OverlapName)
        options["overlap"] = monitor_pb.MonitorOverlap.Value(
            f"MONITOR_OVERLAP_{found['overlap'].upper()}"
        )
    if "run" in found:
        run = run_of(found["run"])
        budget = {"budget": run.budget} if run.HasField("budget") else {}
        options |= {"target": run.target, "measure": run.measure, "export": run.export, **budget}
    return monitor_pb.MonitorRun(**options) if options else None


def _paths(wanted: MonitorOptions) -> Iterator[str]:
    """The fields that the options are of."""
    for name in wanted:
        if name == "name":
            yield "display_name"
        elif name == "run":
            yield from ("run.target", "run.measure", "run.budget", "run.export")
        elif name in _REFERENCE:
            yield f"watch.reference.{_REFERENCE[name]}"
        else:
            part = (
                "watch"
                if name in {*_WATCH, "scope"}
                else "schedule"
                if name in _SCHEDULE
                else "run"
            )
            yield f"{part}.{name}"


_BATCH: Final = 1000
"""BatchCreateScores takes no more."""


class ScoreConditions(TypedDict, total=False):
    """Which scores are listed; without any, all that were made as traces came and that others
    gave.
    """

    filter: str
    """Only what meets this filter (AIP-160), as ListScores has it."""

    order_by: str
    """In which order, as ListScores has it."""

    trace_id: str
    """Only of this agent trace or OpenTelemetry trace."""

    session_id: str
    """Only of the sessions with this id or key."""

    run: str
    """What this evaluation run made: its id or `runs/ID`."""

    metric: str
    """Only of this metric, or of a family of them, such as "rubric"."""

    source: str
    """Only from "spanscore", "human", "programmatic", or another evaluator's name."""

    service: str
    """Only of this service.name."""

    failing: bool
    """Only what does not pass, and measurements that went wrong."""

    skipped: bool
    """Also what was skipped."""

    since_ns: int
    """Only what was stored then or later, in nanoseconds since the Unix epoch."""

    page_size: int
    """How many are asked for at once, at most 1000."""


class ScoreContent(TypedDict, total=False):
    """What somebody says of a trace or session: a value, a label, or both."""

    value: float
    """On the scale."""

    label: str
    """Such as "pass" or "fail"."""

    scale: tuple[float, float]
    """The lowest and the highest value; without it that of the metric, where that is known."""

    reason: str
    """A comment."""

    metadata: Mapping[str, Any]
    """JSON values by name."""

    evaluated_at_ns: int
    """When it was given, in nanoseconds since the Unix epoch; without it now."""


class NewScore(ScoreContent, total=False):
    """A score that somebody gives to a trace, one of its spans, or a session."""

    metric: Required[str]
    """What is scored, such as `task_completion` or a name of your own."""

    trace_id: str
    """Of an agent trace or of an OpenTelemetry trace."""

    span_id: str
    """One of its spans."""

    session_id: str
    """A session's id or key."""

    scope: ScopeName
    """Which of the two is scored where trace and session are given."""

    source: str
    """Who gives it: "human", which holds without it, "programmatic", or the name of another
    evaluator.
    """

    author: str
    """Who of these, such as a user's name."""


def list_scores_request(wanted: ScoreConditions) -> score_pb.ListScoresRequest:
    """Asks for scores. Raises TypeError for a condition that there is not."""
    found = fields(wanted, ScoreConditions, "a list of scores", service="service_name")
    if "run" in found:
        found["run"] = named("runs", found["run"])
    return score_pb.ListScoresRequest(**found)


def create_score_request(wanted: NewScore, request_id: str = "") -> score_pb.CreateScoreRequest:
    """Asks for a score to be kept. Raises TypeError for a field that there is not."""
    found = fields(wanted, NewScore, "a score")
    by = {"source": found.pop("source", "human"), "author": found.pop("author", None)}
    if "scope" in found:
        found["scope"] = scope_of(found["scope"])
    score = score_pb2.Score(evaluator=score_pb2.Evaluator(**by), **_content(found))
    return score_pb.CreateScoreRequest(score=score, request_id=request_id)


def batches(scores: Iterable[NewScore]) -> Iterator[score_pb.BatchCreateScoresRequest]:
    """Asks for scores to be kept, in as many requests as it takes."""
    rest = iter(scores)
    while some := list(islice(rest, _BATCH)):
        yield score_pb.BatchCreateScoresRequest(requests=map(create_score_request, some))


def update_score_request(
    score: str, wanted: ScoreContent, etag: str
) -> score_pb.UpdateScoreRequest:
    """Asks for a score to be changed, in the fields that are given.

    Raises TypeError for one that there is not.
    """
    content = _content(fields(wanted, ScoreContent, "the content of a score"))
    paths = ("metadata_json" if name == "metadata" else name for name in wanted)
    return score_pb.UpdateScoreRequest(
        score=score_pb2.Score(name=named("scores", score), etag=etag, **content),
        update_mask=FieldMask(paths=paths),
    )


def delete_score_request(score: str, etag: str, missing_ok: bool) -> score_pb.DeleteScoreRequest:
    """Asks for a score to be deleted."""
    return score_pb.DeleteScoreRequest(
        name=named("scores", score), etag=etag, allow_missing=missing_ok
    )


def _content(found: dict[str, Any]) -> dict[str, Any]:
    """The fields with scale and metadata as the message has them."""
    if "metadata" in found:
        found["metadata_json"] = json.dumps(found.pop("metadata"))
    if "scale" in found:
        low, high = found["scale"]
        found["scale"] = score_pb2.Scale(low=low, high=high)
    return found
