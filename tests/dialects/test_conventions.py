"""What today's GenAI conventions have beside messages, tools and tokens."""

import json

import pytest
from one_span import read, span

from spanscore.rebuild import rebuild

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def said(*messages):
    return json.dumps(
        [
            {"role": role, "parts": [{"type": kind, "content": text}]}
            for role, kind, text in messages
        ]
    )


QUESTION = ("user", "text", "And where is it now?")


@pytest.mark.parametrize(
    ("before", "damaged"),
    [
        ([], ("history",)),
        ([("assistant", "text", "It is on its way.")], ("history",)),
        ([("assistant", "compaction", "Earlier: the order is 7.")], ()),
    ],
)
@pytest.mark.parametrize("has_agent", [True, False])
def test_a_compacted_history_is_whole_only_with_the_text_of_its_summary(before, damaged, has_agent):
    chat = CHAT | {
        "gen_ai.conversation.compacted": True,
        "gen_ai.input.messages": said(*before, QUESTION),
        "gen_ai.output.messages": said(("assistant", "text", "In Bern.")),
    }
    agent = AGENT | {"gen_ai.input.messages": said(QUESTION)}
    spans = [span(agent), span(chat, parent="1", span_id="2")] if has_agent else [span(chat)]
    (trace,) = rebuild(spans)
    assert trace.damaged == damaged
    if before:
        assert [x.text for x in trace.history] == [before[0][2]]
