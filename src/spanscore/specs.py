"""Requests for runs and monitors."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    ValidationInfo,
    field_validator,
    model_validator,
)

from spanscore.errors import InputError
from spanscore.evaluation.rules import as_text
from spanscore.filters import MAX_CHARS, Fields, Filter, parse
from spanscore.model.options import Duration, Options, duration_ns, read_spec
from spanscore.model.score import ScopeKind
from spanscore.model.span import tenant_problem, without_headers
from spanscore.model.trace import AgentTrace
from spanscore.monitoring import Times, Watch, Watching

MAX_IDS = 50_000
MAX_SAMPLE = 1_000_000
_DRAWS = 1 << 63
_OTEL_ID = re.compile(r"[0-9a-fA-F]{32}")
_MAX_TEXT = 1024

_Text = Annotated[str, Field(min_length=1, max_length=_MAX_TEXT)]
_Name = Annotated[str, Field(min_length=1, max_length=256)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


def _storable(moment_ns: int) -> int:
    if moment_ns >= _DRAWS:
        raise ValueError("give nanoseconds since the Unix epoch, before the year 2262")
    return moment_ns


_Moment = Annotated[int, AfterValidator(_storable)]


class Spec(Options):
    """A value that users give as JSON; what is unknown in it is refused."""


class TraceFilter(Spec):
    """Conditions on an agent trace, all of which must hold; one that is not set always does.

    A session is wanted where one of its traces is.
    """

    service: _Text | None = None
    """`service.name` of the trace's resource."""

    agent: _Text | None = None
    """The agent's name."""

    environment: _Text | None = None
    """`deployment.environment.name` of the trace's resource, or its former name
    `deployment.environment`.
    """

    user: _Text | None = None
    """The user's id."""

    resource: dict[_Name, _Text] = {}
    """Attributes of the trace's resource with the values that they must have, compared as text:
    `true`, `3`.
    """

    started_after_ns: _Moment | None = Field(default=None, ge=0)
    """Only traces that started then or later, in ns since the Unix epoch."""

    started_before_ns: _Moment | None = Field(default=None, ge=0)
    """Only traces that started earlier than that, in ns since the Unix epoch."""

    has_error: bool | None = None
    """Whether a tool call of the trace failed."""

    min_duration_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How long the trace took at least, in seconds."""

    min_tokens: int | None = Field(default=None, ge=0)
    """Input and output tokens together at least; a trace that records none is left out."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        after_ns, before_ns = self.started_after_ns, self.started_before_ns
        if after_ns is not None and before_ns is not None and after_ns >= before_ns:
            raise ValueError(
                "started_after_ns is not before started_before_ns: no trace can be in between"
            )
        return self

    def accepts(self, trace: AgentTrace) -> bool:
        """Whether all conditions hold for `trace`."""
        wanted = {"service_name": self.service, "agent_name": self.agent, "user_id": self.user}
        return (
            all(value is None or getattr(trace, name) == value for name, value in wanted.items())
            and self._accepts_resource(without_headers(trace.target.resource))
            and self._accepts_time(trace)
            and (self.has_error is None or _has_error(trace) == self.has_error)
            and (self.min_tokens is None or _tokens(trace) >= self.min_tokens)
        )

    def _accepts_resource(self, resource: Mapping[str, Any]) -> bool:
        names = ("deployment.environment.name", "deployment.environment")
        environment = next((resource[name] for name in names if name in resource), None)
        if self.environment is not None and environment != self.environment:
            return False
        return all(
            name in resource and as_text(resource[name]) == value
            for name, value in self.resource.items()
        )

    def _accepts_time(self, trace: AgentTrace) -> bool:
        if self.started_after_ns is not None and trace.started_ns < self.started_after_ns:
            return False
        if self.started_before_ns is not None and trace.started_ns >= self.started_before_ns:
            return False
        return (
            self.min_duration_s is None
            or trace.ended_ns - trace.started_ns >= self.min_duration_s * 1e9
        )


class Sampling(Spec):
    """How many of what the target names are evaluated, and which.

    Each trace or session has a number that derives from the seed and its id alone. With `share`,
    those with a number below the share are evaluated; with `count`, those with the lowest numbers.
    The same seed draws the same ones.
    """

    share: float | None = Field(default=None, gt=0, le=1)
    """The chance of each to be drawn. Not set: 1."""

    count: int | None = Field(default=None, ge=1, le=MAX_SAMPLE)
    """How many are drawn; all, where there are fewer."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Another seed draws others."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.count is not None and self.chance < 1:
            raise ValueError("give share or count, not both")
        return self

    @property
    def chance(self) -> float:
        """The chance of each to be drawn, where no number is given."""
        return 1.0 if self.share is None else self.share

    def draw(self, subject_id: str) -> int:
        """The number of a trace or session, from 0 up to 2**63 - 1, each as likely as any other.

        >>> Sampling(seed=7).draw("a") == Sampling(seed=7, share=0.5).draw("a") != Sampling(
        ...     seed=8
        ... ).draw("a")
        True
        """
        key = self.seed.to_bytes(8, "big")
        digest = hashlib.blake2b(
            subject_id.encode("utf-8", "surrogatepass"), digest_size=8, key=key
        ).digest()
        return int.from_bytes(digest, "big") >> 1

    def is_in_share(self, subject_id: str) -> bool:
        """Whether `share` draws a trace or session."""
        return self.chance >= 1 or self.draw(subject_id) < self.chance * _DRAWS

    def probability(self, candidates: int) -> float:
        """The chance that each of so many candidates had of being drawn."""
        if self.count is None:
            return self.chance
        return 1.0 if candidates <= self.count else self.count / candidates


class TargetSpec(Spec):
    """Stored traces or sessions: all that a filter accepts, or those with the given ids; of these a
    sample.
    """

    scope: ScopeKind = "trace"
    """Whether traces are evaluated, or sessions."""

    source: _Name | None = None
    """The name of a source in the server's configuration (`evaluation.runs.sources`), from which
    the traces are read and stored before they are evaluated; not set: those that are stored. With a
    source, `trace_ids` are ids of OpenTelemetry traces, and `session_ids` cannot be given.
    """

    filter: TraceFilter | None = None
    """Which of all that is stored; neither a filter nor ids: everything."""

    where: Annotated[str, Field(max_length=MAX_CHARS)] = ""
    """A filter (AIP-160) as `ListTraces` takes it, or `ListSessions` where sessions are evaluated:
    also over the scores that they got as they came, such as `label.faithfulness = fail`. It holds
    beside `filter`.
    """

    trace_ids: tuple[_Text, ...] = Field(default=(), max_length=MAX_IDS)
    """Ids of agent traces or of OpenTelemetry traces; one of the latter stands for each agent trace
    in it. Lists of runs leave the ids out.
    """

    session_ids: tuple[_Text, ...] = Field(default=(), max_length=MAX_IDS)
    """Ids or keys of sessions; where traces are evaluated, they stand for the traces of these
    sessions. Lists of runs leave them out.
    """

    sampling: Sampling = Sampling()
    """Which share of them."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [
            name for name in ("filter", "where", "trace_ids", "session_ids") if getattr(self, name)
        ]
        if given == ["filter", "where"]:
            given = ["filter"]
        if len(given) > 1:
            raise ValueError(
                f"give {' or '.join(given)}, not {'both' if len(given) == 2 else 'all'}"
            )
        if self.scope == "session" and self.trace_ids:
            raise ValueError("trace_ids name no sessions; give session_ids, or evaluate traces")
        if self.source is not None:
            self._refuse_of_source()
        return self

    @field_validator("where")
    @classmethod
    def _understood(cls, where: str, info: ValidationInfo) -> str:
        _condition(where, info.data.get("scope", "trace"))
        return where

    def condition(self) -> Filter[Any] | None:
        """What `where` asks of a `TraceScores`, or of a `SessionRecord` where sessions are
        evaluated; None: nothing.
        """
        return _condition(self.where, self.scope)

    def _refuse_of_source(self) -> None:
        if self.where:
            raise ValueError("where is of what is stored here; of a source give a filter")
        if self.session_ids:
            raise ValueError("a source cannot be asked for session_ids; give a filter")
        wrong = next((x for x in self.trace_ids if not _OTEL_ID.fullmatch(x)), None)
        if wrong is not None:
            raise ValueError(
                f"a source has OpenTelemetry trace ids of 32 hex digits, and {wrong[:80]!r} is none"
            )


class MeasureSpec(Spec):
    """By what a target is evaluated; what is not set is as configured under `evaluation` and
    `judge`.
    """

    metrics: tuple[_Name, ...] = Field(default=(), max_length=500)
    """Names of metrics; empty: the configured ones that run with what is evaluated."""

    model: _Name | None = None
    """The model that judges all of them."""

    thresholds: dict[_Name, _Finite] = Field(default={}, max_length=500)
    """By metric the score from which on its label is `pass`; a threshold never changes a score."""

    signal_weights: dict[_Name, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default={}, max_length=500
    )
    """How much the traces' metrics count in the session metrics."""

    options: dict[_Name, dict[_Name, JsonValue]] = Field(default={}, max_length=500)
    """By metric the options that it has in place of the configured ones."""


def _condition(where: str, scope: ScopeKind) -> Filter[Any] | None:
    """Raises ValueError where it is wrong."""
    if not where.strip():
        return None
    fields: Fields[Any] = _fields(scope)
    try:
        return parse(where, fields)
    except InputError as error:
        raise ValueError(str(error).removeprefix("filter: ")) from None


def _fields(scope: ScopeKind) -> Fields[Any]:
    """What a filter can name; imported here, since only few configurations have such a filter."""
    from spanscore.store.listing import TRACE_FIELDS  # noqa: PLC0415 - it loads SQLAlchemy
    from spanscore.store.session_lists import SESSION_FIELDS  # noqa: PLC0415 - as above

    return SESSION_FIELDS if scope == "session" else TRACE_FIELDS


def _has_error(trace: AgentTrace) -> bool:
    return any(x.error is not None for x in trace.tool_calls or ())


def _tokens(trace: AgentTrace) -> int:
    """Tokens of a trace; -1 where it records none."""
    known = [x for x in (trace.usage.input_tokens, trace.usage.output_tokens) if x is not None]
    return sum(known) if known else -1


_IDS: Final = {"trace_ids", "session_ids"}


class RunBudget(Spec):
    """What a run may spend on its judge, all in all; what is past it is skipped."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together; not set: no limit."""

    max_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """USD; not set: no limit. A model whose price is not known cannot be asked under this limit."""


class RunSpec(Spec):
    """What is evaluated, by what, and what becomes of it."""

    display_name: Annotated[str, Field(max_length=256)] = ""
    """For people; two runs may have the same."""

    target: TargetSpec = TargetSpec()
    """Which stored traces or sessions."""

    measure: MeasureSpec = MeasureSpec()
    """The metrics, their options, and the model that judges."""

    budget: RunBudget | None = None
    """The run's own budget.

    Not set: as much in all as `judge.budget` gives the server for one window.
    """

    export: bool = False
    """Whether the scores are exported by OTLP, each with the attribute `spanscore.run.id`.

    They never replace the traces' own scores.
    """


class StoredSpec(NamedTuple):
    """A spec as the store keeps it, in JSON: the ids that its target names are apart, since they
    may be many.
    """

    spec: str
    ids: str
    digest: str
    """Of all that is not as it is by default: two that ask for the same have the same."""


def stored_spec(spec: RunSpec) -> StoredSpec:
    """`spec` as the store keeps it; `whole` is the inverse."""
    ids = spec.target.model_dump(include=_IDS, exclude_defaults=True)
    digest = hashlib.sha256(
        spec.model_dump_json(exclude_defaults=True).encode("utf-8", "surrogatepass")
    ).hexdigest()
    return StoredSpec(
        spec.model_dump_json(exclude={"target": _IDS}), json.dumps(ids) if ids else "", digest
    )


def whole(spec: str, ids: str) -> RunSpec:
    """What `stored_spec` was given. Raises InputError where this version does not understand it."""
    found = read_spec(RunSpec, spec)
    if not ids:
        return found
    target = read_spec(TargetSpec, {**found.target.model_dump(), **json.loads(ids)})
    return found.model_copy(update={"target": target})


MAX_MONITOR_IDS = 1000

LATER_SCORES: Final = (
    "a trace that is scored after a tick would be in no run: give look_back or everything beside it"
)
"""Why a condition over scores needs a window."""


class MonitorRun(Spec):
    """The evaluation run that each tick starts."""

    target: TargetSpec = TargetSpec()
    """Which stored traces or sessions; at most 1000 ids."""

    measure: MeasureSpec = MeasureSpec()
    """By what they are evaluated."""

    budget: RunBudget | None = None
    """What each of the runs may spend."""

    export: bool = False
    """Whether the scores are exported."""

    look_back: Duration | None = Field(default=None, ge=10**9, le=duration_ns("4000d"))
    """Only traces that were stored or changed in so much time before the run, or of a source
    started. Not set: since the run before; in the first, since the monitor was created. A target of
    ids always means all of these. A source needs it, or `everything`.
    """

    everything: bool = False
    """All traces of the target, in place of those that were stored since the run before."""

    overlap: Literal["skip", "queue", "cancel_previous"] = "skip"
    """What happens at a tick while the run of an earlier one is still going: it is skipped, waits,
    or cancels that run.
    """

    only_if_changed: bool = False
    """Whether a tick is skipped where since the run before nothing was stored or changed in the
    target, what it is measured by is the same, judge and configuration included, and that run
    succeeded.
    """

    @field_validator("target")
    @classmethod
    def _is_bounded(cls, target: TargetSpec) -> TargetSpec:
        if max(len(target.trace_ids), len(target.session_ids)) > MAX_MONITOR_IDS:
            raise ValueError(f"a monitor names at most {MAX_MONITOR_IDS} ids; give a filter")
        return target

    @model_validator(mode="after")
    def _one_window(self) -> Self:
        if self.look_back is not None and self.everything:
            raise ValueError("give look_back or everything, not both")
        if self.look_back is not None and self.names_ids:
            raise ValueError(
                "a target of ids has no look_back: all of these are evaluated each time"
            )
        if self.target.source is not None and not self.names_ids:
            self._refuse_of_source()
        return self

    def _refuse_of_source(self) -> None:
        if self.look_back is None and not self.everything:
            raise ValueError(
                "a source has no record of what is new in it: give look_back or everything"
            )
        if self.only_if_changed:
            raise ValueError(
                "a source has no record of what has changed in it: leave only_if_changed out"
            )

    @property
    def names_ids(self) -> bool:
        """Whether the target names its traces or sessions one by one."""
        return bool(self.target.trace_ids or self.target.session_ids)

    @property
    def misses_later_scores(self) -> bool:
        """Whether the runs are about what was stored since the run before, of which some may not be
        scored yet.
        """
        return bool(self.target.where) and self.look_back is None and not self.everything

    def run_spec(self, name: str, now_ns: int | None = None) -> RunSpec:
        """The run of a tick that is made at `now_ns`."""
        target = self.target
        if target.source is not None and self.look_back is not None and now_ns is not None:
            wanted = target.filter or TraceFilter()
            after_ns = max(wanted.started_after_ns or 0, now_ns - self.look_back)
            target = target.model_copy(
                update={"filter": wanted.model_copy(update={"started_after_ns": after_ns})}
            )
        return RunSpec(
            display_name=name,
            target=target,
            measure=self.measure,
            budget=self.budget,
            export=self.export,
        )


class MonitorSpec(Spec):
    """A monitor: it watches a metric, starts runs, or both."""

    display_name: Annotated[str, Field(max_length=256)] = ""
    """For people; two monitors may have the same."""

    watch: Watch | None = None
    """The metric of which an alert is raised when it falls: where there are runs, in their
    scores.
    """

    schedule: Times = Times()
    """When it ticks."""

    run: MonitorRun | None = None
    """The run that each tick starts.

    Not set: the scores that are made as the traces come are looked at.
    """

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.watch is None and self.run is None:
            raise ValueError(
                "give watch, a metric to be watched, or run, what each tick evaluates, or both"
            )
        return self


def _refuse_no_tenant(name: str) -> str:
    if name and (problem := tenant_problem(name)) is not None:
        raise ValueError(problem)
    return name


class Monitor(Times, Watching):
    """A monitor of the configuration.

    It watches one metric, as its scores are made or in those of the runs that it starts, and raises
    an alert when it falls; or it only starts runs.
    """

    run: MonitorRun | None = None
    """The evaluation run that each tick starts. Not set: `metric` is watched as its scores are
    made.
    """

    tenant: Annotated[str, AfterValidator(_refuse_no_tenant)] = ""
    """Whose scores are watched, and who sees the monitor, where there are tenants (`tenancy`)."""

    paused: bool = False
    """Whether not to tick; what comes meanwhile belongs to the first tick after it."""

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.metric is None:
            given = sorted(self.model_fields_set & (Watch.model_fields.keys() - {"metric"}))
            if given:
                raise ValueError(f"{given[0]} is of a metric that is watched: give metric")
            if self.run is None:
                raise ValueError("give metric, which is watched, or run, or both")
        if self.run is not None and self.run.misses_later_scores:
            raise ValueError(f"run.target.where: {LATER_SCORES}")
        return self

    @property
    def spec(self) -> MonitorSpec:
        """The same as through the API."""
        watched = {name: getattr(self, name) for name in Watch.model_fields}
        times = {name: getattr(self, name) for name in Times.model_fields}
        return MonitorSpec(
            watch=None if self.metric is None else Watch.model_construct(**watched),
            schedule=Times.model_construct(**times),
            run=self.run,
        )
