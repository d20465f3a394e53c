"""One rule of `evaluation.rules`, and what is wrong with a list of them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from spanscore.evaluation.rules.coverage import covers
from spanscore.evaluation.rules.selector import Selector
from spanscore.judge.changes import Changes
from spanscore.model.options import Options

DEFAULT = "default"
"""What traces that no rule takes are counted under; no rule can have this name."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"

_MAX_RULES = 200


def _named_or_none(given: Any) -> Any:
    if given == "none" or isinstance(given, Mapping):
        return given
    raise ValueError("write the metrics, by name, each with its options or with nothing; or none")


class Rule(Options):
    """What holds for the traces that it takes, in place of the configuration of the same name."""

    name: str = Field(pattern=NAME_PATTERN)
    """What the rule is called; each score has the name of the rule that decided it."""

    when: Selector = Selector()
    """The traces that it takes; without it, all that no earlier rule takes."""

    metrics: Annotated[
        Literal["none"] | dict[str, dict[str, Any] | bool | None], BeforeValidator(_named_or_none)
    ] = {}
    """The metrics to run besides those that are configured, by name, each with its options or with
    nothing; also other options of those. `false` in place of options: it does not run. `none`:
    nothing is measured.
    """

    default_metrics: bool = True
    """Whether what is configured otherwise runs beside what `metrics` names; false: only these."""

    rubric: bool | None = None
    """Whether the configured rubric runs. Not set: as `default_metrics`."""

    thresholds: dict[str, float] = {}
    """The score from which on the label is pass, by metric."""

    judge: Changes | None = None
    """What of `judge` is different: another model, or other parameters.

    What it costs is paid from the same budget.
    """

    sampling: float | None = Field(default=None, ge=0, le=1)
    """The share that is evaluated, as `evaluation.sampling`. Not set: the share there."""

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, given: Any) -> Any:
        """A key with nothing under it is as if it were not there."""
        return (
            {name: x for name, x in given.items() if x is not None}
            if isinstance(given, Mapping)
            else given
        )

    def narrowed(self, names: Collection[str], *, has_rubric: bool) -> Self:
        """This rule where only metrics of these names, and the rubric or not, are to run."""
        metrics = self.metrics
        if isinstance(metrics, dict):
            metrics = {name: options for name, options in metrics.items() if name in names}
        thresholds = {
            name: threshold for name, threshold in self.thresholds.items() if name in names
        }
        rubric = self.rubric if has_rubric else None
        return self.model_copy(
            update={"metrics": metrics, "thresholds": thresholds, "rubric": rubric}
        )

    @property
    def measures(self) -> bool:
        """Whether anything is measured."""
        return self.metrics != "none"


def check_rules(rules: Sequence[Rule]) -> None:
    """Raise ValueError on rules of one name, and on one that can never take a trace."""
    if len(rules) > _MAX_RULES:
        raise ValueError(f"rules: there are {len(rules)}; write at most {_MAX_RULES}")
    for place, rule in enumerate(rules):
        where = f"rules.{place} ({rule.name})"
        if rule.name == DEFAULT:
            raise ValueError(
                f"{where}: {DEFAULT} stands for what no rule takes; choose another name"
            )
        for earlier in rules[:place]:
            if earlier.name == rule.name:
                raise ValueError(f"{where}: an earlier rule has this name; choose another")
            if covers(earlier.when, rule.when):
                raise ValueError(
                    f"{where}: can never match, since the earlier rule {earlier.name} takes all"
                    " that it would take; put it before that one"
                )
