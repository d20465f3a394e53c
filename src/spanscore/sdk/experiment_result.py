"""What an experiment came to, as a value for scripts and notebooks: a table where it is shown, a
file to compare.
"""

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanscore import private_files, suites
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.stats import Estimate, posterior_pass_pow_k, rate
from spanscore.suites import CaseResult, Run

_HEADINGS = ("case", "status", "trials", "pass rate", "95 %", "pass^k", "95 %", "why not")
_LETTERS = {"pass": "P", "fail": "F", "error": "E"}
_MAX_CASE_CHARS, _MAX_REASON_CHARS = 40, 80


@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """The result of `spanscore.experiment`: `run` is that of a suite, `traces` are the turns of all
    its trials.

    Printed, or shown in a notebook, it is a table of the cases.
    """

    run: Run
    traces: tuple[AgentTrace, ...]

    @property
    def evaluations(self) -> list[Evaluation]:
        """All scores of all trials."""
        return self.run.evaluations

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return self.run.count("pass") == len(self.run.cases)

    @property
    def pass_rate(self) -> Estimate | None:
        """The share of trials that pass, as the mean over cases; None where no trial can be
        told.
        """
        return self.run.pass_rate

    def to_json(self) -> dict[str, Any]:
        """The run file: one JSON object, as `spanscore test --output` writes it."""
        return suites.to_json(self.run)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run file, which `spanscore compare` and `spanscore report` read; only its owner
        can read it.

        Raises InputError where it cannot be written, OutputError where it does not fit.
        """
        private_files.write(Path(path), suites.as_text(self.to_json()).encode("utf-8", "replace"))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that opens from disk: the cases, their trials, each turn's steps; errors as
        of `save`.
        """
        from spanscore import report  # noqa: PLC0415 - who wants a table alone does not wait for it
        from spanscore.report.runs import of_run  # noqa: PLC0415 - likewise

        report.save(Path(path), of_run(self.to_json(), self.traces))

    def __repr__(self) -> str:
        rows = [_HEADINGS, *map(_cells, self.run.cases)]
        widths = [max(len(row[x]) for row in rows) for x in range(len(_HEADINGS))]
        lines = [
            "  ".join(x.ljust(width) for x, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([self._title(), "", *lines])

    def _repr_html_(self) -> str:
        head = _html_row("th", _HEADINGS)
        rows = "".join(_html_row("td", _cells(x)) for x in self.run.cases)
        title = html.escape(self._title())
        return f"<p><b>{title}</b></p><table><thead>{head}</thead><tbody>{rows}</tbody></table>"

    def _title(self) -> str:
        counts = ", ".join(
            f"{self.run.count(x)} {y}" for x, y in _COUNTED.items() if self.run.count(x)
        )
        whole = (
            f"; trials that pass: {_shown(self.pass_rate)} {_limits(self.pass_rate)}"
            if self.pass_rate
            else ""
        )
        cases = "1 case" if len(self.run.cases) == 1 else f"{len(self.run.cases)} cases"
        return f"{self.run.suite.name}: {cases}, {counts}{whole}"


_COUNTED = {"pass": "passed", "fail": "failed", "error": "cannot be told"}


def _cells(case: CaseResult) -> tuple[str, ...]:
    """A case's row: of its trials a letter each, its rates with their intervals, and the first
    reason.
    """
    passing = rate(case.passed, case.n) if case.n else None
    all_of_k = posterior_pass_pow_k(case.n, case.passed, case.odds["k"]) if case.n else None
    letters = "".join(_LETTERS.get(x.status, "?") for x in case.trials)
    reason = next((x for x in case.reasons), "")
    return (
        _short(case.case.id, _MAX_CASE_CHARS),
        case.status,
        letters,
        _shown(passing),
        _limits(passing),
        _shown(all_of_k),
        _limits(all_of_k),
        _short(reason, _MAX_REASON_CHARS),
    )


def _shown(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.2f}"


def _limits(estimate: Estimate | None) -> str:
    if estimate is None or estimate.interval is None:
        return ""
    return f"[{estimate.interval.low:.2f}, {estimate.interval.high:.2f}]"


def _short(text: str, max_chars: int) -> str:
    line = " ".join("".join(x if x.isprintable() else " " for x in text).split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def _html_row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(x)}</{kind}>' for x in cells)}</tr>"
