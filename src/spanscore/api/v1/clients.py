"""Clients of the services: made from proto/ by `make proto`, never edited."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from spanscore.api.keywords import PLACES, named, pages, pages_async, request
from spanscore.api.v1 import agent_trace_pb2 as agent_trace_pb
from spanscore.api.v1 import analytics_service_pb2 as analytics_service_pb
from spanscore.api.v1 import monitor_service_pb2 as monitor_service_pb
from spanscore.api.v1 import run_service_pb2 as run_service_pb
from spanscore.api.v1 import score_pb2 as score_pb
from spanscore.api.v1 import score_service_pb2 as score_service_pb
from spanscore.api.v1 import trace_service_pb2 as trace_service_pb
from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceStub
from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceStub
from spanscore.api.v1.run_service_pb2_grpc import RunServiceStub
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceStub

if TYPE_CHECKING:
    from spanscore.api.v1.analytics_service_pb2_grpc import AnalyticsServiceAsyncStub
    from spanscore.api.v1.monitor_service_pb2_grpc import MonitorServiceAsyncStub
    from spanscore.api.v1.run_service_pb2_grpc import RunServiceAsyncStub
    from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceAsyncStub
    from spanscore.api.v1.trace_service_pb2_grpc import TraceServiceAsyncStub
else:  # at run time one stub serves both
    AnalyticsServiceAsyncStub = AnalyticsServiceStub
    MonitorServiceAsyncStub = MonitorServiceStub
    RunServiceAsyncStub = RunServiceStub
    ScoreServiceAsyncStub = ScoreServiceStub
    TraceServiceAsyncStub = TraceServiceStub


class ScoreSelectionFields(TypedDict, total=False):
    """What a ScoreSelection has."""

    filter: "str | None"
    """Conditions (AIP-160) on how scores were made: metric, scope, source ("spanscore" for what
    spanscore measured), evaluator, evaluator_version, evaluator_kind, judge_model, rule; and on
    what was scored: service, agent, environment, version (service.version), model (the first
    that the trace called), outcome (how the turn ended), tool (`tool:search`: one that the
    trace called); and on its tags (`tags:beta`). OR and NOT join conditions of one of the three
    kinds.
    """

    start_ns: "int | None"
    """Only scores of what happened then or later, in nanoseconds since the Unix epoch: of turns
    that began then, and of sessions whose last turn did. A score that somebody gave to what is
    not stored happened when it was given.
    """

    end_ns: "int | None"
    """Only scores of what happened earlier than that."""

    run: "str | None"
    """The scores of this evaluation run, runs/{run}. Not set: those that were made as traces came,
    and what others gave. Scores may stay when their run is deleted, so a run that is not there
    is no error.
    """


class SummarizeScoresFields(ScoreSelectionFields, total=False):
    """The keywords of `Analytics.summarize`."""

    selection: "ScoreSelectionFields | None"

    group_by: "Sequence[str] | None"
    """What figures are kept apart by, beside metric, scope and source: service, agent,
    environment, version, model, outcome, tool, evaluator, evaluator_version, evaluator_kind,
    judge_model, rule. By tool a score counts for each tool that its trace called.
    """

    level: "float | None"
    """How often intervals are to contain the true figure, between 0 and 1. Not set: 0.95."""


class QueryScoreTrendFields(ScoreSelectionFields, total=False):
    """The keywords of `Analytics.trend`."""

    selection: "ScoreSelectionFields | None"

    group_by: "Sequence[str] | None"
    """As of SummarizeScoresRequest."""

    level: "float | None"

    unit: "Literal['hour', 'day', 'week', 'month', 'quarter', 'year'] | None"
    """Not set: days."""

    time_zone: "str | None"
    """The time zone by whose clocks days and longer times begin, such as Europe/Berlin. Not set:
    UTC.
    """


class QueryScoreDistributionFields(ScoreSelectionFields, total=False):
    """The keywords of `Analytics.distribution`."""

    selection: "ScoreSelectionFields | None"
    """At most 50 metrics."""

    level: "float | None"

    bins: "int | None"
    """Into how many bins of equal width the scale is parted, at most 100. Not set: 10."""

    quantiles: "Sequence[float] | None"
    """Which quantiles, such as 0.9, at most 20. Not set: 0.1, 0.25, 0.5, 0.75 and 0.9."""


class CompareScoresFields(TypedDict, total=False):
    """The keywords of `Analytics.compare`."""

    before: "ScoreSelectionFields | None"

    after: "ScoreSelectionFields | None"

    group_by: "Sequence[str] | None"
    """As of SummarizeScoresRequest."""

    level: "float | None"


class RankSessionsFields(ScoreSelectionFields, total=False):
    """The keywords of `Analytics.worst_sessions`."""

    selection: "ScoreSelectionFields | None"

    page_size: "int | None"
    """At most 1,000. Not set: 50."""


class ListScoreHistoryFields(TypedDict, total=False):
    """The keywords of `Analytics.history`."""

    metric: "str | None"

    trace_id: "str | None"
    """The id of an agent trace, or of an OpenTelemetry trace."""

    session_id: "str | None"
    """A session's id or key."""


class MonitorReferenceFields(TypedDict, total=False):
    """What a MonitorReference has."""

    sessions: "int | None"
    """How many sessions. The more there are, the smaller the drops that are found. At least 20, at
    most 5000. Not set: 400.
    """

    tolerance: "float | None"
    """How much lower the mean may be without an alert, on the scale 0..1. At least 0, below 1."""


class MonitorWatchFields(MonitorReferenceFields, total=False):
    """What a MonitorWatch has."""

    metric: "str | None"
    """The metric whose scores are watched."""

    scope: "Literal['trace', 'session'] | None"
    """Whether scores of traces or of sessions. Not set: trace."""

    of: "str | None"
    """What is watched: the mean score, or the share of the label `pass`. Not set: mean."""

    service: "str | None"
    """Only scores of this `service.name`."""

    agent: "str | None"
    """Only scores of the agent of this name."""

    floor: "float | None"
    """Alert when the mean, on the scale 0..1, is below this. Not set: below that of `reference`.
    At least 0, at most 1.
    """

    reference: "MonitorReferenceFields | None"
    """Alert when the mean is below that of the first sessions. Where neither is set, that of 400
    sessions.
    """

    alpha: "float | None"
    """The chance that this monitor ever raises a false alarm, however often it looks and however
    long it runs. At least 1e-12, below 1. Not set: 0.01.
    """

    heaviest: "float | None"
    """With how many turns, each by the inverse of the chance with which it was drawn, a session
    counts at most. Not set: three times the mean of the first 30 sessions, which are used for
    nothing else. Above 0, at most 1000000000000.
    """

    settle_after_s: "float | None"
    """For how long a session has had no new score when it is counted; after a day it is counted
    anyway. A session counts once: turns that come later are left out. In seconds. At least 0,
    at most 34560000. Not set: 1800.
    """

    labels: "Mapping[str, str] | None"
    """Labels of the alert beside its own, such as `severity: page`."""


class MonitorScheduleFields(TypedDict, total=False):
    """What a MonitorSchedule has."""

    every_s: "float | None"
    """How often to look, at multiples of it since the Unix epoch. Where `cron` is not set either,
    each minute. In seconds. At least 10, at most 34560000.
    """

    cron: "str | None"
    """When to look, as minute, hour, day of the month, month and day of the week, or with seconds
    before these.
    """

    time_zone: "str | None"
    """The time zone of `cron`, such as Europe/Berlin. Not set: UTC."""

    jitter_s: "float | None"
    """Each look is later by up to this, always as much for the same monitor, so that not all look
    at once. In seconds. At least 0, at most 34560000.
    """

    catch_up: "bool | None"
    """Whether to look once at the start where looks were missed while the server was down. Not
    set: True.
    """


class TraceFilterFields(TypedDict, total=False):
    """What a TraceFilter has."""

    service: "str | None"
    """`service.name` of the trace's resource."""

    agent: "str | None"
    """The agent's name."""

    environment: "str | None"
    """`deployment.environment.name` of the trace's resource, or its former name
    `deployment.environment`.
    """

    user: "str | None"
    """The user's id."""

    resource: "Mapping[str, str] | None"
    """Attributes of the trace's resource with the values that they must have, compared as text:
    `true`, `3`.
    """

    started_after_ns: "int | None"
    """Only traces that started then or later, in ns since the Unix epoch. At least 0."""

    started_before_ns: "int | None"
    """Only traces that started earlier than that, in ns since the Unix epoch. At least 0."""

    has_error: "bool | None"
    """Whether a tool call of the trace failed."""

    min_duration_s: "float | None"
    """How long the trace took at least, in seconds. At least 0."""

    min_tokens: "int | None"
    """Input and output tokens together at least; a trace that records none is left out. At least
    0.
    """


class RunSamplingFields(TypedDict, total=False):
    """What a RunSampling has."""

    share: "float | None"
    """The chance of each to be drawn. Not set: 1. Above 0, at most 1."""

    count: "int | None"
    """How many are drawn; all, where there are fewer. At least 1, at most 1000000."""

    seed: "int | None"
    """Another seed draws others. At least 0."""


class RunTargetFields(TraceFilterFields, total=False):
    """What a RunTarget has."""

    scope: "Literal['trace', 'session'] | None"
    """Whether traces are evaluated, or sessions. Not set: trace."""

    filter: "TraceFilterFields | None"
    """Which of all that is stored; neither a filter nor ids: everything."""

    trace_ids: "Sequence[str] | None"
    """Ids of agent traces or of OpenTelemetry traces; one of the latter stands for each agent
    trace in it. Lists of runs leave the ids out.
    """

    session_ids: "Sequence[str] | None"
    """Ids or keys of sessions; where traces are evaluated, they stand for the traces of these
    sessions. Lists of runs leave them out.
    """

    sampling: "RunSamplingFields | None"
    """Which share of them."""

    source: "str | None"
    """The name of a source in the server's configuration (`evaluation.runs.sources`), from which
    the traces are read and stored before they are evaluated; not set: those that are stored.
    With a source, `trace_ids` are ids of OpenTelemetry traces, and `session_ids` cannot be
    given.
    """

    where: "str | None"
    """A filter (AIP-160) as `ListTraces` takes it, or `ListSessions` where sessions are evaluated:
    also over the scores that they got as they came, such as `label.faithfulness = fail`. It
    holds beside `filter`.
    """

    share: "float | None"
    """The chance of each to be drawn. Not set: 1. Above 0, at most 1."""

    count: "int | None"
    """How many are drawn; all, where there are fewer. At least 1, at most 1000000."""

    seed: "int | None"
    """Another seed draws others. At least 0."""


class RunMeasureFields(TypedDict, total=False):
    """What a RunMeasure has."""

    metrics: "Sequence[str] | None"
    """Names of metrics; empty: the configured ones that run with what is evaluated."""

    model: "str | None"
    """The model that judges all of them."""

    thresholds: "Mapping[str, float] | None"
    """By metric the score from which on its label is `pass`; a threshold never changes a score."""

    signal_weights: "Mapping[str, float] | None"
    """How much the traces' metrics count in the session metrics."""

    options: "Mapping[str, Mapping[str, Any]] | None"
    """By metric the options that it has in place of the configured ones."""


class RunBudgetFields(TypedDict, total=False):
    """What a RunBudget has."""

    max_tokens: "int | None"
    """Input and output tokens together; not set: no limit. At least 1."""

    max_usd: "float | None"
    """USD; not set: no limit. A model whose price is not known cannot be asked under this limit.
    Above 0.
    """


class MonitorRunFields(RunTargetFields, total=False):
    """What a MonitorRun has."""

    target: "RunTargetFields | None"
    """Which stored traces or sessions; at most 1000 ids."""

    measure: "RunMeasureFields | None"
    """By what they are evaluated."""

    budget: "RunBudgetFields | None"
    """What each of the runs may spend."""

    export: "bool | None"
    """Whether the scores are exported."""

    look_back_s: "float | None"
    """Only traces that were stored or changed in so much time before the run, or of a source
    started. Not set: since the run before; in the first, since the monitor was created. A
    target of ids always means all of these. A source needs it, or `everything`. In seconds. At
    least 1, at most 345600000.
    """

    everything: "bool | None"
    """All traces of the target, in place of those that were stored since the run before."""

    overlap: "Literal['skip', 'queue', 'cancel_previous'] | None"
    """What happens at a tick while the run of an earlier one is still going: it is skipped, waits,
    or cancels that run. Not set: skip.
    """

    only_if_changed: "bool | None"
    """Whether a tick is skipped where since the run before nothing was stored or changed in the
    target, what it is measured by is the same, judge and configuration included, and that run
    succeeded.
    """

    metrics: "Sequence[str] | None"
    """Names of metrics; empty: the configured ones that run with what is evaluated."""

    model: "str | None"
    """The model that judges all of them."""

    thresholds: "Mapping[str, float] | None"
    """By metric the score from which on its label is `pass`; a threshold never changes a score."""

    signal_weights: "Mapping[str, float] | None"
    """How much the traces' metrics count in the session metrics."""

    options: "Mapping[str, Mapping[str, Any]] | None"
    """By metric the options that it has in place of the configured ones."""

    max_tokens: "int | None"
    """Input and output tokens together; not set: no limit. At least 1."""

    max_usd: "float | None"
    """USD; not set: no limit. A model whose price is not known cannot be asked under this limit.
    Above 0.
    """


class MonitorFields(MonitorWatchFields, total=False):
    """What a Monitor has."""

    display_name: "str | None"
    """For people; two monitors may have the same."""

    watch: "MonitorWatchFields | None"
    """The metric of which an alert is raised when it falls: where there are runs, in their scores."""

    schedule: "MonitorScheduleFields | None"
    """When it ticks."""

    run: "MonitorRunFields | None"
    """The run that each tick starts. Not set: the scores that are made as the traces come are
    looked at.
    """

    every_s: "float | None"
    """How often to look, at multiples of it since the Unix epoch. Where `cron` is not set either,
    each minute. In seconds. At least 10, at most 34560000.
    """

    cron: "str | None"
    """When to look, as minute, hour, day of the month, month and day of the week, or with seconds
    before these.
    """

    time_zone: "str | None"
    """The time zone of `cron`, such as Europe/Berlin. Not set: UTC."""

    jitter_s: "float | None"
    """Each look is later by up to this, always as much for the same monitor, so that not all look
    at once. In seconds. At least 0, at most 34560000.
    """

    catch_up: "bool | None"
    """Whether to look once at the start where looks were missed while the server was down. Not
    set: True.
    """

    target: "RunTargetFields | None"
    """Which stored traces or sessions; at most 1000 ids."""

    measure: "RunMeasureFields | None"
    """By what they are evaluated."""

    budget: "RunBudgetFields | None"
    """What each of the runs may spend."""

    export: "bool | None"
    """Whether the scores are exported."""

    look_back_s: "float | None"
    """Only traces that were stored or changed in so much time before the run, or of a source
    started. Not set: since the run before; in the first, since the monitor was created. A
    target of ids always means all of these. A source needs it, or `everything`. In seconds. At
    least 1, at most 345600000.
    """

    everything: "bool | None"
    """All traces of the target, in place of those that were stored since the run before."""

    overlap: "Literal['skip', 'queue', 'cancel_previous'] | None"
    """What happens at a tick while the run of an earlier one is still going: it is skipped, waits,
    or cancels that run. Not set: skip.
    """

    only_if_changed: "bool | None"
    """Whether a tick is skipped where since the run before nothing was stored or changed in the
    target, what it is measured by is the same, judge and configuration included, and that run
    succeeded.
    """

    filter: "TraceFilterFields | None"
    """Which of all that is stored; neither a filter nor ids: everything."""

    trace_ids: "Sequence[str] | None"
    """Ids of agent traces or of OpenTelemetry traces; one of the latter stands for each agent
    trace in it. Lists of runs leave the ids out.
    """

    session_ids: "Sequence[str] | None"
    """Ids or keys of sessions; where traces are evaluated, they stand for the traces of these
    sessions. Lists of runs leave them out.
    """

    sampling: "RunSamplingFields | None"
    """Which share of them."""

    source: "str | None"
    """The name of a source in the server's configuration (`evaluation.runs.sources`), from which
    the traces are read and stored before they are evaluated; not set: those that are stored.
    With a source, `trace_ids` are ids of OpenTelemetry traces, and `session_ids` cannot be
    given.
    """

    where: "str | None"
    """A filter (AIP-160) as `ListTraces` takes it, or `ListSessions` where sessions are evaluated:
    also over the scores that they got as they came, such as `label.faithfulness = fail`. It
    holds beside `filter`.
    """

    metrics: "Sequence[str] | None"
    """Names of metrics; empty: the configured ones that run with what is evaluated."""

    model: "str | None"
    """The model that judges all of them."""

    thresholds: "Mapping[str, float] | None"
    """By metric the score from which on its label is `pass`; a threshold never changes a score."""

    signal_weights: "Mapping[str, float] | None"
    """How much the traces' metrics count in the session metrics."""

    options: "Mapping[str, Mapping[str, Any]] | None"
    """By metric the options that it has in place of the configured ones."""

    max_tokens: "int | None"
    """Input and output tokens together; not set: no limit. At least 1."""

    max_usd: "float | None"
    """USD; not set: no limit. A model whose price is not known cannot be asked under this limit.
    Above 0.
    """

    environment: "str | None"
    """`deployment.environment.name` of the trace's resource, or its former name
    `deployment.environment`.
    """

    user: "str | None"
    """The user's id."""

    resource: "Mapping[str, str] | None"
    """Attributes of the trace's resource with the values that they must have, compared as text:
    `true`, `3`.
    """

    started_after_ns: "int | None"
    """Only traces that started then or later, in ns since the Unix epoch. At least 0."""

    started_before_ns: "int | None"
    """Only traces that started earlier than that, in ns since the Unix epoch. At least 0."""

    has_error: "bool | None"
    """Whether a tool call of the trace failed."""

    min_duration_s: "float | None"
    """How long the trace took at least, in seconds. At least 0."""

    min_tokens: "int | None"
    """Input and output tokens together at least; a trace that records none is left out. At least
    0.
    """

    share: "float | None"
    """The chance of each to be drawn. Not set: 1. Above 0, at most 1."""

    count: "int | None"
    """How many are drawn; all, where there are fewer. At least 1, at most 1000000."""

    seed: "int | None"
    """Another seed draws others. At least 0."""


class CreateMonitorFields(MonitorFields, total=False):
    """The keywords of `Monitors.create`."""

    monitor: "MonitorFields | None"

    monitor_id: "str | None"
    """The last part of the name: up to 64 letters, digits, "-", "_" and ".", a letter or digit
    first. Empty: one is made.
    """

    request_id: "str | None"
    """A key of the caller's own, at most 64 characters: with one that was used before, the monitor
    of that time is returned.
    """


class UpdateMonitorFields(MonitorFields, total=False):
    """The keywords of `Monitors.update`."""

    monitor: "MonitorFields | None"
    """With its name, and what is to change. Where its etag is set it must be the present one."""

    etag: "str | None"
    """Changes with each change. An update or a deletion that gives another one than the present is
    refused (ABORTED).
    """


class DeleteMonitorFields(TypedDict, total=False):
    """The keywords of `Monitors.delete`."""

    etag: "str | None"
    """Where it is set it must be the present one."""


class TriggerMonitorFields(TypedDict, total=False):
    """The keywords of `Monitors.trigger`."""

    request_id: "str | None"
    """A key of the caller's own, at most 64 characters: with one that was used before, the tick of
    that time is returned.
    """


class ListMonitorsFields(TypedDict, total=False):
    """The keywords of `Monitors.list`."""

    page_size: "int | None"
    """At most so many; 0: 50. More than 1000 are 1000."""


class ListMonitorTicksFields(TypedDict, total=False):
    """The keywords of `Monitors.ticks`."""

    page_size: "int | None"
    """At most so many; 0: 50. More than 1000 are 1000."""


class RunFields(RunTargetFields, total=False):
    """What a Run has."""

    display_name: "str | None"
    """For people; two runs may have the same."""

    target: "RunTargetFields | None"
    """Which stored traces or sessions."""

    measure: "RunMeasureFields | None"
    """The metrics, their options, and the model that judges."""

    budget: "RunBudgetFields | None"
    """The run's own budget. Not set: as much in all as `judge.budget` gives the server for one
    window.
    """

    export: "bool | None"
    """Whether the scores are exported by OTLP, each with the attribute `spanscore.run.id`. They
    never replace the traces' own scores.
    """

    metrics: "Sequence[str] | None"
    """Names of metrics; empty: the configured ones that run with what is evaluated."""

    model: "str | None"
    """The model that judges all of them."""

    thresholds: "Mapping[str, float] | None"
    """By metric the score from which on its label is `pass`; a threshold never changes a score."""

    signal_weights: "Mapping[str, float] | None"
    """How much the traces' metrics count in the session metrics."""

    options: "Mapping[str, Mapping[str, Any]] | None"
    """By metric the options that it has in place of the configured ones."""

    max_tokens: "int | None"
    """Input and output tokens together; not set: no limit. At least 1."""

    max_usd: "float | None"
    """USD; not set: no limit. A model whose price is not known cannot be asked under this limit.
    Above 0.
    """


class CreateRunFields(RunFields, total=False):
    """The keywords of `Runs.create`."""

    run: "RunFields | None"

    request_id: "str | None"
    """A key of the caller's own, at most 64 characters: with one that was used before, the run of
    that time is returned.
    """


class EstimateRunFields(RunFields, total=False):
    """The keywords of `Runs.estimate`."""

    run: "RunFields | None"


class RetryRunFields(RunBudgetFields, total=False):
    """The keywords of `Runs.retry`."""

    budget: "RunBudgetFields | None"
    """In place of the run's budget; what it has spent before counts."""


class DeleteRunFields(TypedDict, total=False):
    """The keywords of `Runs.delete`."""

    delete_scores: "bool | None"
    """Whether the scores that it made are deleted too."""


class ListRunsFields(TypedDict, total=False):
    """The keywords of `Runs.list`."""

    page_size: "int | None"
    """At most so many; 0: 50. More than 1000 are 1000."""

    states: "Sequence[Literal['pending', 'running', 'paused', 'succeeded', 'failed', 'cancelled']] | None"
    """Only runs in one of these states."""

    order_by: "str | None"
    """`created_ns desc`: the newest first, which holds without it; `created_ns`; `updated_ns
    desc`: those that changed last first; `updated_ns`.
    """


class ListRunItemsFields(TypedDict, total=False):
    """The keywords of `Runs.items`."""

    state: "Literal['pending', 'done', 'failed', 'gone'] | None"
    """Not set: those that failed."""

    page_size: "int | None"
    """At most so many; 0: 50. More than 1000 are 1000."""


class GetTraceFields(TypedDict, total=False):
    """The keywords of `Traces.get`."""

    trace_id: "str | None"
    """The id of an agent trace or of an OpenTelemetry trace: 32 hex digits both."""

    read_mask: "Mapping[str, Any] | None"
    """The fields of the trace that are wanted; not set: all."""


class ListTracesFields(TypedDict, total=False):
    """The keywords of `Traces.list`."""

    page_size: "int | None"
    """At most so many traces; 0: 50. More than 1000 are 1000. A page may have fewer though others
    follow.
    """

    failing: "bool | None"
    """Only traces of which a score does not pass, or could not be measured."""

    since_ns: "int | None"
    """Only what was stored from then on, in nanoseconds since the Unix epoch."""

    service_name: "str | None"
    """Only of the service with this service.name."""

    session_id: "str | None"
    """Only of the sessions with this id or key."""

    filter: "str | None"
    """Only what meets this filter (AIP-160), such as `agent_name = "shop" AND
    score.task_completion < 0.5`. Fields: id, session_id, session_key, agent_name, service_name,
    user_id, user_input, final_output, started_ns, ended_ns, latency, completeness, outcome,
    input_tokens, output_tokens, tokens, tool_calls, tool_errors, model_calls, tags
    (`tags:beta`), failing, score.METRIC, label.METRIC, resource.ATTRIBUTE.
    """

    order_by: "str | None"
    """`stored_ns desc`: what was stored last first, which holds without it; `stored_ns`: first
    what was stored first. `started_ns`, `started_ns desc`: by when they started. In the same
    way `latency`, `tokens` (in and out) and `tool_errors` (tool calls that failed), each alone;
    what has no value comes last.
    """


class EvaluateTraceFields(TypedDict, total=False):
    """The keywords of `Traces.evaluate`."""

    metrics: "Sequence[str] | None"
    """Names of the metrics to run; empty: all that are configured."""

    model: "str | None"
    """The model that judges, in place of the configured one."""

    threshold: "float | None"
    """The score from which on the label is "pass"; it never changes a score."""

    request_id: "str | None"
    """A key of the caller's own, at most 64 characters: under one that was used in the last hour
    what was answered then is answered again, and nothing is evaluated: of the newest 500
    answers of a tenant, and 32 MiB of those of all. Past these and past a restart it is
    evaluated anew; the judge's cache still answers.
    """


class GetSessionFields(TypedDict, total=False):
    """The keywords of `Sessions.get`."""

    read_mask: "Mapping[str, Any] | None"
    """The fields of the session that are wanted; not set: all."""


class ListSessionsFields(TypedDict, total=False):
    """The keywords of `Sessions.list`."""

    page_size: "int | None"
    """At most so many sessions; 0: 50. More than 1000 are 1000. A page may have fewer though
    others follow.
    """

    filter: "str | None"
    """Only what meets this filter (AIP-160). Fields: session_id, session_key, agent_name,
    service_name, user_id, started_ns, ended_ns, latency, trace_count, failing, score.METRIC,
    label.METRIC.
    """

    order_by: "str | None"
    """`stored_ns desc`: those that went on last first, which holds without it; `stored_ns`;
    `trace_count desc`: those with the most traces first; `trace_count`.
    """


class EvaluateSessionFields(TypedDict, total=False):
    """The keywords of `Sessions.evaluate`."""

    metrics: "Sequence[str] | None"
    """Names of the metrics to run; empty: all that are configured."""

    model: "str | None"
    """The model that judges, in place of the configured one."""

    threshold: "float | None"
    """The score from which on the label is "pass"; it never changes a score."""

    signal_weights: "Mapping[str, float] | None"
    """Weights of the session metrics' signals, by metric name; those not named keep theirs."""

    request_id: "str | None"
    """As that of EvaluateTraceRequest."""


class EvaluatorFields(TypedDict, total=False):
    """What a Evaluator has."""

    kind: "Literal['llm', 'code', 'human'] | None"

    version: "str | None"

    model: "str | None"

    source: "str | None"
    """Set where it was not spanscore that measured: "human", "programmatic", or the name of
    another evaluator.
    """

    author: "str | None"
    """Who of these it was, such as a user's name."""


class ScoreFields(EvaluatorFields, total=False):
    """What a Score has."""

    scope: "Literal['trace', 'session'] | None"

    metric: "str | None"

    value: "float | None"
    """Set only when the status is SCORED."""

    scale: "tuple[float, float] | None"

    label: "str | None"
    """"pass" or "fail", or what the metric declares."""

    reason: "str | None"

    metadata: "Mapping[str, Any] | None"
    """A JSON object as text."""

    trace_id: "str | None"
    """The evaluated span, lower-case hex; for a session, the target of its last agent trace."""

    span_id: "str | None"

    session_id: "str | None"

    evaluator: "EvaluatorFields | None"

    evaluated_at_ns: "int | None"
    """Nanoseconds since the Unix epoch."""

    low: "float | None"

    high: "float | None"


class CreateScoreFields(ScoreFields, total=False):
    """The keywords of `Scores.create`."""

    score: "ScoreFields | None"
    """Of the score these fields are read, and the server sets all others: - `trace_id`, of an
    agent trace or of an OpenTelemetry trace, with `span_id` for one of its spans; or
    `session_id`, a   session's id or key. `scope` says which of the two where both are set. -
    `metric`: what is scored, such as `task_completion` or a name of your own, at most 256
    characters. - `value`, `label`, or both. Where the metric is known the value is on its
    scale, and the label says pass or fail. - `scale`: the lowest and the highest value; without
    it that of the metric, where that is known. - `reason`: a comment, at most 32,768
    characters. `metadata_json`: a JSON object, at most 32,768 characters. - `evaluator.source`:
    `human`, `programmatic`, or the name of another evaluator; `evaluator.author`: who of these,
    such as a user's name; `evaluator.name`, `evaluator.version`, `evaluator.kind` where they
    say more than the source. - `evaluated_at_ns`: when it was given; 0: now. // Of the same
    author's scores of one thing under one name the last given counts.
    """

    request_id: "str | None"
    """At most 64 characters. A request that is repeated with the same one creates nothing, and
    gets the score as it is now; with other content it is refused (ALREADY_EXISTS).
    """


class UpdateScoreFields(ScoreFields, total=False):
    """The keywords of `Scores.update`."""

    score: "ScoreFields | None"
    """`name` says which; with `etag` only where nobody has changed it since it was read (else
    ABORTED).
    """

    etag: "str | None"
    """Of a score that others gave: another one after each change. UpdateScore and DeleteScore
    change nothing where they get one that is not the score's any more.
    """


class DeleteScoreFields(TypedDict, total=False):
    """The keywords of `Scores.delete`."""

    etag: "str | None"
    """Delete it only where nobody has changed it since it was read (else ABORTED). Empty: whatever
    it is by now.
    """

    allow_missing: "bool | None"
    """No error where there is no such score."""


class ListScoresFields(TypedDict, total=False):
    """The keywords of `Scores.list`."""

    trace_id: "str | None"
    """The id of an agent trace or of an OpenTelemetry trace."""

    session_id: "str | None"
    """A session id stands for each session that has it; a session key for one."""

    page_size: "int | None"
    """At most so many scores; 0: 50, or 1000 of a subject. More than 1000 are 1000. A page may
    have fewer though others follow.
    """

    failing: "bool | None"
    """Only scores that do not pass, and measurements that went wrong."""

    since_ns: "int | None"
    """Only what was stored from then on, or with a subject evaluated, in nanoseconds since the
    Unix epoch.
    """

    service_name: "str | None"
    """Only of the service with this service.name."""

    metric: "str | None"
    """Only of this metric, or of a family of them, such as "rubric"."""

    source: "str | None"
    """Only from this source: "spanscore", "human", "programmatic", or the name of another
    evaluator.
    """

    skipped: "bool | None"
    """Without a subject, also what was skipped; with one it is always listed."""

    filter: "str | None"
    """Only what meets this filter (AIP-160), such as `status = SCORED AND value < 0.5 AND
    evaluator.model:"gpt"`. Fields: uid, scope, status, metric, value, label, threshold, reason,
    trace_id, span_id, session_id, session_key, subject_id, agent_name, service_name,
    evaluator.kind, evaluator.name, evaluator.version, evaluator.model, evaluator.source,
    evaluator.author, evaluator.embedding, usage.cost_usd, usage.calls, error.type, skip_cause,
    revision, rule, sampling, latency, evaluated_at_ns.
    """

    order_by: "str | None"
    """`stored_ns desc`: what was stored last first, which holds without it and without a subject;
    `stored_ns`: first what was stored first. Or one or both of `value` and `evaluated_at_ns`,
    each with or without `desc`, such as `value desc, evaluated_at_ns`: what has no value comes
    last, and without a subject, of what one author gave to one thing under one name, the last
    score alone is listed.
    """

    run: "str | None"
    """Only what this evaluation run scored: runs/{run}. Empty: what was scored as it came, and
    what others gave. Scores may stay when their run is deleted, so a run that is not there is
    no error: it has the scores that are left of it, or none.
    """


PLACES.update({
    "CancelRunRequest": {},
    "CompareScoresRequest": {"before": "before", "after": "after", "group_by": "group_by", "level": "level"},
    "CreateMonitorRequest": {"monitor": "monitor", "monitor_id": "monitor_id", "request_id": "request_id", "display_name": "monitor.display_name", "watch": "monitor.watch", "schedule": "monitor.schedule", "run": "monitor.run", "metric": "monitor.watch.metric", "scope": "monitor.watch.scope", "of": "monitor.watch.of", "service": "monitor.watch.service", "agent": "monitor.watch.agent", "floor": "monitor.watch.floor", "reference": "monitor.watch.reference", "alpha": "monitor.watch.alpha", "heaviest": "monitor.watch.heaviest", "settle_after_s": "monitor.watch.settle_after_s", "labels": "monitor.watch.labels", "every_s": "monitor.schedule.every_s", "cron": "monitor.schedule.cron", "time_zone": "monitor.schedule.time_zone", "jitter_s": "monitor.schedule.jitter_s", "catch_up": "monitor.schedule.catch_up", "target": "monitor.run.target", "measure": "monitor.run.measure", "budget": "monitor.run.budget", "export": "monitor.run.export", "look_back_s": "monitor.run.look_back_s", "everything": "monitor.run.everything", "overlap": "monitor.run.overlap", "only_if_changed": "monitor.run.only_if_changed", "sessions": "monitor.watch.reference.sessions", "tolerance": "monitor.watch.reference.tolerance", "filter": "monitor.run.target.filter", "trace_ids": "monitor.run.target.trace_ids", "session_ids": "monitor.run.target.session_ids", "sampling": "monitor.run.target.sampling", "source": "monitor.run.target.source", "where": "monitor.run.target.where", "metrics": "monitor.run.measure.metrics", "model": "monitor.run.measure.model", "thresholds": "monitor.run.measure.thresholds", "signal_weights": "monitor.run.measure.signal_weights", "options": "monitor.run.measure.options", "max_tokens": "monitor.run.budget.max_tokens", "max_usd": "monitor.run.budget.max_usd", "environment": "monitor.run.target.filter.environment", "user": "monitor.run.target.filter.user", "resource": "monitor.run.target.filter.resource", "started_after_ns": "monitor.run.target.filter.started_after_ns", "started_before_ns": "monitor.run.target.filter.started_before_ns", "has_error": "monitor.run.target.filter.has_error", "min_duration_s": "monitor.run.target.filter.min_duration_s", "min_tokens": "monitor.run.target.filter.min_tokens", "share": "monitor.run.target.sampling.share", "count": "monitor.run.target.sampling.count", "seed": "monitor.run.target.sampling.seed"},
    "CreateRunRequest": {"run": "run", "request_id": "request_id", "display_name": "run.display_name", "target": "run.target", "measure": "run.measure", "budget": "run.budget", "export": "run.export", "scope": "run.target.scope", "filter": "run.target.filter", "trace_ids": "run.target.trace_ids", "session_ids": "run.target.session_ids", "sampling": "run.target.sampling", "source": "run.target.source", "where": "run.target.where", "metrics": "run.measure.metrics", "model": "run.measure.model", "thresholds": "run.measure.thresholds", "signal_weights": "run.measure.signal_weights", "options": "run.measure.options", "max_tokens": "run.budget.max_tokens", "max_usd": "run.budget.max_usd", "service": "run.target.filter.service", "agent": "run.target.filter.agent", "environment": "run.target.filter.environment", "user": "run.target.filter.user", "resource": "run.target.filter.resource", "started_after_ns": "run.target.filter.started_after_ns", "started_before_ns": "run.target.filter.started_before_ns", "has_error": "run.target.filter.has_error", "min_duration_s": "run.target.filter.min_duration_s", "min_tokens": "run.target.filter.min_tokens", "share": "run.target.sampling.share", "count": "run.target.sampling.count", "seed": "run.target.sampling.seed"},
    "CreateScoreRequest": {"score": "score", "request_id": "request_id", "scope": "score.scope", "metric": "score.metric", "value": "score.value", "scale": "score.scale", "label": "score.label", "reason": "score.reason", "metadata": "score.metadata_json", "trace_id": "score.trace_id", "span_id": "score.span_id", "session_id": "score.session_id", "evaluator": "score.evaluator", "evaluated_at_ns": "score.evaluated_at_ns", "low": "score.scale.low", "high": "score.scale.high", "kind": "score.evaluator.kind", "version": "score.evaluator.version", "model": "score.evaluator.model", "source": "score.evaluator.source", "author": "score.evaluator.author"},
    "DeleteMonitorRequest": {"etag": "etag"},
    "DeleteRunRequest": {"delete_scores": "delete_scores"},
    "DeleteScoreRequest": {"etag": "etag", "allow_missing": "allow_missing"},
    "EstimateRunRequest": {"run": "run", "display_name": "run.display_name", "target": "run.target", "measure": "run.measure", "budget": "run.budget", "export": "run.export", "scope": "run.target.scope", "filter": "run.target.filter", "trace_ids": "run.target.trace_ids", "session_ids": "run.target.session_ids", "sampling": "run.target.sampling", "source": "run.target.source", "where": "run.target.where", "metrics": "run.measure.metrics", "model": "run.measure.model", "thresholds": "run.measure.thresholds", "signal_weights": "run.measure.signal_weights", "options": "run.measure.options", "max_tokens": "run.budget.max_tokens", "max_usd": "run.budget.max_usd", "service": "run.target.filter.service", "agent": "run.target.filter.agent", "environment": "run.target.filter.environment", "user": "run.target.filter.user", "resource": "run.target.filter.resource", "started_after_ns": "run.target.filter.started_after_ns", "started_before_ns": "run.target.filter.started_before_ns", "has_error": "run.target.filter.has_error", "min_duration_s": "run.target.filter.min_duration_s", "min_tokens": "run.target.filter.min_tokens", "share": "run.target.sampling.share", "count": "run.target.sampling.count", "seed": "run.target.sampling.seed"},
    "EvaluateSessionRequest": {"metrics": "metrics", "model": "model", "threshold": "threshold", "signal_weights": "signal_weights", "request_id": "request_id"},
    "EvaluateTraceRequest": {"metrics": "metrics", "model": "model", "threshold": "threshold", "request_id": "request_id"},
    "Evaluator": {"kind": "kind", "version": "version", "model": "model", "source": "source", "author": "author"},
    "GetMonitorRequest": {},
    "GetRunRequest": {},
    "GetScoreRequest": {},
    "GetSessionRequest": {"read_mask": "read_mask"},
    "GetTraceRequest": {"trace_id": "trace_id", "read_mask": "read_mask"},
    "ListMonitorTicksRequest": {"page_size": "page_size"},
    "ListMonitorsRequest": {"page_size": "page_size"},
    "ListRunItemsRequest": {"state": "state", "page_size": "page_size"},
    "ListRunsRequest": {"page_size": "page_size", "states": "states", "order_by": "order_by"},
    "ListScoreHistoryRequest": {"metric": "metric", "trace_id": "trace_id", "session_id": "session_id"},
    "ListScoresRequest": {"trace_id": "trace_id", "session_id": "session_id", "page_size": "page_size", "failing": "failing", "since_ns": "since_ns", "service_name": "service_name", "metric": "metric", "source": "source", "skipped": "skipped", "filter": "filter", "order_by": "order_by", "run": "run"},
    "ListSessionsRequest": {"page_size": "page_size", "filter": "filter", "order_by": "order_by"},
    "ListTracesRequest": {"page_size": "page_size", "failing": "failing", "since_ns": "since_ns", "service_name": "service_name", "session_id": "session_id", "filter": "filter", "order_by": "order_by"},
    "Monitor": {"display_name": "display_name", "watch": "watch", "schedule": "schedule", "run": "run", "metric": "watch.metric", "scope": "watch.scope", "of": "watch.of", "service": "watch.service", "agent": "watch.agent", "floor": "watch.floor", "reference": "watch.reference", "alpha": "watch.alpha", "heaviest": "watch.heaviest", "settle_after_s": "watch.settle_after_s", "labels": "watch.labels", "every_s": "schedule.every_s", "cron": "schedule.cron", "time_zone": "schedule.time_zone", "jitter_s": "schedule.jitter_s", "catch_up": "schedule.catch_up", "target": "run.target", "measure": "run.measure", "budget": "run.budget", "export": "run.export", "look_back_s": "run.look_back_s", "everything": "run.everything", "overlap": "run.overlap", "only_if_changed": "run.only_if_changed", "sessions": "watch.reference.sessions", "tolerance": "watch.reference.tolerance", "filter": "run.target.filter", "trace_ids": "run.target.trace_ids", "session_ids": "run.target.session_ids", "sampling": "run.target.sampling", "source": "run.target.source", "where": "run.target.where", "metrics": "run.measure.metrics", "model": "run.measure.model", "thresholds": "run.measure.thresholds", "signal_weights": "run.measure.signal_weights", "options": "run.measure.options", "max_tokens": "run.budget.max_tokens", "max_usd": "run.budget.max_usd", "environment": "run.target.filter.environment", "user": "run.target.filter.user", "resource": "run.target.filter.resource", "started_after_ns": "run.target.filter.started_after_ns", "started_before_ns": "run.target.filter.started_before_ns", "has_error": "run.target.filter.has_error", "min_duration_s": "run.target.filter.min_duration_s", "min_tokens": "run.target.filter.min_tokens", "share": "run.target.sampling.share", "count": "run.target.sampling.count", "seed": "run.target.sampling.seed"},
    "MonitorReference": {"sessions": "sessions", "tolerance": "tolerance"},
    "MonitorRun": {"target": "target", "measure": "measure", "budget": "budget", "export": "export", "look_back_s": "look_back_s", "everything": "everything", "overlap": "overlap", "only_if_changed": "only_if_changed", "scope": "target.scope", "filter": "target.filter", "trace_ids": "target.trace_ids", "session_ids": "target.session_ids", "sampling": "target.sampling", "source": "target.source", "where": "target.where", "metrics": "measure.metrics", "model": "measure.model", "thresholds": "measure.thresholds", "signal_weights": "measure.signal_weights", "options": "measure.options", "max_tokens": "budget.max_tokens", "max_usd": "budget.max_usd", "service": "target.filter.service", "agent": "target.filter.agent", "environment": "target.filter.environment", "user": "target.filter.user", "resource": "target.filter.resource", "started_after_ns": "target.filter.started_after_ns", "started_before_ns": "target.filter.started_before_ns", "has_error": "target.filter.has_error", "min_duration_s": "target.filter.min_duration_s", "min_tokens": "target.filter.min_tokens", "share": "target.sampling.share", "count": "target.sampling.count", "seed": "target.sampling.seed"},
    "MonitorSchedule": {"every_s": "every_s", "cron": "cron", "time_zone": "time_zone", "jitter_s": "jitter_s", "catch_up": "catch_up"},
    "MonitorWatch": {"metric": "metric", "scope": "scope", "of": "of", "service": "service", "agent": "agent", "floor": "floor", "reference": "reference", "alpha": "alpha", "heaviest": "heaviest", "settle_after_s": "settle_after_s", "labels": "labels", "sessions": "reference.sessions", "tolerance": "reference.tolerance"},
    "PauseMonitorRequest": {},
    "PauseRunRequest": {},
    "QueryScoreDistributionRequest": {"selection": "selection", "level": "level", "bins": "bins", "quantiles": "quantiles", "filter": "selection.filter", "start_ns": "selection.start_ns", "end_ns": "selection.end_ns", "run": "selection.run"},
    "QueryScoreTrendRequest": {"selection": "selection", "group_by": "group_by", "level": "level", "unit": "unit", "time_zone": "time_zone", "filter": "selection.filter", "start_ns": "selection.start_ns", "end_ns": "selection.end_ns", "run": "selection.run"},
    "RankSessionsRequest": {"selection": "selection", "page_size": "page_size", "filter": "selection.filter", "start_ns": "selection.start_ns", "end_ns": "selection.end_ns", "run": "selection.run"},
    "ResumeMonitorRequest": {},
    "ResumeRunRequest": {},
    "RetryRunRequest": {"budget": "budget", "max_tokens": "budget.max_tokens", "max_usd": "budget.max_usd"},
    "Run": {"display_name": "display_name", "target": "target", "measure": "measure", "budget": "budget", "export": "export", "scope": "target.scope", "filter": "target.filter", "trace_ids": "target.trace_ids", "session_ids": "target.session_ids", "sampling": "target.sampling", "source": "target.source", "where": "target.where", "metrics": "measure.metrics", "model": "measure.model", "thresholds": "measure.thresholds", "signal_weights": "measure.signal_weights", "options": "measure.options", "max_tokens": "budget.max_tokens", "max_usd": "budget.max_usd", "service": "target.filter.service", "agent": "target.filter.agent", "environment": "target.filter.environment", "user": "target.filter.user", "resource": "target.filter.resource", "started_after_ns": "target.filter.started_after_ns", "started_before_ns": "target.filter.started_before_ns", "has_error": "target.filter.has_error", "min_duration_s": "target.filter.min_duration_s", "min_tokens": "target.filter.min_tokens", "share": "target.sampling.share", "count": "target.sampling.count", "seed": "target.sampling.seed"},
    "RunBudget": {"max_tokens": "max_tokens", "max_usd": "max_usd"},
    "RunMeasure": {"metrics": "metrics", "model": "model", "thresholds": "thresholds", "signal_weights": "signal_weights", "options": "options"},
    "RunSampling": {"share": "share", "count": "count", "seed": "seed"},
    "RunTarget": {"scope": "scope", "filter": "filter", "trace_ids": "trace_ids", "session_ids": "session_ids", "sampling": "sampling", "source": "source", "where": "where", "service": "filter.service", "agent": "filter.agent", "environment": "filter.environment", "user": "filter.user", "resource": "filter.resource", "started_after_ns": "filter.started_after_ns", "started_before_ns": "filter.started_before_ns", "has_error": "filter.has_error", "min_duration_s": "filter.min_duration_s", "min_tokens": "filter.min_tokens", "share": "sampling.share", "count": "sampling.count", "seed": "sampling.seed"},
    "Score": {"scope": "scope", "metric": "metric", "value": "value", "scale": "scale", "label": "label", "reason": "reason", "metadata": "metadata_json", "trace_id": "trace_id", "span_id": "span_id", "session_id": "session_id", "evaluator": "evaluator", "evaluated_at_ns": "evaluated_at_ns", "low": "scale.low", "high": "scale.high", "kind": "evaluator.kind", "version": "evaluator.version", "model": "evaluator.model", "source": "evaluator.source", "author": "evaluator.author"},
    "ScoreSelection": {"filter": "filter", "start_ns": "start_ns", "end_ns": "end_ns", "run": "run"},
    "SummarizeScoresRequest": {"selection": "selection", "group_by": "group_by", "level": "level", "filter": "selection.filter", "start_ns": "selection.start_ns", "end_ns": "selection.end_ns", "run": "selection.run"},
    "TraceFilter": {"service": "service", "agent": "agent", "environment": "environment", "user": "user", "resource": "resource", "started_after_ns": "started_after_ns", "started_before_ns": "started_before_ns", "has_error": "has_error", "min_duration_s": "min_duration_s", "min_tokens": "min_tokens"},
    "TriggerMonitorRequest": {"request_id": "request_id"},
    "UpdateMonitorRequest": {"monitor": "monitor", "display_name": "monitor.display_name", "watch": "monitor.watch", "schedule": "monitor.schedule", "run": "monitor.run", "etag": "monitor.etag", "metric": "monitor.watch.metric", "scope": "monitor.watch.scope", "of": "monitor.watch.of", "service": "monitor.watch.service", "agent": "monitor.watch.agent", "floor": "monitor.watch.floor", "reference": "monitor.watch.reference", "alpha": "monitor.watch.alpha", "heaviest": "monitor.watch.heaviest", "settle_after_s": "monitor.watch.settle_after_s", "labels": "monitor.watch.labels", "every_s": "monitor.schedule.every_s", "cron": "monitor.schedule.cron", "time_zone": "monitor.schedule.time_zone", "jitter_s": "monitor.schedule.jitter_s", "catch_up": "monitor.schedule.catch_up", "target": "monitor.run.target", "measure": "monitor.run.measure", "budget": "monitor.run.budget", "export": "monitor.run.export", "look_back_s": "monitor.run.look_back_s", "everything": "monitor.run.everything", "overlap": "monitor.run.overlap", "only_if_changed": "monitor.run.only_if_changed", "sessions": "monitor.watch.reference.sessions", "tolerance": "monitor.watch.reference.tolerance", "filter": "monitor.run.target.filter", "trace_ids": "monitor.run.target.trace_ids", "session_ids": "monitor.run.target.session_ids", "sampling": "monitor.run.target.sampling", "source": "monitor.run.target.source", "where": "monitor.run.target.where", "metrics": "monitor.run.measure.metrics", "model": "monitor.run.measure.model", "thresholds": "monitor.run.measure.thresholds", "signal_weights": "monitor.run.measure.signal_weights", "options": "monitor.run.measure.options", "max_tokens": "monitor.run.budget.max_tokens", "max_usd": "monitor.run.budget.max_usd", "environment": "monitor.run.target.filter.environment", "user": "monitor.run.target.filter.user", "resource": "monitor.run.target.filter.resource", "started_after_ns": "monitor.run.target.filter.started_after_ns", "started_before_ns": "monitor.run.target.filter.started_before_ns", "has_error": "monitor.run.target.filter.has_error", "min_duration_s": "monitor.run.target.filter.min_duration_s", "min_tokens": "monitor.run.target.filter.min_tokens", "share": "monitor.run.target.sampling.share", "count": "monitor.run.target.sampling.count", "seed": "monitor.run.target.sampling.seed"},
    "UpdateScoreRequest": {"score": "score", "scope": "score.scope", "metric": "score.metric", "value": "score.value", "scale": "score.scale", "label": "score.label", "reason": "score.reason", "metadata": "score.metadata_json", "trace_id": "score.trace_id", "span_id": "score.span_id", "session_id": "score.session_id", "evaluator": "score.evaluator", "evaluated_at_ns": "score.evaluated_at_ns", "etag": "score.etag", "low": "score.scale.low", "high": "score.scale.high", "kind": "score.evaluator.kind", "version": "score.evaluator.version", "model": "score.evaluator.model", "source": "score.evaluator.source", "author": "score.evaluator.author"},
    "WatchRunRequest": {},
})


class Analytics(AnalyticsServiceStub):
    """Figures over the stored scores, each with n and an interval."""

    def summarize(self, **fields: Unpack[SummarizeScoresFields]) -> Sequence[analytics_service_pb.ScoreSummary]:
        """What the scores of each metric come to."""
        return tuple((self.SummarizeScores(request(analytics_service_pb.SummarizeScoresRequest, fields, {}))).summaries)

    def trend(self, **fields: Unpack[QueryScoreTrendFields]) -> Sequence[analytics_service_pb.ScoreTrend]:
        """The same for each hour, day or longer time, by when what was scored happened."""
        return tuple((self.QueryScoreTrend(request(analytics_service_pb.QueryScoreTrendRequest, fields, {}))).trends)

    def distribution(self, **fields: Unpack[QueryScoreDistributionFields]) -> Sequence[analytics_service_pb.ScoreDistribution]:
        """How the values and labels of each metric are spread: shares of bins and labels, and
        quantiles, each with its interval.
        """
        return tuple((self.QueryScoreDistribution(request(analytics_service_pb.QueryScoreDistributionRequest, fields, {}))).distributions)

    def compare(self, **fields: Unpack[CompareScoresFields]) -> Sequence[analytics_service_pb.ScoreComparison]:
        """How two selections differ, such as two periods or two versions of a service."""
        return tuple((self.CompareScores(request(analytics_service_pb.CompareScoresRequest, fields, {}))).comparisons)

    def worst_sessions(self, **fields: Unpack[RankSessionsFields]) -> Iterator[analytics_service_pb.RankedSession]:
        """Sessions, and traces that belong to none, those with the greatest share of failing
        scores first.
        """
        return pages(self.RankSessions, request(analytics_service_pb.RankSessionsRequest, fields, {}))

    def history(self, **fields: Unpack[ListScoreHistoryFields]) -> Sequence[score_pb.Score]:
        """All that was ever said of one trace or session by one metric: every revision, evaluation
        run and author.
        """
        return tuple((self.ListScoreHistory(request(analytics_service_pb.ListScoreHistoryRequest, fields, {}))).scores)


class AsyncAnalytics(AnalyticsServiceAsyncStub):
    """`Analytics` for asyncio."""

    async def summarize(self, **fields: Unpack[SummarizeScoresFields]) -> Sequence[analytics_service_pb.ScoreSummary]:
        """As `Analytics.summarize`."""
        return tuple((await self.SummarizeScores(request(analytics_service_pb.SummarizeScoresRequest, fields, {}))).summaries)

    async def trend(self, **fields: Unpack[QueryScoreTrendFields]) -> Sequence[analytics_service_pb.ScoreTrend]:
        """As `Analytics.trend`."""
        return tuple((await self.QueryScoreTrend(request(analytics_service_pb.QueryScoreTrendRequest, fields, {}))).trends)

    async def distribution(self, **fields: Unpack[QueryScoreDistributionFields]) -> Sequence[analytics_service_pb.ScoreDistribution]:
        """As `Analytics.distribution`."""
        return tuple((await self.QueryScoreDistribution(request(analytics_service_pb.QueryScoreDistributionRequest, fields, {}))).distributions)

    async def compare(self, **fields: Unpack[CompareScoresFields]) -> Sequence[analytics_service_pb.ScoreComparison]:
        """As `Analytics.compare`."""
        return tuple((await self.CompareScores(request(analytics_service_pb.CompareScoresRequest, fields, {}))).comparisons)

    def worst_sessions(self, **fields: Unpack[RankSessionsFields]) -> AsyncIterator[analytics_service_pb.RankedSession]:
        """As `Analytics.worst_sessions`."""
        return pages_async(self.RankSessions, request(analytics_service_pb.RankSessionsRequest, fields, {}))

    async def history(self, **fields: Unpack[ListScoreHistoryFields]) -> Sequence[score_pb.Score]:
        """As `Analytics.history`."""
        return tuple((await self.ListScoreHistory(request(analytics_service_pb.ListScoreHistoryRequest, fields, {}))).scores)


class Monitors(MonitorServiceStub):
    """Monitors of the configuration and of the store."""

    def create(self, **fields: Unpack[CreateMonitorFields]) -> monitor_service_pb.Monitor:
        """Create a monitor. It begins with the next of its times."""
        found: monitor_service_pb.Monitor = self.CreateMonitor(request(monitor_service_pb.CreateMonitorRequest, fields, {}))
        return found

    def get(self, monitor: str) -> monitor_service_pb.Monitor:
        """One monitor, with what it knows now."""
        found: monitor_service_pb.Monitor = self.GetMonitor(request(monitor_service_pb.GetMonitorRequest, {}, {"name": named("monitors", monitor)}))
        return found

    def update(self, monitor: str, **fields: Unpack[UpdateMonitorFields]) -> monitor_service_pb.Monitor:
        """Change what a monitor does. One whose watched metric, or how that is tested, is changed
        begins anew.
        """
        found: monitor_service_pb.Monitor = self.UpdateMonitor(request(monitor_service_pb.UpdateMonitorRequest, fields, {"monitor.name": named("monitors", monitor)}))
        return found

    def delete(self, monitor: str, **fields: Unpack[DeleteMonitorFields]) -> None:
        """Delete a monitor with its history. Its runs and their scores stay; an alert that is
        firing ends.
        """
        self.DeleteMonitor(request(monitor_service_pb.DeleteMonitorRequest, fields, {"name": named("monitors", monitor)}))

    def pause(self, monitor: str) -> monitor_service_pb.Monitor:
        """Have a monitor wait until it is resumed. A run that is going goes on."""
        found: monitor_service_pb.Monitor = self.PauseMonitor(request(monitor_service_pb.PauseMonitorRequest, {}, {"name": named("monitors", monitor)}))
        return found

    def resume(self, monitor: str) -> monitor_service_pb.Monitor:
        """Have a paused monitor go on, with the next of its times: what fell due while it was
        paused is not made up for.
        """
        found: monitor_service_pb.Monitor = self.ResumeMonitor(request(monitor_service_pb.ResumeMonitorRequest, {}, {"name": named("monitors", monitor)}))
        return found

    def trigger(self, monitor: str, **fields: Unpack[TriggerMonitorFields]) -> monitor_service_pb.MonitorTick:
        """Make a tick now, also of a monitor that is paused, and also where nothing has changed."""
        found: monitor_service_pb.MonitorTick = self.TriggerMonitor(request(monitor_service_pb.TriggerMonitorRequest, fields, {"name": named("monitors", monitor)}))
        return found

    def list(self, **fields: Unpack[ListMonitorsFields]) -> Iterator[monitor_service_pb.Monitor]:
        """Monitors, by their names."""
        return pages(self.ListMonitors, request(monitor_service_pb.ListMonitorsRequest, fields, {}))

    def ticks(self, monitor: str, **fields: Unpack[ListMonitorTicksFields]) -> Iterator[monitor_service_pb.MonitorTick]:
        """The ticks of a monitor, the newest first. The last 1000 are kept."""
        return pages(self.ListMonitorTicks, request(monitor_service_pb.ListMonitorTicksRequest, fields, {"parent": named("monitors", monitor)}))


class AsyncMonitors(MonitorServiceAsyncStub):
    """`Monitors` for asyncio."""

    async def create(self, **fields: Unpack[CreateMonitorFields]) -> monitor_service_pb.Monitor:
        """As `Monitors.create`."""
        found: monitor_service_pb.Monitor = await self.CreateMonitor(request(monitor_service_pb.CreateMonitorRequest, fields, {}))
        return found

    async def get(self, monitor: str) -> monitor_service_pb.Monitor:
        """As `Monitors.get`."""
        found: monitor_service_pb.Monitor = await self.GetMonitor(request(monitor_service_pb.GetMonitorRequest, {}, {"name": named("monitors", monitor)}))
        return found

    async def update(self, monitor: str, **fields: Unpack[UpdateMonitorFields]) -> monitor_service_pb.Monitor:
        """As `Monitors.update`."""
        found: monitor_service_pb.Monitor = await self.UpdateMonitor(request(monitor_service_pb.UpdateMonitorRequest, fields, {"monitor.name": named("monitors", monitor)}))
        return found

    async def delete(self, monitor: str, **fields: Unpack[DeleteMonitorFields]) -> None:
        """As `Monitors.delete`."""
        await self.DeleteMonitor(request(monitor_service_pb.DeleteMonitorRequest, fields, {"name": named("monitors", monitor)}))

    async def pause(self, monitor: str) -> monitor_service_pb.Monitor:
        """As `Monitors.pause`."""
        found: monitor_service_pb.Monitor = await self.PauseMonitor(request(monitor_service_pb.PauseMonitorRequest, {}, {"name": named("monitors", monitor)}))
        return found

    async def resume(self, monitor: str) -> monitor_service_pb.Monitor:
        """As `Monitors.resume`."""
        found: monitor_service_pb.Monitor = await self.ResumeMonitor(request(monitor_service_pb.ResumeMonitorRequest, {}, {"name": named("monitors", monitor)}))
        return found

    async def trigger(self, monitor: str, **fields: Unpack[TriggerMonitorFields]) -> monitor_service_pb.MonitorTick:
        """As `Monitors.trigger`."""
        found: monitor_service_pb.MonitorTick = await self.TriggerMonitor(request(monitor_service_pb.TriggerMonitorRequest, fields, {"name": named("monitors", monitor)}))
        return found

    def list(self, **fields: Unpack[ListMonitorsFields]) -> AsyncIterator[monitor_service_pb.Monitor]:
        """As `Monitors.list`."""
        return pages_async(self.ListMonitors, request(monitor_service_pb.ListMonitorsRequest, fields, {}))

    def ticks(self, monitor: str, **fields: Unpack[ListMonitorTicksFields]) -> AsyncIterator[monitor_service_pb.MonitorTick]:
        """As `Monitors.ticks`."""
        return pages_async(self.ListMonitorTicks, request(monitor_service_pb.ListMonitorTicksRequest, fields, {"parent": named("monitors", monitor)}))


class Runs(RunServiceStub):
    """Evaluation runs."""

    def create(self, **fields: Unpack[CreateRunFields]) -> run_service_pb.Run:
        """Create a run. It begins by itself when it is its turn."""
        found: run_service_pb.Run = self.CreateRun(request(run_service_pb.CreateRunRequest, fields, {}))
        return found

    def estimate(self, **fields: Unpack[EstimateRunFields]) -> run_service_pb.RunEstimate:
        """What a run would ask a judge, and what that costs at most. Nothing is stored, and
        nothing is sent.
        """
        found: run_service_pb.RunEstimate = self.EstimateRun(request(run_service_pb.EstimateRunRequest, fields, {}))
        return found

    def get(self, run: str) -> run_service_pb.Run:
        """One run as it is now."""
        found: run_service_pb.Run = self.GetRun(request(run_service_pb.GetRunRequest, {}, {"name": named("runs", run)}))
        return found

    def watch(self, run: str) -> Iterator[run_service_pb.Run]:
        """A run whenever it has changed, until it has ended or is paused."""
        for state in self.WatchRun(request(run_service_pb.WatchRunRequest, {}, {"name": named("runs", run)})):
            yield state

    def pause(self, run: str) -> run_service_pb.Run:
        """Stop a run for now: within seconds, no judge is asked any more."""
        found: run_service_pb.Run = self.PauseRun(request(run_service_pb.PauseRunRequest, {}, {"name": named("runs", run)}))
        return found

    def resume(self, run: str) -> run_service_pb.Run:
        """Have a paused run go on where it stood."""
        found: run_service_pb.Run = self.ResumeRun(request(run_service_pb.ResumeRunRequest, {}, {"name": named("runs", run)}))
        return found

    def cancel(self, run: str) -> run_service_pb.Run:
        """End a run for good. The scores that it has made stay."""
        found: run_service_pb.Run = self.CancelRun(request(run_service_pb.CancelRunRequest, {}, {"name": named("runs", run)}))
        return found

    def retry(self, run: str, **fields: Unpack[RetryRunFields]) -> run_service_pb.Run:
        """Evaluate again what failed of a run that has ended, and nothing else."""
        found: run_service_pb.Run = self.RetryRun(request(run_service_pb.RetryRunRequest, fields, {"name": named("runs", run)}))
        return found

    def delete(self, run: str, **fields: Unpack[DeleteRunFields]) -> None:
        """Delete a run, with or without its scores. One that is under way is ended first."""
        self.DeleteRun(request(run_service_pb.DeleteRunRequest, fields, {"name": named("runs", run)}))

    def list(self, **fields: Unpack[ListRunsFields]) -> Iterator[run_service_pb.Run]:
        """Runs, the newest first unless asked for otherwise, without the ids that their targets
        name.
        """
        return pages(self.ListRuns, request(run_service_pb.ListRunsRequest, fields, {}))

    def items(self, run: str, **fields: Unpack[ListRunItemsFields]) -> Iterator[run_service_pb.RunItem]:
        """The traces or sessions of a run that are in one state, such as those that failed."""
        return pages(self.ListRunItems, request(run_service_pb.ListRunItemsRequest, fields, {"parent": named("runs", run)}))


class AsyncRuns(RunServiceAsyncStub):
    """`Runs` for asyncio."""

    async def create(self, **fields: Unpack[CreateRunFields]) -> run_service_pb.Run:
        """As `Runs.create`."""
        found: run_service_pb.Run = await self.CreateRun(request(run_service_pb.CreateRunRequest, fields, {}))
        return found

    async def estimate(self, **fields: Unpack[EstimateRunFields]) -> run_service_pb.RunEstimate:
        """As `Runs.estimate`."""
        found: run_service_pb.RunEstimate = await self.EstimateRun(request(run_service_pb.EstimateRunRequest, fields, {}))
        return found

    async def get(self, run: str) -> run_service_pb.Run:
        """As `Runs.get`."""
        found: run_service_pb.Run = await self.GetRun(request(run_service_pb.GetRunRequest, {}, {"name": named("runs", run)}))
        return found

    async def watch(self, run: str) -> AsyncIterator[run_service_pb.Run]:
        """As `Runs.watch`."""
        async for state in self.WatchRun(request(run_service_pb.WatchRunRequest, {}, {"name": named("runs", run)})):
            yield state

    async def pause(self, run: str) -> run_service_pb.Run:
        """As `Runs.pause`."""
        found: run_service_pb.Run = await self.PauseRun(request(run_service_pb.PauseRunRequest, {}, {"name": named("runs", run)}))
        return found

    async def resume(self, run: str) -> run_service_pb.Run:
        """As `Runs.resume`."""
        found: run_service_pb.Run = await self.ResumeRun(request(run_service_pb.ResumeRunRequest, {}, {"name": named("runs", run)}))
        return found

    async def cancel(self, run: str) -> run_service_pb.Run:
        """As `Runs.cancel`."""
        found: run_service_pb.Run = await self.CancelRun(request(run_service_pb.CancelRunRequest, {}, {"name": named("runs", run)}))
        return found

    async def retry(self, run: str, **fields: Unpack[RetryRunFields]) -> run_service_pb.Run:
        """As `Runs.retry`."""
        found: run_service_pb.Run = await self.RetryRun(request(run_service_pb.RetryRunRequest, fields, {"name": named("runs", run)}))
        return found

    async def delete(self, run: str, **fields: Unpack[DeleteRunFields]) -> None:
        """As `Runs.delete`."""
        await self.DeleteRun(request(run_service_pb.DeleteRunRequest, fields, {"name": named("runs", run)}))

    def list(self, **fields: Unpack[ListRunsFields]) -> AsyncIterator[run_service_pb.Run]:
        """As `Runs.list`."""
        return pages_async(self.ListRuns, request(run_service_pb.ListRunsRequest, fields, {}))

    def items(self, run: str, **fields: Unpack[ListRunItemsFields]) -> AsyncIterator[run_service_pb.RunItem]:
        """As `Runs.items`."""
        return pages_async(self.ListRunItems, request(run_service_pb.ListRunItemsRequest, fields, {"parent": named("runs", run)}))


class Traces(TraceServiceStub):
    """Stored agent traces."""

    def get(self, trace: str, **fields: Unpack[GetTraceFields]) -> agent_trace_pb.AgentTrace:
        """One agent trace as it was rebuilt."""
        found: agent_trace_pb.AgentTrace = self.GetTrace(request(trace_service_pb.GetTraceRequest, fields, {"name": named("traces", trace)}))
        return found

    def list(self, **fields: Unpack[ListTracesFields]) -> Iterator[trace_service_pb.TraceSummary]:
        """Agent traces with their scores. GetTrace has all that one contains."""
        return pages(self.ListTraces, request(trace_service_pb.ListTracesRequest, fields, {}))

    def evaluate(self, trace: str, **fields: Unpack[EvaluateTraceFields]) -> Sequence[score_pb.Score]:
        """Evaluate a stored agent trace again, now. The scores are stored as the next revision,
        and exported.
        """
        return tuple((self.EvaluateTrace(request(trace_service_pb.EvaluateTraceRequest, fields, {"name": named("traces", trace)}))).scores)


class AsyncTraces(TraceServiceAsyncStub):
    """`Traces` for asyncio."""

    async def get(self, trace: str, **fields: Unpack[GetTraceFields]) -> agent_trace_pb.AgentTrace:
        """As `Traces.get`."""
        found: agent_trace_pb.AgentTrace = await self.GetTrace(request(trace_service_pb.GetTraceRequest, fields, {"name": named("traces", trace)}))
        return found

    def list(self, **fields: Unpack[ListTracesFields]) -> AsyncIterator[trace_service_pb.TraceSummary]:
        """As `Traces.list`."""
        return pages_async(self.ListTraces, request(trace_service_pb.ListTracesRequest, fields, {}))

    async def evaluate(self, trace: str, **fields: Unpack[EvaluateTraceFields]) -> Sequence[score_pb.Score]:
        """As `Traces.evaluate`."""
        return tuple((await self.EvaluateTrace(request(trace_service_pb.EvaluateTraceRequest, fields, {"name": named("traces", trace)}))).scores)


class Sessions(TraceServiceStub):
    """Stored sessions."""

    def get(self, session: str, **fields: Unpack[GetSessionFields]) -> trace_service_pb.Session:
        """One session with its scores and those of its traces."""
        found: trace_service_pb.Session = self.GetSession(request(trace_service_pb.GetSessionRequest, fields, {"name": named("sessions", session)}))
        return found

    def list(self, **fields: Unpack[ListSessionsFields]) -> Iterator[trace_service_pb.Session]:
        """Sessions with their scores, those that went on last first unless asked for otherwise."""
        return pages(self.ListSessions, request(trace_service_pb.ListSessionsRequest, fields, {}))

    def evaluate(self, session: str, **fields: Unpack[EvaluateSessionFields]) -> Sequence[score_pb.Score]:
        """Evaluate a stored session again, now. The scores are stored as the next revision, and
        exported.
        """
        return tuple((self.EvaluateSession(request(trace_service_pb.EvaluateSessionRequest, fields, {"name": named("sessions", session)}))).scores)


class AsyncSessions(TraceServiceAsyncStub):
    """`Sessions` for asyncio."""

    async def get(self, session: str, **fields: Unpack[GetSessionFields]) -> trace_service_pb.Session:
        """As `Sessions.get`."""
        found: trace_service_pb.Session = await self.GetSession(request(trace_service_pb.GetSessionRequest, fields, {"name": named("sessions", session)}))
        return found

    def list(self, **fields: Unpack[ListSessionsFields]) -> AsyncIterator[trace_service_pb.Session]:
        """As `Sessions.list`."""
        return pages_async(self.ListSessions, request(trace_service_pb.ListSessionsRequest, fields, {}))

    async def evaluate(self, session: str, **fields: Unpack[EvaluateSessionFields]) -> Sequence[score_pb.Score]:
        """As `Sessions.evaluate`."""
        return tuple((await self.EvaluateSession(request(trace_service_pb.EvaluateSessionRequest, fields, {"name": named("sessions", session)}))).scores)


class Scores(ScoreServiceStub):
    """Scores that were measured, and that others gave."""

    def get(self, score: str) -> score_pb.Score:
        """One score, of whatever revision."""
        found: score_pb.Score = self.GetScore(request(score_service_pb.GetScoreRequest, {}, {"name": named("scores", score)}))
        return found

    def create(self, **fields: Unpack[CreateScoreFields]) -> score_pb.Score:
        """Keep a score that somebody gave to a trace, a span or a session, whether or not that is
        stored by now.
        """
        found: score_pb.Score = self.CreateScore(request(score_service_pb.CreateScoreRequest, fields, {}))
        return found

    def update(self, score: str, **fields: Unpack[UpdateScoreFields]) -> score_pb.Score:
        """Change a score that somebody gave."""
        found: score_pb.Score = self.UpdateScore(request(score_service_pb.UpdateScoreRequest, fields, {"score.name": named("scores", score)}))
        return found

    def delete(self, score: str, **fields: Unpack[DeleteScoreFields]) -> None:
        """Delete a score that somebody gave."""
        self.DeleteScore(request(score_service_pb.DeleteScoreRequest, fields, {"name": named("scores", score)}))

    def list(self, **fields: Unpack[ListScoresFields]) -> Iterator[score_pb.Score]:
        """Scores, of each only the newest revision: of one trace or session in the order in which
        they were made, else those that were stored last first, with the scores that others
        gave.
        """
        return pages(self.ListScores, request(score_service_pb.ListScoresRequest, fields, {}))


class AsyncScores(ScoreServiceAsyncStub):
    """`Scores` for asyncio."""

    async def get(self, score: str) -> score_pb.Score:
        """As `Scores.get`."""
        found: score_pb.Score = await self.GetScore(request(score_service_pb.GetScoreRequest, {}, {"name": named("scores", score)}))
        return found

    async def create(self, **fields: Unpack[CreateScoreFields]) -> score_pb.Score:
        """As `Scores.create`."""
        found: score_pb.Score = await self.CreateScore(request(score_service_pb.CreateScoreRequest, fields, {}))
        return found

    async def update(self, score: str, **fields: Unpack[UpdateScoreFields]) -> score_pb.Score:
        """As `Scores.update`."""
        found: score_pb.Score = await self.UpdateScore(request(score_service_pb.UpdateScoreRequest, fields, {"score.name": named("scores", score)}))
        return found

    async def delete(self, score: str, **fields: Unpack[DeleteScoreFields]) -> None:
        """As `Scores.delete`."""
        await self.DeleteScore(request(score_service_pb.DeleteScoreRequest, fields, {"name": named("scores", score)}))

    def list(self, **fields: Unpack[ListScoresFields]) -> AsyncIterator[score_pb.Score]:
        """As `Scores.list`."""
        return pages_async(self.ListScores, request(score_service_pb.ListScoresRequest, fields, {}))
