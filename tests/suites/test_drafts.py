"""Cases that are drafted from traces that failed: what they hold, and how a suite of them runs."""

import json

import pytest

from spanscore import load, rebuild_all, suites
from spanscore.errors import InputError
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import Expected, PastMessage
from spanscore.suites import drafts
from spanscore.suites.suite import TO_FILL_IN
from spanscore.testing.traces import agent_trace, tool_call

_MAIL = "anna@example.com"


def _failed(**facts):
    given = {
        "user_input": f"Send it to {_MAIL}",
        "final_output": "Sent as R-77.",
        "tool_calls": (
            tool_call("send", {"to": _MAIL, "password": "hunter2secret"}, {"id": "R-77"}),
        ),
        "history": (PastMessage("user", f"I am {_MAIL}"),),
    }
    return agent_trace(**{**given, **facts})


def _score(trace):
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric="task_completion",
        outcome=Score(0.2, f"Nothing was sent to {_MAIL}."),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("LLM", "task_completion", "1"),
        target=trace.target,
        session_id=None,
    )


def _draft(trace):
    return drafts.draft(trace, [_score(trace)], {}, "failed")


def _rebuilt(path):
    found = load(str(path))
    return rebuild_all(found.spans, found.logs)


@pytest.fixture
def suite(tmp_path):
    return tmp_path / "failed.yaml"


def test_a_case_has_the_input_the_tools_and_an_answer_to_be_filled_in():
    case = _draft(_failed()).case
    assert case["description"] == "task_completion 0.20: Nothing was sent to redacted-email-1."
    assert case["input"] == "Send it to redacted-email-1"
    assert case["expected_answer"] == TO_FILL_IN
    (tool,) = case["expected_tools"]
    assert (tool["tool_name"], tool["parameters"]["to"]) == ("send", "redacted-email-1")


def test_no_personal_data_and_no_secret_is_written(suite):
    drafts.add(suite, [_draft(_failed(error=f"refused by {_MAIL}"))], "failed")
    written = suite.read_text() + drafts.recording_of(suite).read_text()
    assert _MAIL not in written
    assert "hunter2secret" not in written


def test_the_recording_is_rebuilt_as_the_turn_with_no_text_damaged(suite):
    trace = _failed()
    drafts.add(suite, [_draft(trace)], "failed")
    (found,) = _rebuilt(drafts.recording_of(suite))
    assert (found.user_input, found.final_output) == (
        "Send it to redacted-email-1",
        "Sent as R-77.",
    )
    assert [(x.name, x.result) for x in found.tool_calls] == [("send", {"id": "R-77"})]
    assert [x.text for x in found.history] == ["I am redacted-email-1"]
    assert found.damaged == ("usage",)


def test_a_suite_fails_until_it_is_filled_in(suite):
    drafts.add(suite, [_draft(_failed())], "failed")
    traces = _rebuilt(drafts.recording_of(suite))
    run = suites.run_suite(suite, traces)
    (case,) = run.cases
    assert case.status == "fail"
    assert "expected_answer is still to be filled in" in case.reasons[0]

    lines = [x for x in suite.read_text().splitlines() if "TODO" not in x]
    suite.write_text("\n".join(lines))
    assert [x.status for x in suites.run_suite(suite, traces).cases] == ["pass"]


def test_what_a_trace_states_itself_is_expected():
    stated = Expected(answer="Done.", outcomes=("It is sent.",), in_order=False)
    case = _draft(_failed(expected=stated)).case
    assert (case["expected_answer"], case["expected_outcomes"]) == ("Done.", ["It is sent."])
    assert case["tool_sequence_matters"] is False
    assert "expected_tools" not in case


def test_more_cases_are_added_and_none_twice(suite):
    first, second = _failed(), _failed()
    assert drafts.add(suite, [_draft(first)], "failed") == 1
    suite.write_text(f"# ours\n{suite.read_text()}")
    assert drafts.add(suite, [_draft(first), _draft(second)], "failed") == 1
    assert [x.id for x in suites.load(suite).cases] == [
        _draft(x).case["id"] for x in (first, second)
    ]
    assert suite.read_text().startswith("# ours\n")
    assert len(drafts.recording_of(suite).read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "text",
    [
        "name: own\ncases:\n- id: a\n  input: hello\ntrials: 2\n",
        "name: own\ncases: [{id: a, input: hello}]\n",
    ],
)
def test_a_suite_whose_cases_do_not_stand_last_is_left_as_it_is(suite, text):
    suite.write_text(text)
    with pytest.raises(InputError, match="let `cases` be its last key"):
        drafts.add(suite, [_draft(_failed())], "own")
    assert suite.read_text() == text
    assert not drafts.recording_of(suite).exists()


def test_cases_are_added_at_the_indentation_of_those_before(suite):
    suite.write_text("name: own\ncases:\n    - id: a\n      input: hello\n")
    drafts.add(suite, [_draft(_failed())], "own")
    assert len(suites.load(suite).cases) == 2


def test_a_trace_without_an_input_is_found_by_its_case(suite):
    drafts.add(suite, [_draft(_failed(user_input=None, history=None))], "failed")
    assert "input" not in suites.load(suite).cases[0].model_fields_set
    run = suites.run_suite(suite, _rebuilt(drafts.recording_of(suite)))
    assert [x.status for x in run.cases] == ["fail"]


def test_two_turns_of_one_otel_trace_are_two_recordings(suite):
    first = _failed()
    second = _failed(trace_ids=first.trace_ids, target=first.target, opening_span_id="0c" * 8)
    drafts.add(suite, [_draft(first), _draft(second)], "failed")
    ids = {json.loads(x)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
           for x in drafts.recording_of(suite).read_text().splitlines()}  # fmt: skip
    assert len(ids) == 2
