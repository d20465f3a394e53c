"""Dialects and quirks are found by scanning, and put in an order that one module states."""

from collections import Counter
from dataclasses import replace

import pytest
from one_span import span

from spanscore import dialects, discovery
from spanscore.dialects import registry
from spanscore.dialects.reading import Dialect, Quirk
from spanscore.model.span import Scope

# what AWS's distribution does to two of the conventions
WITHOUT_A_DIALECT = {"spanscore.dialects.conventions.adot"}
MODULES = [
    x for folder in registry.FOLDERS for x in discovery.modules(f"spanscore.dialects.{folder}")
]


def read_one(given):
    (step,) = dialects.read([given]).steps
    return step


@pytest.mark.parametrize("module", MODULES, ids=lambda x: x.__name__)
def test_every_module_brings_a_dialect_or_quirks(module):
    brought = {"DIALECT", "DIALECTS", "QUIRKS"}.intersection(vars(module))
    assert module.__name__ in WITHOUT_A_DIALECT or brought


def test_the_order_names_dialects_that_exist():
    assert set(registry.ORDER) <= {x.name for x in registry.own_dialects()}


def test_dialects_without_a_place_come_first_and_by_name():
    made = [
        Dialect(name, lambda _span, _context: {"kind": "other"}, ())
        for name in ("semconv", "barley", "apple")
    ]
    assert [x.name for x in registry.in_order(made)] == ["apple", "barley", "semconv"]


def test_every_quirk_is_under_a_dialect_that_exists():
    assert {x.under for x in registry.own_quirks()} <= {x.name for x in registry.own_dialects()}


def test_no_two_quirks_of_a_dialect_have_the_same_scope():
    scopes = Counter((x.under, scope) for x in registry.own_quirks() for scope in x.scopes)
    assert max(scopes.values()) == 1


OPENINFERENCE = {"openinference.span.kind": "AGENT", "output.value": "Yes."}


def test_a_quirk_completes_spans_of_its_scope():
    def complete(_span, facts):
        facts["agent_name"] = "clerk"

    quirk = Quirk(
        name="parley", under="openinference", scopes=("parley.tracing",), complete=complete
    )
    with dialects.tried(quirk):
        names = [
            read_one(span(OPENINFERENCE, scope=scope)).agent_name
            for scope in ("parley.tracing", "barley")
        ]
    assert names[0] == "clerk"
    assert names[1] != "clerk"


def test_a_quirk_may_look_at_the_span():
    def matches(given):
        return "parley.run" in given.attributes

    def prepare(given):
        return span({**given.attributes, "output.value": given.attributes["parley.run"]})

    with dialects.tried(
        Quirk(name="parley", under="openinference", matches=matches, prepare=prepare)
    ):
        assert read_one(span(OPENINFERENCE | {"parley.run": "No."})).output_text == "No."


def test_a_quirk_of_any_dialect_is_used():
    def complete(_span, facts):
        facts["model"] = "m1"

    with dialects.tried(
        Quirk(name="parley", under="semconv", scopes=("parley",), complete=complete)
    ):
        assert read_one(span({"gen_ai.operation.name": "chat"}, scope="parley")).model == "m1"


def test_a_quirk_may_claim_its_scopes_for_its_dialect():
    with dialects.tried(
        Quirk(name="parley", under="openllmetry", scopes=("parley",), claims_scopes=True)
    ):
        assert read_one(span({}, scope="parley")).dialect == "openllmetry"


def test_a_quirk_may_look_at_all_steps_of_a_trace():
    def refine_trace(steps):
        return [replace(x, agent_name=f"one of {len(steps)}") for x in steps]

    quirk = Quirk(name="parley", under="semconv", scopes=("parley",), refine_trace=refine_trace)
    with dialects.tried(quirk):
        steps = dialects.read(
            [span({"gen_ai.operation.name": "chat"}, span_id=x) for x in ("a1", "a2")]
        ).steps
    assert [x.agent_name for x in steps] == ["one of 2", "one of 2"]


@pytest.mark.parametrize("under", sorted(x.name for x in registry.own_dialects()))
def test_a_span_that_only_its_scope_shows_is_read_by_the_dialect_whose_quirk_claims_it(under):
    quirk = Quirk(name="mine", under=under, scopes=("my.framework",), claims_scopes=True)
    bare = replace(span({"input.value": "Who?"}), scope=Scope("my.framework"))
    with registry.tried(quirk):
        assert read_one(bare).dialect == under
        assert dialects.shows_genai(b"a request with spans of my.framework")
