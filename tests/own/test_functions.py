"""A metric made from a function: what it may take and return, and what is said where that cannot
be.
"""

import contextvars
import re
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import spanscore
from spanscore.errors import InputError
from spanscore.evaluation import Config, Engine
from spanscore.metrics import available
from spanscore.metrics.own import name_of
from spanscore.model.trace import AgentTrace, Session


def returning(value, **settings):
    """A metric `given` that returns `value`."""

    def given(trace):
        return value

    spanscore.metric(**settings)(given)
    return "given"


def test_a_decorated_function_stays_a_function(make_trace):
    @spanscore.metric
    def short(trace):
        return len(trace.final_output) < 100

    assert short(make_trace()) is True


def test_a_decorated_function_is_among_the_metrics():
    @spanscore.metric
    def short(trace):
        """Is the answer short?

        Long ones tire.
        """

    assert available()["short"].summary == "Is the answer short?"
    assert available()["short"].scope == "trace"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.25, 0.25),
        (1, 1.0),
        (True, 1.0),
        (False, 0.0),
        (np.float32(0.5), 0.5),
        (np.bool_(True), 1.0),
        (np.array(0.5), 0.5),
        (Fraction(1, 4), 0.25),
        ((0.5, "half"), 0.5),
        ((True, "yes"), 1.0),
        (spanscore.Score(0.5, "half"), 0.5),
    ],
)
def test_a_number_or_a_truth_is_the_score(measured, value, expected):
    assert measured(returning(value)).value == expected


@pytest.mark.parametrize(("value", "label"), [(0.0, "pass"), (3.0, "pass"), (3.5, "fail")])
def test_where_lower_is_better_it_passes_up_to_the_threshold(measured, value, label):
    spanscore.metric(name="faults", better="lower", scale=(0, 20), threshold=3)(lambda trace: value)
    found = measured("faults")
    assert (found.label, found.passed, found.threshold) == (label, label == "pass", None)
    assert found.outcome.metadata["passes_up_to"] == 3


def test_a_configuration_may_set_up_to_where_it_passes(measured):
    spanscore.metric(name="faults", better="lower", scale=(0, 20))(lambda trace: 15.0)
    assert measured("faults", threshold=16).label == "pass"


def test_where_lower_is_better_a_label_of_ones_own_is_kept(measured):
    spanscore.metric(name="faults", better="lower")(
        lambda trace: spanscore.Score(0.1, "", {}, "few")
    )
    assert measured("faults").label == "few"


def test_better_is_one_of_two_words():
    with pytest.raises(InputError, match="give 'higher' or 'lower'"):
        spanscore.metric(better="less")


def test_a_reason_beside_the_value_is_the_scores(measured):
    assert measured(returning((0.5, "half of it"))).reason == "half of it"


def test_a_value_alone_has_a_reason_that_names_it(measured):
    assert measured(returning(0.5)).reason == "given returned 0.5."


def test_true_is_the_upper_end_of_the_scale(measured):
    assert measured(returning(value=True, scale=(1, 5))).value == 5.0


@pytest.mark.parametrize(
    ("value", "reason"), [(None, "given returned None"), ((None, "no tool"), "no tool")]
)
def test_none_means_that_the_metric_does_not_apply(measured, value, reason):
    outcome = measured(returning(value)).outcome
    assert outcome.cause == "not_applicable"
    assert outcome.reason.startswith(reason)


def test_a_skip_is_a_skip(measured):
    assert measured(returning(spanscore.Skip("no tool was called"))).reason == "no tool was called"


@pytest.mark.parametrize(
    "value",
    [
        "0.5",
        [0.5],
        {"score": 1},
        (0.5, 0.5),
        (0.5, "a", "b"),
        object(),
        Decimal("0.5"),
        np.ones(3),
        1j,
        b"1",
    ],
)
def test_anything_else_fails_and_says_what_to_return(measured, value):
    found = measured(returning(value))
    assert found.status == "failed"
    assert "return a number from 0 to 1, True, False, None" in found.reason


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1, (7, "much")])
def test_a_number_off_the_scale_fails_and_says_the_scale(measured, value):
    found = measured(returning(value))
    assert (found.status, "a score is a finite number from 0 to 1" in found.reason) == (
        "failed",
        True,
    )


def test_a_generator_is_no_score(measured):
    @spanscore.metric
    def yields(trace):
        yield 1.0

    assert "yields returned <generator" in measured("yields").reason


@pytest.mark.parametrize(
    ("score", "what"),
    [
        (spanscore.Score(0.5, None), "whose reason is no text"),
        (spanscore.Score(0.5, "a", {}, 3), "whose label is no text"),
        (spanscore.Score(0.5, "a", [1]), "cannot be written as JSON"),
    ],
)
def test_a_score_that_cannot_be_stored_fails(measured, score, what):
    assert what in measured(returning(score)).reason


def test_metadata_is_kept_as_json(measured):
    assert measured(returning(spanscore.Score(0.5, "a", {"seen": (1, 2)}))).outcome.metadata == {
        "seen": [1, 2]
    }


def test_metadata_that_holds_itself_fails(measured):
    loop = {}
    loop["loop"] = loop
    assert measured(returning(spanscore.Score(0.5, "a", loop))).status == "failed"


def test_an_exception_is_a_failed_score_with_its_name(measured):
    @spanscore.metric
    def breaks(trace):
        return trace.final_output / 2

    found = measured("breaks")
    assert (found.status, found.outcome.type) == ("failed", "TypeError")
    assert re.search(r"unsupported operand .* \(test_functions\.py, line \d+\)$", found.reason)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), GeneratorExit()]
)
def test_a_function_that_would_end_the_process_fails_alone(measured, error):
    @spanscore.metric
    def ends(trace):
        raise error

    assert measured("ends").reason.startswith(f"ends raised {type(error).__name__}")


def test_an_async_function_that_would_end_the_process_fails_alone(measured):
    @spanscore.metric
    async def ends(trace):
        raise SystemExit(3)

    assert measured("ends").reason.startswith("ends raised SystemExit: 3 (test_functions.py, line ")


def test_an_async_function_is_awaited(measured):
    @spanscore.metric
    async def later(trace):
        return 0.5

    assert measured("later").value == 0.5


def test_what_a_function_returns_is_awaited_where_it_can_be(measured):
    async def later():
        return 0.5

    spanscore.metric(name="later")(lambda trace: later())
    assert measured("later").value == 0.5


def test_a_function_that_never_returns_is_a_failed_score(measured):
    forever = threading.Event()

    @spanscore.metric(timeout_s=0.05)
    def hangs(trace):
        forever.wait()

    found = measured("hangs")
    forever.set()
    assert (found.outcome.type, "longer than 0.05 s" in found.reason) == ("TimeoutError", True)


def test_an_async_function_that_never_returns_is_a_failed_score(measured):
    @spanscore.metric(timeout_s=0.05)
    async def hangs(trace):
        import asyncio

        await asyncio.Event().wait()

    assert "longer than 0.05 s" in measured("hangs").reason


def test_a_time_out_of_the_functions_own_keeps_its_words(measured):
    @spanscore.metric
    async def asks(trace):
        raise TimeoutError("the shop does not answer")

    assert measured("asks").reason.startswith("the shop does not answer (test_functions.py, line ")


def test_a_function_sees_the_context_variables_of_who_measures(measured):
    tenant = contextvars.ContextVar("tenant", default="none")
    tenant.set("acme")

    @spanscore.metric
    def of_tenant(trace):
        return tenant.get() == "acme"

    assert measured("of_tenant").value == 1.0


def test_keyword_only_parameters_are_the_options(measured):
    @spanscore.metric
    def short(trace, *, limit: int = 5):
        return len(trace.final_output) <= limit

    assert measured("short").value == 0.0
    assert measured("short", limit=100).value == 1.0


def test_an_option_is_of_its_type():
    @spanscore.metric
    def short(trace, *, limit: int = 5):
        return True

    with pytest.raises(ValueError, match=r"short\.limit: Input should be a valid integer"):
        Config(metrics={"short": {"limit": "many"}})


def test_a_mistyped_option_is_answered_with_the_options_alone():
    @spanscore.metric
    def short(trace, *, limit: int = 5):
        return True

    with pytest.raises(
        ValueError, match=r"short has no option 'zzz'; there are threshold, limit \["
    ):
        Config(metrics={"short": {"zzz": 1}})


def test_a_default_is_of_each_metric_alone(measured):
    @spanscore.metric
    def seen(trace, *, words: list[str] = []):  # noqa: B006 - what people write
        words.append("once")
        return len(words) == 1

    assert [measured("seen").value, measured("seen").value] == [1.0, 1.0]


def test_the_first_parameter_says_that_it_is_about_sessions(measured, make_trace):
    @spanscore.metric
    def turns(talk: Session):
        return len(talk.traces) / 10

    session = Session("s", tuple(make_trace(n, session_id="s") for n in (1, 2)))
    found = measured("turns", session)
    assert (found.scope, found.value) == ("session", 0.2)


def annotated_as_a_text(talk: "spanscore.Session"):
    return True


def test_an_annotation_may_be_a_text():
    spanscore.metric(name="textual")(annotated_as_a_text)
    assert available()["textual"].scope == "session"


def test_a_parameter_named_session_is_a_session():
    @spanscore.metric
    def polite(session):
        return True

    assert available()["polite"].run == "session"


def test_an_async_function_of_a_session_is_awaited(measured, make_trace):
    @spanscore.metric
    async def turns(session):
        return len(session.traces) == 1

    assert measured("turns", Session("s", (make_trace(session_id="s"),))).value == 1.0


def test_earlier_turns_are_given_to_who_asks_for_them(measured, make_trace):
    @spanscore.metric
    def new(trace, earlier):
        return trace.final_output not in [x.final_output for x in earlier]

    assert measured("new").value == 1.0
    assert measured("new", earlier=(make_trace(2),)).value == 0.0


def test_a_metric_that_takes_earlier_turns_has_them_looked_up():
    @spanscore.metric
    def new(trace, earlier):
        return True

    config = Config(default_metrics=False, metrics={"new": {}})
    assert Engine(config, None, None).looks_back
    assert not Engine(Config(default_metrics=False), None, None).looks_back


def test_a_fact_that_is_needed_and_was_not_recorded_is_a_skip(measured, make_trace):
    name = returning(value=True, needs="final_output")
    found = measured(name, make_trace(final_output=None))
    assert (found.status, found.reason) == ("skipped", "The trace did not record final_output.")


def test_documents_that_are_needed_and_were_not_retrieved_are_a_skip(measured):
    assert measured(returning(value=True, needs=["retrieved"])).outcome.cause == "not_recorded"


def test_a_fact_that_is_needed_and_arrived_cut_is_a_skip(measured, make_trace):
    name = returning(value=True, needs=["final_output"])
    assert measured(name, make_trace(damaged=("final_output",))).outcome.cause == "damaged"


def test_a_session_needs_one_turn_with_each_fact(measured, make_trace):
    @spanscore.metric(needs=["plan"])
    def planned(session):
        return True

    turns = (make_trace(1, session_id="s"), make_trace(2, session_id="s", plan="1. look"))
    assert measured("planned", Session("s", turns[:1])).outcome.cause == "not_recorded"
    assert measured("planned", Session("s", turns)).value == 1.0


def test_the_threshold_is_the_middle_of_the_scale(measured):
    found = measured(returning(2.0, scale=(0, 5)))
    assert (found.threshold, found.label) == (2.5, "fail")


def test_a_configuration_may_give_another_threshold(measured):
    assert measured(returning(2.0, scale=(0, 5)), threshold=2.0).label == "pass"


def test_without_a_threshold_there_is_no_label(measured):
    found = measured(returning(0.5, threshold=None))
    assert (found.threshold, found.label) == (None, None)


def test_a_function_is_code_and_not_a_model(measured):
    evaluator = measured(returning(0.5, version="3")).evaluator
    assert (evaluator.kind, evaluator.name, evaluator.version) == ("CODE", "given", "3")


class Callable:
    def __call__(self, trace):
        return True


def with_args(trace, *others):
    return True


def with_two(trace, other):
    return True


def with_loose_option(trace, limit=5):
    return True


def with_bare_option(trace, *, limit):
    return True


def with_reserved_option(trace, *, version=5):
    return True


def with_odd_option(trace, *, engine: threading.Event | None = None):
    return True


def with_wrong_default(trace, *, limit: int = "five"):
    return True


def with_earlier_of_session(session, earlier):
    return True


def good(trace: AgentTrace):
    return True


@pytest.mark.parametrize(
    ("function", "settings", "what"),
    [
        (with_args, {}, "a metric's function takes a trace or a session"),
        (with_two, {}, "a metric's function takes a trace or a session"),
        (lambda: True, {"name": "nothing"}, "a metric's function takes a trace or a session"),
        (with_loose_option, {}, r"options come after a `\*`: write \(…, \*, limit=…\)"),
        (with_bare_option, {}, "the option limit needs a default"),
        (with_reserved_option, {}, "an option cannot be called version"),
        (with_odd_option, {}, "a configuration cannot hold the option engine"),
        (with_wrong_default, {}, "the default of the option limit is not of its type"),
        (with_earlier_of_session, {}, "leave out the parameter `earlier`"),
        (good, {"scope": "session"}, "annotated as a trace, but its scope is 'session'"),
        (good, {"scope": "span"}, "neither 'trace' nor 'session'"),
        (good, {"needs": ["final_outptu"]}, "did you mean 'final_output'"),
        (good, {"scale": (1, 0)}, "the lower one first"),
        (good, {"scale": 5}, "give its two ends"),
        (good, {"threshold": 3}, "not on the scale, which is 0 to 1"),
        (good, {"name": "coherence"}, "a metric 'coherence' of its own"),
        (good, {"name": "rubric.tone"}, "a metric 'rubric.tone' of its own"),
        (good, {"name": "Good Answers"}, "write it in snake_case"),
        (lambda trace: True, {}, "'<lambda>' cannot be a metric's name"),
        (Callable, {"name": "made"}, "decorate a function"),
        (3, {"name": "made"}, "decorate a function"),
    ],
)
def test_what_cannot_be_a_metric_is_refused_where_it_is_decorated(function, settings, what):
    with pytest.raises(InputError, match=what):
        spanscore.metric(**settings)(function)


def test_the_refused_is_no_metric():
    with pytest.raises(InputError):
        spanscore.metric(scale=(0, 0))(good)
    assert "good" not in available()


def test_the_same_function_may_be_decorated_again():
    spanscore.metric(good)
    spanscore.metric(version="2")(good)
    assert available()["good"].version == "2"


def test_a_metric_that_a_function_makes_takes_the_place_of_an_earlier_one():
    for value in (0.0, 1.0):
        returning(value)
    assert available()["given"]


def test_two_functions_of_a_module_cannot_bear_one_name():
    spanscore.metric(name="twice")(good)
    with pytest.raises(
        InputError, match=r"two metrics are named 'twice': good in .*, and annotated_as_a_text in"
    ):
        spanscore.metric(name="twice")(annotated_as_a_text)


def test_a_metric_is_named_by_its_name_its_class_or_its_function():
    spanscore.metric(good)
    assert {name_of(x) for x in ("good", good, available()["good"], available()["good"]())} == {
        "good"
    }


def test_what_is_no_metric_has_no_name():
    with pytest.raises(InputError, match="is no metric"):
        name_of(with_two)
