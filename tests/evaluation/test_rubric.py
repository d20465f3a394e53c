"""The rubric judge in the engine: what runs, what is asked, and what comes of the answers."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import ValidationError
from rubric_judge import RubricJudge

from spanscore.errors import BudgetExhaustedError, ConfigError, InputError, JudgeAnswerError
from spanscore.evaluation import Config, Overrides
from spanscore.evaluation.procedure import as_session
from spanscore.judge.transcript import estimate_tokens
from spanscore.metrics.expected import ExpectedCall
from spanscore.model.score import Failure, JudgeUsage, Skip
from spanscore.model.trace import Session

DEFAULTS = [
    "parameter_extraction",
    "result_interpretation",
    "tool_routing",
    "grounding_fidelity",
    "instruction_compliance",
    "conversation_management",
    "information_gathering",
    "response_delivery",
]
KIND = {
    "id": "kindness",
    "display_name": "Kindness",
    "description": "Was the agent kind?",
    "tier": "delivery",
    "weight": 0.5,
    "type": "scored",
    "rubric": {level: f"kind to the degree {level}" for level in range(6)},
}
NO_METRICS = {"metrics": {}}


@pytest.fixture
def session(make_trace):
    traces = [make_trace(x, session_id="s", system_instructions="Be brief.") for x in (1, 2, 3)]
    return Session("s", tuple(traces))


@pytest.fixture
def graded(make_engine, session):
    """The evaluations of the rubric by criterion; `subject` is the session unless another is
    given.
    """

    def run(judge=None, *, rubric=None, subject=None, overrides=None, **case):
        engine = make_engine(judge, rubric=rubric or {}, **NO_METRICS)
        found = asyncio.run(engine.evaluate_rubric(subject or session, overrides, **case))
        return {x.metric.removeprefix("rubric."): x for x in found}

    return run


def test_the_defaults_are_scored_and_then_the_whole(graded):
    assert list(graded(RubricJudge())) == [*DEFAULTS, "overall"]


def test_all_criteria_are_asked_in_one_call(graded):
    judge = RubricJudge()
    graded(judge)
    assert len(judge.asked) == 1


def test_a_score_bears_its_label(graded):
    found = graded(RubricJudge(tool_routing=0, response_delivery=5))
    assert (found["tool_routing"].label, found["response_delivery"].label) == (
        "critical_fail",
        "excellent",
    )


def test_a_score_lies_on_the_scale_of_its_levels(graded):
    found = graded(RubricJudge(tool_routing=2))["tool_routing"]
    assert (found.value, found.scale, found.threshold) == (2.0, (0.0, 5.0), 3.0)


def test_a_fault_has_its_code_and_its_turns(graded):
    found = graded(RubricJudge(tool_routing=2))["tool_routing"].outcome.metadata
    assert (found["failure_code"], found["turns"]) == ("wrong_tool_selected", [0])


def test_the_turns_are_named_by_their_traces_too(graded, session):
    found = graded(RubricJudge(tool_routing=2))["tool_routing"].outcome.metadata
    assert found["turn_trace_ids"] == [session.traces[0].trace_ids[0]]


def test_an_acceptable_score_has_no_failure_code(graded):
    said = {"justification": "fine", "turns": [], "score": 3, "failure_code": "wrong_tool_selected"}
    assert (
        graded(RubricJudge(tool_routing=said))["tool_routing"].outcome.metadata["failure_code"]
        is None
    )


def test_a_failure_code_is_brought_to_snake_case(graded):
    said = {
        "justification": "bad",
        "turns": [],
        "score": 1,
        "failure_code": "Wrong tool, selected!",
    }
    found = graded(RubricJudge(tool_routing=said))["tool_routing"]
    assert found.outcome.metadata["failure_code"] == "wrong_tool_selected"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"turns": [3]}, "less than 3"),
        ({"turns": [-1]}, "greater than or equal to 0"),
        ({"score": 6}, "less than or equal to 5"),
        ({"score": 3.5}, "valid integer"),
        ({"score": True}, "not true or false"),
        ({"justification": "see [turn 7]"}, "there is no turn 7"),
        ({"justification": ""}, "at least 1 character"),
        ({"score": 2, "failure_code": None}, "a fault needs a name"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(graded, said, problem):
    judge = RubricJudge(
        tool_routing={"justification": "x", "turns": [], "score": 4, "failure_code": None, **said}
    )
    outcome = graded(judge)["tool_routing"].outcome
    assert isinstance(outcome, Failure)
    assert problem in outcome.message


def test_the_whole_weighs_the_selection(graded):
    rubric = {
        "metrics": [
            {"metric": "tool_routing", "weight": 3},
            {"metric": "response_delivery", "weight": 1},
        ]
    }
    found = graded(RubricJudge(tool_routing=5, response_delivery=3), rubric=rubric)
    assert found["overall"].value == pytest.approx(90.0)


def test_a_weight_that_is_not_given_is_the_criterions_own(graded):
    rubric = {"metrics": [{"metric": "tool_routing"}, {"metric": "response_delivery"}]}
    found = graded(RubricJudge(tool_routing=5, response_delivery=0), rubric=rubric)
    assert found["overall"].value == pytest.approx(60.0)


def test_a_binary_criterion_counts_as_five_or_nothing(graded):
    rubric = {
        "metrics": [
            {"metric": "tool_routing", "weight": 1},
            {"metric": "task_completion", "weight": 1},
        ]
    }
    found = graded(RubricJudge(tool_routing=4, task_completion=0), rubric=rubric)
    assert (found["task_completion"].label, found["task_completion"].value) == ("fail", 0.0)
    assert found["overall"].value == pytest.approx(40.0)


@pytest.mark.parametrize(("score", "label"), [(3, "fail"), (4, "pass")])
def test_the_whole_passes_from_the_threshold_on(graded, score, label):
    rubric = {"metrics": [{"metric": "tool_routing"}], "pass_threshold": 75}
    assert graded(RubricJudge(tool_routing=score), rubric=rubric)["overall"].label == label


def test_the_reason_of_the_whole_begins_with_the_worst_and_why(graded):
    rubric = {"metrics": [{"metric": "tool_routing"}, {"metric": "response_delivery"}]}
    reason = graded(RubricJudge(tool_routing=5, response_delivery=1), rubric=rubric)[
        "overall"
    ].reason
    assert (
        reason
        == "response_delivery 1 (fail): response_delivery, see [turn 0] tool_routing 5 (excellent)."
    )


def test_the_threshold_tolerates_binary_floats(graded):
    weights = {
        "tool_routing": 0.7,
        "grounding_fidelity": 0.1,
        "response_delivery": 0.1,
        "parameter_extraction": 0.1,
    }
    rubric = {
        "metrics": [{"metric": k, "weight": v} for k, v in weights.items()],
        "pass_threshold": 80,
    }
    assert graded(RubricJudge(), rubric=rubric)["overall"].label == "pass"


def test_expected_outcomes_decide_over_the_threshold(graded):
    judge = RubricJudge(outcomes=(True, True), **dict.fromkeys(DEFAULTS, 1))
    found = graded(judge, expected_outcomes=("A flight is booked.", "A mail was sent."))["overall"]
    assert (found.label, found.outcome.metadata["decided_by"]) == ("pass", "expected_outcomes")


def test_one_outcome_that_does_not_hold_fails_the_case(graded):
    judge = RubricJudge(outcomes=(True, False), **dict.fromkeys(DEFAULTS, 5))
    found = graded(judge, expected_outcomes=("A flight is booked.", "A mail was sent."))["overall"]
    assert found.label == "fail"
    assert found.outcome.metadata["expected_outcomes"][1] == {
        "statement": "A mail was sent.",
        "passed": False,
        "justification": "see [turn 0]",
    }


def test_there_must_be_a_verdict_for_each_expected_outcome(graded):
    outcome = graded(RubricJudge(outcomes=(True,)), expected_outcomes=("One.", "Two."))[
        "overall"
    ].outcome
    assert "at least 2 items" in outcome.message


def test_the_override_stands_after_the_criteria(graded):
    judge = RubricJudge()
    graded(judge, evaluation_criteria_override="Refunds need $approval.")
    assert judge.asked[0][0].question.rstrip().split("\n")[-2] == "Refunds need $approval."


def test_the_question_comes_after_the_transcript_and_holds_every_level(graded):
    judge = RubricJudge()
    graded(judge)
    prompt = judge.asked[0][0]
    assert "Turn 2:" in prompt.transcript
    assert all(f"{level}: " in prompt.question for level in range(6))


def test_a_criterion_whose_facts_are_missing_is_skipped_and_not_asked(graded, make_trace):
    judge = RubricJudge()
    found = graded(judge, subject=Session("s", (make_trace(session_id="s"),)))
    assert isinstance(found["instruction_compliance"].outcome, Skip)
    assert "instruction_compliance" not in judge.asked[0][0].question


def test_the_whole_says_what_share_of_the_weight_was_scored(graded, make_trace):
    found = graded(RubricJudge(), subject=Session("s", (make_trace(session_id="s"),)))["overall"]
    assert found.outcome.metadata["coverage"] == pytest.approx(0.875)
    assert list(found.outcome.metadata["skipped"]) == ["instruction_compliance"]


def test_under_half_of_the_weight_there_is_no_whole(graded, make_trace):
    found = graded(
        RubricJudge(), subject=Session("s", (make_trace(session_id="s", tool_calls=None),))
    )["overall"]
    assert isinstance(found.outcome, Skip)


def test_nothing_is_asked_where_nothing_was_recorded(graded, make_trace):
    judge = RubricJudge()
    graded(judge, subject=make_trace(user_input=None, final_output=None, tool_calls=None))
    assert judge.asked == []


@pytest.mark.parametrize("session_id", ["s", None])
def test_a_trace_is_scored_as_a_session_of_its_own(make_trace, session_id):
    trace = make_trace(session_id=session_id)
    assert as_session(trace) == Session(session_id or "", (trace,))


def test_a_judge_that_fails_gives_no_score(graded):
    found = graded(RubricJudge(error=JudgeAnswerError("no valid answer")))
    assert {type(x.outcome) for x in found.values()} == {Failure}


def test_a_spent_budget_is_a_skip(graded):
    found = graded(RubricJudge(error=BudgetExhaustedError("spent")))
    assert {type(x.outcome) for x in found.values()} == {Skip}


def test_the_cost_of_the_one_call_is_shared(graded):
    found = graded(RubricJudge()).values()
    assert sum((x.usage for x in found), JudgeUsage()).input_tokens == 1001


def test_who_judged_is_on_every_score(graded):
    assert {(x.evaluator.kind, x.evaluator.model) for x in graded(RubricJudge()).values()} == {
        ("LLM", "scripted")
    }


def test_the_prompt_hash_covers_the_texts_of_the_criteria(graded):
    hashes = set()
    for text in ("Was the agent kind?", "Was it friendly?"):
        rubric = {"metrics": [{"metric": "kindness"}], "criteria": [{**KIND, "description": text}]}
        hashes.add(graded(RubricJudge(), rubric=rubric)["kindness"].evaluator.prompt_hash)
    assert len(hashes) == 2


def test_the_prompt_hash_does_not_depend_on_the_session(graded, session):
    shorter = replace(session, traces=session.traces[:1])
    hashes = {
        x.evaluator.prompt_hash
        for y in (session, shorter)
        for x in graded(RubricJudge(), subject=y).values()
    }
    assert len(hashes) == 1


def test_a_criterion_of_the_users_own_is_scored(graded):
    rubric = {"metrics": [{"metric": "kindness"}], "criteria": [KIND]}
    assert graded(RubricJudge(kindness=5), rubric=rubric)["kindness"].label == "excellent"


@pytest.mark.parametrize("name", ["json", "copy", "model_dump", "schema"])
def test_a_criterion_may_bear_any_name(graded, name):
    rubric = {"metrics": [{"metric": name}], "criteria": [{**KIND, "id": name}]}
    assert graded(RubricJudge(), rubric=rubric)[name].value == 4.0


def test_a_criterion_of_the_users_own_may_stand_in_a_file(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "criteria:\n- {id: a, display_name: A, description: d, tier: t, weight: 1, type: binary, "
        "rubric: {5: yes it is, 0: no it is not}}"
    )
    config = Config(rubric={"criteria": [str(path)], "metrics": [{"metric": "a"}]})
    assert config.rubric.chosen()["a"].criterion.kind == "binary"


def test_what_is_wrong_in_a_file_of_criteria_names_the_file(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "{id: a, display_name: A, description: d, tier: t, weight: 1, type: binary, rubric: {5: x,"
        " 0: no}}"
    )
    with pytest.raises(
        ValidationError, match=r"own\.yaml: criterion 0\.rubric\.0: false is no text here"
    ):
        Config(rubric={"criteria": [str(path)]})


@pytest.mark.parametrize(
    ("rubric", "problem"),
    [
        ({"metrics": [{"metric": "kindnes"}], "criteria": [KIND]}, "did you mean 'kindness'"),
        ({"metrics": [{"metric": "task_completion"}]}, "has no default weight"),
        ({"metrics": [{"metric": "tool_routing", "weight": 0}]}, "sum to nothing"),
        ({"metrics": [{"metric": "tool_routing", "weight": -1}]}, "greater than or equal to 0"),
        ({"metrics": ["tool_routing", "tool_routing"]}, "twice"),
        ({"pass_threshold": 101}, "less than or equal to 100"),
        ({"provider": "openai"}, "set model too"),
        ({"criteria": [KIND, KIND]}, "two criteria 'kindness'"),
        ({"criteria": [{**KIND, "id": "tool_routing"}]}, "two criteria 'tool_routing'"),
        ({"criteria": [{**KIND, "id": "overall"}]}, "cannot be the id"),
        (
            {"criteria": [{**KIND, "rubric": {5: "good", 0: "bad"}}]},
            r"lacks the level\(s\) 1, 2, 3, 4",
        ),
        (
            {"criteria": [{**KIND, "rubric": {**KIND["rubric"], 6: "too much"}}]},
            "there is no level 6",
        ),
        ({"criteria": [{k: v for k, v in KIND.items() if k != "tier"}]}, "tier"),
        ({"criteria": ["there-is-none.yaml"]}, "there-is-none.yaml: No such file"),
    ],
)
def test_a_rubric_that_cannot_be_is_refused(rubric, problem):
    with pytest.raises(ValidationError, match=problem):
        Config(rubric=rubric)


@pytest.mark.parametrize("metrics", [None, []])
def test_nothing_selected_means_the_defaults(metrics):
    assert list(Config(rubric={"metrics": metrics}).rubric.chosen()) == DEFAULTS


@pytest.mark.parametrize(
    ("model", "asked"),
    [("gpt-4o-mini", "openai/gpt-4o-mini"), ("openai/gpt-4o-mini", "openai/gpt-4o-mini")],
)
def test_the_provider_is_named_as_litellm_does(graded, model, asked):
    judge = RubricJudge()
    graded(judge, rubric={"model": model, "provider": "openai"})
    assert judge.asked[0][2] == (asked,)


def test_a_model_without_a_judge_is_refused(make_engine):
    with pytest.raises(ConfigError, match="gpt"):
        make_engine(rubric={"model": "gpt"})


def test_without_a_judge_expected_outcomes_are_not_decided(graded):
    assert isinstance(graded(expected_outcomes=("All is well.",))["overall"].outcome, Skip)


def evaluations(engine, traces, overrides=None):
    session = Session("s", tuple(traces))
    return asyncio.run(engine.evaluate_session(session, {}, overrides))


def test_a_session_is_scored_when_the_rubric_is_configured(make_engine, session):
    engine = make_engine(RubricJudge(), rubric={}, **NO_METRICS)
    found = evaluations(engine, session.traces)
    assert {x.scope for x in found} == {"session"}
    assert [x.metric for x in found] == [f"rubric.{name}" for name in [*DEFAULTS, "overall"]]


def test_the_rubric_is_off_unless_configured(make_engine, session):
    judge = RubricJudge()
    evaluations(make_engine(judge, **NO_METRICS), session.traces)
    assert judge.asked == []


def test_a_trace_without_a_session_is_scored_by_itself(make_engine, make_trace):
    engine = make_engine(RubricJudge(), rubric={}, **NO_METRICS)
    found = asyncio.run(engine.evaluate_trace(make_trace(system_instructions="Be brief.")))
    assert [(x.scope, x.subject_id) for x in found] == [("trace", make_trace().id)] * 9


def test_a_trace_of_a_session_is_scored_with_it(make_engine, make_trace):
    judge = RubricJudge()
    engine = make_engine(judge, rubric={}, **NO_METRICS)
    assert asyncio.run(engine.evaluate_trace(make_trace(session_id="s"))) == []
    assert judge.asked == []


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (["rubric"], [*DEFAULTS, "overall"]),
        (["rubric.overall"], ["overall"]),
        (["rubric.tool_routing"], ["tool_routing"]),
        (["rubric.task_completion", "rubric.overall"], ["task_completion", "overall"]),
    ],
)
def test_a_run_gives_what_it_names(make_engine, session, asked, given):
    engine = make_engine(RubricJudge(task_completion=5), **NO_METRICS)
    found = evaluations(engine, session.traces, Overrides(metrics=tuple(asked)))
    assert [x.metric.removeprefix("rubric.") for x in found] == given


def test_a_run_may_name_what_is_not_in_the_defaults_and_the_whole_stays(make_engine, session):
    engine = make_engine(RubricJudge(task_completion=0), **NO_METRICS)
    found = evaluations(
        engine, session.traces, Overrides(metrics=("rubric.task_completion", "rubric.overall"))
    )
    assert found[-1].value == pytest.approx(80.0)


def test_a_run_that_names_an_unknown_criterion_is_bad_input(make_engine, session):
    with pytest.raises(InputError, match=r"did you mean 'rubric.tool_routing'"):
        evaluations(make_engine(), session.traces, Overrides(metrics=("rubric.tool_ruting",)))


def test_the_rubric_is_no_entry_of_metrics():
    with pytest.raises(ValidationError, match=r"under evaluation\.rubric"):
        Config(metrics={"rubric.overall": {}})


def test_a_plan_shows_the_one_call(make_engine, session):
    engine = make_engine(RubricJudge(), rubric={}, **NO_METRICS)
    (call,) = engine.plan(session)
    assert call.metrics == tuple(f"rubric.{name}" for name in DEFAULTS)
    assert "Turn 2:" in call.prompt.transcript


LONGEST = 2_000
LONG_CASES = [
    {"expected_outcomes": ("A flight to Lisbon is booked. " * 40,)},
    {"evaluation_criteria_override": "Prices matter. " * 100},
    {"expected_tools": tuple(ExpectedCall("book_flight", {"to": f"city {x}"}) for x in range(60))},
]


@pytest.fixture
def shown(make_trace, make_engine):
    """The prompt on a session far too long for the judge, given what a case adds."""
    long = make_trace(
        1, session_id="s", final_output="It is booked for the fourth of May. " * 2_000
    )

    def of(**case):
        judge = RubricJudge(outcomes=(True,))
        engine = make_engine(
            judge, rubric={}, judge_settings={"max_transcript_tokens": LONGEST}, **NO_METRICS
        )
        asyncio.run(engine.evaluate_rubric(Session("s", (long,)), **case))
        return judge.asked[0][0]

    return of


@pytest.mark.parametrize("case", LONG_CASES, ids=["outcomes", "override", "tools"])
def test_what_a_case_adds_counts_towards_the_length_that_a_judge_is_shown(shown, case):
    alone, prompt = shown(), shown(**case)
    added = estimate_tokens(prompt.question) - estimate_tokens(alone.question)
    assert added > 100
    assert estimate_tokens(prompt.transcript) + added <= LONGEST


def test_a_case_that_leaves_too_little_room_for_the_record_is_refused_with_what_to_do(
    make_engine, session
):
    judge = RubricJudge(outcomes=(True,))
    engine = make_engine(
        judge, rubric={}, judge_settings={"max_transcript_tokens": LONGEST}, **NO_METRICS
    )
    found = asyncio.run(engine.evaluate_rubric(session, expected_outcomes=("All is well. " * 400,)))
    assert {x.outcome.message.partition("; ")[2] for x in found} == {
        "shorten it, or raise judge.max_transcript_tokens"
    }
    assert judge.asked == []
