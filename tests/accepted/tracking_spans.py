"""What MLflow takes from spans of other emitters.

Which forms it takes is in its tests (github.com/mlflow/mlflow, tests/tracing/otel, Apache-2.0); the
values are made up here.
"""

from accepted import Form, span

LAMINAR = "lmnr.span.type"
EVALUATION, EXECUTED, SCORED = (
    {LAMINAR: "EVALUATION"},
    {
        LAMINAR: "EXECUTOR",
        "lmnr.span.input": {"question": "Is it warm?"},
        "lmnr.span.output": '"Yes."',
    },
    {LAMINAR: "EVALUATOR", "lmnr.span.input": {"output": "Yes."}, "lmnr.span.output": "1"},
)
WARM = {"input": "Is it warm?", "output": "Yes.", "turns": 1}
VOLTAGENT, LIVEKIT = "@voltagent/core", "livekit-agents"
ASKED = {"role": "user", "content": "What can you do?"}
EARLIER = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi!"}]
RUN = {
    "span.type": "agent",
    "voltagent.operation_id": "op-1",
    "agent.messages": [*EARLIER, ASKED],
    "output": "A lot.",
}
COUNTED = {"usage.prompt_tokens": 100, "usage.completion_tokens": 50}
ASKS = {"entity.type": "agent", "input": "Is it warm?", "output": "Yes, 22 degrees."}
MODEL = {
    "span.type": "llm",
    "llm.messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Is it warm?"},
    ],
    "output": "Yes, 22 degrees.",
}
TOOL = {
    "span.type": "tool",
    "tool.name": "weather",
    "input": {"city": "Oslo"},
    "output": {"degrees": 22},
}
LIVE = [
    ("gen_ai.system.message", {"content": "You help."}),
    ("gen_ai.user.message", {"content": "Hello."}),
    ("gen_ai.assistant.message", {"content": "Hi!"}),
    ("gen_ai.user.message", {"content": "Is it warm?"}),
    ("gen_ai.choice", {"content": "Yes."}),
]
TURN = {
    "lk.agent_name": "voice",
    "lk.instructions": "You help.",
    "lk.user_input": "Hello.",
    "lk.response.text": "Hi!",
}
FUNCTION = {
    "lk.function_tool.name": "weather",
    "lk.function_tool.id": "call_1",
    "lk.function_tool.arguments": '{"city": "Oslo"}',
    "lk.function_tool.output": "22 degrees",
}
WEATHER = {"calls": ["weather"], "arguments": [{"city": "Oslo"}]}

FORMS = [
    Form("Laminar's executor", [span(EXECUTED, name="run")], WARM),
    Form(
        "Laminar's executor in its evaluation",
        [
            span(EVALUATION),
            span(EXECUTED, name="run", parent="s1", at=2),
            span(SCORED, name="right", parent="s1", at=3),
        ],
        WARM,
    ),
    Form(
        "Laminar's executor around a model",
        [
            span(EVALUATION),
            span(EXECUTED, name="run", parent="s1", at=2),
            span(
                {
                    LAMINAR: "LLM",
                    "gen_ai.request.model": "m-1",
                    "gen_ai.input.messages": [{"role": "user", "content": "Is it warm?"}],
                    "gen_ai.output.messages": [{"role": "assistant", "content": "Yes."}],
                },
                parent="s2",
                at=3,
            ),
        ],
        WARM | {"model": "m-1", "said": "Yes."},
    ),
    Form(
        "Laminar's pipeline",
        [
            span(
                {
                    LAMINAR: "PIPELINE",
                    "lmnr.span.input": '"Is it warm?"',
                    "lmnr.span.output": '"Yes."',
                }
            )
        ],
        WARM,
    ),
    Form(
        "LiveKit's model call by its operation",
        [
            span(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.usage.input_tokens": 5,
                    "gen_ai.usage.output_tokens": 2,
                    "lk.agent_name": "voice",
                },
                scope="livekit-agents",
                events=[
                    ("gen_ai.system.message", {"content": "You help."}),
                    ("gen_ai.user.message", {"content": "Is it warm?"}),
                    ("gen_ai.choice", {"content": "Yes."}),
                ],
            )
        ],
        {"input": "Is it warm?", "output": "Yes.", "system": "You help.", "tokens": (5, 2)},
    ),
    *(
        Form(
            f"VoltAgent's agent with its messages, scope {scope!r}",
            [span({**RUN, **COUNTED}, scope=scope)],
            {
                "input": "What can you do?",
                "output": "A lot.",
                "history": [("user", "Hello."), ("assistant", "Hi!")],
                "tokens": (100, 50),
            },
        )
        for scope in (VOLTAGENT, "")
    ),
    Form(
        "VoltAgent's agent, model and tool",
        [
            span(ASKS, scope=VOLTAGENT),
            *(span(x, scope=VOLTAGENT, parent="s1", at=i) for i, x in ((2, MODEL), (3, TOOL))),
        ],
        {
            **WEATHER,
            "input": "Is it warm?",
            "output": "Yes, 22 degrees.",
            "system": "You help.",
            "results": [{"degrees": 22}],
        },
    ),
    Form(
        "VoltAgent's model alone",
        [span(MODEL, scope=VOLTAGENT)],
        {
            "input": "Is it warm?",
            "output": "Yes, 22 degrees.",
            "said": "Yes, 22 degrees.",
            "system": "You help.",
        },
    ),
    Form(
        "VoltAgent's model alone by its entity, with tokens",
        [
            span(
                {
                    "entity.type": "llm",
                    "llm.messages": [ASKED],
                    "output": "A lot.",
                    "llm.usage.prompt_tokens": 20,
                    "llm.usage.completion_tokens": 5,
                },
                scope=VOLTAGENT,
            )
        ],
        {"input": "What can you do?", "said": "A lot.", "tokens": (20, 5)},
    ),
    Form(
        "VoltAgent's conversation",
        [span({**RUN, "voltagent.conversation_id": "c-1"}, scope=VOLTAGENT)],
        {"session": "c-1"},
    ),
    Form(
        "LiveKit's model call by its events",
        [
            span(
                {
                    "gen_ai.request.model": "gpt-4o-mini",
                    "lk.retry_count": 0,
                    "gen_ai.usage.input_tokens": 5,
                },
                scope=LIVEKIT,
                name="llm_request",
                events=LIVE,
            )
        ],
        {
            "input": "Is it warm?",
            "output": "Yes.",
            "system": "You help.",
            "history": [("user", "Hello."), ("assistant", "Hi!")],
            "model": "gpt-4o-mini",
        },
    ),
    Form(
        "LiveKit's turn and tool",
        [
            span(TURN, scope=LIVEKIT, name="agent_turn"),
            span(FUNCTION, scope=LIVEKIT, name="function_tool", parent="s1", at=2),
        ],
        {
            **WEATHER,
            "input": "Hello.",
            "output": "Hi!",
            "agent": "voice",
            "ids": ["call_1"],
            "results": ["22 degrees"],
        },
    ),
]
