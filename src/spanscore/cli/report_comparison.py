"""The comparison of two runs, as `spanscore compare` makes it, in the words of a report."""

from pathlib import Path

from spanscore import report
from spanscore.cli import compare, compared_files
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
        differences=[_difference(x) for x in found.measures],
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


def _difference(measure: Measure) -> report.Difference:
    return report.Difference(
        name=measure.name,
        baseline=measure.a,
        own=measure.b,
        difference=measure.difference,
        verdict=measure.verdict,
        unit=_UNITS.get(measure.name, ""),
        regression=measure.regression,
        note="; ".join(text for text in (measure.unlike, measure.too_few) if text),
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
