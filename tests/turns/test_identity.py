"""What identifies a model call: the parts that two reports of one call have in common."""

from dataclasses import replace

import pytest
from turn_spans import ANSWER, ASK, call, chat

from spanscore import dialects
from spanscore.turns.dedup.identity import CallIdentity, Verdict, agree, are_unique


def reported(given, produced, **attributes):
    """The step of a model call with these messages."""
    (step,) = dialects.read([chat("1", 0, given, produced, parent="", **attributes)]).steps
    return step


def test_white_space_between_the_parts_of_an_answer_is_no_difference():
    one, other = (
        reported([ASK], [ANSWER | {"parts": [{"type": "text", "content": x}]}])
        for x in ("a b\n", " ab")
    )
    assert (
        agree(CallIdentity.of(one, "text"), CallIdentity.of(other, "text"), "text") is Verdict.SAME
    )


def test_a_part_that_one_report_lacks_decides_nothing():
    one, other = reported([ASK], [ANSWER]), reported([ASK], None)
    assert (
        agree(CallIdentity.of(one, "text"), CallIdentity.of(other, "text"), "text")
        is Verdict.UNKNOWN
    )


def test_one_part_that_differs_outweighs_others_that_agree():
    one, other = (
        reported([ASK], [call("look", {"at": 1})]),
        reported([ASK], [call("look", {"at": 2})]),
    )
    parts = ("question", "names", "calls")
    assert (
        agree(CallIdentity.of(one, *parts), CallIdentity.of(other, *parts), *parts)
        is Verdict.DIFFERENT
    )


def test_arguments_count_only_where_they_are_compared():
    one, other = reported([ASK], [call("look", {"at": 1})]), reported([ASK], [call("look", "at 1")])
    assert (
        agree(CallIdentity.of(one, "names"), CallIdentity.of(other, "names"), "names")
        is Verdict.SAME
    )


def test_a_truncated_input_has_no_question():
    step = replace(reported([ASK], [ANSWER]), damaged=frozenset({"input"}))
    assert CallIdentity.of(step, "question").question is None


def test_digests_agree_where_the_values_do():
    parts = ("text", "question", "whole_input")
    one, other = (
        CallIdentity.of(reported([ASK], [ANSWER]), *parts, as_digests=True) for _ in range(2)
    )
    assert agree(one, other, *parts) is Verdict.SAME
    assert ASK["parts"][0]["content"] not in str(one)


@pytest.mark.parametrize(
    ("ids", "unique"),
    [(["call_0123456789abcdef01"], True), (["call_1"], False), (["r" * 20, "1"], False)],
)
def test_short_ids_repeat_by_chance(ids, unique):
    assert are_unique(ids) is unique
