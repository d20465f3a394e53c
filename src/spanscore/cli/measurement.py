"""Scores that a command makes, with cached answers."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spanscore import config, dialects, local_files
from spanscore.cli import score_summary
from spanscore.cli.terminal import Output, console, json_line, printable, progress, rendered, say
from spanscore.config import Settings
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline import OfflineScoring, Scored
from spanscore.offline.summary import counted

if TYPE_CHECKING:
    from rich.progress import Progress


class Shown(NamedTuple):
    """A trace or session with its scores as they are printed, and as lines of JSON for a file."""

    text: str
    lines: str


@dataclass(frozen=True, slots=True)
class Showing:
    """Makes what a `Display` without a terminal prints, and a `ScoreFile` writes: in whichever
    process.
    """

    jsonl: bool
    only_failing: bool
    to_file: bool
    width: int
    encoding: str

    def __call__(self, subject: AgentTrace | Session, evaluations: Sequence[Evaluation]) -> Shown:
        """What is printed of a trace or session."""
        lines = json_lines(evaluations) if self.to_file else ""
        shown = score_summary.failing(evaluations, only=self.only_failing)
        if self.jsonl:
            return Shown(_printed_lines(shown), lines)
        show = partial(score_summary.print_subject, subject=subject, evaluations=shown)
        return Shown(rendered(show, self.width, self.encoding), lines)


def json_lines(evaluations: Iterable[Evaluation]) -> str:
    """A line of JSON for each score."""
    return "".join(f"{dumps(x.to_json())}\n" for x in evaluations)


def _print_now(text: str) -> None:
    print(text, end="", flush=True)


def _printed_lines(evaluations: Iterable[Evaluation]) -> str:
    return "".join(f"{json_line(x.to_json())}\n" for x in evaluations)


@dataclass(slots=True)
class Display:
    """Prints traces and sessions with their scores, above a progress bar where a terminal shows
    one.
    """

    jsonl: bool = False
    only_failing: bool = False
    output: Output = field(default_factory=console)
    _bar: "Progress | None" = None
    _task: Any = None
    _traces: int = 0

    def __enter__(self) -> Self:
        if (shown_on := self._shown_on()) is not None:
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415 - a terminal's

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            self._bar = Progress(*columns, console=shown_on, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("reading", total=None)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def print(self, found: Scored) -> None:
        """Show the scores of a trace or session."""
        self._traces += isinstance(found.subject, AgentTrace)
        if self._bar is not None:
            self._bar.update(self._task, description=f"scoring: {self._traces:,} traces")
        shown = score_summary.failing(found.evaluations, only=self.only_failing)
        if isinstance(found.shown, Shown):
            _print_now(found.shown.text)
        elif self.jsonl:
            _print_now(_printed_lines(shown))
        else:
            score_summary.print_subject(self.output, found.subject, shown)

    def showing(self, *, to_file: bool) -> Showing | None:
        """What makes elsewhere what is printed here; None where that is for a terminal."""
        if self.output.is_terminal and not self.jsonl:
            return None
        width, encoding = self.output.width, self.output.encoding
        return Showing(self.jsonl, self.only_failing, to_file, width, encoding)

    def print_given(self, evaluations: Sequence[Evaluation]) -> None:
        """Show scores that others gave, by the trace or the session that they name."""
        shown = score_summary.failing(evaluations, only=self.only_failing)
        if self.jsonl:
            _print_now(_printed_lines(shown))
        else:
            score_summary.print_given(self.output, shown)

    def read(self, done_bytes: int, total_bytes: int) -> None:
        """Show how much of the files was read. May be called from any thread."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done_bytes, total=total_bytes)

    def print_line(self, line: str) -> None:
        """Say something on standard error. May be called from any thread."""
        if self._bar is not None and self._bar.console is not self.output:
            self._bar.console.print(f"spanscore: {printable(line)}", soft_wrap=True)
        else:
            say(line)

    def _shown_on(self) -> "Output | None":
        """Where the bar is: with what is printed, where that is a terminal, else on standard error
        if that is one.
        """
        if self.output.is_terminal and not self.jsonl:
            return self.output
        if self.output.is_terminal or not sys.stderr.isatty():
            return None
        return console(to_stderr=True)


class ScoreFile:
    """A file that only its owner can read, with a line of JSON for each score as soon as it is
    made.
    """

    def __init__(self, path: Path | None) -> None:
        """None: nothing is written."""
        self._path = path
        self._open = contextlib.ExitStack()
        self._file: int | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with self._reported_errors():
                self._file = os.open(self._path, how, local_files.MODE)
                self._open.callback(os.close, self._file)
                if self._path.is_file():
                    os.fchmod(self._file, local_files.MODE)
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()

    def write(self, evaluations: Iterable[Evaluation]) -> None:
        """Write the scores. Raises OutputError where they do not fit."""
        if self._file is not None:
            self.write_lines(json_lines(evaluations))

    def write_lines(self, lines: str) -> None:
        """Write scores that are lines of JSON already. Raises as `write`."""
        left = lines.encode(errors="replace") if self._file is not None else b""
        with self._reported_errors():
            while left and self._file is not None:
                left = left[os.write(self._file, left) :]

    @contextlib.contextmanager
    def _reported_errors(self) -> Any:
        try:
            yield
        except OSError as error:
            raise local_files.cannot_write(str(self._path), error) from error


INTERRUPTED = 130
"""The exit code where Ctrl-C ended a command, also where it gave what was done by then."""


class Measured(NamedTuple):
    """Scores, and whether they are all: with False, Ctrl-C ended the run before."""

    evaluations: list[Evaluation]
    is_complete: bool


def measured(
    settings: Settings,
    traces: Sequence[AgentTrace],
    *,
    metrics: Sequence[str] | None,
    model: str | None,
    threshold: float | None = None,
    keeps_part: bool = False,
) -> Measured:
    """The scores of `traces`; what could not be scored is printed on standard error.

    Arguments as `OfflineScoring`'s.

    `keeps_part`: the first Ctrl-C gives what is finished; without it, it ends the command.
    """
    scoring = OfflineScoring.prepared(settings, metrics=metrics, model=model, threshold=threshold)

    async def collect() -> list[Evaluation]:
        found: list[Evaluation] = []
        if keeps_part:
            stop_on_interrupt(scoring.stop)
        with progress("scoring", len(traces)) as done:
            async for one in scoring.run([traces]):
                found += one.evaluations
                if isinstance(one.subject, AgentTrace):
                    done()
        return found

    evaluations = asyncio.run(collect())
    score_summary.print_unscored(counted(evaluations))
    return Measured(evaluations, not scoring.is_stopped)


def stop_on_interrupt(*stops: Callable[[], None]) -> None:
    """Have the first Ctrl-C call these within the running event loop, and the next one end the
    program at once.
    """
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        for each in stops:
            each()

    loop.add_signal_handler(signal.SIGINT, stop)


def configured(args: argparse.Namespace) -> Settings:
    """The configuration, with a judge where `--model` asks for one and none is configured; with
    `--no-cache` without a cache between runs.
    """
    settings = config.load(args.config)
    dialects.configure(settings.span_names)
    judge = settings.judge.or_model(args.model)
    if args.no_cache:
        cache = judge.cache.model_copy(update={"between_runs": False})
        judge = judge.model_copy(update={"cache": cache})
    return settings.model_copy(update={"judge": judge})
