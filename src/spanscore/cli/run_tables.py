"""Evaluation runs as people read them: a table, one run with what is missing and why, and its
progress.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spanscore.cli.plain_table import plain_table
from spanscore.cli.terminal import console, on_one_line, printable

if TYPE_CHECKING:
    from spanscore.api.v1.run_service_pb2 import (
        MissingScores,
        Run,
        RunBudget,
        RunEstimate,
        RunItem,
        RunProgress,
    )


def print_runs(runs: "Sequence[Run]") -> None:
    """Print a table of runs."""
    if not runs:
        print("no runs")
        return
    table = plain_table(
        ("run", "name", "state", "created (UTC)"),
        ("items", "done", "failed", "USD"),
        wrapped={"name"},
    )
    for run in runs:
        progress = run.progress
        table.add_row(
            _id(run),
            on_one_line(run.display_name, 30),
            _state(run),
            _time(run.created_ns),
            f"{progress.items:,}",
            f"{progress.done:,}",
            f"{progress.failed:,}",
            _usd(progress),
        )
    console().print(table)


def print_run(run: "Run") -> None:
    """Print one run: how far it is, and what is missing and why."""
    progress = run.progress
    print(f"run {_id(run)}{f'  {printable(run.display_name)}' if run.display_name else ''}")
    print(f"  state     {_state(run)}{f': {printable(run.reason)}' if run.reason else ''}")
    print(f"  items     {_counts(progress)}")
    print(f"  scores    {progress.scores:,}")
    usage = progress.usage
    print(
        f"  judge     {usage.calls:,} calls and {usage.cached:,} from the cache,"
        f" {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {_usd(progress)} USD"
    )
    if run.HasField("budget"):
        print(f"  budget    {_budget(run.budget)}")
    for what, missing in (("skipped", progress.skipped), ("failed", progress.errors)):
        for cause in sorted(missing, key=lambda x: -x.count):
            print(f"  {what:<9} {cause.count:,}  {_cause(cause)}")


def print_items(items: "Sequence[RunItem]") -> None:
    """Print a table of a run's traces or sessions."""
    if not items:
        print("none")
        return
    table = plain_table(("trace or session", "tries", "error"), wrapped={"error"})
    for item in items:
        table.add_row(
            on_one_line(item.subject_id, 64), str(item.tries), on_one_line(item.error, 200)
        )
    console().print(table)


def print_estimate(estimate: "RunEstimate") -> None:
    """Print what a run would cost."""
    models = ", ".join(printable(x) for x in estimate.models)
    cost = (
        f"at most {estimate.max_cost_usd:.4f} USD"
        if estimate.HasField("max_cost_usd")
        else "at a price not known"
    )
    print(f"{estimate.items:,} of {estimate.candidates:,} that the target names would be evaluated")
    if not estimate.calls:
        print("no judge would be asked; nothing was sent")
        return
    print(
        f"{estimate.calls:,} calls of {models}, at most {estimate.max_input_tokens:,} tokens in and"
        f" {estimate.max_output_tokens:,} out, {cost}; nothing was sent"
    )
    if estimate.planned < estimate.items:
        print(f"scaled up from {estimate.planned:,} of them, drawn by the run's seed")


class Watched:
    """A run's progress on standard error: one line that changes on a terminal, else a line for each
    state.
    """

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._state = ""

    def show(self, run: "Run") -> None:
        """Show a run as it is now."""
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{_state(run)}  {_counts(run.progress)}{_eta(run.progress)}")
            sys.stderr.flush()
        elif _state(run) != self._state:
            print(f"{_state(run)}: {_counts(run.progress)}", file=sys.stderr)
        self._state = _state(run)

    def end(self) -> None:
        """Clear the line."""
        if self._is_terminal and self._state:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _id(run: "Run") -> str:
    return run.name.removeprefix("runs/")


def _state(run: "Run") -> str:
    from spanscore.api.v1.run_service_pb2 import (  # noqa: PLC0415 - --help needs no protobuf
        RunState,
    )

    return RunState.Name(run.state).removeprefix("RUN_STATE_").lower()


def _counts(progress: "RunProgress") -> str:
    worked = progress.done + progress.failed + progress.gone
    drawn = "" if progress.listed else " so far"
    parts = [f"{worked:,} of {progress.items:,}{drawn}"]
    parts += [f"{progress.failed:,} failed"] if progress.failed else []
    parts += [f"{progress.gone:,} no longer stored"] if progress.gone else []
    if progress.sampling < 1:
        parts.append(f"drawn from {progress.candidates:,}")
    return ", ".join(parts)


def _eta(progress: "RunProgress") -> str:
    if not progress.HasField("eta_s"):
        return ""
    minutes, seconds = divmod(round(progress.eta_s), 60)
    return f"  {minutes // 60}:{minutes % 60:02}:{seconds:02} left"


def _usd(progress: "RunProgress") -> str:
    usage = progress.usage
    if usage.HasField("cost_usd"):
        return f"{usage.cost_usd:.4f}"
    return "?" if usage.calls else f"{0:.4f}"


def _budget(budget: "RunBudget") -> str:
    usd = [f"{budget.max_usd:.4f} USD"] if budget.HasField("max_usd") else []
    tokens = [f"{budget.max_tokens:,} tokens"] if budget.HasField("max_tokens") else []
    return f"at most {' and '.join(usd + tokens)}"


def _cause(missing: "MissingScores") -> str:
    where = f"{missing.metric}: " if missing.metric else ""
    return printable(f"{where}{missing.cause}")


def _time(ns: int) -> str:
    """Month, day and time in UTC, as lists of scores have it."""
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%m-%d %H:%M}"
