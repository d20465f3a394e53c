"""The scores of a run as a value for scripts and notebooks: a table where it is shown, rows for
everything else.
"""

import html
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanscore import private_files
from spanscore.errors import SpanscoreError
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Skip
from spanscore.model.trace import AgentTrace
from spanscore.offline.summary import MetricSummary, summaries
from spanscore.stats import Estimate

_MAX_FAILING = 20
_MAX_REASON_CHARS = 240
_HEADINGS = ("metric", "mean", "95 %", "n", "passed", "pass rate", "95 %", "skipped", "failed")
_NOT_SET_UP = ("no_judge", "no_embedding")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The scores of recorded agent traces, as `spanscore.evaluate` gives them.

    `traces` are the agent traces by their start, `evaluations` what was measured on them and then
    on their sessions. `notes` are sentences about what was left out or is not recorded. Shown in a
    notebook or printed, it is a table of the metrics and a list of what fails.
    """

    traces: tuple[AgentTrace, ...]
    evaluations: tuple[Evaluation, ...]
    notes: tuple[str, ...] = ()

    @property
    def failing(self) -> list[Evaluation]:
        """The scores that do not pass, and the measurements that went wrong."""
        return [x for x in self.evaluations if x.passed is False or x.status == "failed"]

    @property
    def metrics(self) -> dict[str, MetricSummary]:
        """Of each metric how many scores there are, their mean and pass rate with intervals, by its
        name.
        """
        return {x.metric: x for x in summaries(self.evaluations)}

    def __len__(self) -> int:
        return len(self.evaluations)

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self.evaluations)

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat row for each evaluation: what was scored, the outcome, and who measured at what
        cost.
        """
        by_id = {trace.id: trace for trace in self.traces}
        return [_row(x, by_id.get(x.subject_id)) for x in self.evaluations]

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`. Raises SpanscoreError where pandas is not installed."""
        try:
            from pandas import (  # noqa: PLC0415 - only who asks for a DataFrame has to have it
                DataFrame,
            )
        except ImportError as error:
            raise SpanscoreError(
                "to_pandas needs pandas: pip install pandas; to_rows() needs nothing"
            ) from error
        return DataFrame(self.to_rows(), columns=list(_COLUMNS))

    def to_jsonl(self, path: str | Path) -> None:
        """Write a JSON object a line for each evaluation, as `spanscore eval --jsonl` prints it.

        Only its owner can read the file, since it contains what users said. Raises InputError where
        it cannot be written, OutputError where it does not fit.
        """
        text = "".join(f"{dumps(x.to_json())}\n" for x in self.evaluations)
        private_files.write(Path(path), text.encode(errors="replace"))

    def to_html(self, path: str | Path) -> None:
        """Write a page that opens from disk: what fails first, each turn's steps, and what its
        scores rest on.

        Only its owner can read the file. Raises InputError where it cannot be written, OutputError
        where it does not fit.
        """
        from spanscore import report  # noqa: PLC0415 - who wants a table alone does not wait for it

        name = Path(path).stem.replace("_", " ")
        results = report.Results(
            name=name, traces=self.traces, scores=self.evaluations, notes=self.notes
        )
        report.save(Path(path), results)

    def __repr__(self) -> str:
        shown = [_cells(x) for x in self._shown()]
        lines = [self._title(), *(["", *_aligned([_HEADINGS, *shown])] if shown else [])]
        width = max(shutil.get_terminal_size((120, 24)).columns, 60)
        if failing := self.failing:
            lines += ["", f"failing: {len(failing):,} of {len(self.evaluations):,}"]
            lines += [
                _cut(f"  {_subject(x)}  {_verdict(x)}  {x.reason}", width)
                for x in failing[:_MAX_FAILING]
            ]
            if len(failing) > _MAX_FAILING:
                lines.append(f"  and {len(failing) - _MAX_FAILING:,} more: .failing has them all")
        return "\n".join([*lines, *(["", *self._remarks()] if self._remarks() else [])])

    def _repr_html_(self) -> str:
        rows = "".join(_html_row("td", _cells(x)) for x in self._shown())
        parts = [f"<p><b>{html.escape(self._title())}</b></p>"]
        if rows:
            parts.append(
                f"<table><thead>{_html_row('th', _HEADINGS)}</thead><tbody>{rows}</tbody></table>"
            )
        if failing := self.failing:
            listed = "".join(
                _html_row("td", (_subject(x), _verdict(x), _cut(x.reason, _MAX_REASON_CHARS)))
                for x in failing[:_MAX_FAILING]
            )
            parts.append(
                f"<p>failing: {len(failing):,} of"
                f" {len(self.evaluations):,}</p><table>{listed}</table>"
            )
        parts += [f"<p>{html.escape(x)}</p>" for x in self._remarks()]
        return "".join(parts)

    def _shown(self) -> list[MetricSummary]:
        """The metrics that were measured: not those for which no model is configured."""
        without = self._not_set_up()
        return [
            x
            for name, x in self.metrics.items()
            if x.skipped < x.scored + x.skipped or name not in without
        ]

    def _not_set_up(self) -> dict[str, str]:
        """By metric why nothing could be measured, where no judge or embedding is configured."""
        skips = ((x.metric, x.outcome) for x in self.evaluations)
        return {
            name: y.reason for name, y in skips if isinstance(y, Skip) and y.cause in _NOT_SET_UP
        }

    def _title(self) -> str:
        sessions = len({x.session_key for x in self.traces if x.session_key is not None})
        counts = (_counted(len(self.traces), "trace"), _counted(sessions, "session"))
        return f"{', '.join(counts)}, {_counted(len(self.evaluations), 'score')}"

    def _remarks(self) -> list[str]:
        reasons: dict[str, list[str]] = {}
        for name, reason in self._not_set_up().items():
            reasons.setdefault(reason.replace(f" judges {name}:", " judges them:"), []).append(name)
        return [
            *(f"skipped: {', '.join(names)}: {reason}" for reason, names in reasons.items()),
            *self.notes,
        ]


_COLUMNS = (
    "scope",
    "trace_id",
    "session_id",
    "agent",
    "service",
    "input",
    "output",
    "metric",
    "status",
    "value",
    "label",
    "passed",
    "threshold",
    "reason",
    "evaluator",
    "model",
    "cost_usd",
    "latency_s",
    "started_ns",
    "subject_id",
    "uid",
)


def _row(evaluation: Evaluation, trace: AgentTrace | None) -> dict[str, Any]:
    """The row of an evaluation; `trace` is the one that it is of, None for a session."""
    values = (
        evaluation.scope,
        evaluation.target.trace_id,
        evaluation.session_id,
        evaluation.agent_name,
        evaluation.service_name,
        trace.user_input if trace else None,
        trace.final_output if trace else None,
        evaluation.metric,
        evaluation.status,
        evaluation.value,
        evaluation.label,
        evaluation.passed,
        evaluation.threshold,
        evaluation.reason,
        evaluation.evaluator.name,
        evaluation.evaluator.model,
        evaluation.usage.cost_usd,
        evaluation.latency_s,
        trace.started_ns if trace else None,
        evaluation.subject_id,
        evaluation.uid,
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _cells(summary: MetricSummary) -> tuple[str, ...]:
    labelled = summary.passed + summary.failing
    return (
        summary.metric,
        *_estimated(summary.mean),
        str(summary.mean.n) if summary.mean else "-",
        f"{summary.passed:,} of {labelled:,}" if labelled else "-",
        *_estimated(summary.pass_rate),
        f"{summary.skipped:,}" if summary.skipped else "-",
        f"{summary.failed:,}" if summary.failed else "-",
    )


def _estimated(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "-", ""
    limits = estimate.interval
    return f"{estimate.value:.2f}", f"[{limits.low:.2f}, {limits.high:.2f}]" if limits else ""


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines, the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return ["  ".join(cells).rstrip() for cells in aligned]


def _html_row(tag: str, cells: Sequence[str]) -> str:
    filled = (f'<{tag} style="text-align: left">{html.escape(x)}</{tag}>' for x in cells)
    return f"<tr>{''.join(filled)}</tr>"


def _subject(evaluation: Evaluation) -> str:
    if evaluation.scope == "session":
        return f"session {evaluation.session_id}"
    return f"trace {evaluation.target.trace_id[:8]}"


def _verdict(evaluation: Evaluation) -> str:
    value = "failed" if evaluation.value is None else f"{evaluation.value:.2f}"
    return f"{evaluation.metric} {value}"


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def _cut(text: str, width: int) -> str:
    """`text` on one line, cut to `width` with an ellipsis; what a terminal might obey is shown as
    its escape.
    """
    line = "".join(x if x.isprintable() else repr(x)[1:-1] for x in " ".join(text.split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"
