"""`spanscore test`: traces against a suite of cases."""

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spanscore import suites
from spanscore.calibration import PassRate, certificates_in
from spanscore.cli import measurement, score_summary, stored, terminal, trace_files
from spanscore.cli.options import PLACE, add_judge, argument
from spanscore.cli.score_summary import ranged, with_interval
from spanscore.cli.terminal import Columns, Output, console, on_one_line, say, styled, write_file
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge import answers_file, check_models
from spanscore.metrics.session.agentic import reading
from spanscore.model.score import reaches
from spanscore.model.span import Attributes, Span
from spanscore.model.trace import AgentTrace
from spanscore.offline.summary import RunSummary, counted
from spanscore.receive.auth import open_authenticators
from spanscore.stats import Estimate, rate
from spanscore.suites import CaseResult, Run
from spanscore.suites.matches import AttributesOf, own_attributes
from spanscore.suites.run import Prepared

TAKES = PLACE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "suite SUITE", "a suite; else what the traces state", type=Path, nargs="?")
    argument(parser, "path PATH", trace_files.PATH_HELP, type=Path, nargs="*")
    stored.add_arguments(parser)
    argument(parser, "--schema", "print the JSON schema of a suite file and do nothing else")
    add_judge(parser)
    argument(parser, "--fail-under SHARE", "exit 1 if fewer of the cases pass; default: 1")
    argument(parser, "--skip-unmatched", "leave out cases that nothing recorded matches")
    argument(parser, "--output FILE", "write the run as JSON, for `spanscore compare`")
    argument(parser, "--junit FILE", "write the run as JUnit XML, for a CI system")
    argument(parser, "--export FILE", "add the scores to a file of OTLP JSON, as spans")
    argument(parser, "--no-export", "send nothing to the exporters of the configuration")


def run(args: argparse.Namespace) -> int:
    """Run the suite. Returns the exit code: 1 where too few cases pass."""
    if args.schema:
        terminal.print_json(suites.json_schema())
        return 0
    _sort_paths(args)
    stored.check(args)
    terminal.require_writable(args.output, args.junit, args.export)
    least = 1.0 if args.fail_under is None else _share("--fail-under", args.fail_under)
    given = None if args.suite is None else suites.load(args.suite)
    settings = measurement.configured(args)
    prepared = _prepared(args, given, settings)
    require_models(settings, args.model)
    with terminal.progress("scoring", prepared.trials) as done:
        certified = certificates_in(settings.store, settings.judge)
        how: Any = {"cache": answers_file(settings.judge), "certified": certified, "done": done}
        found = asyncio.run(suites.run(prepared, settings, model=args.model, **how))
    corrected = score_summary.calibrated(settings, found.evaluations)
    print_run(console(), found, corrected)
    score_summary.print_unscored(counted(found.evaluations), but="no_judge")
    write_file(args.output, lambda: suites.as_text(_content(found, corrected)))
    write_file(args.junit, lambda: suites.to_junit(found))
    _export(args, settings, found)
    return _verdict(found, least, settings)


def _prepared(args: argparse.Namespace, suite: suites.Suite | None, settings: Settings) -> Prepared:
    """The suite, else what the traces state, with what was recorded or stored for it."""
    if args.path:
        traces, attributes = recorded(args.path, settings)
    else:
        traces, attributes = stored.read(args).traces, own_attributes
    return suites.prepare(
        suite or suites.suite_of(traces),
        traces,
        attributes_of=attributes,
        skip_unmatched=args.skip_unmatched,
        name=str(args.suite or (args.path[0] if args.path else stored.name(args))),
    )


def _sort_paths(args: argparse.Namespace) -> None:
    """Move what stands in the suite's place to the recordings, where it is one of them."""
    if args.suite is None:
        if stored.is_given(args):
            return
        what = "give a suite and what was recorded: spanscore test SUITE PATH..."
        raise InputError(f"{what}; see spanscore test --help")
    is_suite = args.suite.suffix in _OF_SUITES or (args.path and not _is_recording(args.suite))
    if not is_suite:
        args.suite, args.path = None, [args.suite, *args.path]
    elif not args.path and not stored.is_given(args):
        what = f"give what was recorded, too: spanscore test {args.suite} PATH..."
        raise InputError(f"{what}; see spanscore test --help")


def _is_recording(path: Path) -> bool:
    return path.is_dir() or not _OF_RECORDINGS.isdisjoint(path.suffixes)


_OF_SUITES = {".yaml", ".yml"}
_OF_RECORDINGS = {".jsonl", ".pb", ".gz"}


def _share(option: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"{option} {value:g}: give a share from 0 to 1, such as 0.9")
    return value


def require_models(settings: Settings, model: str | None) -> None:
    """Refuse a judge's model that there is no provider for. Raises ConfigError."""
    if models := (model,) if model else settings.judge.models:
        check_models(settings.judge, models)


def recorded(paths: Sequence[Path], settings: Settings) -> tuple[list[AgentTrace], AttributesOf]:
    """The agent traces in files, and what finds the attributes of all spans, and of their
    resources, in the OTel traces of one.
    """
    telemetry = trace_files.loaded(paths)
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in telemetry.spans:
        by_trace[span.trace_id].append(span)

    def attributes(trace: AgentTrace) -> Iterable[Attributes]:
        for trace_id in trace.trace_ids:
            for span in by_trace[trace_id]:
                yield span.resource.attributes
                yield span.attributes

    return trace_files.rebuilt(telemetry, paths, settings), attributes


def _export(args: argparse.Namespace, settings: Settings, found: suites.Run) -> None:
    """Send the scores to where they are to go; what could not be delivered is said and changes no
    verdict.
    """
    targets = [suites.to_file(args.export)] if args.export else []
    if settings.export.exporters and not args.no_export:
        targets.append(settings.export)
    for target in targets:
        known = open_authenticators(settings.authenticators, has_tenants=settings.tenancy.enabled)
        times = (found.started_at_ns, time.time_ns())
        for problem in asyncio.run(suites.send(target, found.evaluations, *times, known)):
            say(f"warning: {problem}")


def _content(found: suites.Run, corrected: Iterable[PassRate]) -> dict[str, Any]:
    """The run file, with the pass rates that calibrations correct."""
    content = suites.to_json(found)
    content["overall"]["corrected_pass_rates"] = [x.to_json() for x in corrected]
    return content


def _verdict(found: suites.Run, least: float, settings: Settings) -> int:
    """The exit code; what is not met is printed on standard error."""
    unmet = []
    if not reaches(found.case_pass_rate, least):
        counts = ((found.count("fail"), "failed"), (found.count("error"), "cannot be told"))
        parts = [f"{count} of {len(found.cases)} cases {what}" for count, what in counts if count]
        unmet.append(f"{', '.join(parts)}; required is that {least:.0%} pass")
    without = score_summary.uncertified(settings, found.evaluations)
    return 0 if score_summary.are_met(unmet, without, settings) else 1


_STYLES = {"pass": "green", "fail": "red", "error": "bold red", "unmatched": "yellow"}
_MARKS = {"pass": "P", "fail": "F", "error": "E"}
_MAX_MARKS = 12
_MAX_REASONS = 200
_MAX_REASON_CHARS = 600


def print_run(output: Output, run: Run, corrected: Iterable[PassRate]) -> None:
    """Print the table, then the reasons, then the whole, with what calibrations make of it."""
    output.print(styled(on_one_line(f"{run.suite.name}, run {run.run_id}", 200), "bold"))
    _print_cases(output, run)
    reasons = [(x.case.id, reason) for x in run.cases for reason in x.reasons]
    for case_id, reason in reasons[:_MAX_REASONS]:
        output.print(f"{on_one_line(case_id, 60)}, {on_one_line(reason, _MAX_REASON_CHARS)}")
    if len(reasons) > _MAX_REASONS:
        output.print(f"and {len(reasons) - _MAX_REASONS:,} more; --output has them all")
    if reasons:
        output.print()
    _print_whole(output, run)
    for rate_of_metric in corrected:
        output.print(score_summary.corrected_line(rate_of_metric))
    output.print(f"\n{score_summary.judges(RunSummary.of(run.evaluations))}")


def _print_cases(output: Output, run: Run) -> None:
    """A row for each case."""
    level = run.suite.agentic.level

    def passing(case: CaseResult) -> str:
        return with_interval(rate(case.passed, case.n, level=level)) if case.n else "-"

    columns: Columns = (
        ("case", lambda x: on_one_line(x.case.id, 60)),
        ("result", lambda x: styled(x.status, _STYLES[x.status])),
        ("trials", _marks),
        ("n", lambda x: str(x.n)),
        ("pass rate", passing),
        ("k", lambda x: str(x.odds["k"])),
        ("pass@k", lambda x: _odds(x.odds, "pass_at_k")),
        ("pass^k", lambda x: _odds(x.odds, "pass_pow_k")),
    )
    terminal.print_items(columns, ("n", "k"), run.cases, output=output)
    output.print()


def _print_whole(output: Output, run: Run) -> None:
    counts = ", ".join(f"{run.count(x)} {x}" for x in _STYLES if run.count(x))
    output.print(f"{terminal.counted(len(run.cases), 'case')}: {counts}")
    if run.cases_that_pass:
        _print_estimate(output, "cases that pass", run.cases_that_pass)
    if run.pass_rate:
        _print_estimate(output, "trials that pass, over cases", run.pass_rate)
    _print_odds(output, run)
    if run.cases_that_pass and run.clusters_of(run.cases):
        why = "cases that were recorded in one session are not independent"
        output.print(f"n counts sessions: {why}.")
    if run.mean_score:
        _print_estimate(output, "mean score of 100", run.mean_score, digits=1)
    if run.suite.agentic.unit == "interaction":
        what = "n of pass@k and pass^k counts interactions, as some frameworks do"
        output.print(f"{what}; turns of one conversation are not independent trials.")


def _print_odds(output: Output, run: Run) -> None:
    """pass@k and pass^k over cases, with their k and how each case's own are estimated."""
    ks = sorted({x.odds["k"] for x in run.cases if x.odds["n"]})
    if ks:
        how = f"pass@k and pass^k of a case: {run.suite.agentic.statistics}"
        output.print(f"k = {', '.join(map(str, ks))}; {how}")
    if len(ks) > 1:
        output.print("pass@k and pass^k over cases: none, since the cases have different k")
    at_k, pow_k = run.over_cases("pass_at_k"), run.over_cases("pass_pow_k")
    if at_k and pow_k:
        k = ks[0]
        _print_estimate(output, f"pass@{k} over cases ({at_k[1]})", at_k[0])
        _print_estimate(output, f"pass^{k} over cases ({pow_k[1]})", pow_k[0])
        if word := reading(at_k[0].value, pow_k[0].value):
            output.print(f"reading: {word}")


def _print_estimate(output: Output, what: str, estimate: Estimate, digits: int = 2) -> None:
    output.print(f"{what}: {with_interval(estimate, digits)}, n = {estimate.n}")


def _marks(result: CaseResult) -> str:
    more = len(result.trials) - _MAX_MARKS
    marks = " ".join(_MARKS[x.status] for x in result.trials[:_MAX_MARKS])
    return f"{marks} +{more}" if more > 0 else marks


def _odds(odds: Any, name: str) -> str:
    low, high = odds[f"{name}_ci_low"], odds[f"{name}_ci_high"]
    limits = None if low is None else (low, high)
    return "-" if odds[name] is None else ranged(odds[name], limits)
