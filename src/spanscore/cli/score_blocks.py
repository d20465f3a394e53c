"""Scores as a person reads them: one block for each trace, then each session."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spanscore.cli.terminal import on_one_line, printable
from spanscore.model.score import Evaluation, Skip

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MAX_REASON_CHARS = 600
_NO_OCCASION = "not_applicable"
_STYLES = {"pass": "green", "fail": "red", "failed": "bold red", "skipped": "yellow"}


@dataclass(frozen=True, slots=True)
class Row:
    """One score, skip or failure, as it is shown.

    `value` is None where there is none, `cause` "" but for a skip.
    """

    metric: str
    status: str
    value: float | None
    label: str
    reason: str
    cause: str = ""

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Row":
        """The row of an evaluation."""
        cause = evaluation.outcome.cause if isinstance(evaluation.outcome, Skip) else ""
        label = evaluation.shown_label or ""
        by = evaluation.evaluator
        name = (
            f"{evaluation.metric} ({by.author or by.source})"
            if evaluation.is_external
            else evaluation.metric
        )
        return cls(name, evaluation.status, evaluation.value, label, evaluation.reason, cause)


def print_block(output: "Console", title: str, subtitle: str | None, rows: Sequence[Row]) -> None:
    """Print the scores of one trace or session under its title, and which metrics had no occasion
    there.

    Metrics that failed for the same reason share one line below the table.
    """
    from rich.text import Text  # noqa: PLC0415 - --jsonl needs no rich

    output.print(Text(on_one_line(title, 300), "bold"))
    if subtitle:
        output.print(Text(on_one_line(subtitle, output.width - 2), "italic"))
    shown = table("metric", "score", "label", "reason")
    failed_alike = _failed_alike(rows)
    for row in rows:
        if row.cause == _NO_OCCASION or (row.status == "failed" and row.reason in failed_alike):
            continue
        reason = _reason(row.reason)
        word = on_one_line(row.label, 24) if row.status == "scored" else row.status
        shown.add_row(
            on_one_line(row.metric, 40),
            number(row.value),
            Text(word, _STYLES.get(word, "")),
            Text(reason),
        )
    if shown.row_count:
        output.print(shown)
    for reason, names in failed_alike.items():
        output.print(Text(f"failed: {names}: {_reason(reason)}", _STYLES["failed"]))
    idle = ", ".join(on_one_line(row.metric, 40) for row in rows if row.cause == _NO_OCCASION)
    if idle:
        output.print(Text(f"not applicable: {idle}", "dim"))
    output.print()


def _failed_alike(rows: Sequence[Row]) -> dict[str, str]:
    """The reasons for which several rows failed, each with the names of their metrics."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.status == "failed":
            names[row.reason].append(on_one_line(row.metric, 40))
    return {reason: ", ".join(found) for reason, found in names.items() if len(found) > 1}


def _reason(text: str) -> str:
    return printable(text[:_MAX_REASON_CHARS]) + ("…" if len(text) > _MAX_REASON_CHARS else "")


def table(*headings: str) -> "Table":
    """An empty table whose columns of words are to the left, those of figures to the right."""
    from rich.table import Table  # noqa: PLC0415 - --jsonl needs no rich

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, heading in enumerate(headings):
        figures = heading not in {"metric", "label", "reason"}
        made.add_column(
            heading,
            no_wrap=heading != "reason",
            overflow="fold" if heading == "reason" else "ellipsis",
            justify="right" if figures else "left",
            min_width=20 if number == 0 else 7 if heading == "label" else 4,
        )
    return made


def number(value: float | None) -> str:
    """A value as tables have it."""
    return "-" if value is None else f"{value:.2f}"
