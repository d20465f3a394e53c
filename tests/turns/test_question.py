"""Which text is the turn's question, where several spans tell one."""

import json

import pytest
from turn_spans import ASK, agent, chat, span, text

from spanscore.rebuild import rebuild


def test_a_question_in_the_form_of_messages_is_the_question_and_not_what_these_say():
    question = json.dumps([{"role": "user", "content": "Paris or Berlin?"}])
    (trace,) = rebuild(
        [agent(gen_ai__input__messages=json.dumps([ASK])), chat("1", 1, [text("user", question)])]
    )
    assert trace.user_input == question


@pytest.mark.parametrize(
    ("prompt", "question"),
    [("New task:\nThanks!", "Thanks!"), ("Say Thanks! now", "Say Thanks! now")],
)
def test_a_single_word_given_to_an_agent_is_the_question_where_it_is_a_line_of_the_prompt(
    prompt, question
):
    called = span(
        "a", end=100, traceloop__span__kind="agent", traceloop__entity__input=json.dumps("Thanks!")
    )
    (trace,) = rebuild([called, chat("1", 1, [text("user", prompt)])])
    assert trace.user_input == question
