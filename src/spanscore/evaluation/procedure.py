"""The metrics and judges of one rule, and why a stored trace has no score."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spanscore.embed.port import Embedder
from spanscore.errors import FieldError
from spanscore.evaluation.config import Config, Overrides, model_named
from spanscore.evaluation.judgement import Judging
from spanscore.evaluation.measurement import Measuring, Panel
from spanscore.evaluation.rubric import (
    NAME as RUBRIC,
    OVERALL,
    Config as RubricConfig,
    Rubric,
    is_rubric,
)
from spanscore.evaluation.rubric_grades import Grading
from spanscore.evaluation.rules import Decision, Rule, Rules
from spanscore.evaluation.signals import check_signals, needed, usual_weights
from spanscore.judge import renderer
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.port import Judge
from spanscore.metrics import Metric, family
from spanscore.metrics.rubric import PREFIX
from spanscore.model.score import Evaluation, Skip
from spanscore.model.trace import AgentTrace, Session


class RuleJudge(NamedTuple):
    """A judge and how it is asked; `judge` None: nobody is."""

    judge: Judge | None
    config: JudgeConfig


def rule_judges(
    rules: Iterable[Rule],
    usual: RuleJudge,
    opened: Callable[[JudgeConfig, Judge | None], Judge | None],
) -> dict[str, RuleJudge]:
    """The judge of each rule that changes it, by the rule's name.

    `opened` opens the judge of a configuration; the second argument is one from whose budget it is
    to be paid.
    """
    found: dict[str, RuleJudge] = {}
    beside = usual.judge
    for rule in rules:
        if rule.judge is not None:
            config = rule.judge.applied(usual.config)
            found[rule.name] = RuleJudge(opened(config, beside), config)
            beside = beside or found[rule.name].judge
    return found


@dataclass(frozen=True, slots=True)
class Selection:
    """What one run measures.

    `signals` are the metrics of the signals that its session metrics rest on, as it measures them;
    `weights` are the weights of all signals, and `given_weights` those that the configuration or
    the run gives.
    """

    metrics: Sequence[Metric]
    signals: Sequence[Metric]
    rubric: Rubric | None
    weights: Mapping[str, float]
    given_weights: Mapping[str, float]
    of_traces: Sequence[Metric] = field(init=False)
    """The metrics that run with a trace."""

    def __post_init__(self) -> None:
        of_traces = [x for x in self.metrics if x.run == "trace"]
        object.__setattr__(self, "of_traces", of_traces)


class Procedure:
    """What a configuration without rules measures, and by whom."""

    def __init__(
        self,
        config: Config,
        judged_by: RuleJudge,
        embedder: Embedder | None,
        slots: asyncio.Semaphore,
        *,
        beside: Sequence[Metric] = (),
    ) -> None:
        """`slots` bound the calls of the judge at a time. `beside` are the metrics that are
        measured where no rule takes a trace: a run may name them.

        Raises ConfigError where a metric names a model and there is no judge.
        """
        judge, judge_config = judged_by
        if judge is None:
            config.refuse_models()
        render = renderer(judge_config)
        panel = None
        if judge is not None:
            panel = Panel(Judging(judge, judge_config, render, slots), judge_config)
        self.measuring = Measuring(panel, embedder)
        self.grading = Grading(judge, render, slots, judge_config)
        self.has_judge = judge is not None
        self.configured = config.build()
        self.names = frozenset(x.name for x in self.configured)
        self.looks_back = self.has_judge or any(x.looks_back for x in self.configured)
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and
        some checks do.
        """
        self._config = config
        self._known = [*beside, *self.configured]
        self._usual_weights = usual_weights(embedder.name if embedder else None)
        self._usual = self._selection(Overrides())

    def selection(self, overrides: Overrides | None) -> Selection:
        """What a run measures; `overrides` None: what is configured.

        Raises InputError where `overrides` cannot be met.
        """
        return self._usual if overrides is None else self._selection(overrides)

    def _selection(self, overrides: Overrides) -> Selection:
        config = self._config
        changed_weights = overrides.signal_weights or {}
        try:
            check_signals(changed_weights, config.external_names)
        except ValueError as error:
            raise FieldError("signal_weights", str(error)) from None
        given = {**config.weights(), **changed_weights}
        weights = {**self._usual_weights, **given}
        run = overrides.applied(self.configured if overrides.metrics is None else self._known)
        names = needed(run, weights, external=config.external_names)
        signals = Overrides(names, overrides.model).applied(self._known)
        rubric = overrides.rubric(config.rubric)
        if not self.has_judge and (model := model_named((*run, *signals), rubric)):
            raise FieldError(
                "model",
                f"{model!r} cannot judge: judge.model names none, so there is no judge to ask it",
            )
        return Selection(run, signals, rubric, weights, given)

    def ranking(self) -> dict[str, float]:
        """The weights by which the metrics of a configured run are put in order: of signals, and of
        criteria.
        """
        rubric = self._usual.rubric
        criteria = {x.criterion.metric: x.weight for x in rubric.weighted} if rubric else {}
        return {**self._usual.weights, **criteria}


def narrowed(config: Config, given: Mapping[str, Any]) -> Config:
    """These metrics alone, each with the options that are given with it; None: as `config` has it.
    A family such as `check` is all of its metrics.

    What it turns off stays off, as a signal too.

    Rules keep their shares, judges and thresholds, and their settings for these metrics.

    Raises pydantic's ValidationError where a name or an option is not known.
    """
    given = {x: options for name, options in given.items() for x in family(name) or [name]}
    plain = {
        name: options
        for name, options in given.items()
        if name not in config.criteria and not is_rubric(name)
    }
    metrics: dict[str, Any] = {name: False for name, x in config.metrics.items() if x is False}
    metrics |= {
        name: (config.metrics.get(name) or None) if options is None else options
        for name, options in plain.items()
    }
    checked = Config.model_validate({"default_metrics": False, "metrics": metrics})
    rubric = _rubric(config.rubric, filter(is_rubric, given))
    return config.model_copy(
        update={
            "rules": [x.narrowed(given, has_rubric=rubric is not None) for x in config.rules],
            "default_metrics": False,
            "metrics": checked.metrics,
            "criteria": {
                name: criterion for name, criterion in config.criteria.items() if name in given
            },
            "rubric": rubric,
        }
    )


def _rubric(config: RubricConfig | None, names: Iterable[str]) -> RubricConfig | None:
    """The rubric with the criteria that are named; all that are configured where it is named
    itself.
    """
    named = list(names)
    if not named:
        return None
    found = config or RubricConfig()
    if {RUBRIC, OVERALL} & set(named):
        return found
    configured = {x.metric.removeprefix(PREFIX): x.weight for x in found.metrics or ()}
    known = found.known()
    selected: list[dict[str, Any]] = []
    for name in (x.removeprefix(PREFIX) for x in named):
        own = known[name].weight if name in known else None
        selected.append({"metric": name, "weight": configured.get(name) or own or 1.0})
    return RubricConfig.model_validate(
        {**found.model_dump(exclude_unset=True), "metrics": selected}
    )


def as_session(subject: AgentTrace | Session) -> Session:
    """A session as it is, and a trace as a session of its own."""
    if isinstance(subject, Session):
        return subject
    return Session(subject.session_id or "", (subject,))


_MAX_REASONS = 3
_NO_CONTENT = "its spans record no questions, answers or arguments; "
_OF_SESSION = (
    "it waits for its session: only sessions are measured, each once it has been quiet for"
    " assemble.session_idle_after"
)
_OF_NO_SESSION = "only sessions are measured, and it belongs to none"


class Unscored:
    """Says by a configuration why a stored trace has no score."""

    def __init__(self, config: Config) -> None:
        self._rules = Rules(config.rules, config.sampling)
        configs: dict[str | None, Config] = {None: config.without_rules()}
        configs |= {x.name: config.under(x) for x in config.rules if x.measures}
        self._of_sessions = {
            name: all(metric.run == "session" for metric in x.build())
            for name, x in configs.items()
        }

    def why(self, trace: AgentTrace, scores: Sequence[Evaluation]) -> str:
        """The cause, or "" where it has a score or a measurement of it failed.

        `scores` are the newest of the trace.
        """
        if any(x.status != "skipped" for x in scores):
            return ""
        if scores:
            return (_NO_CONTENT if not trace.has_content else "") + _skipped(scores)
        decision = self._rules.decide(trace)
        if not decision.takes_in(trace.session_id or trace.id):
            return _left_out(decision)
        if self._of_sessions[decision.rule]:
            return _OF_SESSION if trace.session_key else _OF_NO_SESSION
        return "nothing was measured when it was stored, as where traces are imported"


def _skipped(scores: Sequence[Evaluation]) -> str:
    names: dict[str, list[str]] = {}
    for score in scores:
        if isinstance(score.outcome, Skip):
            reason = score.outcome.reason.replace(f" judges {score.metric}:", " judges them:")
            names.setdefault(reason, []).append(score.metric)
    parts = [f"{', '.join(metrics)} skipped: {reason}" for reason, metrics in names.items()]
    more = len(parts) - _MAX_REASONS
    return "; ".join(parts[:_MAX_REASONS]) + (f"; and {more} more reasons" if more > 0 else "")


def _left_out(decision: Decision) -> str:
    if not decision.measures:
        return f"the rule {decision.rule} has nothing measured (metrics: none)"
    by = "evaluation.sampling" if decision.rule is None else f"the rule {decision.rule}"
    return f"left out of the sample: {by} has {decision.share:.4g} of the traces evaluated"
