"""Metrics that users configure."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from spanscore import discovery
from spanscore.errors import ConfigError, InputError
from spanscore.metrics import Judged, Metric
from spanscore.metrics.own import registry
from spanscore.metrics.own.criteria import NEEDS, YES_NO, YesNo, described, metric_of_criterion
from spanscore.metrics.own.registry import MIDDLE, checked_scale
from spanscore.model.options import Options
from spanscore.model.score import ScopeKind


def _scale(given: Any) -> Any:
    """YAML reads `yes/no` as text, but a lone `yes` as true."""
    if given is None or given == YES_NO:
        return given
    if isinstance(given, bool | str):
        raise ValueError(f"{given!r} is no scale; write its ends, such as [0, 5], or yes/no")  # noqa: TRY004 - pydantic's
    try:
        return checked_scale(given)
    except InputError as error:
        raise ValueError(str(error)) from None


class Criterion(Options):
    """A metric in plain words: a question that the judge answers about each trace, or each
    session.
    """

    ask: str
    """What is asked, such as `Does the answer keep to what the tools returned?`"""

    scale: Annotated[tuple[float, float] | YesNo | None, BeforeValidator(_scale)] = None
    """`[low, high]`, or `yes/no`. null: from the lowest to the highest of `anchors`, else 0 to 1.
    On a scale between whole numbers that is longer than 1 the judge answers in whole numbers.
    """

    anchors: dict[bool | float | str, str] = {}
    """What values on the scale mean, such as `{0: rude, 5: kind}`; `yes` and `no` make the scale
    `yes/no`.
    """

    needs: list[str] = list(NEEDS)
    """The facts without which there is nothing to judge, by the names that `spanscore inspect
    --jsonl` prints; of a session, one turn must have each.
    """

    threshold: float | None = None
    """The score from which on the label is `pass`; null: the middle of the scale."""

    scope: ScopeKind = "trace"
    """`trace` or `session`: what is judged."""

    not_applicable: str | None = None
    """When there is nothing to judge, in words: the judge may then answer that it does not apply,
    which is a skip.
    """

    model: str | None = None
    """The model that judges it, in place of the judge's configured ones."""

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        try:
            self.metric("criterion")
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def metric(self, name: str) -> type[Judged]:
        """The metric of that name. Raises InputError where there can be none."""
        return metric_of_criterion(
            name,
            described(self.ask, self.scale, self.anchors, self.not_applicable),
            needs=self.needs,
            threshold=MIDDLE if self.threshold is None else self.threshold,
            scope=self.scope,
            model=self.model,
        )


def make_known(criteria: Mapping[str, Criterion]) -> None:
    """Make the criteria of a configuration known as metrics, by name.

    Raises InputError where a name is none.
    """
    for name, described_in_file in criteria.items():
        try:
            made = described_in_file.metric(name)
            registry.register(made, registry.Origin("evaluation.criteria", "", name))
        except InputError as error:
            raise InputError(f"{name}: {error}") from None


def load_plugins(names: Iterable[str], folder: Path) -> None:
    """Import the modules and files that a configuration names, whose metrics are known from then
    on.

    Files are looked for in `folder`. Raises ConfigError where one cannot be imported, or makes no
    metric.
    """
    for name in names:
        module = discovery.plugin(name, folder)
        for made in _classes(module):
            registry.register(
                made, registry.Origin(module.__name__, module.__file__ or "", made.__qualname__)
            )
        if not _makes_metrics(module):
            raise ConfigError(
                f"{name}: makes no metric; decorate a function of a trace with @spanscore.metric,"
                " or call spanscore.criterion"
            )


def _makes_metrics(module: ModuleType) -> bool:
    inside = f"{module.__name__}."
    made_inside = any(f"{x.module}.".startswith(inside) for x in registry.origins().values())
    return made_inside or any(registry.metric_of(x) is not None for x in vars(module).values())


def _classes(module: ModuleType) -> list[type[Metric]]:
    """The metrics that a module defines as classes of its own."""
    found = [x for x in vars(module).values() if isinstance(x, type) and issubclass(x, Metric)]
    return [
        x
        for x in found
        if x.__module__ == module.__name__ and hasattr(x, "name") and not _is_known(x)
    ]


def _is_known(metric: type[Metric]) -> bool:
    return metric in registry.registered().values()
