"""The comparison of two runs, as `spanscore compare` makes it, in the words of a report."""

from pathlib import Path

from spanscore import report
from spanscore.cli import compare, compared_files
from spanscore.cli.compared_files import Run
from spanscore.cli.comparison import LATENCY, PASS_RATE, CaseChange, Comparison, Limits, Measure
from spanscore.cli.comparison import compare as compared_runs
from spanscore.cli.report_inputs import Given

_LEVEL = 0.95
_UNITS = {PASS_RATE: "%", LATENCY: "s"}


def compared(baseline: Given, own: Given) -> report.Comparison:
    """How `own` differs from `baseline`.

    Raises InputError where one is the run of a suite and the other is none.
    """
    a, b = compared_files.of_two(
        (Path(baseline.name), baseline.content), (Path(own.name), own.content)
    )
    found = compared_runs(a, b, limits=Limits(), level=_LEVEL, certain=False)
    changed = [
        x for x in found.cases if x.a != x.b or any(one != other for one, other in x.means.values())
    ]
    return report.Comparison(
        baseline=baseline.name,
        verdict=found.verdict,
        differences=[
            _difference(x, _counted(a, b) if x.name == PASS_RATE else "") for x in found.measures
        ],
        changes=[_change(x) for x in sorted(changed, key=lambda x: x.a == x.b)],
        only_in_baseline=found.only_in_a,
        only_in_own=found.only_in_b,
        remarks=_remarks(found),
    )


def _remarks(found: Comparison) -> tuple[str, ...]:
    if not found.measures:
        return (
            (
                "Nothing is in both runs, so nothing can be compared: they are paired by case, id,"
                " or user input."
            ),
        )
    unlike = [
        f"Not comparable, since it was scored differently in both runs: {x}"
        for x in found.not_comparable
    ]
    return (*unlike, compare.counted(found), compare.sureness(found))


def _counted(a: Run, b: Run) -> str:
    """What the pass rate is a share of: turns by themselves are another one."""
    both = [(x, b.units[name]) for name, x in a.units.items() if name in b.units]
    decided = [x for x, other in both if x.passed and other.passed]
    if a.of_suite:
        return f"of the trials of {_number_of(len(decided), 'case')}"
    traces = sum(x.is_turn for x in decided)
    counts = ((traces, "trace"), (len(decided) - traces, "session"))
    of = " and ".join(_number_of(count, what) for count, what in counts if count)
    return f"of {of}, by the metrics that both runs have"


def _number_of(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _difference(measure: Measure, counted: str) -> report.Difference:
    return report.Difference(
        name=measure.name,
        baseline=measure.a,
        own=measure.b,
        difference=measure.difference,
        verdict=measure.verdict,
        unit=_UNITS.get(measure.name, ""),
        regression=measure.regression,
        note="; ".join(text for text in (measure.unlike, measure.too_few) if text),
        counted=counted,
    )


def _change(change: CaseChange) -> report.Change:
    return report.Change(
        name=change.name,
        baseline=change.a,
        own=change.b,
        measure=change.measure,
        values=change.means.get(change.measure),
        verdict=change.verdict,
    )
