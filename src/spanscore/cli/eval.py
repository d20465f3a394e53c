"""`spanscore eval`: score the agent traces in files, for a person, for machines, or as a gate in
CI.
"""

import argparse
import asyncio
import math
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from spanscore import config, sources
from spanscore.cli import aggregates, answers, dry_run, output_files, recorded, scored, unscored
from spanscore.cli.measuring import INTERRUPTED, stop_on_interrupt
from spanscore.cli.score_stream import Display, ScoreFile, Shown
from spanscore.config import Settings
from spanscore.cpus import available_cpus
from spanscore.errors import InputError
from spanscore.evaluation import Overrides
from spanscore.evaluation.rubric import OVERALL
from spanscore.metrics import available
from spanscore.model.score import reaches
from spanscore.offline import (
    OfflineScoring,
    Scored,
    measurable,
    metric_names,
    require_on_scale,
)
from spanscore.offline.recordings import Recordings
from spanscore.offline.selection import open_engine, require_providers, uses_models
from spanscore.offline.summary import RunSummary
from spanscore.offline.workers import ScoringInWorkers, Setup
from spanscore.worker_processes import MAX_WORKERS, WorkerPool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "path", metavar="PATH", nargs="+", type=sources.place, help=recorded.PLACE_HELP
    )
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        type=Path,
        help="the configuration; without it, the defaults",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        help="measure only this metric, such as coherence or rubric; may be given again",
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="the model that judges, in place of the configured one"
    )
    parser.add_argument(
        "--threshold", metavar="X", type=float, help="the score from which on the label is pass"
    )
    parser.add_argument(
        "--failing", action="store_true", help="show only what does not pass or was not measured"
    )
    parser.add_argument(
        "--jsonl", action="store_true", help="print one JSON object a line for each score"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="also write each score there as a line of JSON, as it is made",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what a judge would be asked and what it may cost; send nothing",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="say how a backend is asked for its traces; with --dry-run: show the whole prompts",
    )
    parser.add_argument(
        "--fail-under",
        metavar="METRIC=VALUE",
        action="append",
        default=[],
        help=(
            "exit 1 if the metric's mean is below VALUE, or nothing was scored; may be given again"
        ),
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=_workers,
        default=min(available_cpus(), MAX_WORKERS),
        help=(
            "read and score large files in up to N processes; 1: in this one (default: as many as"
            " it may use cores)"
        ),
    )
    answers.add_arguments(parser)
    parser.add_argument(
        "--fail-on", choices=["failed"], help="exit 1 if measuring failed for any score"
    )


def run(args: argparse.Namespace) -> int:
    """Score every trace and session.

    Returns the exit code: 1 where a gate is not met, 130 where Ctrl-C ended it; what was scored by
    then is printed.
    """
    if args.verbose:
        recorded.print_requests()
    settings = configured(args)
    gates = [_gate(text, settings) for text in args.fail_under]
    wanted = _wanted(args.metric, args, settings)
    if args.threshold is not None:
        require_on_scale(f"--threshold {args.threshold:g}", args.threshold, wanted.metrics)
    require_providers(settings, measurable(wanted))
    output_files.require_writable(args.output)
    if args.dry_run:
        traces = recorded.agent_traces(
            args.path,
            settings.assemble.session_scope,
            settings.evaluation.span_attributes,
            settings.assemble.stitch_off,
        )
        engine = open_engine(settings)
        return dry_run.run(
            engine, settings, measurable(wanted), traces, jsonl=args.jsonl, verbose=args.verbose
        )
    summary, is_stopped = asyncio.run(_stream(args, settings, wanted))
    if is_stopped:
        print("spanscore: interrupted: these are the scores that were finished", file=sys.stderr)
    # the table's last line is about that
    unscored.print_unscored(summary.outcomes, but=None if args.jsonl else "no_judge")
    verdict = _verdict(gates, summary, any_failed=args.fail_on == "failed")
    return INTERRUPTED if is_stopped else verdict


def _workers(text: str) -> int:
    """The number of processes that `--workers` asks for."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; write 1 or more")
    if int(text) > MAX_WORKERS:
        raise argparse.ArgumentTypeError(
            f"{text} is too many processes; write {MAX_WORKERS} or less"
        )
    return int(text)


def _pool(workers: int) -> AbstractContextManager[WorkerPool | None]:
    """The worker processes, which start when there is something to do for them; None: this process
    does it all.
    """
    return nullcontext() if workers == 1 else WorkerPool(workers)


def configured(args: argparse.Namespace) -> Settings:
    """The configuration, with a judge where `--model` asks for one and none is configured."""
    settings = config.load(args.config) if args.config else config.default()
    settings = settings.model_copy(update={"judge": settings.judge.or_model(args.model)})
    return answers.applied(settings, args)


def _wanted(names: Sequence[str] | None, args: argparse.Namespace, settings: Settings) -> Overrides:
    metrics = (
        None if not names else tuple(x for name in names for x in metric_names(name, settings))
    )
    return Overrides(metrics, args.model, args.threshold)


async def _stream(
    args: argparse.Namespace, settings: Settings, wanted: Overrides
) -> tuple[RunSummary, bool]:
    """Print scores as they are made, and then their summary.

    Returns the summary, and whether Ctrl-C ended the run.
    """
    summary = RunSummary()
    engine = open_engine(settings)
    with (
        ScoreFile(args.output) as file,
        Display(jsonl=args.jsonl, only_failing=args.failing) as display,
        _pool(args.workers) as pool,
    ):
        recordings = Recordings(
            args.path,
            settings.assemble.session_scope,
            warn=display.print_line,
            progress=display.read,
            attributes=settings.evaluation.span_attributes,
            stitch_off=settings.assemble.stitch_off,
            pool=pool,
        )
        workers = (
            None
            if pool is None or not recordings.are_large
            else _workers_of(args, settings, wanted, pool, display)
        )
        scoring = OfflineScoring(engine, wanted, workers)
        stop_on_interrupt(recordings.stop, scoring.stop)
        async for found in scoring.run(recordings.batches(), recordings.given.of):
            _print(_with_external(found, recordings), file, display)
            summary.add(found.evaluations)
        if not scoring.is_stopped:
            file.write(recordings.given.not_shown)
            display.print_given(recordings.given.not_shown)
    if not args.jsonl:
        scored.print_summary(display.output, settings, summary)
    return summary, scoring.is_stopped


def _workers_of(
    args: argparse.Namespace,
    settings: Settings,
    wanted: Overrides,
    pool: WorkerPool,
    display: Display,
) -> ScoringInWorkers | None:
    """What scores in worker processes; None where a model has a part in the scores, or a terminal
    shows them.
    """
    show = display.showing(to_file=args.output is not None)
    if show is None or uses_models(settings, wanted):
        return None
    folder = args.config.parent if args.config else Path()
    return ScoringInWorkers(pool, Setup(settings, folder.absolute(), wanted, show))


def _print(found: Scored, file: ScoreFile, display: Display) -> None:
    if isinstance(found.shown, Shown):
        file.write_lines(found.shown.lines)
    else:
        file.write(found.evaluations)
    display.print(found)


def _with_external(found: Scored, recordings: Recordings) -> Scored:
    """With what others gave, which is shown and counts in no mean and no gate."""
    external = recordings.given.show(found.subject)
    return Scored(found.subject, [*found.evaluations, *external]) if external else found


def _gate(text: str, settings: Settings) -> tuple[str, float]:
    """The metric and the least mean of a `--fail-under`."""
    name, given, number = text.partition("=")
    how = "write METRIC=VALUE, such as {}=0.7"
    if not given:
        raise InputError(
            f"--fail-under {text}: {how.format(name if name in available() else 'confidence')}"
        )
    [metric, *more] = metric_names(name, settings)
    if more:
        raise InputError(f"--fail-under {text}: name one score, such as {OVERALL}=75")
    try:
        least = float(number)
    except ValueError:
        least = math.nan
    if math.isnan(least):
        raise InputError(f"--fail-under {text}: {how.format(name)}")
    require_on_scale(f"--fail-under {text}", least, [name])
    return metric, least


def _verdict(gates: Sequence[tuple[str, float]], summary: RunSummary, *, any_failed: bool) -> int:
    """The exit code; what is not met is printed on standard error."""
    unmet = []
    for name, least in gates:
        mean = summary.mean(name)
        if mean is None:
            unmet.append(f"{name} has no score to hold against {least:g}")
        elif not reaches(mean.value, least):
            limits = aggregates.as_texts(mean)[1]
            unmet.append(
                f"the mean of {name} is {mean.value:.4f} {limits}, n = {mean.n}, below {least:g}"
            )
    failed = sum(counts.failed for counts in summary.counts.values())
    if any_failed and failed:
        unmet.append(f"measuring failed {failed} times")
    for text in unmet:
        print(f"spanscore: {text}", file=sys.stderr)
    return 1 if unmet or unscored.no_score(summary.outcomes) else 0
