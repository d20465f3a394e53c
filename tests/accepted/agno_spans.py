"""What OpenLLMetry's instrumentation of Agno writes of agents, teams and tools.

Which attributes it has is in its source and tests (github.com/traceloop/openllmetry, packages/
opentelemetry-instrumentation-agno, Apache-2.0); the values are made up here. What a tool returned
is printed as pydantic prints Agno's result (agno 3.1), or as a dataclass does (agno 2).
"""

from accepted import ABSENT, Form, span

SCOPE = "opentelemetry.instrumentation.agno"
REST = "updated_session_state=None images=None videos=None audios=None files=None"


def agent(**more):
    said = {"traceloop.entity.input": "Where is parcel 7?", "traceloop.entity.output": "In Oslo."}
    named = {
        "traceloop.span.kind": "agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.request.model": "gpt-4o-mini",
    }
    tokens = {"gen_ai.usage.input_tokens": 260, "gen_ai.usage.output_tokens": 50}
    attributes = {"gen_ai.system": "agno", **named, **said, **tokens, "agno.run.id": "r1", **more}
    return span(attributes, scope=SCOPE, name="clerk.agent")


def tool(returned):
    attributes = {
        "gen_ai.system": "agno",
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "parcel_lookup",
        "gen_ai.tool.name": "parcel_lookup",
        "tool.description": "Find a parcel.",
        "traceloop.entity.input": {"number": "00042"},
        **({} if returned is None else {"traceloop.entity.output": returned}),
    }
    return span(attributes, scope=SCOPE, name="parcel_lookup.tool", parent="s1", at=2)


def returned(name, printed, result, error=None):
    facts = {
        "calls": ["parcel_lookup"],
        "arguments": [{"number": "00042"}],
        "results": [result],
        "errors": [error],
    }
    return Form(name, [agent(), tool(printed)], facts)


TEAM = {
    "gen_ai.system": "agno",
    "traceloop.span.kind": "workflow",
    "agno.team.name": "desk",
    "traceloop.entity.input": "Should we move?",
    "traceloop.entity.output": "Yes.",
}
MEMBER = {
    "gen_ai.system": "agno",
    "traceloop.span.kind": "agent",
    "gen_ai.agent.name": "accountant",
    "traceloop.entity.input": "What does moving cost?",
    "traceloop.entity.output": "Little.",
}
EARLY = {
    "gen_ai.system": "agno",
    "gen_ai.agent.name": "clerk",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": "Where is parcel 7?",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "In Oslo.",
    "gen_ai.usage.input_tokens": 9,
    "gen_ai.usage.output_tokens": 3,
}
ANSWERED = {"input": "Where is parcel 7?", "output": "In Oslo.", "agent": "clerk"}
TEAMWORK = {"input": "Should we move?", "output": "Yes.", "agent": "desk", "turns": 1}
SAID = "{'found': True, 'at': \"Oslo's port\"}"
DATA = (
    "FunctionExecutionResult(status='{}', result={}, error={}, updated_session_state=None,"
    " images=None, files=None)"
)

FORMS = [
    Form(
        "an agent's run",
        [agent()],
        {**ANSWERED, "tokens": (260, 50), "session": ABSENT, "turns": 1},
    ),
    Form(
        "a run of early versions",
        [span(EARLY, scope=SCOPE, name="agno.agent.clerk")],
        {**ANSWERED, "tokens": (9, 3)},
    ),
    returned(
        "a text",
        f"status='success' result='In Oslo, error=0' error=None {REST}",
        "In Oslo, error=0",
    ),
    returned(
        "a text with quotes",
        f"status='success' result=\"It's here\" error=None {REST}",
        "It's here",
    ),
    returned(
        "digits that are a name", f"status='success' result='00042' error=None {REST}", "00042"
    ),
    returned(
        "an object",
        f"status='success' result={SAID} error=None {REST}",
        {"found": True, "at": "Oslo's port"},
    ),
    returned("null", f"status='success' result=None error=None {REST}", None),
    returned(
        "a failure",
        f"status='failure' result=None error='no such parcel' {REST}",
        ABSENT,
        "no such parcel",
    ),
    returned("a dataclass", DATA.format("success", "'In Oslo'", "None"), "In Oslo"),
    returned(
        "a dataclass that failed",
        DATA.format("failure", "None", "'timed out'"),
        ABSENT,
        "timed out",
    ),
    returned("a bare text", "In Oslo", "In Oslo"),
    returned("nothing", None, ABSENT),
    Form(
        "a team and its member",
        [
            span(TEAM, scope=SCOPE, name="desk.team"),
            span(MEMBER, scope=SCOPE, name="m.agent", parent="s1", at=2),
        ],
        TEAMWORK,
    ),
    Form(
        "another framework's agent, as OpenInference writes it",
        [
            span(
                {
                    "openinference.span.kind": "AGENT",
                    "input.value": "Where is parcel 7?",
                    "output.value": "In Oslo.",
                    "agno.agent.id": "a-1",
                    "agno.session.id": "s-1",
                    "agno.user.id": "u-1",
                    "llm.token_count.prompt": 12,
                    "llm.token_count.completion": 4,
                },
                scope="openinference.instrumentation.agno",
                name="clerk.run",
            )
        ],
        {
            "input": "Where is parcel 7?",
            "output": "In Oslo.",
            "session": "s-1",
            "user": "u-1",
            "tokens": (12, 4),
        },
    ),
    Form("a team alone", [span(TEAM, scope=SCOPE, name="desk.team")], TEAMWORK),
]
