"""Scores as a person reads them: one block for each trace, then each session, then the means."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spanscore.cli.terminal import on_one_line, printable
from spanscore.model.score import Evaluation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MAX_REASON_CHARS = 600
_STYLES = {"pass": "green", "fail": "red", "failed": "bold red", "skipped": "yellow"}


@dataclass(frozen=True, slots=True)
class Row:
    """One score, skip or failure, as it is shown. `value` is None where there is none."""

    metric: str
    status: str
    value: float | None
    label: str
    reason: str

    @classmethod
    def of(cls, evaluation: Evaluation) -> "Row":
        """The row of an evaluation."""
        return cls(evaluation.metric, evaluation.status, evaluation.value, evaluation.label or "", evaluation.reason)


def print_block(output: "Console", title: str, subtitle: str | None, rows: Iterable[Row]) -> None:
    """Print the scores of one trace or session under its title."""
    from rich.text import Text  # noqa: PLC0415 - --jsonl needs no rich

    output.print(Text(on_one_line(title, 300), "bold"))
    if subtitle:
        output.print(Text(on_one_line(subtitle, output.width - 2), "italic"))
    table = _table("metric", "score", "label", "reason")
    for row in rows:
        reason = printable(row.reason[:_MAX_REASON_CHARS]) + ("…" if len(row.reason) > _MAX_REASON_CHARS else "")
        word = on_one_line(row.label, 24) if row.status == "scored" else row.status
        table.add_row(on_one_line(row.metric, 40), _number(row.value), Text(word, _STYLES.get(word, "")), Text(reason))
    output.print(table)
    output.print()


def print_means(output: "Console", rows: Sequence[Row]) -> None:
    """Print, for each metric, how many scores there are, their mean, and what became of the others."""
    table = _table("metric", "mean", "scores", "passed", "skipped", "failed")
    for metric in dict.fromkeys(row.metric for row in rows):
        own = [row for row in rows if row.metric == metric]
        states = Counter(row.status for row in own)
        passed = sum(row.label == "pass" for row in own)
        counts = (states["scored"], passed, states["skipped"], states["failed"])
        table.add_row(on_one_line(metric, 40), _number(mean(own)), *(str(count) if count else "-" for count in counts))
    output.print(table)


def mean(rows: Iterable[Row]) -> float | None:
    """The mean of the values there are; None where there is none."""
    values = [row.value for row in rows if row.value is not None]
    return sum(values) / len(values) if values else None


def _table(*headings: str) -> "Table":
    from rich.table import Table  # noqa: PLC0415 - --jsonl needs no rich

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, heading in enumerate(headings):
        figures = heading not in {"metric", "label", "reason"}
        table.add_column(
            heading,
            no_wrap=heading != "reason",
            justify="right" if figures else "left",
            min_width=20 if number == 0 else 7 if heading == "label" else 5,
        )
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
