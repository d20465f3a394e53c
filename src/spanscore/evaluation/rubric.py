"""The rubric's criteria, weights and overall score."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from spanscore import metrics
from spanscore.errors import FieldError, InputError, nearest
from spanscore.metrics import Criterion, RubricMetric, rubric as criterial
from spanscore.metrics.rubric import PREFIX, Expected
from spanscore.metrics.rubric.built_in import Overall
from spanscore.model.options import Options
from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome, Score, Skip, reaches

NAME = PREFIX.rstrip(".")
OVERALL = Overall.name
_RESERVED = ("overall", "expected_outcomes")
_MAX_FILE_BYTES = 2**20
_LEVELS = range(6)

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _text(value: Any) -> Any:
    """YAML reads `no` as something else than the text that a person meant."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no text here; put it in quotes")  # noqa: TRY004 - pydantic tells it
    if isinstance(value, str) and not value.strip():
        raise ValueError("say something; it is empty")
    return value.strip() if isinstance(value, str) else value


def _levels(given: dict[int, str]) -> dict[int, str]:
    unknown = sorted(set(given) - set(_LEVELS))
    if unknown:
        raise ValueError(f"there is no level {unknown[0]}; the levels are 0 to 5")
    return given


Text = Annotated[str, BeforeValidator(_text), Field(max_length=4000)]


class Selected(Options):
    """A criterion that is scored."""

    metric: str
    """The criterion's id; `spanscore metrics --criteria` lists them."""

    weight: Weight | None = None
    """How much it counts; null: the criterion's own weight."""

    @model_validator(mode="before")
    @classmethod
    def _by_its_id_alone(cls, given: Any) -> Any:
        return {"metric": given} if isinstance(given, str) else given


class Own(Options):
    """A criterion of the user's own."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    """Its id, in snake_case; it is scored as `rubric.ID`."""

    display_name: Text
    """What people call it."""

    description: Text
    """What it asks, in the words that the judge gets."""

    tier: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    """The group it belongs to: execution, knowledge, process, delivery, or one of your own."""

    weight: Weight
    """How much it counts where `metrics` gives no weight; with 0 `metrics` must give one."""

    type: Literal["scored", "binary"]
    """`scored`: a whole number from 0 to 5.

    `binary`: pass, which counts as 5, or fail, which counts as 0.
    """

    rubric: Annotated[dict[int, Text], AfterValidator(_levels)]
    """What each level from 0 to 5 means.

    Of a binary criterion, 3 to 5 are a pass, and 0 and 5 alone will do.
    """

    not_applicable: Text | None = None
    """When a session gives no occasion for it, in words, such as `the user asked for no recipe`:
    the judge may then answer that it does not apply, and its weight goes to the others; null: it
    always applies.
    """

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.id in _RESERVED:
            raise ValueError(f"{self.id} cannot be the id of a criterion; choose another")
        needed = (0, 5) if self.type == "binary" and set(self.rubric) == {0, 5} else _LEVELS
        if missing := [str(level) for level in needed if level not in self.rubric]:
            raise ValueError(f"criterion {self.id}: rubric lacks the level(s) {', '.join(missing)}")
        return self

    def criterion(self) -> Criterion:
        """As the rubric judge takes it."""
        levels = tuple(self.rubric.get(level) for level in _LEVELS)
        return Criterion(
            self.id,
            self.display_name,
            self.description,
            self.tier,
            self.weight,
            levels,
            self.type,
            no_occasion=self.not_applicable,
        )


def _from_files(given: Any) -> Any:
    """The criteria, with those in the files that are named among them."""
    if not isinstance(given, list):
        return given
    found: list[Any] = []
    for item in given:
        found += _in_file(Path(item)) if isinstance(item, str) else [item]
    return found


def _in_file(path: Path) -> list[Any]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ValueError(
                f"{path}: larger than {_MAX_FILE_BYTES} bytes; this is no file of criteria"
            )
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"{path}: {error.strerror or error}; name a file of criteria that can be read"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    listed = data.get("criteria") if isinstance(data, dict) and "id" not in data else [data]
    listed = data if isinstance(data, list) else listed
    if not isinstance(listed, list) or not all(isinstance(x, dict) for x in listed):
        raise ValueError(
            f"{path}: expected a criterion, a list of criteria, or one under `criteria:`"
        )
    for place, item in enumerate(listed):
        try:
            Own.model_validate(item)
        # which would name the place among all criteria, and not the file
        except ValidationError as error:
            [problem, *_] = error.errors(include_url=False)
            key = ".".join(map(str, (f"criterion {place}", *problem["loc"])))
            raise ValueError(
                f"{path}: {key}: {problem['msg'].removeprefix('Value error, ')}"
            ) from None
    return listed


class Config(Options):
    """The rubric judge: one call that scores a finished session on several criteria."""

    metrics: list[Selected] | None = None
    """The criteria, each `{metric: ID, weight: W}`, the weight being optional. null or empty: the
    eight defaults. `task_completion` needs a weight.
    """

    pass_threshold: float = Field(default=75.0, ge=0, le=100)
    """The overall score, of 100, from which on a session passes."""

    model: str | None = None
    """The model that judges, in place of the judge's configured ones."""

    provider: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]+$")
    """The provider of `model` as litellm names it, such as `openai`, where `model` does not begin
    with it.
    """

    criteria: Annotated[list[Own], BeforeValidator(_from_files)] = []
    """Criteria of your own: each with `id`, `display_name`, `description`, `tier`, `weight`, `type`
    and `rubric`, or the name of a YAML file that holds some. `metrics` must name those that are to
    be scored.
    """

    @model_validator(mode="after")
    def _can_be_scored(self) -> Self:
        seen = set(metrics.criteria())
        for own in self.criteria:
            if own.id in seen:
                raise ValueError(f"there are two criteria {own.id!r}; give one of them another id")
            seen.add(own.id)
        if self.provider and not self.model:
            raise ValueError(
                "provider names whose `model` it is; set model too, or name both in judge.model"
            )
        self.chosen()
        return self

    @property
    def judge_model(self) -> str | None:
        """The model that judges, as litellm names it; None for the judge's configured ones."""
        if self.provider and self.model and not self.model.startswith(f"{self.provider}/"):
            return f"{self.provider}/{self.model}"
        return self.model

    def known(self) -> dict[str, Criterion]:
        """All criteria by id: the project's, then the user's."""
        own = {x.id: x.criterion() for x in self.criteria}
        return {**{name: x.criterion for name, x in metrics.criteria().items()}, **own}

    def chosen(self) -> dict[str, "Weighted"]:
        """The criteria to be scored, by id. Raises ValueError where the selection cannot be."""
        known = self.known()
        if not self.metrics:
            return {x.id: Weighted(x, x.weight) for x in known.values() if x.in_defaults}
        found: dict[str, Weighted] = {}
        for selected in self.metrics:
            criterion = known.get(selected.metric.removeprefix(PREFIX))
            if criterion is None:
                raise ValueError(
                    f"there is no criterion {selected.metric!r}; {nearest(selected.metric, known)}"
                )
            if criterion.id in found:
                raise ValueError(f"metrics names {criterion.id} twice")
            weight = criterion.weight if selected.weight is None else selected.weight
            if not weight and selected.weight is None:
                raise ValueError(
                    f"{criterion.id} has no default weight: write {{metric: {criterion.id},"
                    " weight: W}"
                )
            found[criterion.id] = Weighted(criterion, weight)
        if not sum(x.weight for x in found.values()):
            raise ValueError(
                "the weights of metrics sum to nothing; give at least one a weight above 0"
            )
        return found


@dataclass(frozen=True, slots=True)
class Weighted:
    """A criterion, and how much it counts."""

    criterion: Criterion
    weight: float


@dataclass(frozen=True, slots=True)
class Rubric:
    """What one run of the rubric judge scores.

    `wanted` are the metrics whose scores are given; None: all. `threshold` takes the place of each
    metric's own.
    """

    weighted: tuple[Weighted, ...]
    pass_threshold: float
    model: str | None = None
    wanted: frozenset[str] | None = None
    threshold: float | None = None

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """What is scored."""
        return tuple(x.criterion for x in self.weighted)

    @property
    def models(self) -> tuple[str, ...]:
        """The models to ask, as `Judge.ask` takes them."""
        return (self.model,) if self.model else ()

    def gives(self, metric: str) -> bool:
        """Whether the run gives the score of that name."""
        return self.wanted is None or metric in self.wanted


def is_rubric(name: str) -> bool:
    """Whether a metric's name is that of the rubric, or of one of its scores."""
    return name == NAME or name.startswith(PREFIX)


def scale_of(name: str) -> tuple[float, float]:
    """The scale of a metric, also of a criterion of the user's own; of `rubric` that of its
    criteria.

    Raises InputError where there is no such metric.
    """
    if is_rubric(name):
        return Overall.scale if name == OVERALL else RubricMetric.scale
    available = metrics.available()
    if name not in available:
        raise InputError(f"there is no metric {name!r}; {nearest(name, available)}")
    return available[name].scale


def require_on_scale(field: str, least: float, names: Iterable[str] | None) -> None:
    """Raise FieldError of `field` where no score of one of these metrics (None: of any) can be
    `least`, which it is held against.
    """
    for name in sorted(metrics.available()) if names is None else names:
        low, high = scale_of(name)
        if not low <= least <= high:  # nor where it is no number
            problem = f"{least:g} is off the scale of {name}, which is {low:g} to {high:g}"
            raise FieldError(field, problem)


def chosen(
    config: Config | None,
    names: Iterable[str] | None = None,
    *,
    model: str | None = None,
    threshold: float | None = None,
) -> Rubric | None:
    """What a run scores by the rubric; None: nothing.

    `names` are the metrics of a run that somebody asked for: `rubric` for all that is configured
    (or the defaults), `rubric.overall` for its overall score, `rubric.ID` for one criterion; None:
    as configured. `model` judges in place of the configured one. `threshold` holds for what `names`
    names. Raises InputError on a criterion that there is not.
    """
    if names is None:
        return None if config is None else _all(config, model)
    wanted = [name for name in names if is_rubric(name)]
    if not wanted:
        return None
    configured = config or Config()
    rubric = replace(_all(configured, model), threshold=threshold)
    if NAME in wanted:
        return rubric
    by_id = _named(configured, [name for name in wanted if name != OVERALL])
    if OVERALL in wanted:
        by_id = {
            x.criterion.id: x
            for x in (*(Weighted(x.criterion, 0.0) for x in by_id.values()), *rubric.weighted)
        }
    return replace(rubric, weighted=tuple(by_id.values()), wanted=frozenset(wanted))


def _all(config: Config, model: str | None) -> Rubric:
    return Rubric(
        tuple(config.chosen().values()), config.pass_threshold, model or config.judge_model
    )


def _named(config: Config, names: Iterable[str]) -> dict[str, Weighted]:
    known, configured = config.known(), config.chosen()
    found: dict[str, Weighted] = {}
    for name in names:
        criterion = known.get(name.removeprefix(PREFIX))
        if criterion is None:
            raise InputError(
                f"there is no metric {name!r}; {nearest(name, [x.metric for x in known.values()])}"
            )
        found[criterion.id] = configured.get(criterion.id) or Weighted(criterion, criterion.weight)
    return found


_LEAST_COVERAGE = 0.5
_NOTHING_SPENT = JudgeUsage()


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of the criteria, by id; of the expected outcomes, None where nobody looked; who
    judged.

    `unanswered`: why the judge gave no answer on the expected outcomes though it was asked.
    """

    outcomes: Mapping[str, Outcome]
    verdicts: Sequence[criterial.Verdict] | None
    evaluator: Evaluator
    usage: JudgeUsage = _NOTHING_SPENT
    unanswered: Failure | None = None


@dataclass(frozen=True, slots=True)
class _Weighed:
    """The criteria by what came of them, each by its id, with the weights of all."""

    scores: Mapping[str, Score]
    skipped: Mapping[str, str]
    """Why no score could be had."""

    idle: Mapping[str, str]
    """Why it does not apply: its weight goes to the others."""

    weights: Mapping[str, float]

    @property
    def covered(self) -> float:
        """The weight of the criteria with a score."""
        return sum(self.weights[name] for name in self.scores)

    @property
    def coverage(self) -> float:
        """The share of the weight that has a score, of the criteria that apply."""
        total = sum(weight for name, weight in self.weights.items() if name not in self.idle)
        return self.covered / total if total else 0.0

    @property
    def value(self) -> float:
        """The weighted mean of the scores."""
        return criterial.weighed(
            (self.weights[name], score.value) for name, score in self.scores.items()
        )


_Verdicts: TypeAlias = Sequence[tuple[str, criterial.Verdict]]
"""Expected outcomes, each with the judge's verdict."""


def overall(rubric: Rubric, expected: Expected, findings: Findings, threshold: float) -> Outcome:
    """The overall score; `threshold` decides where no expected outcomes do."""
    for outcome in (*findings.outcomes.values(), findings.unanswered):
        if isinstance(outcome, Failure):
            return outcome
    weighed = _by_outcome(rubric, findings.outcomes)
    skip = _skip(weighed, is_unjudged=bool(expected.outcomes) and findings.verdicts is None)
    if skip is not None:
        return skip
    verdicts = list(zip(expected.outcomes, findings.verdicts or (), strict=True))
    if verdicts:
        passed = all(verdict.passed for _, verdict in verdicts)
    else:
        passed = reaches(weighed.value, threshold)
    return Score(
        weighed.value,
        " ".join(_sentences(weighed, verdicts)),
        {**_of_criteria(weighed), "passed": passed, **_of_expected(expected, verdicts)}
        | _of_transcripts(weighed.scores.values()),
        "pass" if passed else "fail",
    )


def _by_outcome(rubric: Rubric, outcomes: Mapping[str, Outcome]) -> _Weighed:
    """The criteria, which have no failure among them, by what came of them."""
    scores: dict[str, Score] = {}
    skipped: dict[str, str] = {}
    idle: dict[str, str] = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, Score):
            scores[name] = outcome
        elif isinstance(outcome, Skip) and outcome.cause == "not_applicable":
            idle[name] = outcome.reason
        elif isinstance(outcome, Skip):
            skipped[name] = outcome.reason
    weights = {weighted.criterion.id: weighted.weight for weighted in rubric.weighted}
    return _Weighed(scores, skipped, idle, weights)


def _skip(weighed: _Weighed, *, is_unjudged: bool) -> Skip | None:
    """Why there is no overall score; None where there is one.

    `is_unjudged`: expected outcomes are stated, and nobody looked whether they hold.
    """
    if weighed.idle and not weighed.scores and not weighed.skipped:
        return Skip(f"No criterion applies: {', '.join(weighed.idle)}.", cause="not_applicable")
    if is_unjudged and weighed.scores:
        return Skip("Whether the expected outcomes hold needs a model.")
    if weighed.covered and reaches(weighed.coverage, _LEAST_COVERAGE):
        return None
    first = next(iter(weighed.skipped.values()), "They have no weight.")
    return Skip(
        f"Only {weighed.coverage:.0%} of the criteria's weight could be scored; not"
        f" {', '.join(weighed.skipped)}. {first}"
    )


def _of_criteria(weighed: _Weighed) -> dict[str, Any]:
    """What the score's metadata contains of the criteria."""
    return {
        "criteria": {
            name: {
                "score": int(score.value),
                "label": score.label,
                "weight": weighed.weights[name] / weighed.covered,
            }
            for name, score in weighed.scores.items()
        },
        "coverage": weighed.coverage,
        "skipped": weighed.skipped,
        "not_applicable": weighed.idle,
    }


def _of_transcripts(scores: Iterable[Score]) -> dict[str, Any]:
    """What the score's metadata contains where the judge read a transcript with gaps."""
    if any("transcript_elided" in score.metadata for score in scores):
        return {"transcript_elided": True}
    return {}


def _of_expected(expected: Expected, verdicts: _Verdicts) -> dict[str, Any]:
    """What the score's metadata contains of what the case expects, and of what decided."""
    facts: dict[str, Any] = {
        "decided_by": "expected_outcomes" if verdicts else "threshold",
        "expected_outcomes": [
            {
                "statement": statement,
                "passed": verdict.passed,
                "justification": verdict.justification,
            }
            for statement, verdict in verdicts
        ],
    }
    if expected.emphasis:
        facts["evaluation_criteria_override"] = expected.emphasis
    return facts


def _worst_first(scores: Mapping[str, Score]) -> Iterator[str]:
    """Each criterion's score; those that are not acceptable first, with the judge's
    justification.
    """
    ordered = sorted(scores.items(), key=lambda x: x[1].value)
    given = {name: f"{name} {score.value:.0f} ({score.label})" for name, score in ordered}
    bad = [name for name, score in ordered if score.value < criterial.ACCEPTABLE]
    yield from (f"{given[name]}: {scores[name].reason}" for name in bad)
    if fine := [text for name, text in given.items() if name not in bad]:
        yield f"{', '.join(fine)}."


def _sentences(weighed: _Weighed, verdicts: _Verdicts) -> Iterator[str]:
    """What the overall score rests on, in sentences."""
    if verdicts:
        unmet = [
            f"{statement} ({verdict.justification})"
            for statement, verdict in verdicts
            if not verdict.passed
        ]
        yield from (f"Does not hold: {text}." for text in unmet)
        yield f"{len(verdicts) - len(unmet)} of {len(verdicts)} expected outcomes hold."
    yield from _worst_first(weighed.scores)
    if weighed.skipped:
        yield f"Not scored: {', '.join(weighed.skipped)}; {weighed.coverage:.0%} of the weight was."
    if weighed.idle:
        yield f"Not applicable: {', '.join(weighed.idle)}."
