"""`spanscore compare`: is one run better than another?"""

import argparse
import math
from pathlib import Path
from typing import Any

from spanscore import config
from spanscore.calibration import PassRate
from spanscore.cli import score_files, score_summary, server, stored, terminal
from spanscore.cli.comparison import LATENCY, PASS_RATE, CaseChange, Comparison, Limits, compare
from spanscore.cli.options import PLACE, add_config, argument
from spanscore.cli.terminal import Output, console, on_one_line, print_rows, printable, say, styled
from spanscore.errors import InputError
from spanscore.stats import Estimate, Interval

_MAX_SHOWN = 100
_NONE = "-"
_WIDE = 100
"""Narrower, the second run stands below the first."""
_STYLES = {"better": "green", "worse": "red"}

TAKES = (*PLACE, "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    limits = Limits()

    def limit(spec: str, what: str, default: float) -> None:
        text = f"exit 1 if {what} by more; default: %(default)g"
        argument(parser, spec, text, type=float, default=default)

    add_config(parser, "the configuration, whose store has the calibrations")
    text = "the run to compare with: a file, or with --store or --server an evaluation run, runs/ID"
    argument(parser, "run_a RUN_A", text, type=Path)
    argument(parser, "run_b RUN_B", "the run that is to be no worse", type=Path)
    limit("--max-pass-rate-drop SHARE", "the pass rate falls", limits.pass_rate_drop)
    limit("--max-score-drop POINTS", "a mean score of 100 falls", limits.score_drop)
    limit("--max-latency-rise SHARE", "the mean latency rises", limits.latency_rise)
    argument(parser, "--certain", "count as a regression only what the interval says is worse")


def run(args: argparse.Namespace) -> int:
    """Compare two runs. Returns the exit code: 1 where the second is a regression."""
    names = ("max_pass_rate_drop", "max_score_drop", "max_latency_rise")
    limits = Limits(*(_at_least_nothing(args, name) for name in names))
    files = any(not str(x).startswith("runs/") for x in (args.run_a, args.run_b))
    server.require_place(args, elsewhere=files)
    a, b = score_files.of_two(*((x, _content(args, x)) for x in (args.run_a, args.run_b)))
    found = compare(a, b, limits=limits, certain=args.certain)
    if not found.cases:
        raise InputError(f"{a.name} and {b.name}: no case is in both; {_why_none(a)}")
    if not found.measures:
        raise InputError(f"{a.name} and {b.name}: no case has a score in both")
    settings = config.load(args.config)
    rates = score_summary.by_calibrations(settings, a.verdicts, b.verdicts)
    if args.json:
        terminal.print_json(_as_json(a, b, found, rates))
    else:
        _print(console(), a, b, found)
        _print_corrected(console(), rates)
    for text in found.not_comparable:
        say(f"warning: NOT COMPARABLE, scored differently: {text}")
    for text in found.regressions:
        say(f"regression: {text}")
    return 1 if found.regressions else 0


def _content(args: argparse.Namespace, path: Path) -> score_files.Content:
    """What a file, or an evaluation run, contains."""
    if not stored.is_run(args, path):
        return score_files.content(path)
    return [x.to_json() for x in stored.scores_of_run(args, path)]


def _at_least_nothing(args: argparse.Namespace, name: str) -> float:
    value: float = getattr(args, name)
    if not 0 <= value < math.inf:
        option = f"--{name.replace('_', '-')}"
        raise InputError(f"{option} {value:g}: give a number of at least 0")
    return value


def _why_none(run: score_files.Run) -> str:
    if run.of_suite:
        return "they have no case id in common; are they runs of the same suite?"
    return (
        "scores are paired by session id or trace id, else by the user's input, where that is"
        " unique and a metric such as tool_correctness holds it; `spanscore test` gives cases ids"
        " that stay"
    )


def _as_json(
    a: score_files.Run, b: score_files.Run, found: Comparison, rates: list[list[PassRate]]
) -> dict[str, Any]:
    of_runs = ([x.to_json() for x in own] for own in rates)
    corrected = dict(zip("ab", of_runs, strict=True))
    return {
        "a": a.name,
        "b": b.name,
        "verdict": found.verdict,
        "comparisons": len(found.measures),
        "level": found.level,
        "each_level": found.each_level,
        "unit": found.unit,
        "n": found.units,
        "turns": found.members if found.member == "turn" else None,
        "measures": [x.to_json() for x in found.measures],
        "cases": [x.to_json() for x in found.cases],
        "only_in_a": list(found.only_in_a),
        "only_in_b": list(found.only_in_b),
        "ambiguous": [*a.ambiguous, *b.ambiguous],
        "not_comparable": list(found.not_comparable),
        "regressions": found.regressions,
        "corrected_pass_rates": corrected,
    }


def _print(output: Output, a: score_files.Run, b: score_files.Run, found: Comparison) -> None:
    output.print(f"A is {printable(a.name)}, B is {printable(b.name)}.\n")
    if found.not_comparable:
        why = "these were scored differently in A and in B, so a difference means nothing"
        output.print(f"NOT COMPARABLE: {why}:")
        for text in found.not_comparable:
            output.print(f"  {printable(text)}")
        output.print()
    _print_cases(output, found)
    _print_measures(output, found)
    for name, ids in (("A", found.only_in_a), ("B", found.only_in_b)):
        _print_ids(output, f"only in {name}", ids)
    _print_ids(output, "not unique, left out", [*a.ambiguous, *b.ambiguous])
    output.print(f"\n{counted(found)}\n{sureness(found)}\nB against A: {found.verdict}.")


def _print_corrected(output: Output, rates: list[list[PassRate]]) -> None:
    """The pass rates of calibrated metrics, which the verdict does not rest on."""
    for name, own in zip("AB", rates, strict=True):
        for rate in own:
            output.print(f"{name}: {score_summary.corrected_line(rate)}")


def _print_cases(output: Output, found: Comparison) -> None:
    """The cases that changed: those with another status first, and what lost most before what lost
    less.
    """
    changed = [x for x in found.cases if x.is_changed]
    changed.sort(key=lambda x: (x.a == x.b, x.measure, _change(x)))
    headings = ("case, measure", "status", "A", "B", "B - A", "verdict")
    if changed:
        print_rows(headings, headings[2:5], map(_case_row, changed[:_MAX_SHOWN]), output=output)
    more = f", {len(changed) - _MAX_SHOWN} of them not shown" if len(changed) > _MAX_SHOWN else ""
    output.print(f"{len(changed)} of {len(found.cases)} cases changed{more}.\n")


def _change(change: CaseChange) -> float:
    a, b = change.means.get(change.measure, (0.0, 0.0))
    return b - a


def _case_row(change: CaseChange) -> list[Any]:
    status = change.a if change.a == change.b else f"{change.a} > {change.b}"
    a, b = change.means.get(change.measure, (None, None))
    difference = _number(_change(change), change.measure, sign="+")
    if change.difference and change.difference.interval:
        difference += f" [{_interval(change.difference.interval, change.measure)}]"
    return [
        "\n".join(filter(None, (on_one_line(change.name, 48), change.measure))),
        on_one_line(status, 24),
        _number(a, change.measure),
        _number(b, change.measure),
        difference,
        styled(change.verdict, _STYLES.get(change.verdict, "")),
    ]


def _print_measures(output: Output, found: Comparison) -> None:
    paired, is_wide = any(x.pairs > x.n for x in found.measures), output.width >= _WIDE
    rows = []
    for x in found.measures:
        sides = [_estimated(y, x.name) for y in (x.a, x.b)]
        unlike = "not comparable" if x.unlike else ""
        remarks = (x.verdict, "REGRESSION" if x.regression else "", unlike, x.too_few)
        row = [on_one_line(x.name, 48), *(sides if is_wide else ["\n".join(sides)])]
        row += [_estimated(x.difference, x.name, sign="+")]
        row += [f"{x.n} of {x.pairs}" if paired else str(x.n)]
        rows.append([*row, styled("\n".join(filter(None, remarks)), _STYLES.get(x.verdict, ""))])
    counts = "n of pairs" if paired else f"{found.unit}s"
    numbers = (*(("A", "B") if is_wide else ("A, B",)), "B - A", counts)
    print_rows(("measure", *numbers, "verdict"), numbers, rows, output=output)


def _print_ids(output: Output, what: str, ids: Any) -> None:
    if ids:
        output.print(f"{what}: {terminal.first_of([on_one_line(x, 60) for x in ids], _MAX_SHOWN)}")


def counted(found: Comparison) -> str:
    """What both runs have, and what of it is independent."""
    independent = f"{found.units} {found.unit}{'s' * (found.units != 1)}"
    if found.unit == "case" or not found.members:
        return f"Both runs have {independent}."
    return (
        f"Both runs have {independent} with {found.members}"
        f" {found.member}{'s' * (found.members != 1)}. Those of one session are not independent, so"
        f" n counts sessions, and each {found.member} without one by itself."
    )


def sureness(found: Comparison) -> str:
    """At which level the intervals are, and what is too little evidence for a verdict."""
    count = len(found.measures)
    too_few = any(x.too_few for x in found.measures)
    few = f" Fewer than {found.least_units} {found.unit}s cannot tell." if too_few else ""
    if count == 1:
        return f"1 comparison, its interval at {found.level:.2%}.{few}"
    each = f"each interval is at {found.each_level:.2%}"
    all_hold = f"all of them together hold at {found.level:.2%}"
    return f"{count} comparisons: {each}, so that {all_hold}.{few}"


def _number(value: float | None, measure: str, *, sign: str = "") -> str:
    if value is None:
        return _NONE
    if measure == PASS_RATE:
        return f"{value:{sign}.1%}"
    return f"{value:{sign}.2f}{' s' if measure == LATENCY else ''}"


def _estimated(estimate: Estimate, measure: str, *, sign: str = "") -> str:
    """A value over its interval."""
    value = _number(estimate.value, measure, sign=sign)
    if estimate.interval is None:
        return value
    return f"{value}\n{_interval(estimate.interval, measure, sign=sign)}"


def _interval(interval: Interval, measure: str, *, sign: str = "+") -> str:
    """Both limits, with their unit once."""
    low, high = (_number(x, measure, sign=sign) for x in (interval.low, interval.high))
    return f"{low.rstrip('% s')} to {high}"
