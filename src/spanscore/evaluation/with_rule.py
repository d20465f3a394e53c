"""The configuration as it is for the traces that a rule takes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spanscore import metrics
from spanscore.evaluation.rubric import OVERALL
from spanscore.evaluation.rules import Rule
from spanscore.naming import nearest

if TYPE_CHECKING:
    from spanscore.evaluation.config import Config


def with_rule(config: "Config", rule: Rule) -> "Config":
    """`config` with what a rule says in place of it.

    Raises ValueError where the two do not go together.
    """
    if rule.rubric and config.rubric is None:
        raise ValueError(
            "rubric: evaluation.rubric is not set up; add it, with {} for its defaults"
        )
    changes: dict[str, Any] = {
        "rules": [],
        "sampling": config.sampling if rule.sampling is None else rule.sampling,
    }
    named = rule.metrics if isinstance(rule.metrics, dict) else {}
    changes["metrics"] = {
        name: _merged(config.metrics.get(name), options) for name, options in named.items()
    }
    if rule.measures and rule.default_metrics:
        changes["metrics"] = {**config.metrics, **changes["metrics"]}
    else:
        changes |= {"default_metrics": False, "criteria": {}}
    if not (rule.measures and (rule.default_metrics if rule.rubric is None else rule.rubric)):
        changes["rubric"] = None
    return _with_thresholds(config.model_copy(update=changes), rule.thresholds)


def refuse_idle(config: "Config", rule: Rule) -> None:
    """Raise ValueError where a rule leaves nothing to be measured without saying so.

    `config` is as it is under it.
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
        low, high = metrics.available()[name].scale
        if not low <= threshold <= high:
            raise ValueError(
                f"thresholds: {threshold:g} is no score of {name}, whose scale is {low:g} to"
                f" {high:g}"
            )
        if name in measured:
            changed[name] = {**measured[name], "threshold": threshold}
        elif rubric is not None:
            rubric = rubric.model_copy(update={"pass_threshold": threshold})
    return config.model_copy(update={"metrics": changed, "rubric": rubric})
