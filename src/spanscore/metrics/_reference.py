"""The reference page of the metrics."""

import inspect
from collections.abc import Iterator

from pydantic import TypeAdapter

from spanscore.metrics import (
    INSTRUCTIONS,
    Criterial,
    Judged,
    Metric,
    RubricMetric,
    built_in,
    rubric,
)
from spanscore.metrics.session.agentic import Agentic
from spanscore.model.json import dumps

_INTRODUCTION = """\
# The metrics

This page is written by `make docs` from the metrics' classes, and a test compares it with them.
`spanscore metrics NAME` prints the same for the installed version.

A metric gives a score, a skip or a failure.

- It is *skipped*, with the reason, if the trace does not record a fact that the metric needs, or if
  that fact arrived cut or redacted. The same holds for a cut fact that the metric uses but does not
  need. What is missing counts neither as 0 nor as 1.
- It is also skipped if it needs a judge and none is configured (`judge.model`), or if the judge's
  budget is spent.
- It *fails*, with the error, if a judge or an embedding gave no usable answer.

Each score also has `threshold` and `success`. The metrics named `check.…` need no model;
[checks.md](checks.md) describes them.
"""


def reference() -> str:
    """The page, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    found = sorted(
        built_in().values(),
        key=lambda x: (issubclass(x, RubricMetric), x.scope == "session", x.name),
    )
    yield _INTRODUCTION
    yield "| metric | of a | method | what it asks |"
    yield "|---|---|---|---|"
    yield from (
        f"| [{x.name}](#{x.name.replace('.', '')}) | {x.scope} | {x.method} | {x.summary} |"
        for x in found
    )
    for metric in found:
        yield from _section(metric)
    yield "\n## What the judge of the rubric is told\n"
    yield from _quoted(rubric.INSTRUCTIONS)
    yield ""
    yield from _quoted(rubric.question(()))
    yield "\n## What every judge is told\n"
    yield from _quoted(INSTRUCTIONS)
    yield ""


def _section(metric: type[Metric]) -> Iterator[str]:
    low, high = metric.scale
    yield f"\n## {metric.name}\n"
    yield "\n\n".join(_paragraphs(metric.__doc__ or metric.summary))
    needs = f"; needs {', '.join(f'`{x}`' for x in metric.needs)}" if metric.needs else ""
    weighs = f"; also weighs {', '.join(f'`{x}`' for x in metric.weighs)}" if metric.weighs else ""
    yield (
        f"\n*Scale* {low:g} to {high:g}, {metric.better} is better; runs with the"
        f" {metric.run}{needs}{weighs}.\n"
    )
    if issubclass(metric, RubricMetric):
        yield from _of_rubric(metric)
        return
    yield "| option | default | meaning |"
    yield "|---|---|---|"
    for name, option in TypeAdapter(metric).json_schema()["properties"].items():
        meaning = " ".join(option.get("description", "").split())
        yield f"| `{name}` | `{dumps(option.get('default'))}` | {meaning} |"
    if issubclass(metric, Judged):
        yield from _judged(metric)
    if issubclass(metric, Agentic):
        yield "\nAn answer is held against the expected one:"
        yield from _judged(metric.answers)


def _of_rubric(metric: type[RubricMetric]) -> Iterator[str]:
    yield (
        "Set up under `evaluation.rubric` ([rubric.md](rubric.md)); `threshold`"
        f" {metric().threshold:g}."
    )
    if not issubclass(metric, Criterial):
        return
    criterion = metric.criterion
    weight = f"weight {criterion.weight:g}" if criterion.weight else "a weight must be given"
    needs = [f"`{x}` of every turn" for x in criterion.needs] + [
        f"`{x}` of one turn" for x in criterion.needs_once
    ]
    yield (
        f"\n*Tier* {criterion.tier}, {criterion.kind}, {weight}; needs {', '.join(needs)}. The"
        " judge is told:\n"
    )
    levels = [f"{level}: {text}" for level, text in enumerate(criterion.levels) if text]
    when = [f"not_applicable: {criterion.no_occasion}"] if criterion.no_occasion else []
    yield from _quoted("\n".join([criterion.description, *levels[::-1], *when]))


def _judged(metric: type[Judged]) -> Iterator[str]:
    for number, stage in enumerate(metric.stages, start=1):
        for question in stage:
            yield f"\n*Stage {number}*, `{question.key}`:\n"
            yield from _quoted(question.text)


def _paragraphs(docstring: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        if not paragraph.startswith(">>>"):
            yield paragraph


def _quoted(text: str) -> Iterator[str]:
    yield "```text"
    yield text
    yield "```"
