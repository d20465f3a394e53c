"""`spanscore report`: traces, scores and runs as HTML."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spanscore import report, sources
from spanscore.cli import compare, score_files, server, stored, trace_files
from spanscore.cli.comparison import (
    LATENCY,
    PASS_RATE,
    Comparison,
    Limits,
    compare as compared_runs,
)
from spanscore.cli.measurement import INTERRUPTED, configured, measured
from spanscore.cli.options import PLACE, add_judge, argument
from spanscore.cli.score_files import Run
from spanscore.cli.terminal import counted, printable, require_writable, say
from spanscore.cli.trace_files import Place
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge import redactor
from spanscore.model import external
from spanscore.model.json import loads
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.received_scores import read_external, read_own
from spanscore.sources import Location

_MIB = 2**20

TAKES = PLACE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    text = f"{trace_files.PLACE_HELP}; or scores"
    argument(parser, "path PATH", text, type=sources.place, nargs="*")
    argument(parser, "--failing", "only stored traces that do not pass or were not measured")
    stored.add_arguments(parser)
    argument(parser, "-o/--output FILE", "default: %(default)s", default=Path("report.html"))
    argument(parser, "--baseline PATH", "a run to compare with", repeated=True, type=sources.place)
    argument(parser, "--redact", "replace secrets and personal data, as in what a judge is sent")
    argument(parser, "--metric NAME", "where nothing is scored yet: only this", repeated=True)
    add_judge(parser)


def run(args: argparse.Namespace) -> int:
    """Write the report.

    Returns the exit code: 130 where Ctrl-C ended the scoring; what was scored by then is in it.
    """
    require_writable(args.output)
    stored.check(args)
    settings = configured(args)
    given = read_files(args.path, settings, args)
    results = replace(given.results(), trace_url=server.trace_url(args))
    baseline = comparison = None
    is_complete = given.is_complete
    if args.baseline and not is_complete:
        say("the baseline is left out of the report")
    elif args.baseline:
        before = read_files(args.baseline, settings, args)
        baseline = before.results()
        comparison = compared(before, given)
        is_complete = before.is_complete
    report.save(
        args.output,
        results,
        comparison=comparison,
        baseline=baseline,
        redact=redactor(settings.judge) if args.redact else str,
    )
    _print_remarks(args, results)
    return 0 if is_complete else INTERRUPTED


def _print_remarks(args: argparse.Namespace, results: report.Results) -> None:
    """What was written, and what to mind about it."""
    size = args.output.stat().st_size
    size_text = f"{size / _MIB:.1f} MiB" if size >= _MIB else f"{max(size // 1024, 1)} KiB"
    counts = {"turn": len(results.traces), "test": len(results.cases)}
    listed = ", ".join(counted(count, what) for what, count in counts.items() if count)
    written = f"{listed or 'scores alone'}, {size_text}"
    print(f"{printable(str(args.output))}: {written}; open it in a browser.")
    replaced = "secrets and personal data are replaced as far as they were recognised"
    content = replaced if args.redact else "unredacted"
    print(f"It contains what users and the agent said, {content}. Only you can read it.")


_OF_A_SCORE = (
    *("scope", "status", "metric", "evaluator"),
    *("trace_id", "span_id", "subject_id", "session_key"),
)
_OF_A_TRACE = {"trace_ids", "opening_span_id", "model_calls", "target"}


@dataclass(slots=True)
class Given:
    """What is given or stored: agent traces, scores, those that others gave apart, and the run of a
    suite.

    `is_complete`: False where Ctrl-C ended the scoring of the traces.
    """

    name: str
    traces: list[AgentTrace] = field(default_factory=list)
    scores: list[report.Score] = field(default_factory=list)
    external: list[Evaluation] = field(default_factory=list)
    run: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    is_complete: bool = True

    @property
    def content(self) -> score_files.Content:
        """What `spanscore compare` takes."""
        return [dict(report.as_json(x)) for x in self.scores] if self.run is None else self.run

    def results(self) -> report.Results:
        """What a report shows. Raises InputError where a score or a run is malformed."""
        try:
            if self.run is not None:
                return report.of_run(self.run, self.traces, [*self.scores, *self.external])
            scores, notes = [*self.scores, *self.external], tuple(self.notes)
            return report.Results(name=self.name, traces=self.traces, scores=scores, notes=notes)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problem = f"no run as `spanscore test --output` writes it ({what})"
            raise InputError(f"{self.name}: {problem}") from None


def read_files(paths: Sequence[Place], settings: Settings, args: argparse.Namespace) -> Given:
    """What is in `paths`, else what is stored; traces of which no score is there are scored as
    `spanscore eval` does.

    Raises InputError where a file cannot be read, or there is nothing in them.
    """
    given = Given(_named(paths) or stored.name(args, failing=args.failing))
    if not paths:
        _take_stored(given, stored.read(args, failing=args.failing))
    telemetry = [path for path in paths if not _is_taken(given, path, args)]
    if telemetry:
        _take_telemetry(given, telemetry, settings)
    joined = external.join(given.external, given.traces)
    given.external = [*joined.scores, *joined.of_no_turn]
    if given.traces and not given.scores and given.run is None:
        _score(given, settings, args)
    return given


def _is_taken(given: Given, path: Place, args: argparse.Namespace) -> bool:
    """Take what an evaluation run or a file contains, unless that is telemetry."""
    if stored.is_run(args, path):
        _take_stored(given, stored.of_run(args, path))
    elif isinstance(path, Location):
        return False
    elif score_files.is_readable(path):
        _take_scores(given, path)
    elif _has_agent_traces(path):
        given.traces += _agent_traces(path)
    else:
        return False
    return True


def _named(paths: Sequence[Place]) -> str:
    """What files, URLs and evaluation runs are called."""
    names = [x.name or str(x) for x in paths[:3]]
    return ", ".join(names) + (", …" if len(paths) > len(names) else "")


def _take_stored(given: Given, found: stored.Found) -> None:
    given.traces += found.traces
    given.scores += [x for x in found.scores if x.evaluator.source is None]
    given.external += [x for x in found.scores if x.evaluator.source is not None]


def _take_scores(given: Given, path: Path) -> None:
    content = score_files.content(path)
    _require_scores(path)
    if isinstance(content, list):
        given.scores += content
    elif given.run is not None:
        problem = "a report is of one run of a suite; give the other one as --baseline"
        raise InputError(f"{path}: {problem}")
    else:
        given.run = content


def _require_scores(path: Path) -> None:
    """Raise InputError where a file contains a score that lacks what every score has."""
    for score in score_files.scores(path):
        lacking = [name for name in _OF_A_SCORE if name not in score]
        if lacking or not isinstance(score["evaluator"], dict):
            missing = f"{', '.join(map(repr, lacking))} is missing"
            what = missing if lacking else "its 'evaluator' is no object"
            problem = f"no scores as spanscore writes them ({what})"
            raise InputError(f"{path}: {problem}; `spanscore eval --jsonl` does")


def _take_telemetry(given: Given, paths: Sequence[Place], settings: Settings) -> None:
    """The agent traces in files of OTLP, and the scores among them: those that spanscore exported,
    and others'.
    """
    telemetry = trace_files.loaded(paths)
    scope = settings.assemble.session_scope
    given.scores += read_own(telemetry.spans, telemetry.logs, session_scope=scope)
    from_others = read_external(telemetry.spans, telemetry.logs, session_scope=scope)
    recordings = trace_files.recordings(telemetry, settings, warn=given.notes.append)
    try:
        given.traces += [x for batch in recordings.batches() for x in batch]
    except InputError:
        if not given.scores and not from_others:
            raise
    given.external += from_others
    for note in given.notes:
        say(note)


def _score(given: Given, settings: Settings, args: argparse.Namespace) -> None:
    """Score the traces; where Ctrl-C ends that, the scores that were finished are kept."""
    say("no scores were given, so the traces are scored now")
    metrics = args.metric or None
    found = measured(settings, given.traces, metrics=metrics, model=args.model, keeps_part=True)
    given.scores += found.evaluations
    given.is_complete = found.is_complete
    if not found.is_complete:
        count = len({x.subject_id for x in found.evaluations if x.scope == "trace"})
        done = f"{count:,} of {len(given.traces):,} turns were scored"
        interruption = f"interrupted when {done}; the rest has no scores"
        given.notes.append(f"Scoring was {interruption}.")
        say(interruption)


def _has_agent_traces(path: Path) -> bool:
    """Whether a file begins with an agent trace as `spanscore inspect --jsonl` prints it."""
    try:
        found = loads(score_files.start_of(path))
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() >= _OF_A_TRACE


def _agent_traces(path: Path) -> Iterator[AgentTrace]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                data = loads(line.decode())
                data.pop("explain", None)
                yield AgentTrace.from_json(data)
            except (KeyError, TypeError, ValueError, AttributeError):
                problem = "no agent trace as `spanscore inspect --jsonl` prints it"
                raise InputError(f"{path}:{number}: {problem}") from None


_UNITS = {PASS_RATE: "%", LATENCY: "s"}
_SAME_OF_MEASURES = ("name", "difference", "verdict", "regression", "note")


def compared(baseline: Given, own: Given) -> report.Comparison:
    """How `own` differs from `baseline`.

    Raises InputError where one is the run of a suite and the other is none.
    """
    a, b = score_files.of_two(*((Path(x.name), x.content) for x in (baseline, own)))
    found = compared_runs(a, b, limits=Limits(), certain=False)
    count = _counted(a, b)
    differences = [
        report.Difference(
            **{name: getattr(x, name) for name in _SAME_OF_MEASURES},
            baseline=x.a,
            own=x.b,
            unit=_UNITS.get(x.name, ""),
            counted=count if x.name == PASS_RATE else "",
        )
        for x in found.measures
    ]
    changes = [
        report.Change(
            **{name: getattr(x, name) for name in ("name", "measure", "verdict")},
            baseline=x.a,
            own=x.b,
            values=x.means.get(x.measure),
        )
        for x in sorted(found.cases, key=lambda x: x.a == x.b)
        if x.is_changed
    ]
    return report.Comparison(
        baseline=baseline.name,
        verdict=found.verdict,
        differences=differences,
        changes=changes,
        only_in_baseline=found.only_in_a,
        only_in_own=found.only_in_b,
        remarks=_remarks(found),
    )


def _remarks(found: Comparison) -> tuple[str, ...]:
    if not found.measures:
        how = "they are paired by case, id, or user input"
        return (f"Nothing is in both runs, so nothing can be compared: {how}.",)
    why = "Not comparable, since it was scored differently in both runs"
    unlike = [f"{why}: {x}" for x in found.not_comparable]
    return (*unlike, compare.counted(found), compare.sureness(found))


def _counted(a: Run, b: Run) -> str:
    """What the pass rate is a share of: turns by themselves are another one."""
    both = [(x, b.units[name]) for name, x in a.units.items() if name in b.units]
    decided = [x for x, other in both if x.passed and other.passed]
    if a.of_suite:
        return f"of the trials of {counted(len(decided), 'case')}"
    traces = sum(x.is_turn for x in decided)
    counts = ((traces, "trace"), (len(decided) - traces, "session"))
    of = " and ".join(counted(count, what) for count, what in counts if count)
    return f"of {of}, by the metrics that both runs have"
