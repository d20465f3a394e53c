"""Which criteria the rubric judge scores, how much each counts, and the criteria that users add."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from spanscore import metrics
from spanscore.errors import InputError
from spanscore.metrics import Criterion, RubricMetric
from spanscore.metrics.rubric import PREFIX
from spanscore.metrics.rubric.overall import Overall
from spanscore.model.options import Options
from spanscore.naming import nearest

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
    """The scale of a score of the rubric; of `rubric` that of its criteria."""
    return Overall.scale if name == OVERALL else RubricMetric.scale


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
