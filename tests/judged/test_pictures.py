"""Pictures of the user's input, sent to a judge that sees."""

from dataclasses import replace

import pytest
from judge_harness import GOOD, PROMPT, Verdict, ask
from judged_harness import engine_for, evaluate, graded, recorded
from obliging_model import ObligingModel
from rubric_model import said
from scripted_server import ScriptedServer, answer

from spanscore.judge import estimate
from spanscore.judge.cache import MemoryCache, question_key
from spanscore.judge.transcript import PICTURE_TOKENS, render
from spanscore.model.trace import Attachment, Session

CHART, MAP = "https://files.example.com/chart.png", "http://files.example.com/map.png"
ATTACHED = (
    Attachment("image", "image/png", 1200, CHART),
    Attachment("image", "image/png", 1200),
    Attachment("image", uri="file-7"),
    Attachment("audio", uri="https://files.example.com/said.mp3"),
    Attachment("image", uri=MAP),
)


class Seeing:
    """Answers what an obliging model answers to the texts alone."""

    def __init__(self):
        self._model = ObligingModel()

    def __call__(self, request):
        return self._model(flat(request))


def flat(request):
    """A request with the texts alone."""
    messages = [{**x, "content": text_of(x["content"])} for x in request["messages"]]
    return {**request, "messages": messages}


def text_of(content):
    if isinstance(content, str):
        return content
    return content[0]["text"]


def urls(request):
    content = request["messages"][1]["content"]
    return [x["image_url"]["url"] for x in content if isinstance(x, dict) and "image_url" in x]


def judged(cache=None, attached=ATTACHED, **judge):
    """The requests, and the score, for a trace with pictures."""
    trace = replace(recorded()[0], attachments=attached)
    with ScriptedServer(Seeing()) as server:
        engine = engine_for(server, metrics={"task_completion": {}}, cache=cache, **judge)
        found = evaluate(engine, trace)["task_completion"]
    assert found.status == "scored"
    return server.calls, found


def test_pictures_with_an_address_follow_the_question_and_all_are_named():
    calls, _ = judged(attachments=True)
    assert [urls(x) for x in calls] == [[CHART, MAP]] * len(calls)
    text = text_of(calls[0]["messages"][1]["content"])
    assert all(f"Attached: {x}" in text for x in ATTACHED)


def test_without_the_setting_no_picture_is_sent():
    calls, _ = judged()
    assert all(isinstance(x["messages"][1]["content"], str) for x in calls)


def test_the_score_tells_whether_the_judge_saw_pictures():
    (_, seen), (_, unseen) = judged(attachments=True), judged()
    (_, none) = judged(attached=(), attachments=True)
    assert seen.evaluator.prompt_hash != unseen.evaluator.prompt_hash
    assert none.evaluator.prompt_hash == unseen.evaluator.prompt_hash


def test_no_answer_without_pictures_stands_for_one_with_them():
    cache = MemoryCache(100)
    with ScriptedServer(answer(GOOD)) as server:
        for pictures in ((), (CHART,), (MAP,), (), (CHART,), (MAP,)):
            ask(server, prompt=replace(PROMPT, pictures=pictures), cache=cache)
    assert [urls(x) for x in server.calls] == [[], [CHART], [MAP]]


def test_a_recorded_answer_is_to_the_same_pictures():
    keys = {question_key(replace(PROMPT, pictures=x), {}) for x in ((), (CHART,), (MAP,))}
    assert len(keys) == 3


@pytest.mark.parametrize(("max_tokens", "count"), [(2199, 0), (2200, 1), (4400, 2), (32_000, 2)])
def test_pictures_take_half_of_the_tokens_at_most(max_tokens, count):
    trace = replace(recorded()[0], attachments=ATTACHED)
    found = render(trace, max_tokens=max_tokens, pictures=True)
    assert found.pictures == (CHART, MAP)[:count]
    assert count * PICTURE_TOKENS < found.tokens <= max_tokens


def test_a_session_has_the_pictures_of_all_its_turns():
    turns = [
        replace(x, attachments=(Attachment("image", uri=uri),))
        for x, uri in zip(recorded(), (CHART, MAP), strict=False)
    ]
    found = render(Session("s", tuple(turns)), max_tokens=32_000, pictures=True)
    assert found.pictures == (CHART, MAP)


def test_an_address_in_which_something_is_redacted_is_not_sent():
    private = Attachment("image", uri="https://files.example.com/anna@example.com/chart.png")
    calls, _ = judged(attached=(private, ATTACHED[0]), attachments=True)
    assert urls(calls[0]) == [CHART]
    calls, _ = judged(attached=(private,), attachments=True, redact={"enabled": False})
    assert urls(calls[0]) == [private.uri]


def test_a_picture_counts_in_what_a_call_is_expected_to_take():
    sizes = [
        estimate(replace(PROMPT, pictures=x), Verdict, "openai/gpt-4o").input_tokens
        for x in ((), (CHART, MAP))
    ]
    assert sizes[1] - sizes[0] == 2 * PICTURE_TOKENS


def test_the_rubric_is_asked_with_the_pictures():
    traces = [replace(recorded()[0], attachments=ATTACHED)]
    hashes = set()
    for attachments in (True, False):
        with ScriptedServer(lambda request: said(flat(request))) as server:
            found = graded(server, traces=traces, attachments=attachments).values()
        assert urls(server.calls[0]) == ([CHART, MAP] if attachments else [])
        hashes |= {x.evaluator.prompt_hash for x in found if x.status == "scored"}
    assert len(hashes) == 2
