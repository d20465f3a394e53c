"""Configuration of metrics, rules and runs."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from spanscore import metrics
from spanscore.errors import ConfigError, InputError, nearest
from spanscore.evaluation.own import Criterion, load_plugins, make_known
from spanscore.evaluation.rubric import (
    NAME as RUBRIC,
    OVERALL,
    Config as RubricConfig,
    Rubric,
    chosen,
    is_rubric,
    require_on_scale,
)
from spanscore.evaluation.rules import Rule, attribute_names, check_rules
from spanscore.evaluation.signals import ExternalSignal, check_signals, external_names, needed
from spanscore.metrics import SIGNAL_WEIGHTS, Judged, Metric, RubricMetric
from spanscore.model.options import Duration, Options, duration_ns
from spanscore.model.score import ScopeKind


class RunRetention(Options):
    """How long evaluation runs are kept that have ended; whichever bound is reached first."""

    max_age: Duration | None = Field(default=duration_ns("30d"), gt=0)
    """Runs that ended longer ago are deleted; null keeps them for ever."""

    max_runs: int | None = Field(default=1000, ge=1)
    """How many are kept, the newest, of each tenant; null sets no bound."""

    delete_scores: bool = False
    """Whether the scores of a run go with it; false: they stay for as long as `store.retention`
    says.
    """


class RunMaxBudget(Options):
    """The most that one evaluation run may spend on its judge, all in all."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together; null: no bound."""

    max_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """USD; null: no bound. A model whose price is not known cannot be asked under it."""


class RunSource(Options):
    """Where the stored traces are that runs may read."""

    url: str = Field(min_length=1)
    """As for `spanscore eval`: `jaeger://localhost:16686?service=shop`, `file:///data/traces`,
    `s3://bucket/path`. Its conditions hold for every run; a run's own filter narrows them.
    """

    tenants: list[str] = []
    """Which tenants may read it; where there are no tenants, everybody may whose token can create
    runs.
    """


class Runs(Options):
    """Evaluation runs, which score what is stored: they give way to what comes in."""

    at_once: int = Field(default=2, ge=1, le=64)
    """Runs that are worked on at the same time; others wait for their turn."""

    max_concurrent: int = Field(default=8, ge=1)
    """Traces or sessions that one run evaluates at the same time, and metrics of these that wait
    for a judge.
    """

    max_budget: RunMaxBudget = RunMaxBudget()
    """What no run may spend more than.

    One that asks for more is refused; one without a budget of its own has this.
    """

    sources: dict[Annotated[str, Field(min_length=1, max_length=256)], RunSource] = {}
    """Backends and files elsewhere whose stored traces runs may evaluate, by the name that a run
    gives. A run can name no other place.
    """

    max_from_source: int = Field(default=50_000, ge=1)
    """Traces or sessions of a source that one run may evaluate, after its sample is drawn: their
    traces are stored.
    """

    retention: RunRetention = RunRetention()
    """How long runs are kept that have ended."""


FAMILY = (
    "task_completion",
    "tool_correctness",
    "argument_correctness",
    "step_efficiency",
    "confidence",
    "plan_adherence",
    "plan_quality",
    "check.arguments_grounded",
    "check.errors_recovered",
    "check.repeated_calls",
    "coherence",
    "loop_detection",
    "agent_reliability",
    "agent_consistency",
    "conversation_completion",
)
"""The metrics that run by default; of the checks those whose worth labelled data show."""

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Named: TypeAlias = dict[str, dict[str, Any] | bool | None]


def _options_of_metrics(schema: dict[str, Any]) -> None:
    """Say in the published schema which metrics there are, and which options each has."""
    options = {name: TypeAdapter(metric).json_schema() for name, metric in _configurable().items()}
    beside: list[Any] = [{"type": "boolean"}, {"type": "null"}]
    schema["properties"] = {name: {"anyOf": [of_one, *beside]} for name, of_one in options.items()}
    # one's own, which plugins make known
    schema["additionalProperties"] = {"anyOf": [{"type": "object"}, *beside]}


class AskAgain(Options):
    """What the server does about scores that are missing since nobody answered: asks again, as
    configured then.
    """

    enabled: bool = True
    """Whether what failed since a judge or embedding gave no answer, or was skipped since the
    budget was spent, is asked for again: when a model answers again, when the budget's next window
    begins, or after a while.
    """

    max_age: Duration = duration_ns("72h")
    """How long after the first time; `store.retention` may forget the trace before."""

    max_tries: int = Field(default=8, ge=1)
    """How often in vain. While no model answers nothing is tried."""

    max_waiting: int = Field(default=50_000, ge=1)
    """Scores that are remembered as missing; of more, the oldest are given up."""

    per_minute: int = Field(default=60, ge=6)
    """Traces and sessions that are asked about in a minute, beside those that come in; the newest
    are first.
    """


class Config(Options):
    """What is measured."""

    plugins: list[str] = []
    """What makes metrics of your own: modules that Python can import, or files such as
    `./my_metrics.py`, relative to this configuration's folder. They run with all that spanscore may
    do.
    """

    criteria: dict[str, Criterion] = {}
    """Metrics in plain words, by name: each a question that the judge answers.

    They run, as the defaults do.
    """

    default_metrics: bool = True
    """Whether the metrics that run by default run beside those in `metrics` and `criteria`; false:
    only these.
    """

    metrics: dict[str, dict[str, Any] | bool | None] = Field(
        default={}, json_schema_extra=_options_of_metrics
    )
    """The metrics to run besides, by name, each with its options (`spanscore metrics NAME` lists
    them) or with nothing; also options of those that run anyway. A threshold that no score of the
    metric can be is refused. `false` in place of options: it does not run. The signals that
    session metrics rest on are measured where these run, also without being named themselves.
    """

    external_signals: dict[str, ExternalSignal] = {}
    """Scores that others gave, by name, that count in the session metrics as the traces' own scores
    do: from the session's next evaluation on.
    """

    signal_weights: dict[str, Weight] = {}
    """How much metrics of traces count in the session metrics, by name: `confidence`,
    `loop_detection`, `tool_correctness` and `coherence`, where it is not to be the usual weight,
    and any other that is to count too, such as a check, a criterion, a function of your own or an
    external signal. With 0 one does not count.
    """

    sampling: float = Field(default=1.0, ge=0, le=1)
    """The share that is evaluated: of sessions, and of the traces that belong to none. Which ones
    is decided by their ids, so that a retry or another replica decides alike. A run that somebody
    asks for is never left out.
    """

    max_concurrent: int = Field(default=64, ge=1)
    """Metrics that wait for a judge or an embedding at the same time."""

    ask_again: AskAgain = AskAgain()
    """What is done about scores that are missing since nobody answered."""

    runs: Runs = Runs()
    """What holds for evaluation runs."""

    rubric: RubricConfig | None = None
    """The rubric judge, with its criteria; off unless it is there, and `{}` for its defaults."""

    rules: list[Rule] = []
    """What holds for some traces in place of the above: of these rules the first that takes a trace
    decides.
    """

    @field_validator("plugins")
    @classmethod
    def _loaded(cls, plugins: list[str], info: ValidationInfo) -> list[str]:
        folder = (info.context or {}).get("folder") or Path()
        try:
            load_plugins(plugins, folder)
        except InputError as error:
            raise ValueError(str(error)) from None
        return plugins

    @field_validator("criteria")
    @classmethod
    def _made_known(cls, criteria: dict[str, Criterion]) -> dict[str, Criterion]:
        try:
            make_known(criteria)
        except InputError as error:
            raise ValueError(str(error)) from None
        return criteria

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, configured: Named, info: ValidationInfo) -> Named:
        if not {"plugins", "criteria"} <= info.data.keys():
            return configured  # what these were to make known is not, and that is reported already
        for name, options in configured.items():
            _metric(name, options if isinstance(options, dict) else {})
        return configured

    @field_validator("external_signals")
    @classmethod
    def _names_of_their_own(cls, signals: dict[str, ExternalSignal]) -> dict[str, ExternalSignal]:
        for name, signal in signals.items():
            if name in SIGNAL_WEIGHTS and signal.counts_as is None:
                raise ValueError(
                    f"{name!r} is a signal that spanscore measures; say so by counts_as: {name}"
                )
        return signals

    @field_validator("signal_weights")
    @classmethod
    def _known_signals(cls, weights: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        if {
            "plugins",
            "criteria",
            "external_signals",
        } <= info.data.keys():  # else what is wrong there is reported already
            check_signals(weights, external_names(info.data["external_signals"]))
        return weights

    @model_validator(mode="after")
    def _rules_can_be_used(self) -> Self:
        check_rules(self.rules)
        for place, rule in enumerate(self.rules):
            try:
                variant = self.under(rule)
                variant.build()
                _refuse_idle(variant, rule)
            except ValueError as error:
                raise ValueError(f"rules.{place} ({rule.name}): {error}") from None
        return self

    @property
    def span_attributes(self) -> frozenset[str]:
        """The attributes of spans that are kept with an agent trace: those that the rules read, and
        the tags.
        """
        return attribute_names(x.when for x in self.rules)

    def under(self, rule: Rule) -> "Config":
        """This configuration as it is for the traces that a rule takes.

        Raises ValueError where the two do not go together.
        """
        if rule.rubric and self.rubric is None:
            raise ValueError(
                "rubric: evaluation.rubric is not set up; add it, with {} for its defaults"
            )
        changes: dict[str, Any] = {
            "rules": [],
            "sampling": self.sampling if rule.sampling is None else rule.sampling,
        }
        named = rule.metrics if isinstance(rule.metrics, dict) else {}
        changes["metrics"] = {
            name: _merged(self.metrics.get(name), options) for name, options in named.items()
        }
        if rule.measures and rule.default_metrics:
            changes["metrics"] = {**self.metrics, **changes["metrics"]}
        else:
            changes |= {"default_metrics": False, "criteria": {}}
        if not (rule.measures and (rule.default_metrics if rule.rubric is None else rule.rubric)):
            changes["rubric"] = None
        return _with_thresholds(self.model_copy(update=changes), rule.thresholds)

    def measured(self) -> dict[str, dict[str, Any]]:
        """The metrics that run, by name, each with its options: the defaults, then the criteria,
        then what is named.
        """
        found: dict[str, dict[str, Any]] = (
            {name: {} for name in FAMILY} if self.default_metrics else {}
        )
        found |= {name: {} for name in self.criteria}
        found |= {
            name: options if isinstance(options, dict) else {}
            for name, options in self.metrics.items()
        }
        return {
            name: options for name, options in found.items() if self.metrics.get(name) is not False
        }

    def named(self) -> list[str]:
        """The metrics that the configuration names: its criteria, and those under `metrics`."""
        given = self.metrics if "metrics" in self.model_fields_set else {}
        return [
            name for name in dict.fromkeys((*self.criteria, *given)) if given.get(name) is not False
        ]

    def weights(self) -> dict[str, float]:
        """The weights of signals that the configuration gives: 0 for one that it says is not to
        run.
        """
        left_out = {name: 0.0 for name in SIGNAL_WEIGHTS if self.metrics.get(name) is False}
        external = {name: self.external_signals[name].weight for name in self.external_names}
        return {**left_out, **external, **self.signal_weights}

    @property
    def external_names(self) -> list[str]:
        """The scores of others that are signals of their own: nothing is measured for them."""
        return external_names(self.external_signals)

    def build(self) -> list[Metric]:
        """The metrics that run, in the order of `measured`; then the signals that session metrics
        need.
        """
        measured = self.measured()
        configured = [_metric(name, options) for name, options in measured.items()]
        signals = needed(configured, self.weights(), external=self.external_names)
        return configured + [_metric(x, {}) for x in signals if x not in measured]

    def variants(self) -> list["Config"]:
        """This configuration as it is for traces that no rule takes, and as it is for those of each
        rule.
        """
        return [self.without_rules(), *map(self.under, self.rules)]

    def without_rules(self) -> "Config":
        """This configuration as it is for traces that no rule takes."""
        return self.model_copy(update={"rules": []})

    def models(self, of_judge: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """The models that each judged metric may ask, by its name, for traces that no rule takes.

        What the rubric asks is under `rubric`.

        `of_judge` are the judge's own, in their order, for those that name none.
        """
        named: dict[str, str | None] = {
            x.name: x.model for x in self.build() if isinstance(x, Judged)
        }
        if (rubric := chosen(self.rubric)) is not None:
            named[RUBRIC] = rubric.model
        return {name: (model,) if model else of_judge for name, model in named.items()}

    def refuse_models(self) -> None:
        """Raise ConfigError where a metric or the rubric names a model: it is to be called where
        there is no judge.

        Rules have no part in it.
        """
        if model := model_named(self.build(), chosen(self.rubric)):
            raise ConfigError(
                f"evaluation: a metric's model is {model!r}, but judge.model names none: there is"
                " no judge to ask it; set judge.model, to the same model for instance"
            )

    def refuse_unmeasured(self, name: str, scope: ScopeKind) -> None:
        """Raise ValueError where no trace (or session) that comes gets a score of this name."""
        variants = self.variants()
        scope_of = {x.name: x.scope for variant in variants for x in variant.build()}
        rubrics = [x for variant in variants if (x := chosen(variant.rubric)) is not None]
        of_rubric = {x.criterion.metric for rubric in rubrics for x in rubric.weighted}
        if name in of_rubric or (rubrics and name == OVERALL):
            return
        if name not in scope_of and name in metrics.available():
            where = "evaluation.rubric" if is_rubric(name) else "evaluation.metrics"
            raise ValueError(f"{name} is not measured; set it up under {where}")
        if name not in scope_of:
            raise ValueError(
                f"there is no metric {name!r}; {nearest(name, [*scope_of, *of_rubric])}"
            )
        if scope_of[name] != scope:
            raise ValueError(
                f"{name} is a score of {scope_of[name]}s; write scope: {scope_of[name]}"
            )


def model_named(run: Iterable[Metric], rubric: Rubric | None) -> str | None:
    """The first model that a metric, or the rubric, names in place of the judge's."""
    named = [*(x.model for x in run if isinstance(x, Judged)), rubric.model if rubric else None]
    return next((model for model in named if model is not None), None)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a run that somebody asked for changes; None: as configured.

    `metrics`: which run, also ones that are not configured (with default options then). `model`:
    judges all of them. `threshold`: for all of them. `signal_weights`: on top of the configured
    ones.
    """

    metrics: tuple[str, ...] | None = None
    model: str | None = None
    threshold: float | None = None
    signal_weights: Mapping[str, float] | None = None

    def applied(self, configured: Iterable[Metric]) -> list[Metric]:
        """The metrics of this run, but those of the rubric.

        Raises InputError on a metric that there is not.
        """
        by_name = {metric.name: metric for metric in configured}
        if self.metrics is not None:
            names = [name for name in self.metrics if not is_rubric(name)]
            by_name = {
                name: by_name[name] if name in by_name else self._unconfigured(name)
                for name in names
            }
        return [self._changed(metric) for metric in by_name.values()]

    def rubric(self, configured: RubricConfig | None) -> Rubric | None:
        """What this run scores by the rubric; None: nothing.

        Raises InputError on a criterion that there is not.
        """
        return chosen(configured, self.metrics, model=self.model, threshold=self.threshold)

    def _unconfigured(self, name: str) -> Metric:
        try:
            return _metric(name, {})
        except ValueError as error:
            raise InputError(str(error)) from None

    def _changed(self, metric: Metric) -> Metric:
        changes: dict[str, Any] = {}
        if self.threshold is not None:
            changes["threshold"] = self.threshold
        if self.model is not None and isinstance(metric, Judged):
            changes["model"] = self.model
        return replace(metric, **changes) if changes else metric


def check_bands(bands: Iterable[str], config: Config) -> None:
    """Refuse bands of a cascade for what no judge scores. Raises ValueError."""
    judged = [name for name, metric in _configurable().items() if issubclass(metric, Judged)]
    rubrics = [RubricConfig(), *(x.rubric for x in config.variants() if x.rubric is not None)]
    judged += [OVERALL, *(x.metric for rubric in rubrics for x in rubric.known().values())]
    for name in bands:
        if name not in judged:
            raise ValueError(
                f"judge.cascade.unsure: {name!r} is no judged metric; {nearest(name, judged)}"
            )


def _metric(name: str, options: Mapping[str, Any]) -> Metric:
    """Raises ValueError with what is wrong and the nearest right name."""
    known = _configurable()
    if is_rubric(name):
        raise ValueError(f"{name} is set up under evaluation.rubric, not under evaluation.metrics")
    if name not in known:
        raise ValueError(f"there is no metric {name!r}; {nearest(name, known)}")
    metric: Any = known[name]
    try:
        made = _adapter(metric).validate_python(dict(options))
    except ValidationError as error:
        raise ValueError("; ".join(_problem(known[name], x) for x in error.errors())) from None
    if "threshold" in options:
        given = made.threshold
        for threshold in given.values() if isinstance(given, Mapping) else [given]:
            if threshold is not None:
                _check_on_scale(f"{name}.threshold", threshold, name)
    return made


def _check_on_scale(place: str, threshold: float, name: str) -> None:
    """`require_on_scale` for what pydantic validates. Raises ValueError."""
    try:
        require_on_scale(place, threshold, [name])
    except InputError as error:
        raise ValueError(str(error)) from None


def _configurable() -> dict[str, type[Metric]]:
    """The metrics that `evaluation.metrics` may name."""
    return {
        name: metric
        for name, metric in metrics.available().items()
        if not issubclass(metric, RubricMetric)
    }


@functools.lru_cache(maxsize=1024)  # made anew it takes milliseconds
def _adapter(metric: type[Metric]) -> TypeAdapter[Metric]:
    return TypeAdapter(metric)


def _problem(metric: type[Metric], error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    if error["type"] == "unexpected_keyword_argument":
        options = [x.name for x in fields(metric)]
        return f"{metric.name} has no option {where!r}; {nearest(where, options)}"
    return f"{metric.name}.{where}: {error['msg']}"


def _refuse_idle(config: "Config", rule: Rule) -> None:
    """Raise ValueError where a rule, under which `config` is, leaves nothing to be measured without
    saying so.
    """
    if rule.measures and not config.measured() and config.rubric is None:
        raise ValueError(
            "nothing is left to be measured; write `metrics: none` where that is meant"
        )


def _merged(configured: Any, options: Any) -> Any:
    """A metric's options in a rule on top of the configured ones."""
    return (
        {**configured, **(options or {})}
        if isinstance(configured, dict) and options is not False
        else options
    )


def _with_thresholds(config: "Config", thresholds: Mapping[str, float]) -> "Config":
    """With these thresholds, by metric.

    Raises ValueError for a metric that does not run, or whose scale lacks it.
    """
    measured, rubric = config.measured(), config.rubric
    scored = [*measured, *([OVERALL] if rubric is not None else [])]
    changed = dict(config.metrics)
    for name, threshold in thresholds.items():
        if not scored:
            raise ValueError(
                "thresholds: nothing is measured, so no threshold holds; leave them out"
            )
        if name not in scored:
            raise ValueError(f"thresholds: {name!r} does not run here; {nearest(name, scored)}")
        _check_on_scale("thresholds", threshold, name)
        if name in measured:
            changed[name] = {**measured[name], "threshold": threshold}
        elif rubric is not None:
            rubric = rubric.model_copy(update={"pass_threshold": threshold})
    return config.model_copy(update={"metrics": changed, "rubric": rubric})
