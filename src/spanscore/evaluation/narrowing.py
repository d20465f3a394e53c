"""A configuration that measures the metrics that somebody names, and no others."""

from collections.abc import Iterable, Mapping
from typing import Any

from spanscore.evaluation.config import Config
from spanscore.evaluation.rubric import NAME as RUBRIC
from spanscore.evaluation.rubric import OVERALL, is_rubric
from spanscore.evaluation.rubric import Config as Rubric
from spanscore.metrics.rubric import PREFIX


def narrowed(config: Config, given: Mapping[str, Any]) -> Config:
    """These metrics alone, each with the options that are given with it; None: as `config` has it.

    Rules keep their shares, judges and thresholds, and their settings for these metrics.

    Raises pydantic's ValidationError where a name or an option is not known.
    """
    plain = {
        name: options
        for name, options in given.items()
        if name not in config.criteria and not is_rubric(name)
    }
    metrics = {
        name: config.metrics.get(name) if options is None else options
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


def _rubric(config: Rubric | None, names: Iterable[str]) -> Rubric | None:
    """The rubric with the criteria that are named; all that are configured where it is named
    itself.
    """
    named = list(names)
    if not named:
        return None
    found = config or Rubric()
    if {RUBRIC, OVERALL} & set(named):
        return found
    configured = {x.metric.removeprefix(PREFIX): x.weight for x in found.metrics or ()}
    known = found.known()
    selected: list[dict[str, Any]] = []
    for name in (x.removeprefix(PREFIX) for x in named):
        own = known[name].weight if name in known else None
        selected.append({"metric": name, "weight": configured.get(name) or own or 1.0})
    return Rubric.model_validate({**found.model_dump(exclude_unset=True), "metrics": selected})
