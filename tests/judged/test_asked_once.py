"""What was answered once is not asked again, with whatever other questions it is asked for the next
time.
"""

import json

import pytest
from judged_harness import engine_for, evaluate, recorded, spent
from obliging_model import ObligingModel, asked_for
from scripted_server import ScriptedServer, answer

from spanscore.judge.cache import MemoryCache

FIRST = {"task_completion": {}, "confidence": {}}


def asked_after(first, then, plans=("fused", "fused"), cases=(0, 0)):
    """What the calls ask for that measuring `then` makes after `first`, and what it finds; one
    cache for both.
    """
    with ScriptedServer(ObligingModel()) as server:
        cache = MemoryCache(1000)
        evaluate(engine_for(server, plans[0], metrics=first, cache=cache), recorded()[cases[0]])
        before = len(server.calls)
        found = evaluate(
            engine_for(server, plans[1], metrics=then, cache=cache), recorded()[cases[1]]
        )
    return [asked_for(x) for x in server.calls[before:]], found


def test_a_metric_whose_questions_others_had_asked_costs_nothing():
    asked, found = asked_after(None, FIRST)

    assert (asked, spent(found).calls, spent(found).cached > 0) == ([], 0, True)


def test_more_metrics_ask_only_what_is_new():
    asked, found = asked_after(FIRST, None)

    assert {x.status for x in found.values()} == {"scored"}
    assert asked == [
        {"plan", "verdicts", "tool_correctness", "argument_correctness"},
        {"step_efficiency", "plan_adherence", "plan_quality"},
    ]


@pytest.mark.slow
def test_what_was_asked_stage_by_stage_is_not_asked_together():
    assert asked_after(None, None, plans=("staged", "fused"))[0] == []


def test_of_what_was_asked_together_only_what_quotes_it_is_asked_stage_by_stage():
    asked, _ = asked_after(None, None, plans=("fused", "staged"))
    assert asked == [{"reason", "score"}] * 4


def test_the_scores_are_those_that_the_first_answers_gave():
    with ScriptedServer(ObligingModel(verdict="no")) as server:
        cache = MemoryCache(1000)
        first = evaluate(engine_for(server, "fused", cache=cache), recorded()[0])
        then = evaluate(engine_for(server, "fused", metrics=FIRST, cache=cache), recorded()[0])

    assert {name: x.outcome for name, x in then.items()} == {
        name: first[name].outcome for name in FIRST
    }


def test_another_trace_is_asked_about():
    asked, _ = asked_after(None, FIRST, cases=(0, 1))

    assert asked != []


class UnsureModel(ObligingModel):
    """Gives no usable answer about confidence, asked together with others or alone, until it
    `knows`.
    """

    knows = False

    def __call__(self, request):
        reply, asked = super().__call__(request), asked_for(request)
        if self.knows or not asked & {"confidence", "score"}:
            return reply
        content = json.loads(json.loads(reply.body)["choices"][0]["message"]["content"])
        return answer({**content, "confidence": "very sure", "score": "very high"})


def test_only_what_got_no_valid_answer_is_asked_for_the_next_time():
    model, cache = UnsureModel(), MemoryCache(1000)
    with ScriptedServer(model) as server:
        failed = evaluate(engine_for(server, "fused", cache=cache), recorded()[0])
        model.knows, before = True, len(server.calls)
        found = evaluate(engine_for(server, "fused", cache=cache), recorded()[0])

    assert (failed["confidence"].status, found["confidence"].status) == ("failed", "scored")
    assert [asked_for(x) for x in server.calls[before:]] == [{"reason", "score"}]
