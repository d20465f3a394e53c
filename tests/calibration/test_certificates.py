"""What earns a judge a certificate, and that a label does so once."""

import pytest

from spanscore.calibration import Certificate, Label, calibrations, match
from spanscore.judge.config import Certificate as Required
from spanscore.stats import Confusion

OLD = ("task_completion", "judge", "1", "gpt-4o", "abc", None, 0.5)
NEW = ("task_completion", "judge", "1", "gpt-4o", "changed", None, 0.5)
REQUIRED = Required(min_labels=40)


@pytest.fixture
def labelled(verdict, tmp_path):
    """A judge's verdicts on the traces of some numbers, whose odd ones pass, beside labels."""

    def make(judge, numbers, is_right=lambda _number: True):
        labels, verdicts = [], []
        for number in numbers:
            passes = number % 2 == 1
            found = verdict(number, float(passes == is_right(number)), judge=judge)
            verdicts.append(found)
            labels.append(Label(found.trace_id, False, judge[0], float(passes), "", number))
        return match(tmp_path, labels, verdicts, ())

    return make


def kept(found, *before, required=REQUIRED):
    """The records after these were kept, by prompt hash."""
    made = calibrations(found, 1, required, before)
    return {x["judge"]["prompt_hash"]: x for x in (*before, *made.values())}


def holds(record, required=REQUIRED):
    found = Certificate.from_json(record["certificate"])
    return found is not None and not found.why_not(required)


def test_enough_labels_on_which_a_judge_is_right_certify_it(labelled):
    assert holds(kept(labelled(OLD, range(40)))["abc"])


def test_too_few_labels_are_not_tried_and_not_used(labelled):
    record = kept(labelled(OLD, range(39)))["abc"]

    assert (record["certificate"], record["used"]) == (None, [])


def test_a_changed_judge_is_not_certified_on_the_labels_on_which_another_failed(labelled):
    failed = kept(labelled(OLD, range(40), is_right=lambda x: x > 9))["abc"]
    changed = kept(labelled(NEW, range(40)), failed)["changed"]

    assert (holds(failed), holds(changed)) == (False, False)
    assert changed["confusion"]["true_pass"] == 20


def test_a_changed_judge_is_certified_on_labels_that_no_certificate_used(labelled):
    failed = kept(labelled(OLD, range(40), is_right=lambda x: x > 9))["abc"]
    changed = kept(labelled(NEW, range(80)), failed)["changed"]

    assert holds(changed)
    assert changed["certificate"]["labels"] == 40


def test_a_judge_that_failed_is_not_certified_by_the_same_labels_and_some_more(labelled):
    failed = kept(labelled(OLD, range(40), is_right=lambda x: x > 9))["abc"]

    assert not holds(kept(labelled(OLD, range(79)), failed)["abc"])


def test_a_judge_that_is_calibrated_again_on_the_same_labels_keeps_its_certificate(labelled):
    first = kept(labelled(OLD, range(40)))["abc"]

    assert kept(labelled(OLD, range(40)), first)["abc"] == first


def test_what_was_used_is_known_where_none_is_required_meanwhile(labelled):
    first = kept(labelled(OLD, range(40)))["abc"]
    meanwhile = kept(labelled(OLD, range(40)), first, required=None)["abc"]

    assert meanwhile["used"] == first["used"]


def test_labels_of_another_metric_are_its_own(labelled):
    other = kept(labelled(("coherence", *OLD[1:]), range(40)))["abc"]

    assert holds(kept(labelled(OLD, range(40)), other)["abc"])


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (Confusion(20, 0, 0, 20), "it rests on 40 labels, and 150 are required"),
        (Confusion(150, 0, 0, 0), "no label says fail"),
        (Confusion(60, 15, 0, 75), "sensitivity may be as low as 0.69, and 0.8 is required"),
        (Confusion(67, 8, 8, 67), ""),
    ],
)
def test_a_certificate_says_why_it_does_not_hold(table, why):
    assert Certificate(table, (1.0, 1.0), int(table.n)).why_not(Required()) == why
