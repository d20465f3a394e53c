"""`spanscore test`: hold recorded traces against a suite of cases, for a person, for machines, or
as a gate in CI.
"""

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from spanscore import config, suites
from spanscore.calibration import PassRate
from spanscore.cli import aggregates, answers, recorded, results, unscored
from spanscore.cli.output_files import require_writable, write
from spanscore.cli.terminal import console, print_json, progress
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge import answers_file, check_models
from spanscore.metrics.session.agentic import Statistics, Unit
from spanscore.model.score import reaches
from spanscore.model.span import Attributes, Span
from spanscore.model.trace import AgentTrace
from spanscore.offline.summary import counted
from spanscore.receive.auth import open_authenticators


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "suite",
        metavar="SUITE",
        nargs="?",
        type=Path,
        help=(
            "the suite's YAML file; without it, what the traces themselves state is expected of"
            " them"
        ),
    )
    parser.add_argument("path", metavar="PATH", nargs="*", type=Path, help=recorded.PATH_HELP)
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON schema of a suite file and do nothing else",
    )
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        type=Path,
        help="the configuration; without it, the defaults",
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="the model that judges, in place of the configured one"
    )
    answers.add_arguments(parser)
    _add_statistics(parser)
    parser.add_argument(
        "--fail-under",
        metavar="SHARE",
        type=float,
        help="exit 1 if a smaller share of the cases passes; default: 1",
    )
    parser.add_argument(
        "--skip-unmatched",
        action="store_true",
        help="leave out cases that nothing recorded matches",
    )
    parser.add_argument(
        "--run-id", metavar="ID", help="test.suite.run.id of what is recorded without one"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the run as JSON, for `spanscore compare`"
    )
    parser.add_argument(
        "--junit", metavar="FILE", type=Path, help="write the run as JUnit XML, for a CI system"
    )
    parser.add_argument(
        "--export",
        metavar="FILE",
        type=Path,
        help="add the scores to a file of OTLP JSON, as spans",
    )
    parser.add_argument(
        "--no-export",
        action="store_true",
        help="send nothing to the exporters of the configuration",
    )


def _add_statistics(parser: argparse.ArgumentParser) -> None:
    """The options that take the place of what the suite says."""
    parser.add_argument(
        "--trials",
        metavar="N",
        type=_count,
        help="how many trials of each case must be there at least",
    )
    parser.add_argument("--k", metavar="K", type=_count, help="the attempts of pass@k and pass^k")
    parser.add_argument(
        "--required-pass-rate",
        metavar="SHARE",
        type=float,
        help="the share of its trials with which a case passes",
    )
    parser.add_argument(
        "--statistics", choices=get_args(Statistics), help="how pass@k and pass^k are estimated"
    )
    parser.add_argument(
        "--unit",
        choices=get_args(Unit),
        help="what is counted: conversations, or interactions of one",
    )


def run(args: argparse.Namespace) -> int:
    """Run the suite. Returns the exit code: 1 where too few cases pass."""
    if args.schema:
        print_json(suites.json_schema())
        return 0
    _sort_paths(args)
    require_writable(args.output, args.junit, args.export)
    least = 1.0 if args.fail_under is None else _share("--fail-under", args.fail_under)
    given = None if args.suite is None else suites.load(args.suite)
    settings = answers.applied(config.load(args.config) if args.config else config.default(), args)
    telemetry = recorded.loaded(args.path)
    traces = recorded.rebuilt(
        telemetry,
        args.path,
        settings.assemble.session_scope,
        stitch_off=settings.assemble.stitch_off,
    )
    prepared = suites.prepare(
        _changed(given or suites.suite_of(traces), args),
        traces,
        attributes_of=attributes_of(telemetry.spans),
        skip_unmatched=args.skip_unmatched,
        name=str(args.suite or args.path[0]),
    )
    require_models(settings, args.model)
    with progress("scoring", prepared.trials) as done:
        found = asyncio.run(
            suites.run(
                prepared,
                settings,
                model=args.model,
                run_id=args.run_id,
                cache=answers_file(settings.judge),
                done=done,
            )
        )
    corrected = aggregates.calibrated(settings, found.evaluations)
    results.print_run(console(), found, corrected)
    unscored.print_unscored(counted(found.evaluations), but="no_judge")
    write(args.output, lambda: suites.as_text(_content(found, corrected)))
    write(args.junit, lambda: suites.to_junit(found))
    _export(args, settings, found)
    return _verdict(found, least)


def _sort_paths(args: argparse.Namespace) -> None:
    """Move what stands in the suite's place to the recordings, where it is one of them."""
    if args.suite is None:
        raise InputError(
            "give a suite and what was recorded: spanscore test SUITE PATH...; see spanscore test"
            " --help"
        )
    is_suite = args.suite.suffix in _OF_SUITES or (args.path and not _is_recording(args.suite))
    if not is_suite:
        args.suite, args.path = None, [args.suite, *args.path]
    elif not args.path:
        raise InputError(
            f"give what was recorded, too: spanscore test {args.suite} PATH...; see spanscore test"
            " --help"
        )


def _is_recording(path: Path) -> bool:
    return path.is_dir() or not _OF_RECORDINGS.isdisjoint(path.suffixes)


_OF_SUITES = {".yaml", ".yml"}
_OF_RECORDINGS = {".jsonl", ".pb", ".gz"}


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 on")
    return int(text)


def _share(option: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"{option} {value:g}: give a share from 0 to 1, such as 0.9")
    return value


def _changed(suite: suites.Suite, args: argparse.Namespace) -> suites.Suite:
    """The suite with what the options say in place of what it says itself, and of what its cases
    say.
    """
    changes: dict[str, object] = {}
    if args.required_pass_rate is not None:
        changes["required_pass_rate"] = _share("--required-pass-rate", args.required_pass_rate)
    changes |= {
        name: value for name in ("trials", "k") if (value := getattr(args, name)) is not None
    }
    agentic = {
        name: value for name in ("statistics", "unit") if (value := getattr(args, name)) is not None
    }
    # they say as the suite does
    cases = tuple(x.model_copy(update=dict.fromkeys(changes)) for x in suite.cases)
    return suite.model_copy(
        update={**changes, "cases": cases, "agentic": replace(suite.agentic, **agentic)}
    )


def require_models(settings: Settings, model: str | None) -> None:
    """Refuse a judge's model that there is no provider for. Raises ConfigError."""
    if models := (model,) if model else settings.judge.models:
        check_models(settings.judge, models)


def attributes_of(spans: Iterable[Span]) -> Callable[[AgentTrace], Iterable[Attributes]]:
    """Finds the attributes of all spans, and of their resources, in the OTel traces of an agent
    trace.
    """
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)

    def attributes(trace: AgentTrace) -> Iterable[Attributes]:
        for trace_id in trace.trace_ids:
            for span in by_trace[trace_id]:
                yield span.resource.attributes
                yield span.attributes

    return attributes


def _export(args: argparse.Namespace, settings: Settings, found: suites.Run) -> None:
    """Send the scores to where they are to go; what could not be delivered is said and changes no
    verdict.
    """
    targets = [suites.to_file(args.export)] if args.export else []
    if settings.export.exporters and not args.no_export:
        targets.append(settings.export)
    for target in targets:
        known = open_authenticators(settings.authenticators, has_tenants=settings.tenancy.enabled)
        problems = asyncio.run(
            suites.send(target, found.evaluations, found.started_at_ns, time.time_ns(), known)
        )
        for problem in problems:
            print(f"spanscore: warning: {problem}", file=sys.stderr)


def _content(found: suites.Run, corrected: Iterable[PassRate]) -> dict[str, Any]:
    """The run file, with the pass rates that calibrations correct."""
    content = suites.to_json(found)
    content["overall"]["corrected_pass_rates"] = [x.to_json() for x in corrected]
    return content


def _verdict(found: suites.Run, least: float) -> int:
    """The exit code; what is not met is printed on standard error."""
    if reaches(found.case_pass_rate, least):
        return 0
    counts = ((found.count("fail"), "failed"), (found.count("error"), "cannot be told"))
    counted = [f"{count} of {len(found.cases)} cases {what}" for count, what in counts if count]
    print(f"spanscore: {', '.join(counted)}; required is that {least:.0%} pass", file=sys.stderr)
    return 1
