"""The report as a file: what it holds, in which order, how large it becomes, and what it keeps from
running.
"""

import random
import re
import stat
import tracemalloc
from dataclasses import replace

import pytest
from report_turns import agent_trace, evaluation, failure

from spanscore import report
from spanscore.model.score import Annotation, Evaluator, Score
from spanscore.model.trace import ToolCall

_NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_a_turn_that_fails_comes_before_one_that_passes(opened):
    good, lost, bad, bare = (agent_trace(x) for x in range(1, 5))
    scores = [evaluation(good), failure(lost), evaluation(bad, value=0.2)]
    assert [x["id"] for x in opened([good, lost, bad, bare], scores).index["turns"]] == [
        x.id for x in (bad, lost, good, bare)
    ]


def test_of_turns_that_fail_the_one_with_more_failing_scores_is_first(opened):
    one, two = agent_trace(1), agent_trace(2)
    scores = [
        evaluation(one, value=0),
        evaluation(two, value=0),
        evaluation(two, "confidence", value=0),
    ]
    assert opened([one, two], scores).index["turns"][0]["id"] == two.id


def test_scores_as_json_give_the_same_as_values(opened):
    trace = agent_trace()
    made = evaluation(trace, value=0.2, reason="Step 1 failed.")
    assert (
        opened([trace], [made.to_json()]).turn(trace)["scores"]
        == opened([trace], [made]).turn(trace)["scores"]
    )


def test_turns_that_share_a_span_have_each_their_own_scores(opened):
    one = agent_trace(1)
    two = replace(one, opening_span_id="f" * 16)
    scores = [evaluation(one, value=0.1).to_json(), evaluation(two, value=0.9).to_json()]
    found = opened([one, two], scores)
    assert [found.turn(x)["scores"][0]["value"] for x in (one, two)] == [0.1, 0.9]


@pytest.mark.slow
def test_only_the_newest_revision_of_a_score_is_shown(opened):
    trace = agent_trace()
    scores = [evaluation(trace, value=0.1), evaluation(trace, value=0.9, revision=2)]
    assert [x["value"] for x in opened([trace], scores).turn(trace)["scores"]] == [0.9]


def test_a_score_of_a_turn_that_was_not_given_is_shown_without_steps(opened):
    trace = agent_trace()
    score = evaluation(trace, metadata={"user_input": "How warm?"})
    [row] = opened([], [score]).index["turns"]
    assert row["input"] == "How warm?"


def test_each_metric_has_its_pass_rate_with_an_interval(opened):
    turns = [agent_trace(x) for x in range(8)]
    [row] = opened(turns, [evaluation(x, value=float(x.id > "8")) for x in turns]).index["metrics"]
    assert row["rate"]["low"] < row["rate"]["value"] < row["rate"]["high"]


def test_nothing_of_a_trace_is_markup(opened):
    call = ToolCall("c1", _NASTY, {_NASTY: _NASTY}, _NASTY, error=_NASTY)
    trace = agent_trace(
        calls=(call,), user_input=_NASTY, final_output=_NASTY, agent_name=_NASTY, session_id=_NASTY
    )
    html = opened([trace], [evaluation(trace, reason=_NASTY)], name=_NASTY, notes=(_NASTY,)).html
    assert "alert(" not in html.replace(
        "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;", ""
    )


def test_the_policy_forbids_every_other_script_and_any_network(opened):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', opened().html)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_same_values_give_the_same_file(opened):
    trace = agent_trace()
    assert opened([trace], [evaluation(trace)]).html == opened([trace], [evaluation(trace)]).html


def test_integers_are_shown_with_all_their_digits(opened):
    trace = agent_trace(calls=(ToolCall("c1", "find", {"order": 12345678901234567890}, 2**70),))
    step = next(x for x in opened([trace]).turn(trace)["steps"] if x["kind"] == "tool")
    assert ("12345678901234567890" in step["args"], step["result"]) == (True, str(2**70))


def test_a_lone_surrogate_spoils_nothing(opened):
    trace = agent_trace(
        user_input="\ud800 hello", calls=(ToolCall("c1", "x", {"a": "\udfff"}, "y"),)
    )
    assert "hello" in opened([trace]).turn(trace)["input"]


def test_a_long_text_is_cut_and_says_by_how_much(opened):
    trace = agent_trace(final_output="a" * 100_000)
    text = opened([trace]).turn(trace)["output"]
    assert len(text) < 21_000
    assert "80,000 characters are left out" in text


@pytest.mark.slow
def test_past_its_size_what_passes_is_listed_without_steps(opened):
    turns = [
        agent_trace(x, final_output=" ".join(str(y * x) for y in range(3_000)))
        for x in range(1, 200)
    ]
    failing = turns[-1]
    found = opened(
        turns, [evaluation(x, value=float(x is not failing)) for x in turns], max_bytes=300_000
    )
    rows = found.index["turns"]
    assert (rows[0]["id"], rows[0]["at"]) == (failing.id, [0, 0])
    assert rows[-1]["at"] is None
    assert len(found.html) < 600_000
    assert "are left out" in found.index["notes"][0]


def test_texts_are_redacted_where_that_is_asked_for(opened):
    trace = agent_trace(
        user_input="I am a@b.example",
        calls=(ToolCall("c1", "mail", {"to": "a@b.example"}, "a@b.example"),),
    )
    score = evaluation(
        trace, outcome=Score(0.1, "It wrote to a@b.example", {"task": "mail a@b.example"})
    )
    found = opened([trace], [score], redact=lambda text: text.replace("a@b.example", "[REDACTED]"))
    assert "a@b.example" not in str(found.turn(trace)) + str(found.index)


@pytest.mark.slow
def test_a_page_is_never_in_memory_whole():
    noise = random.Random(1)
    turns = [agent_trace(x, final_output=noise.randbytes(9_000).hex()) for x in range(400)]
    results = report.Results(name="a run", traces=turns)
    tracemalloc.start()
    size = sum(map(len, report.page(results)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size / 2


def test_only_its_owner_can_read_the_file(tmp_path):
    path = tmp_path / "report.html"
    report.save(path, report.Results(name="a run"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_test_leads_to_the_turns_of_its_trials(opened):
    turns = [agent_trace(x) for x in (1, 2)]
    trials = [
        report.Trial(status="pass", trace_ids=turns[0].trace_ids),
        report.Trial(status="fail", trace_ids=(turns[1].id,)),
    ]
    found = opened(turns, cases=[report.Case(name="oslo", status="fail", trials=trials)])
    [row] = found.index["cases"]
    of_trials = [
        [found.index["turns"][place]["id"] for place in x["turns"]]
        for x in found.detail(row)["trials"]
    ]
    assert of_trials == [[turns[0].id], [turns[1].id]]


def test_a_turn_stands_beside_that_of_the_same_question_in_the_baseline(opened):
    own, other = agent_trace(1), agent_trace(9, user_input="How warm is it in Oslo,   question 1?")
    baseline = report.Results(name="before", traces=[other], scores=[evaluation(other, value=0.1)])
    found = opened([own], [evaluation(own)], baseline=baseline)
    [row] = found.index["turns"]
    assert found.index["baseline"]["turns"][row["was"]]["id"] == other.id


def test_questions_that_were_asked_twice_pair_nothing(opened):
    own, *others = (
        agent_trace(1),
        agent_trace(8, user_input="How?"),
        agent_trace(9, user_input="How?"),
    )
    found = opened(
        [replace(own, user_input="How?")], baseline=report.Results(name="before", traces=others)
    )
    assert "was" not in found.index["turns"][0]


def test_a_turn_stands_beside_that_of_the_same_test_and_trial(opened):
    own, other = (
        [agent_trace(x, user_input="How?") for x in (1, 2)],
        [agent_trace(x, user_input="How?") for x in (8, 9)],
    )
    cases = [_case_of(turns) for turns in (own, other)]
    baseline = report.Results(name="before", traces=other, cases=[cases[1]])
    found = opened(own, cases=[cases[0]], baseline=baseline).index
    pairs = {x["id"]: found["baseline"]["turns"][x["was"]]["id"] for x in found["turns"]}
    assert pairs == {own[0].id: other[0].id, own[1].id: other[1].id}


def _case_of(turns):
    return report.Case(
        name="x",
        status="pass",
        trials=[report.Trial(status="pass", trace_ids=x.trace_ids) for x in turns],
    )


def test_what_a_person_gave_is_shown_and_is_no_verdict_of_the_turn(opened):
    trace = agent_trace()
    given = evaluation(
        trace, "helpful", value=0, outcome=Annotation(0, "fail", "no"), scale=None, threshold=None
    )
    given = replace(
        given, evaluator=Evaluator("HUMAN", "helpful", "", source="human", author="ada")
    )
    found = opened([trace], [evaluation(trace), given])
    [row] = found.index["turns"]
    by = [(x.get("source"), x.get("author")) for x in found.turn(trace)["scores"]]
    assert (row["state"], by) == ("pass", [(None, None), ("human", "ada")])


def test_the_turns_that_pass_have_an_interval_over_sessions(opened):
    turns = [agent_trace(x, session_id=f"s{x // 2}") for x in range(8)]
    rate = opened(turns, [evaluation(x) for x in turns]).index["turn_rate"]
    assert (rate["value"], rate["n"]) == (1.0, 4)


def test_a_test_that_fails_comes_before_one_that_passes(opened):
    cases = [report.Case(name=x, status=x) for x in ("pass", "skipped", "fail", "error")]
    assert [x["name"] for x in opened(cases=cases).index["cases"]] == [
        "fail",
        "error",
        "skipped",
        "pass",
    ]


def test_the_share_of_turns_that_pass_is_as_sure_as_that_of_a_metric(opened):
    turns = [agent_trace(x) for x in range(4)]
    found = opened(turns, [evaluation(x) for x in turns]).index
    assert found["turn_rate"]["low"] == found["metrics"][0]["rate"]["low"]
