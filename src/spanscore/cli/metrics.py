"""`spanscore metrics`: the metrics and their questions."""

import argparse
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from spanscore import config, metrics
from spanscore.cli import terminal
from spanscore.cli.options import add_config, argument
from spanscore.cli.terminal import Output, assembled, console, on_one_line, print_json, printable
from spanscore.errors import InputError
from spanscore.evaluation.rubric import NAME as RUBRIC, Config as RubricConfig
from spanscore.metrics import Criterial, Criterion, Judged, Metric, RubricMetric
from spanscore.metrics.session.agentic import Agentic
from spanscore.model.json import dumps
from spanscore.offline import metric_of

_WIDE = 100
"""Narrower, a metric's question stands below its name."""

TAKES = ("json",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "name NAME", "the metric to explain; without it, all are listed", nargs="?")
    argument(parser, "--criteria", "list the criteria of the rubric judge")
    add_config(parser, "a configuration, whose own metrics and criteria are known too")


def run(args: argparse.Namespace) -> int:
    """List the metrics or explain one. Returns the exit code."""
    if args.criteria and args.name is not None:
        raise InputError(f"--criteria lists all criteria; leave out {args.name}, or --criteria")
    if args.json and not (args.criteria or args.name == RUBRIC):
        raise InputError("--json says how to list criteria; give --criteria too")
    evaluation = (config.load(args.config)).evaluation
    if args.criteria or args.name == RUBRIC:
        _list_criteria((evaluation.rubric or RubricConfig()).known(), as_json=args.json)
    elif args.name is None:
        _list(list(metrics.available().values()), frozenset(evaluation.measured()), console())
    else:
        _explain(metric_of(args.name), console())
    return 0


def _list_criteria(known: Mapping[str, Criterion], *, as_json: bool) -> None:
    found = [_described(x) for x in known.values()]
    if as_json:
        print_json({"count": len(found), "criteria": found})
        return
    output = console()
    for criterion in found:
        given = criterion["default_weight"]
        weight = f"weight {given:g}" if given else "weight must be given"
        among = "in the defaults" if criterion["in_defaults"] else "not in the defaults"
        facts = f"  {criterion['tier']}, {criterion['type']}, {weight}, {among}"
        name = on_one_line(criterion["display_name"], 60)
        output.print(assembled((criterion["id"], "bold"), f"  {name}", (facts, "dim")))
        _print_levels(output, criterion)
        if when := criterion["not_applicable"]:
            _print(output, f"-  not applicable: {printable(when)}", 4)
        output.print()
    how = "evaluation.rubric.metrics selects them, and .criteria adds your own"
    output.print(f"{len(found)} criteria; {how}.")


def _print(output: Output, text: str, indent: int, below: int = 0) -> None:
    """Print a paragraph to the right, and so many empty lines."""
    from rich.padding import Padding  # noqa: PLC0415 - --json needs no rich

    output.print(Padding(text, (0, 0, below, indent)))


def _print_levels(output: Output, criterion: Mapping[str, Any]) -> None:
    """Print what a criterion asks, and its levels."""
    _print(output, printable(criterion["description"]), 2)
    for level, text in criterion["rubric"].items():
        _print(output, f"{level}  {printable(text)}", 4)


def _described(criterion: Criterion) -> dict[str, Any]:
    """A criterion as `--json` has it; its rubric from the best level to the worst."""
    levels = {str(level): text for level, text in enumerate(criterion.levels) if text}
    return {
        "id": criterion.id,
        "metric": criterion.metric,
        "display_name": criterion.display_name,
        "description": criterion.description,
        "tier": criterion.tier,
        "default_weight": criterion.weight,
        "type": criterion.kind,
        "rubric": dict(reversed(levels.items())),
        "not_applicable": criterion.no_occasion,
        "in_defaults": criterion.in_defaults,
    }


def _list(found: list[type[Metric]], running: frozenset[str], output: Output) -> None:
    from rich.table import Table  # noqa: PLC0415 - only what prints a table needs it

    narrow = output.width < _WIDE
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", no_wrap=not narrow, min_width=40 if narrow else None)
    for heading in ("runs", "scope", "method"):
        table.add_column(heading, no_wrap=True)
    if not narrow:
        table.add_column("what it asks")
    for metric in sorted(found, key=_order):
        facts = ("on" if metric.name in running else "off", metric.scope, metric.method)
        if narrow:
            table.add_row(assembled((metric.name, "bold"), f"\n{metric.summary}"), *facts)
        else:
            table.add_row(terminal.styled(metric.name, "bold"), *facts, metric.summary)
    output.print(table)
    output.print(
        "\nWhat is off runs where evaluation.metrics or --metric names it, the rubric where"
        " evaluation.rubric is set.\nspanscore metrics NAME explains one, with its options and what"
        " a judge is asked."
    )


def _order(metric: type[Metric]) -> tuple[bool, bool, str]:
    return issubclass(metric, RubricMetric), metric.scope == "session", metric.name


def _explain(metric: type[Metric], output: Output) -> None:
    low, high = metric.scale
    kind = f"  {metric.scope} metric, {metric.method}, {low:g} to {high:g}"
    output.print(assembled((metric.name, "bold"), kind))
    for paragraph in _paragraphs(metric.__doc__ or metric.summary):
        _print(output, paragraph, 2, below=1)
    if issubclass(metric, RubricMetric):
        _explain_rubric(metric, output)
        return
    where = "evaluation.metrics in the configuration"
    where = "agentic in a suite" if issubclass(metric, Agentic) else where
    output.print(f"Options, under {where}", style="bold")
    for name, default, text in _options(metric):
        output.print(f"  {name}: {default}")
        _print(output, text, 4)
    if issubclass(metric, Judged):
        _explain_judged(metric, output)
    if issubclass(metric, Agentic):
        output.print("\nHow an answer is held against the expected one", style="bold")
        _explain_judged(metric.answers, output)


def _explain_judged(metric: type[Judged], output: Output) -> None:
    for number, stage in enumerate(metric.stages, start=1):
        for question in stage:
            title = f"\nStage {number}: what the judge is asked for {question.key!r}"
            output.print(title, style="bold")
            _print(output, question.text.strip(), 2)


def _explain_rubric(metric: type[RubricMetric], output: Output) -> None:
    output.print("Set up under evaluation.rubric in the configuration", style="bold")
    output.print(f"  threshold: {metric().threshold:g}")
    if not issubclass(metric, Criterial):
        return
    output.print("\nWhat the judge is told", style="bold")
    _print_levels(output, _described(metric.criterion))


def _paragraphs(docstring: str) -> Iterator[str]:
    """The docstring's paragraphs, each on one line; its examples are for those who read the
    code.
    """
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        if not paragraph.startswith(">>>"):
            yield " ".join(paragraph.split())


def _options(metric: type[Metric]) -> Iterator[tuple[str, str, str]]:
    """(name, default, meaning) of each option."""
    schema: dict[str, Any] = TypeAdapter(metric).json_schema()
    for name, option in schema.get("properties", {}).items():
        yield name, dumps(option.get("default")), " ".join(option.get("description", "").split())
