"""Questions, answers, instructions and earlier turns, in the outlines that need no tool."""

from message_form import ANSWER, ASK, QUESTION, RULES, SAID, Messages

FORMS: list[Messages] = [
    # plain
    Messages("text on both sides", QUESTION, ANSWER, {"input": QUESTION, "output": ANSWER}),
    Messages("a list of messages", [ASK], [SAID], {"input": QUESTION, "output": ANSWER}),
    Messages("a single message on both sides", ASK, SAID, {"input": QUESTION, "output": ANSWER}),
    Messages("a batch of one conversation", [[ASK]], SAID, {"input": QUESTION, "output": ANSWER}),
    Messages(
        "messages under a key",
        {"messages": [ASK]},
        {"messages": [SAID]},
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages("only an answer", None, SAID, {"input": None, "output": ANSWER}),
    Messages(
        "an answer as completion",
        [ASK],
        {"completion": ANSWER},
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "an answer as content alone",
        [ASK],
        {"content": ANSWER},
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "an answer as text alone", [ASK], {"text": ANSWER}, {"input": QUESTION, "output": ANSWER}
    ),
    Messages(
        "each message under a key",
        [{"message": ASK}],
        [{"message": SAID}],
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "messages of which some are under a key",
        [{"message": ASK}, SAID, ASK],
        SAID,
        {
            "input": QUESTION,
            "output": ANSWER,
            "history": [("user", QUESTION), ("assistant", ANSWER)],
        },
    ),
    Messages(
        "fields that are null",
        [{**ASK, "tool_call_id": None, "name": None, "tool_calls": None}],
        SAID,
        {"input": QUESTION, "calls": [], "output": ANSWER},
    ),
    Messages(
        "a placeholder among the messages",
        [ASK, {"type": "placeholder", "name": "history"}],
        SAID,
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "instructions as the first message",
        [{"role": "system", "content": RULES}, ASK],
        SAID,
        {"system": RULES, "input": QUESTION},
    ),
    Messages(
        "instructions as a developer's",
        [{"role": "developer", "content": RULES}, ASK],
        SAID,
        {"system": RULES, "input": QUESTION},
    ),
    Messages(
        "instructions in blocks",
        [{"role": "system", "content": [{"type": "text", "text": RULES}]}, ASK],
        SAID,
        {"system": RULES},
    ),
    Messages(
        "instructions in blocks that call their text content",
        [{"role": "system", "content": [{"type": "text", "content": RULES}]}, ASK],
        SAID,
        {"system": RULES},
    ),
    Messages(
        "roles in capitals",
        [{"role": "User", "content": QUESTION}],
        {"role": "Assistant", "content": ANSWER},
        {"input": QUESTION, "output": ANSWER},
    ),
    Messages(
        "an earlier turn",
        [ASK, SAID, {"role": "user", "content": "And the desk?"}],
        {"role": "assistant", "content": "No."},
        {
            "input": "And the desk?",
            "output": "No.",
            "history": [("user", QUESTION), ("assistant", ANSWER)],
        },
    ),
]
