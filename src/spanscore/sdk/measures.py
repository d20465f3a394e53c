"""The metrics that a program names: by their names, as what they are, or with options."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError

from spanscore.config import Settings
from spanscore.config_errors import explain
from spanscore.errors import ConfigError
from spanscore.evaluation.config import Config as Evaluation
from spanscore.metrics import Metric
from spanscore.metrics.own import name_of

Measure: TypeAlias = str | type[Metric] | Callable[..., Any]
"""A metric by its name, its class, or the function that `@spanscore.metric` decorates."""

Measures: TypeAlias = Measure | Iterable[Measure] | Mapping[str, Mapping[str, Any] | None]
"""One metric, several, or a mapping from name to options; None in place of options: as they are
configured.
"""


def by_name(metrics: Measures) -> dict[str, Any]:
    """The options of each metric, by its name; None where none are given.

    Raises InputError on what is no metric.

    >>> by_name("coherence")
    {'coherence': None}
    """
    if isinstance(metrics, Mapping):
        return {name_of(name): options for name, options in metrics.items()}
    if isinstance(metrics, str | type) or not isinstance(metrics, Iterable):
        return {name_of(metrics): None}
    return {name_of(x): None for x in metrics}


def with_options(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with the options that are given with metrics.

    Raises ConfigError where there is no such option.
    """
    options = {name: x for name, x in given.items() if x is not None}
    if not options:
        return settings
    checked_options = checked(Evaluation.model_validate, "evaluation", {"metrics": options})
    own = settings.evaluation
    changed = own.model_copy(update={"metrics": {**own.metrics, **checked_options.metrics}})
    return settings.model_copy(update={"evaluation": changed})


def checked(make: Callable[..., Any], key: str, *given: Any) -> Any:
    """A part of the configuration, made and validated.

    Raises ConfigError in the words of the configuration's own.
    """
    try:
        return make(*given)
    except ValidationError as error:
        problems = [{**x, "loc": (key, *x["loc"])} for x in error.errors(include_url=False)]
        raise ConfigError("\n".join(explain(x, Settings) for x in problems)) from error
