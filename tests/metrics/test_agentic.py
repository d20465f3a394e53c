"""A conversation against what a test expects: right only as a whole, and of unknown outcome where
facts are missing.
"""

import pytest

from spanscore.metrics import Signals
from spanscore.metrics.expected import ExpectedCall, ToolWeights
from spanscore.metrics.session.agentic import Agentic, Interaction, reading, used_calls
from spanscore.model.score import Score, Skip
from spanscore.model.trace import Expected, ModelCall, RequestedCall, Session, ToolCall

RIGHT, WRONG = Score(0.9, "fits"), Score(0.2, "something else")
WEATHER = (ExpectedCall("get_weather", {"city": "Rome"}),)
OUTPUT = (
    "session_id total_interactions correct_interactions is_fully_correct threshold"
    " correctness_scores correct_indices tool_correctness_scores k pass_at_k pass_at_k_ci_low"
    " pass_at_k_ci_high pass_pow_k pass_pow_k_ci_low pass_pow_k_ci_high"
)


@pytest.fixture
def assessed(make_trace):
    """What comes of interactions with these answers' scores, by a metric with these options."""

    def make(*answers, expected_tools=None, **options):
        interaction = Interaction(make_trace(), "sunny", expected_tools)
        return [Agentic(**options).assess(interaction, x) for x in answers]

    return make


def test_a_conversation_is_right_only_if_all_its_interactions_are(assessed):
    values = [
        Agentic().conversation("s", assessed(*x), (1, 1)).value
        for x in ((RIGHT, RIGHT), (RIGHT, WRONG))
    ]
    assert values == [1.0, 0.0]


def test_the_output_has_all_that_it_should_have(assessed):
    metadata = Agentic(k=2).conversation("s", assessed(RIGHT, WRONG, RIGHT), (4, 2)).metadata
    assert set(OUTPUT.split()) <= metadata.keys()
    assert (metadata["correct_interactions"], metadata["correct_indices"]) == (2, [0, 2])
    assert metadata["correctness_scores"] == [0.9, 0.2, 0.9]
    assert metadata["tool_correctness_scores"] == [None, None, None]


def test_odds_of_interactions_say_in_the_reason_what_they_count(assessed):
    by_turns, by_trials = (
        Agentic(unit=unit).conversation("s", assessed(RIGHT, WRONG), (4, 2))
        for unit in ("interaction", "conversation")
    )
    assert "n and c count the interactions of this one conversation" in by_turns.reason
    assert "interactions of this one conversation" not in by_trials.reason
    assert (by_turns.metadata["n"], by_turns.metadata["c"]) == (2, 1)


def test_a_threshold_tolerates_what_floats_add_up_to(assessed):
    [found] = assessed(Score(0.1 + 0.2 + 0.4 - 1e-16, "sum"))
    assert found.is_correct


def test_wrong_tools_make_an_interaction_wrong(assessed):
    [found] = assessed(RIGHT, expected_tools=(ExpectedCall("get_weather", {"city": "Oslo"}),))
    assert not found.is_correct


def test_wrong_tools_can_be_reported_only(assessed):
    [found] = assessed(
        RIGHT, expected_tools=(ExpectedCall("get_weather", {"city": "Oslo"}),), tools_decide=False
    )
    assert (found.is_correct, found.tools.is_correct) == (True, False)


def test_tools_of_which_none_was_used_say_nothing_beside_an_answer(make_trace):
    interaction = Interaction(make_trace(tool_calls=()), "sunny", WEATHER)
    found = Agentic().assess(interaction, RIGHT)
    assert (found.tools, found.is_correct) == (None, True)


def test_where_tools_are_all_that_is_expected_one_must_be_used(make_trace):
    found = Agentic().assess(Interaction(make_trace(tool_calls=()), None, WEATHER), None)
    assert (found.tools, found.is_correct) == (None, False)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"final_output": None}, "did not record final_output"),
        ({"damaged": ("final_output",)}, "arrived cut or redacted"),
        ({"tool_calls": None}, "did not record tool_calls"),
        (
            {"tool_calls": (ToolCall("1", "get_weather"),)},
            "did not record the arguments of get_weather",
        ),
        (
            {"tool_calls": (ToolCall("1", "get_weather", {"city": "Rome"}),)},
            "did not record what the tools returned",
        ),
    ],
)
def test_what_was_not_recorded_cannot_be_measured(make_trace, fields, told):
    skip = Agentic().unmeasurable_interaction(Interaction(make_trace(**fields), "sunny", WEATHER))
    assert isinstance(skip, Skip)
    assert told in skip.reason


def test_results_need_not_be_recorded_where_their_use_does_not_count(make_trace):
    weights = ToolWeights(0.5, 0.25, 0.25, 0.0)
    trace = make_trace(tool_calls=(ToolCall("1", "get_weather", {"city": "Rome"}),))
    assert (
        Agentic(tool_weights=weights).unmeasurable_interaction(Interaction(trace, "sunny", WEATHER))
        is None
    )


@pytest.mark.parametrize(
    ("output", "label", "value"),
    [
        ("It is sunny.", None, 1),
        ("No idea.", None, 0),
        ("No idea.", True, 1),
        ("It is sunny.", False, 0),
    ],
)
def test_utilisation_is_the_label_else_what_the_trace_shows(make_trace, output, label, value):
    interaction = Interaction(make_trace(final_output=output), None, WEATHER, uses_tools=label)
    assert Agentic().assess(interaction, None).tools.utilisation == value


def test_calls_of_one_model_answer_are_known_to_be(make_trace):
    asked = tuple(RequestedCall(x, "get_weather") for x in ("c1", "c2"))
    calls = tuple(ToolCall(x, "get_weather", {}) for x in ("c1", "c2", "c3"))
    trace = make_trace(model_calls=(ModelCall("a" * 16, tool_calls=asked),), tool_calls=calls)
    first, second, third = (x.answer for x in used_calls(trace))
    assert first == second != third


def test_calls_whose_ids_the_model_answers_lack_are_known_by_their_names(make_trace):
    answers = [
        ModelCall("a" * 16, tool_calls=(RequestedCall(None, "get_weather", {}),) * count)
        for count in (2, 1)
    ]
    calls = tuple(ToolCall(x, "get_weather", {}) for x in ("c1", "c2", "c3"))
    found = used_calls(make_trace(model_calls=tuple(answers), tool_calls=calls))
    assert [x.answer for x in found] == [0, 0, 1]


def test_unless_asked_for_another_the_mode_is_frequentist_the_point_without_limits():
    odds = Agentic().odds(4, 2, 2)
    assert (odds["pass_at_k"], odds["pass_pow_k"], odds["pass_at_k_ci_low"]) == (0.75, 0.25, None)


def test_the_bayesian_mode_is_the_mean_of_the_posterior():
    odds = Agentic(statistics="bayesian").odds(10, 3, 2)
    assert odds["pass_pow_k"] == pytest.approx(4 * 5 / (12 * 13))
    assert odds["pass_pow_k_ci_low"] < odds["pass_pow_k"] < odds["pass_pow_k_ci_high"]


@pytest.mark.parametrize(("statistics", "n"), [("bayesian", 0), ("unbiased", 1)])
def test_too_few_trials_give_no_odds(statistics, n):
    assert Agentic(statistics=statistics).odds(n, 0, 2)["pass_at_k"] is None


def test_traces_that_state_what_is_expected_are_held_against_it_by_the_command(make_trace):
    session = Session("s", (make_trace(expected=Expected(answer="sunny")),))
    outcome = Agentic().measure(session, Signals({}), {})
    assert "`spanscore test PATH` holds them against it" in outcome.reason


def test_without_a_suite_it_is_skipped_and_says_where_it_runs():
    outcome = Agentic().measure(Session("s", ()), Signals(), {})
    assert isinstance(outcome, Skip)
    assert "spanscore test SUITE" in outcome.reason


@pytest.mark.parametrize(
    ("at_k", "pow_k", "word"),
    [
        (0.96, 0.71, "reliable"),
        (0.96, 0.49, "inconsistent"),
        (0.96, 0.6, None),
        (0.69, 0.9, "needs improvement"),
        (0.95 + 1e-16, 0.9, None),
        (0.96, 0.1 + 0.6, None),
        (0.96, 0.5 - 1e-16, None),
        (0.7 - 1e-16, 0.1, None),
        (None, 0.5, None),
    ],
)
def test_a_word_sums_up_both_odds_and_a_mark_is_on_neither_side(at_k, pow_k, word):
    assert reading(at_k, pow_k) == word
