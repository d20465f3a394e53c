"""What a score is said to rest on: steps by the judge's numbers, calls of findings, texts that are
quoted.
"""

import pytest
from report_turns import agent_trace, evaluation

from spanscore.judge.transcript import render
from spanscore.model.score import Score
from spanscore.model.trace import ModelCall, ToolCall
from spanscore.report.details import Evidence, Place, linked


def _steps(text):
    found = Evidence()
    linked(text, lambda word, number: Place(number) if word == "step" else None, found)
    return [x.step for x in found.places]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("Step 3 failed.", [3]),
        ("steps 1, 2 and 3 all failed", [1, 2, 3]),
        ("Steps 2-4 and 7", [2, 3, 4, 7]),
        ("in steps 10 through 12, and step 1", [10, 11, 12, 1]),
        ("step one, or a step", []),
        ("footstep 3", []),
    ],
)
def test_the_numbers_of_steps_are_found(text, steps):
    assert _steps(text) == steps


def test_a_number_of_no_step_stays_text():
    assert linked("step 9", lambda _word, _number: None, Evidence()) == ["step 9"]


def test_all_of_a_text_is_kept():
    parts = linked("a steps 1 to 3 b", lambda _word, number: Place(number), Evidence())
    assert "".join(x if isinstance(x, str) else x["t"] for x in parts) == "a steps 1 to 3 b"


def test_a_step_has_the_number_that_the_judge_reads(opened):
    calls = (ToolCall("c1", "search", {"q": 1}, "x"), ToolCall("c2", "book", {"q": 2}, "y"))
    models = (
        ModelCall("m1", "gpt-x", "Let me look."),
        ModelCall("m2", "gpt-x", "It is 7C in Oslo."),
    )
    trace = agent_trace(calls=calls, model_calls=models)
    steps = opened([trace]).turn(trace)["steps"]
    transcript = render(trace, max_tokens=10_000).text
    for step in steps:
        if step["n"] and step["kind"] == "tool":
            assert f"{step['n']}. the tool {step['name']} was called" in transcript


def test_a_score_leads_to_the_steps_that_its_reason_names(opened):
    trace = agent_trace()
    found = opened(
        [trace], [evaluation(trace, value=0.0, reason="Step 1 is of the wrong town.")]
    ).turn(trace)
    [place] = found["scores"][0]["places"]
    assert found["steps"][place["step"]]["name"] == "weather"


def test_a_finding_counts_tool_calls_and_not_steps(opened):
    models = (
        ModelCall("m1", "gpt-x", "First I think."),
        ModelCall("m2", "gpt-x", "Then I answer."),
    )
    trace = agent_trace(model_calls=models)
    finding = {"call": 1, "tool": "weather", "argument": "city", "text": "is from nowhere"}
    score = evaluation(
        trace, "check.arguments_grounded", outcome=Score(0.0, "x", {"findings": [finding]})
    )
    found = opened([trace], [score]).turn(trace)
    [note] = found["scores"][0]["notes"]
    assert (found["steps"][note["step"]]["name"], note["argument"], note["ok"]) == (
        "weather",
        "city",
        False,
    )


def test_a_verdict_of_one_call_stands_at_that_call(opened):
    trace = agent_trace()
    verdicts = [
        {"call": 1, "tool": "weather", "verdict": "no", "reason": "Oslo was not asked for."}
    ]
    found = opened([trace], [evaluation(trace, metadata={"verdicts": verdicts})]).turn(trace)
    assert found["scores"][0]["notes"][0]["text"] == "Oslo was not asked for."


def test_what_is_quoted_is_marked_only_where_it_is_there(opened):
    trace = agent_trace()
    reason = 'The tool said "7C, rain", which is no "sunshine"; order R-4821 is missing.'
    found = opened([trace], [evaluation(trace, reason=reason)]).turn(trace)
    assert found["scores"][0]["quotes"] == ["7C, rain"]


def test_a_session_score_leads_to_the_step_of_the_right_turn(opened):
    turns = [agent_trace(x, session_id="s") for x in (1, 2)]
    score = evaluation(
        turns[-1],
        "conversation_completion",
        scope="session",
        subject_id="s",
        reason="Step 2 is late.",
    )
    found = opened(turns, [score])
    [place] = found.detail(found.index["sessions"][0])["scores"][0]["places"]
    assert place["turn"] == turns[1].id


def test_a_turn_of_a_session_is_counted_from_0_as_for_the_judge(opened):
    turns = [agent_trace(x, session_id="s") for x in (1, 2)]
    score = evaluation(
        turns[-1], "rubric.x", scope="session", subject_id="s", reason="It repeats itself [turn 1]."
    )
    found = opened(turns, [score])
    assert found.detail(found.index["sessions"][0])["scores"][0]["places"] == [
        {"turn": turns[1].id}
    ]


def test_a_score_that_is_malformed_is_refused(opened):
    with pytest.raises(KeyError):
        opened([agent_trace()], [{"status": "scored"}])
