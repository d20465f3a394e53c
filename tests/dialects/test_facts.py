"""The facts of a span: their type is that of a step, and they are completed without losing what is
there.
"""

from typing import get_type_hints

from spanscore.dialects.forms.structure import NOT_RECORDED, Facts, add_damaged, add_missing
from spanscore.model.step import Step


def test_facts_are_the_fields_of_a_step_but_its_span_and_dialect():
    fields = {
        name: kind for name, kind in get_type_hints(Step).items() if name not in {"span", "dialect"}
    }
    assert get_type_hints(Facts) == fields


def test_what_is_known_is_not_replaced():
    facts: Facts = {"kind": "model", "model": "m-1", "input_tokens": 0}
    add_missing(facts, {"model": "m-2", "input_tokens": 7, "output_tokens": 3})
    assert facts == {"kind": "model", "model": "m-1", "input_tokens": 0, "output_tokens": 3}


def test_nothing_that_was_found_replaces_nothing():
    facts: Facts = {"kind": "tool", "positional": ()}
    add_missing(facts, {"tool_name": None, "call_id": None}, missing=NOT_RECORDED)
    assert facts == {"kind": "tool", "positional": ()}


def test_a_default_counts_as_missing_on_demand():
    facts: Facts = {"kind": "tool", "has_result": False}
    add_missing(facts, {"result": 5, "has_result": True}, missing=NOT_RECORDED)
    assert (facts["result"], facts["has_result"]) == (5, True)


def test_facts_that_are_completed_keep_what_was_damaged():
    facts: Facts = {"kind": "model", "damaged": frozenset({"input"})}
    add_missing(facts, {"damaged": frozenset({"tools"})})
    add_damaged(facts, "output")
    assert facts["damaged"] == {"input", "tools", "output"}
