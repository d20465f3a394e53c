"""Pass rates are corrected by the calibration of the very same judge, and by no other."""

import csv
import random
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore.calibration import Calibration, Label, calibration, match, measures, pass_rates
from spanscore.stats import Confusion

JUDGE = ("task_completion", "judge", "1", "gpt-4o", "abc", None, 0.5)
DAY_NS = 1_795_219_200_000_000_000  # 2026-11-21
VERDICTS = Path(__file__).parents[1] / "stats" / "data" / "tau2_verdicts.csv"


@pytest.fixture
def made():
    """A judge that passes 90 of 100 passes and 30 of 100 fails."""
    return Calibration(JUDGE, Confusion(90, 10, 30, 70), DAY_NS)


@pytest.fixture
def judged(verdict):
    """100 verdicts of which 60 pass."""
    return [verdict(number, float(number < 60)) for number in range(100)]


def test_a_rate_by_the_calibrated_judge_is_corrected(made, judged):
    [found] = pass_rates(judged, [made])
    assert (found.judged.value, found.corrected.value) == (pytest.approx(0.6), pytest.approx(0.5))
    assert found.note == "calibration of 2026-11-21, 200 labels; Rogan-Gladen"


@pytest.mark.parametrize(
    ("place", "other", "what"),
    [
        (1, "rules", "evaluator"),
        (2, "2", "version"),
        (3, "gpt-5", "model"),
        (4, "xyz", "prompt"),
        (6, 0.7, "threshold"),
    ],
)
def test_a_rate_by_another_judge_is_not_corrected_and_that_is_said(
    made, judged, place, other, what
):
    changed = replace(made, judge=tuple(other if place == x else y for x, y in enumerate(JUDGE)))
    [found] = pass_rates(judged, [changed])
    assert found.corrected is None
    assert found.note == f"not corrected: the calibration of 2026-11-21 is of another {what}"


def test_a_metric_that_was_never_calibrated_has_no_note(made, judged):
    [found] = pass_rates(judged, [replace(made, judge=("coherence", *JUDGE[1:]))])
    assert (found.corrected, found.note) == (None, "")


def test_a_judge_no_better_than_chance_corrects_nothing_and_the_reason_is_said(made, judged):
    [found] = pass_rates(judged, [replace(made, confusion=Confusion(50, 50, 50, 50))])
    assert found.corrected is None
    assert found.note.startswith(
        "not corrected by the calibration of 2026-11-21, 200 labels: the judge is no better"
    )


def test_labels_of_the_very_units_are_used_as_such(made, judged):
    labelled = {x.unit: x.value == 1 for x in judged[40:80]}
    [found] = pass_rates(judged, [replace(made, labelled=labelled)])
    assert found.corrected.value == pytest.approx(0.6, abs=0.01)
    assert (
        found.note
        == "calibration of 2026-11-21, 200 labels, 40 of them of these; prediction-powered"
    )


def test_labels_of_which_most_are_of_other_units_tell_the_judges_error(made, judged):
    labelled = {f"trace {number}": True for number in range(100)} | {judged[0].unit: True}
    [found] = pass_rates(judged, [replace(made, labelled=labelled)])
    assert found.note.endswith("Rogan-Gladen")


def test_turns_of_one_session_count_as_one(made, judged):
    of_sessions = [replace(x, session_id=f"s{number // 5}") for number, x in enumerate(judged)]
    [found] = pass_rates(of_sessions, [made])
    assert found.judged.n == 20
    [alone] = pass_rates(judged, [made])
    assert found.corrected.interval.high - found.corrected.interval.low > (
        alone.corrected.interval.high - alone.corrected.interval.low
    )


def test_a_calibration_comes_back_from_json_as_it_was(made):
    kept = replace(made, labelled={"trace a/b": True, "session c": False})
    assert Calibration.from_json(kept.to_json()) == kept


def test_another_prompt_is_another_key(made):
    assert made.key != replace(made, judge=(*JUDGE[:4], "xyz", None, 0.5)).key


def simulations(prompt):
    with VERDICTS.open() as file:
        return [
            (x["judge"] == "pass", x["success"] == "1")
            for x in csv.DictReader(file)
            if x["prompt"] == prompt
        ]


@pytest.mark.parametrize("prompt", ["quick_triage_v1", "policy_conversation_v1"])
@pytest.mark.parametrize("seed", range(3))
def test_real_verdicts_corrected_hold_the_true_rate(verdict, prompt, seed):
    """Half of tau2-bench's simulations are labelled; the rate of the other half is told from its
    verdicts alone.
    """
    rows = simulations(prompt)
    random.Random(seed).shuffle(rows)
    verdicts = [verdict(number, float(passed)) for number, (passed, _) in enumerate(rows)]
    labels = [
        Label(
            f"{n:032x}",
            is_session=False,
            metric="task_completion",
            value=float(success),
            annotator="",
            line=n + 1,
        )
        for n, (_, success) in enumerate(rows[:139])
    ]
    [matched] = match(Path("labels.csv"), labels, verdicts[:139], [])
    [found] = pass_rates(verdicts[139:], [calibration(matched, DAY_NS)])
    assert sum(success for _, success in rows[139:]) / 139 in found.corrected.interval


def test_measures_that_cannot_be_had_say_why(verdict):
    labels = [
        Label(
            f"{n:032x}", is_session=False, metric="task_completion", value=1.0, annotator="", line=n
        )
        for n in (1, 2)
    ]
    [matched] = match(Path("labels.csv"), labels, [verdict(1), verdict(2, 0.0)], [])
    found = {x.name: x.why_not for x in measures(matched, 0.95)}
    assert found["specificity"] == "no label says fail"
    assert found["sensitivity"] == ""


def matched(seen, passing):
    """All that was seen with its labels, of which the first so many are passes."""
    labels = [
        Label(
            x.trace_id,
            is_session=False,
            metric=JUDGE[0],
            value=float(number < passing),
            annotator="",
            line=1,
        )
        for number, x in enumerate(seen)
    ]
    [found] = match(Path("labels.csv"), labels, seen, ())
    return found


@pytest.fixture
def of_sampled(verdict):
    """Labels of 40 sampled verdicts: of what passes a fifth is seen, and the judge passes too much
    of the rest.
    """

    def made(share):
        seen = [
            verdict(number, float(number < 25), share=share if number < 20 else 1.0)
            for number in range(40)
        ]
        return matched(seen, 20)

    return made


def test_measures_of_a_sampled_population_are_weighted(of_sampled):
    found = {x.name: x for x in measures(of_sampled(0.2), 0.95)}
    assert found["pass rate by people, labelled"].estimate.value == pytest.approx(100 / 120)
    assert found["agreement"].estimate.value == pytest.approx(115 / 120)


def test_what_knows_no_weights_is_not_told_of_a_sampled_population(of_sampled):
    found = {x.name: x for x in measures(of_sampled(0.2), 0.95)}
    assert "sampled by several shares" in found["Cohen's kappa"].why_not
    assert found["Cohen's kappa"].estimate is None


def test_a_calibration_of_labels_of_several_turns_keeps_what_sessions_do_to_its_error(verdict):
    seen = [
        verdict(number, float(number < 30), session_id=f"s{number // 5}") for number in range(60)
    ]
    kept = calibration(matched(seen, 20), DAY_NS)
    assert kept.design_effects[1] > 4
    assert Calibration.from_json(kept.to_json()) == kept


def test_a_calibration_of_before_there_were_design_effects_is_read(made):
    old = made.to_json()
    del old["design_effects"]
    assert Calibration.from_json(old) == made


def test_a_sampled_population_that_passes_as_a_whole_is_corrected(made, verdict):
    judged = [verdict(number, 1.0, share=0.1 + number / 100) for number in range(60)]
    [found] = pass_rates(judged, [made])
    assert found.judged.value == pytest.approx(1)
    assert found.corrected.value == 1
