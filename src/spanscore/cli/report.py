"""`spanscore report`: recorded traces, their scores and the runs of suites as one HTML file to look
at.
"""

import argparse
import sys
from pathlib import Path

from spanscore import report, sources
from spanscore.cli import (
    answers,
    eval,  # noqa: A004 - the command's name
    recorded,
    report_comparison,
    report_inputs,
)
from spanscore.cli.measuring import INTERRUPTED
from spanscore.cli.output_files import require_writable
from spanscore.cli.terminal import printable
from spanscore.errors import InputError
from spanscore.judge import redactor

_MIB = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="+",
        type=sources.place,
        help=(
            f"{recorded.PLACE_HELP}; what `spanscore test --output`, `eval --jsonl` or `inspect"
            " --jsonl` wrote; or scores that spanscore exported by OTLP"
        ),
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=Path("report.html"),
        help="the file; default: %(default)s",
    )
    parser.add_argument(
        "--baseline",
        metavar="PATH",
        action="append",
        type=sources.place,
        default=[],
        help=(
            "another run to compare with, as PATH; may be given again, for its traces and its"
            " scores"
        ),
    )
    parser.add_argument(
        "--title",
        metavar="TEXT",
        help="what the report is called; default: the suite, or the files",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace secrets and personal data, as in what a judge is sent",
    )
    parser.add_argument(
        "--max-size",
        metavar="MIB",
        type=float,
        default=report.MAX_BYTES / _MIB,
        help=(
            "how large the file may become; past it, turns have no steps, those that pass first;"
            " default: %(default)g"
        ),
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        action="append",
        help="where nothing is scored yet: measure only this; repeatable",
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="where nothing is scored yet: the model that judges"
    )
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        type=Path,
        help="the configuration; without it, the defaults",
    )
    answers.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write the report.

    Returns the exit code: 130 where Ctrl-C ended the scoring; what was scored by then is in it.
    """
    if not args.max_size >= 1:
        raise InputError(f"--max-size {args.max_size:g}: give a number of MiB from 1 on")
    require_writable(args.output)
    settings = eval.configured(args)
    given = report_inputs.read(args.path, settings, args)
    results = given.results(args.title)
    baseline = comparison = None
    is_complete = given.is_complete
    if args.baseline and not is_complete:
        print("spanscore: the baseline is left out of the report", file=sys.stderr)
    elif args.baseline:
        before = report_inputs.read(args.baseline, settings, args)
        baseline = before.results(None)
        comparison = report_comparison.compared(before, given)
        is_complete = before.is_complete
    report.save(
        args.output,
        results,
        comparison=comparison,
        baseline=baseline,
        redact=redactor(settings.judge) if args.redact else str,
        max_bytes=int(args.max_size * _MIB),
    )
    _print_remarks(args, results)
    return 0 if is_complete else INTERRUPTED


def _print_remarks(args: argparse.Namespace, results: report.Results) -> None:
    """What was written, and what to mind about it."""
    size = args.output.stat().st_size
    size_text = f"{size / _MIB:.1f} MiB" if size >= _MIB else f"{max(size // 1024, 1)} KiB"
    counts = [(len(results.traces), "turn"), (len(results.cases), "test")]
    listed = ", ".join(f"{count:,} {what}{'s' * (count != 1)}" for count, what in counts if count)
    written = f"{listed or 'scores alone'}, {size_text}"
    print(f"{printable(str(args.output))}: {written}; open it in a browser.")
    content = (
        "secrets and personal data are replaced as far as they were recognised"
        if args.redact
        else "unredacted"
    )
    print(f"It contains what users and the agent said, {content}. Only you can read it.")
