"""The metrics and judges of one rule."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spanscore.embed.port import Embedder
from spanscore.errors import FieldError
from spanscore.evaluation.config import Config, Overrides, model_named
from spanscore.evaluation.judgement import Judging
from spanscore.evaluation.measurement import Measuring, Panel
from spanscore.evaluation.outcomes import Graded, evaluations, graded
from spanscore.evaluation.rubric import NAME as RUBRIC
from spanscore.evaluation.rubric import OVERALL, Rubric, is_rubric
from spanscore.evaluation.rubric import Config as RubricConfig
from spanscore.evaluation.rubric_grades import Grading
from spanscore.evaluation.rules import Rule
from spanscore.evaluation.signals import check_signals, needed, usual_weights
from spanscore.judge import renderer
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.port import Judge
from spanscore.metrics import Metric, family
from spanscore.metrics.rubric import NOTHING_EXPECTED, PREFIX, Expected
from spanscore.model.score import Evaluation
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


class Selection:
    """The configuration, and for each of its runs what `Overrides` change of it; None: nothing."""

    def __init__(
        self,
        config: Config,
        embedder: Embedder | None,
        *,
        has_judge: bool,
        beside: Sequence[Metric] = (),
    ) -> None:
        """`embedder` None: no embedding is configured.

        `beside` are metrics that run where a run names them.
        """
        self._config = config
        self.has_judge = has_judge
        self.configured = config.build()
        self._known = [*beside, *self.configured]
        embedding = embedder.name if embedder else None
        self._usual_weights = usual_weights(embedding)
        self._given_weights = config.weights()

    def metrics(self, overrides: Overrides | None) -> list[Metric]:
        """The metrics of a run.

        Raises InputError on one that there is not, or a model where there is no judge.
        """
        if overrides is None:
            return self.configured
        selected = overrides.applied(self.configured if overrides.metrics is None else self._known)
        rubric = self.rubric(overrides)
        if not self.has_judge and (
            model := model_named((*selected, *self.signals(selected, overrides)), rubric)
        ):
            raise FieldError(
                "model",
                f"{model!r} cannot judge: judge.model names none, so there is no judge to ask it",
            )
        return selected

    def rubric(self, overrides: Overrides | None) -> Rubric | None:
        """What a run scores by the rubric; None: nothing.

        Raises InputError on a criterion that there is not.
        """
        return (overrides or Overrides()).rubric(self._config.rubric)

    def signals(self, run: Sequence[Metric], overrides: Overrides | None) -> list[Metric]:
        """The metrics of the signals that the session metrics of a run rest on, as that run
        measures them.
        """
        names = needed(run, self.weights(overrides), external=self._config.external_names)
        return Overrides(names, overrides.model if overrides else None).applied(self._known)

    def weights(self, overrides: Overrides | None) -> dict[str, float]:
        """The weights of all signals, by name. Raises FieldError on what is no signal."""
        return {**self._usual_weights, **self.given_weights(overrides)}

    def given_weights(self, overrides: Overrides | None) -> Mapping[str, float]:
        """The weights of signals that the configuration or the run gives.

        Raises FieldError on what is no signal.
        """
        changed = (overrides.signal_weights if overrides else None) or {}
        try:
            check_signals(changed, self._config.external_names)
        except ValueError as error:
            raise FieldError("signal_weights", str(error)) from None
        return {**self._given_weights, **changed}

    def ranking(self) -> dict[str, float]:
        """The weights by which the metrics of a configured run are put in order: of signals, and of
        criteria.
        """
        rubric = self.rubric(None)
        criteria = {x.criterion.metric: x.weight for x in rubric.weighted} if rubric else {}
        return self.weights(None) | criteria


@dataclass(frozen=True, slots=True)
class Procedure:
    """What is measured, and by whom."""

    selection: Selection
    measuring: Measuring
    grading: Grading

    @property
    def looks_back(self) -> bool:
        """Whether a trace's evaluation uses the session's earlier turns: a judge reads them, and
        some checks do.
        """
        return self.selection.has_judge or any(x.looks_back for x in self.selection.configured)


def make_procedure(
    config: Config,
    judged_by: RuleJudge,
    embedder: Embedder | None,
    slots: asyncio.Semaphore,
    *,
    beside: Sequence[Metric] = (),
) -> Procedure:
    """The procedure that a configuration without rules describes.

    `slots` bound the calls of the judge at a time. `beside` are the metrics that are measured where
    no rule takes a trace. Raises ConfigError where a metric names a model and there is no judge.
    """
    judge, judge_config = judged_by
    if judge is None:
        config.refuse_models()
    render = renderer(judge_config)
    panel = None
    if judge is not None:
        panel = Panel(Judging(judge, judge_config, render, slots), judge_config)
    return Procedure(
        Selection(config, embedder, has_judge=judge is not None, beside=beside),
        Measuring(panel, embedder),
        Grading(judge, render, slots, judge_config),
    )


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


@dataclass(frozen=True, slots=True)
class Evaluating:
    """Makes the evaluations of one revision, by one procedure."""

    procedure: Procedure
    revision: int
    clock_ns: Callable[[], int]

    async def by_metrics(
        self,
        metrics: Sequence[Metric],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[Evaluation]:
        """The evaluations of a trace, or of a session by a judge.

        `earlier` are the session's turns before the trace.
        """
        measured = await self.procedure.measuring.measured(metrics, subject, earlier)
        return self.evaluations(graded(metrics, measured), subject)

    async def by_rubric(
        self,
        rubric: Rubric,
        subject: AgentTrace | Session,
        expected: Expected = NOTHING_EXPECTED,
    ) -> list[Evaluation]:
        """The evaluations of a rubric's criteria, and the overall one as the last."""
        found = await self.procedure.grading.graded(rubric, as_session(subject), expected)
        return self.evaluations(found, subject)

    def evaluations(
        self, found: Iterable[Graded], subject: AgentTrace | Session
    ) -> list[Evaluation]:
        """Outcomes as evaluations of a trace or a session, made now."""
        return evaluations(found, subject, revision=self.revision, now_ns=self.clock_ns())


def as_session(subject: AgentTrace | Session) -> Session:
    """A session as it is, and a trace as a session of its own."""
    if isinstance(subject, Session):
        return subject
    return Session(subject.session_id or "", (subject,))
