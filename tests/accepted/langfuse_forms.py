"""What the tables of Langfuse's forms share: a model's span, an agent's around others, a tool's."""

from accepted import span
from message_form import ANSWER, ASK, GIVEN, QUESTION, RESULT, SAID

TYPE, INPUT, OUTPUT = (
    "langfuse.observation.type",
    "langfuse.observation.input",
    "langfuse.observation.output",
)
BOTH = {"input": QUESTION, "output": ANSWER}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": [ASK],
    "gen_ai.output.messages": [SAID],
}
RAN = {"calls": ["stock"], "arguments": [GIVEN], "results": [RESULT]}


def generation(attributes=(), **more):
    return span(
        {TYPE: "generation", INPUT: [ASK], OUTPUT: SAID, **dict(attributes)},
        **{"scope": "langfuse-sdk", **more},
    )


def around(*inner):
    """An agent's span with others in it, whose times are theirs."""
    return [
        span({TYPE: "agent", INPUT: QUESTION, OUTPUT: ANSWER}, name="clerk", scope="langfuse-sdk"),
        *inner,
    ]


def tool(attributes, **more):
    return span(attributes, **{"name": "stock", "parent": "s1", "at": 2, **more})
