"""The metrics and the engine of an offline run."""

import difflib
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from spanscore import metrics
from spanscore.calibration import certificates_in
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import InputError
from spanscore.evaluation import Config, Engine, Overrides
from spanscore.evaluation.procedure import RuleJudge, rule_judges
from spanscore.evaluation.rubric import NAME as RUBRIC, OVERALL, chosen, is_rubric
from spanscore.judge import answers_file, check_models, open_judge, redactor
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.port import Judge
from spanscore.metrics import SIGNAL_WEIGHTS, Judged, Metric, SessionMetric
from spanscore.model.score import Evaluation


def metric_of(name: str) -> type[Metric]:
    """The metric of that name. Raises InputError, with the nearest name, where there is none."""
    available = metrics.available()
    if name in available:
        return available[name]
    near = difflib.get_close_matches(name, available, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(available))}"
    raise InputError(f"no metric {name!r}; {hint}")


def metric_names(name: str, settings: Settings) -> list[str]:
    """The metrics that a name stands for: `check` for all checks, `rubric` for all that the rubric
    scores.

    Raises as `metric_of`.
    """
    if not is_rubric(name):
        return metrics.family(name) or [metric_of(name).name]
    rubric = chosen(settings.evaluation.rubric, [name])
    return [*(x.metric for x in rubric.criteria), OVERALL] if rubric and name == RUBRIC else [name]


def measurable(wanted: Overrides, config: Config) -> Overrides:
    """`wanted` with the trace metrics that a session metric among them rests on, but for those that
    the configuration turns off.
    """
    names = [name for name in wanted.metrics or () if not is_rubric(name)]
    if not any(issubclass(metric_of(name), SessionMetric) for name in names):
        return wanted
    weights = {**SIGNAL_WEIGHTS, **config.weights()}
    signals = [name for name in SIGNAL_WEIGHTS if weights[name]]
    return replace(wanted, metrics=tuple(dict.fromkeys((*(wanted.metrics or ()), *signals))))


def only_wanted(wanted: Overrides, evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """The evaluations by the metrics that a run names, without those that these rest on."""
    return [x for x in evaluations if wanted.metrics is None or x.metric in wanted.metrics]


def uses_models(settings: Settings, wanted: Overrides) -> bool:
    """Whether a judge or an embedding has a part in the scores of a run; n-grams are computed."""
    by_judge = wanted.model is not None or any(judge.models for judge in settings.judges)
    return by_judge or settings.embedding.chosen not in {None, "ngrams"}


def require_providers(settings: Settings, wanted: Overrides) -> None:
    """Refuse a model that no provider is known for before anything is measured.

    Raises ConfigError.
    """
    models: set[str] = set()
    for variant, judge in zip(settings.evaluation.variants(), settings.judges, strict=True):
        judged = [x for x in wanted.applied(variant.build()) if isinstance(x, Judged)]
        models.update(model for x in judged for model in _models(x.model, judge))
        if rubric := wanted.rubric(variant.rubric):
            models.update(_models(rubric.model, judge))
        models.update(judge.cascade_models)
    if models:
        check_models(settings.judge, sorted(models))


def _models(own: str | None, judge: JudgeConfig) -> Sequence[str]:
    """The model that a metric names for itself, else those of the judge."""
    return (own,) if own else judge.models


def open_engine(settings: Settings, judge: Judge | None = None) -> Engine:
    """The engine that `settings` describe; `judge` answers in place of the model that they name.

    The judge's answers are kept between runs, in the file that `judge.cache` names.
    """
    answers = None if judge else answers_file(settings.judge)
    usual = RuleJudge(judge or open_judge(settings.judge, answers), settings.judge)
    return Engine(
        settings.evaluation,
        usual.judge,
        open_embedder(settings.embedding, redact=redactor(settings.judge)),
        judge_config=settings.judge,
        judges=rule_judges(
            settings.evaluation.rules,
            usual,
            lambda config, beside: judge or open_judge(config, answers, beside=beside),
        ),
        certified=certificates_in(settings.store, settings.judge),
        clock_ns=time.time_ns,
    )
