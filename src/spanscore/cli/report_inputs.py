"""What a report is made of, out of files of any kind that spanscore reads or writes."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spanscore import report
from spanscore.cli import compared_files, recorded
from spanscore.cli.measuring import measured
from spanscore.cli.recorded import Place
from spanscore.cli.terminal import printable
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.model import external
from spanscore.model.json import loads
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.offline.recordings import Recordings
from spanscore.received_scores import read_external, read_own
from spanscore.sources import Location

_MAX_START_BYTES = 2**24
_OF_A_SCORE = (
    *("scope", "status", "metric", "evaluator"),
    *("trace_id", "span_id", "subject_id", "session_key"),
)
_OF_A_TRACE = {"trace_ids", "opening_span_id", "model_calls", "target"}


@dataclass(slots=True)
class Given:
    """What files contain: agent traces, scores, those that others gave apart, and the run of a
    suite.

    `is_complete`: False where Ctrl-C ended the scoring of the traces.
    """

    paths: Sequence[Place]
    traces: list[AgentTrace] = field(default_factory=list)
    scores: list[report.Score] = field(default_factory=list)
    external: list[Evaluation] = field(default_factory=list)
    run: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    is_complete: bool = True

    @property
    def name(self) -> str:
        """What the files are called."""
        return ", ".join(x.name or str(x) for x in self.paths[:3]) + (
            ", …" if len(self.paths) > 3 else ""
        )

    @property
    def content(self) -> compared_files.Content:
        """What `spanscore compare` takes."""
        return [dict(report.as_json(x)) for x in self.scores] if self.run is None else self.run

    def results(self, title: str | None) -> report.Results:
        """What a report shows. Raises InputError where a score or a run is malformed."""
        try:
            if self.run is not None:
                found = report.of_run(self.run, self.traces, [*self.scores, *self.external])
                return found.named(title) if title else found
            return report.Results(
                name=title or self.name,
                traces=self.traces,
                scores=[*self.scores, *self.external],
                notes=tuple(self.notes),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise InputError(
                f"{self.name}: no run as `spanscore test --output` writes it ({what})"
            ) from None


def read(paths: Sequence[Place], settings: Settings, args: argparse.Namespace) -> Given:
    """What is in `paths`; traces of which no score is there are scored as `spanscore eval` does.

    Raises InputError where a file cannot be read, or there is nothing in them.
    """
    given = Given(paths)
    telemetry: list[Place] = []
    for path in paths:
        if isinstance(path, Location):
            telemetry.append(path)
        elif compared_files.is_readable(path):
            _take_scores(given, path)
        elif _has_agent_traces(path):
            given.traces += _agent_traces(path)
        else:
            telemetry.append(path)
    if telemetry:
        _take_telemetry(given, telemetry, settings)
    joined = external.join(given.external, given.traces)
    given.external = [*joined.scores, *joined.of_no_turn]
    if given.traces and not given.scores and given.run is None:
        _score(given, settings, args)
    return given


def _take_scores(given: Given, path: Path) -> None:
    content = compared_files.content(path)
    _require_scores(path)
    if isinstance(content, list):
        given.scores += content
    elif given.run is not None:
        raise InputError(
            f"{path}: a report is of one run of a suite; give the other one as --baseline"
        )
    else:
        given.run = content


def _require_scores(path: Path) -> None:
    """Raise InputError where a file contains a score that lacks what every score has."""
    for score in compared_files.scores(path):
        lacking = [name for name in _OF_A_SCORE if name not in score]
        if lacking or not isinstance(score["evaluator"], dict):
            what = (
                f"{', '.join(map(repr, lacking))} is missing"
                if lacking
                else "its 'evaluator' is no object"
            )
            raise InputError(
                f"{path}: no scores as spanscore writes them ({what}); `spanscore eval --jsonl`"
                " does"
            )


def _take_telemetry(given: Given, paths: Sequence[Place], settings: Settings) -> None:
    """The agent traces in files of OTLP, and the scores among them: those that spanscore exported,
    and others'.
    """
    telemetry = recorded.loaded(paths)
    scope = settings.assemble.session_scope
    given.scores += read_own(telemetry.spans, telemetry.logs, session_scope=scope)
    from_others = read_external(telemetry.spans, telemetry.logs, session_scope=scope)
    recordings = Recordings.of(
        telemetry,
        scope,
        given.notes.append,
        attributes=settings.evaluation.span_attributes,
        stitch_off=settings.assemble.stitch_off,
    )
    try:
        given.traces += [x for batch in recordings.batches() for x in batch]
    except InputError:
        if not given.scores and not from_others:
            raise
    given.external += from_others
    for note in given.notes:
        print(f"spanscore: {printable(note)}", file=sys.stderr)


def _score(given: Given, settings: Settings, args: argparse.Namespace) -> None:
    """Score the traces; where Ctrl-C ends that, the scores that were finished are kept."""
    print("spanscore: no scores were given, so the traces are scored now", file=sys.stderr)
    found = measured(settings, given.traces, metrics=args.metric, model=args.model, keeps_part=True)
    given.scores += found.evaluations
    given.is_complete = found.is_complete
    if not found.is_complete:
        count = len({x.subject_id for x in found.evaluations if x.scope == "trace"})
        interruption = (
            f"interrupted when {count:,} of {len(given.traces):,} turns were scored; the rest has"
            " no scores"
        )
        given.notes.append(f"Scoring was {interruption}.")
        print(f"spanscore: {interruption}", file=sys.stderr)


def _has_agent_traces(path: Path) -> bool:
    """Whether a file begins with an agent trace as `spanscore inspect --jsonl` prints it."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:  # text would be decoded beyond the line
            found = loads(file.readline(_MAX_START_BYTES).decode())
    except (OSError, UnicodeDecodeError, ValueError):
        return False
    return isinstance(found, dict) and found.keys() >= _OF_A_TRACE


def _agent_traces(path: Path) -> Iterator[AgentTrace]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                data = loads(line.decode())
                yield AgentTrace.from_json(
                    {name: x for name, x in data.items() if name != "explain"}
                )
            except (KeyError, TypeError, ValueError, AttributeError):
                raise InputError(
                    f"{path}:{number}: no agent trace as `spanscore inspect --jsonl` prints it"
                ) from None
