"""Which metrics run, with which options, how often: the configuration, and what one run may change of it."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from spanscore import metrics
from spanscore.errors import ConfigError, InputError
from spanscore.evaluate.naming import nearest
from spanscore.evaluate.rubric import NAME as RUBRIC
from spanscore.evaluate.rubric import Config as RubricConfig
from spanscore.evaluate.rubric import Rubric, chosen, is_rubric
from spanscore.evaluate.signals import needed
from spanscore.judge.config import RULES
from spanscore.metrics import SIGNAL_WEIGHTS, Judged, Metric, RubricMetric
from spanscore.metrics.check import Check
from spanscore.model.quantity import Duration, duration_ns

FAMILY = (
    "task_completion",
    "tool_correctness",
    "argument_correctness",
    "step_efficiency",
    "confidence",
    "plan_adherence",
    "plan_quality",
    "check.errors_recovered",
    "coherence",
    "loop_detection",
    "agent_reliability",
    "agent_consistency",
    "conversation_completion",
)
"""The metrics that run unless the configuration names others; of the checks those whose worth labelled data show."""

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _options_of_metrics(schema: dict[str, Any]) -> None:
    """Say in the published schema which metrics there are, and which options each has."""
    options = {name: TypeAdapter(metric).json_schema() for name, metric in _configurable().items()}
    schema["properties"] = {name: {"anyOf": [of_one, {"type": "null"}]} for name, of_one in options.items()}
    schema["additionalProperties"] = False


class AskAgain(BaseModel):
    """What the server does about scores that are missing since nobody answered: asks again, as configured then."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = True
    """Whether what failed since a judge or embedding gave no answer, or was skipped since the budget was spent, is
    asked for again: when a model answers again, when the budget's next window begins, or after a while."""

    max_age: Duration = duration_ns("72h")
    """How long after the first time; `store.retention` may forget the trace before."""

    max_tries: int = Field(default=8, ge=1)
    """How often in vain. While no model answers nothing is tried."""

    max_waiting: int = Field(default=50_000, ge=1)
    """Scores that are remembered as missing; of more, the oldest are given up."""

    per_minute: int = Field(default=60, ge=6)
    """Traces and sessions that are asked about in a minute, beside those that come in; the newest are first."""


class Config(BaseModel):
    """What is measured."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    metrics: dict[str, dict[str, Any] | None] = Field(
        default={name: {} for name in FAMILY}, json_schema_extra=_options_of_metrics
    )
    """The metrics to run, by name, each with its options (`spanscore metrics NAME` lists them) or with nothing. The
    signals that session metrics rest on are measured where these are named, also without being named themselves."""

    signal_weights: dict[str, Weight] = {}
    """How much a trace metric counts in the session metrics, where it is not to be the metric's own weight; with 0 it
    does not count."""

    sampling: float = Field(default=1.0, ge=0, le=1)
    """The share that is evaluated: of sessions, and of the traces that belong to none. Which ones is decided by their
    ids, so that a retry or another replica decides alike. A run that somebody asks for is never left out."""

    max_concurrent: int = Field(default=64, ge=1)
    """Metrics that wait for a judge or an embedding at the same time."""

    ask_again: AskAgain = AskAgain()
    """What is done about scores that are missing since nobody answered."""

    rubric: RubricConfig | None = None
    """The rubric judge, with its criteria; off unless it is there, and `{}` for its defaults."""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, configured: dict[str, dict[str, Any] | None]) -> dict[str, dict[str, Any] | None]:
        for name, options in configured.items():
            _metric(name, options or {})
        return configured

    @field_validator("signal_weights")
    @classmethod
    def _known_signals(cls, weights: dict[str, float]) -> dict[str, float]:
        check_signals(weights)
        return weights

    def build(self) -> list[Metric]:
        """The configured metrics, in the order of the configuration; then the signals that session metrics need."""
        configured = [_metric(name, options or {}) for name, options in self.metrics.items()]
        return configured + [_metric(x, {}) for x in needed(configured, self.signal_weights) if x not in self.metrics]

    def models(self, of_judge: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """The models that each judged metric may ask, by its name; what the rubric asks is under `rubric`.

        `of_judge` are the judge's own, in their order, for those that name none.
        """
        named: dict[str, str | None] = {x.name: x.model for x in self.build() if isinstance(x, Judged)}
        if (rubric := chosen(self.rubric)) is not None:
            named[RUBRIC] = rubric.model
        return {name: (model,) if model else of_judge for name, model in named.items() if model != RULES}

    def refuse_models(self) -> None:
        """Raise ConfigError where a metric or the rubric names a model: it is to be called where there is no judge."""
        if model := model_named(self.build(), chosen(self.rubric)):
            raise ConfigError(
                f"evaluation: a metric's model is {model!r}, but judge.model names none: there is no judge to "
                "ask it; set judge.model, to the same model for instance"
            )

    def with_checks(self) -> "Config":
        """This configuration with every check, for one that asks for `rules`, which once stood in for a judge."""
        names = [name for name, x in metrics.available().items() if issubclass(x, Check)]
        changed = self.model_copy(update={"metrics": {**self.metrics, **{x: self.metrics.get(x) for x in names}}})
        if "metrics" not in self.model_fields_set:
            changed.model_fields_set.discard("metrics")  # nobody has named any
        return changed

    def names_rules(self) -> bool:
        """Whether a metric or the rubric names `rules` where a model is to be named."""
        return RULES in _models(self.build(), chosen(self.rubric))


def model_named(run: Iterable[Metric], rubric: Rubric | None) -> str | None:
    """The first model that a metric, or the rubric, names in place of the judge's."""
    return next((model for model in _models(run, rubric) if model not in {None, RULES}), None)


def _models(run: Iterable[Metric], rubric: Rubric | None) -> list[str | None]:
    return [*(x.model for x in run if isinstance(x, Judged)), rubric.model if rubric else None]


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a run that somebody asked for changes; None: as configured.

    `metrics`: which run, also ones that are not configured (with default options then). `model`: judges all of them.
    `threshold`: for all of them. `signal_weights`: on top of the configured ones.
    """

    metrics: tuple[str, ...] | None = None
    model: str | None = None
    threshold: float | None = None
    signal_weights: Mapping[str, float] | None = None

    def applied(self, configured: Iterable[Metric]) -> list[Metric]:
        """The metrics of this run, but those of the rubric. Raises InputError on a metric that there is not."""
        by_name = {metric.name: metric for metric in configured}
        if self.metrics is not None:
            names = [name for name in self.metrics if not is_rubric(name)]
            by_name = {name: by_name[name] if name in by_name else self._unconfigured(name) for name in names}
        return [self._changed(metric) for metric in by_name.values()]

    def rubric(self, configured: RubricConfig | None) -> Rubric | None:
        """What this run scores by the rubric; None: nothing. Raises InputError on a criterion that there is not."""
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


def check_signals(weights: Mapping[str, float]) -> None:
    """Refuse weights of what is no signal. Raises ValueError."""
    for name in weights:
        if name not in SIGNAL_WEIGHTS:
            raise ValueError(f"{name!r} is no signal of the session metrics; {nearest(name, SIGNAL_WEIGHTS)}")


def check_bands(bands: Iterable[str]) -> None:
    """Refuse bands of a cascade for what no judge scores metric by metric. Raises ValueError."""
    judged = [name for name, metric in _configurable().items() if issubclass(metric, Judged)]
    for name in bands:
        if name not in judged:
            raise ValueError(f"judge.cascade.unsure: {name!r} is no judged metric; {nearest(name, judged)}")


def _metric(name: str, options: Mapping[str, Any]) -> Metric:
    """Raises ValueError with what is wrong and the nearest right name."""
    known = _configurable()
    if is_rubric(name):
        raise ValueError(f"{name} is set up under evaluation.rubric, not under evaluation.metrics")
    if name not in known:
        raise ValueError(f"there is no metric {name!r}; {nearest(name, known)}")
    try:
        return _adapter(name).validate_python(dict(options))
    except ValidationError as error:
        raise ValueError("; ".join(_told(known[name], x) for x in error.errors())) from None


def _configurable() -> dict[str, type[Metric]]:
    """The metrics that `evaluation.metrics` may name."""
    return {name: metric for name, metric in metrics.available().items() if not issubclass(metric, RubricMetric)}


@functools.cache  # made anew it takes milliseconds
def _adapter(name: str) -> TypeAdapter[Metric]:
    return TypeAdapter(metrics.available()[name])


def _told(metric: type[Metric], error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    if error["type"] == "unexpected_keyword_argument":
        fields = metric.__dataclass_fields__
        return f"{metric.name} has no option {where!r}; {nearest(where, fields)}"
    return f"{metric.name}.{where}: {error['msg']}"
