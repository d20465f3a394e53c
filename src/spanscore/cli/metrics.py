"""`spanscore metrics`: what can be measured, what each metric means, and what a judge is asked for it."""

import argparse
import difflib
import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from spanscore import metrics
from spanscore.cli.terminal import console
from spanscore.errors import InputError
from spanscore.metrics import Embedded, Judged, Metric
from spanscore.model.json import dumps

if TYPE_CHECKING:
    from rich.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the metric to explain; without it, all are listed")


def run(args: argparse.Namespace) -> int:
    """List the metrics or explain one. Returns the exit code."""
    if args.name is None:
        _list(list(metrics.available().values()), console())
    else:
        _explain(named(args.name), console())
    return 0


def named(name: str) -> type[Metric]:
    """The metric of that name. Raises InputError, with the nearest name, where there is none."""
    available = metrics.available()
    if name in available:
        return available[name]
    near = difflib.get_close_matches(name, available, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(available))}"
    raise InputError(f"no metric {name!r}; {hint}")


def require_on_scale(option: str, value: float, names: Iterable[str] | None) -> None:
    """Raise InputError where a score of one of these metrics (None: of any) cannot be `value`; `option` gave it."""
    for name in sorted(metrics.available()) if names is None else names:
        low, high = named(name).scale
        if not low <= value <= high:  # nor where it is no number
            raise InputError(f"{option}: the scale of {name} is {low:g} to {high:g}")


def _list(found: list[type[Metric]], output: "Console") -> None:
    from rich.table import Table  # noqa: PLC0415 - only what prints a table needs it

    table = Table(box=None, pad_edge=False)
    table.add_column("metric", no_wrap=True, style="bold")
    for heading in ("scope", "method"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what it asks")
    for metric in sorted(found, key=lambda x: (x.scope == "session", x.name)):
        table.add_row(metric.name, metric.scope, _method(metric), metric.summary)
    output.print(table)
    output.print("\nspanscore metrics NAME explains one, with its options and what a judge is asked.")


def _explain(metric: type[Metric], output: "Console") -> None:
    from rich.padding import Padding  # noqa: PLC0415 - only what prints in paragraphs needs it
    from rich.text import Text  # noqa: PLC0415 - likewise

    low, high = metric.scale
    output.print(
        Text.assemble((metric.name, "bold"), f"  {metric.scope} metric, {_method(metric)}, {low:g} to {high:g}")
    )
    for paragraph in _paragraphs(metric.__doc__ or metric.summary):
        output.print(Padding(paragraph, (0, 0, 1, 2)))
    output.print("Options, under evaluation.metrics in the configuration", style="bold")
    for name, default, text in _options(metric):
        output.print(f"  {name}: {default}")
        output.print(Padding(text, (0, 0, 0, 4)))
    if not issubclass(metric, Judged):
        return
    for number, stage in enumerate(metric.stages, start=1):
        for question in stage:
            output.print(f"\nStage {number}: what the judge is asked for {question.key!r}", style="bold")
            output.print(Padding(question.text.strip(), (0, 0, 0, 2)))
    output.print("\nWithout a model (judge.model: rules)", style="bold")
    for paragraph in _paragraphs(metric.measure_by_rules.__doc__ or ""):
        output.print(Padding(paragraph, (0, 0, 0, 2)))


def _method(metric: type[Metric]) -> str:
    if issubclass(metric, Judged):
        return "judge"
    return "embedding" if issubclass(metric, Embedded) else "computed"


def _paragraphs(docstring: str) -> Iterator[str]:
    """The docstring's paragraphs, each on one line; its examples are for those who read the code."""
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        if not paragraph.startswith(">>>"):
            yield " ".join(paragraph.split())


def _options(metric: type[Metric]) -> Iterator[tuple[str, str, str]]:
    """(name, default, meaning) of each option."""
    schema: dict[str, Any] = TypeAdapter(metric).json_schema()
    for name, option in schema.get("properties", {}).items():
        yield name, dumps(option.get("default")), " ".join(option.get("description", "").split())
