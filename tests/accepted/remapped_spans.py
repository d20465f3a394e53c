"""Spans of other emitters, and of older SDKs of its own, as LangWatch's collector takes them.

The attributes are those that its extractors read and their tests send (langwatch/langwatch,
langwatch/src/server/app-layer/traces/canonicalisation: extractors and __tests__).
"""

from accepted import ABSENT, Form, span
from message_form import ANSWER, ASK, GIVEN, QUESTION, RESULT, RULES, SAID

TYPE, INPUT, OUTPUT = "langwatch.span.type", "langwatch.input", "langwatch.output"
BOTH = {"input": QUESTION, "output": ANSWER}
CHAT = {"gen_ai.operation.name": "chat"}
SYSTEM = {"role": "system", "content": RULES}
DOCUMENT = {"document_id": "d1", "content": "Four lamps."}
TEXT = [{"text": QUESTION}]
PROMPT = {"ai.prompt": {"prompt": QUESTION}}
MASTRA, RUN = "@mastra/otel", {"mastra.span.type": "agent_run"}
REQUEST = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
CANDIDATES = {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}}]}


def inside(attributes, **more):
    """A span in that of an agent."""
    around = span({"gen_ai.operation.name": "invoke_agent"})
    return [around, span(attributes, parent="s1", at=2, **more)]


def given(*messages):
    return {**CHAT, "gen_ai.input.messages": list(messages), "gen_ai.output.messages": [SAID]}


FORMS = [
    *(
        Form(
            f"one message in and out of {kind}",
            [span({TYPE: kind, INPUT: ASK, OUTPUT: {"type": "json", "value": SAID}})],
            BOTH,
        )
        for kind in ("agent", "workflow", "llm")
    ),
    # LangWatch's own
    Form(
        "a list of one text without an envelope", [span({INPUT: [QUESTION], OUTPUT: ANSWER})], BOTH
    ),
    Form(
        "an output that is a list of texts",
        [
            span(
                {
                    TYPE: "llm",
                    INPUT: {"type": "text", "value": QUESTION},
                    OUTPUT: {"type": "json", "value": ["reasoning: I count.", "answer: four"]},
                }
            )
        ],
        {"output": "reasoning: I count.\nanswer: four"},
    ),
    *(
        Form(
            f"documents under {key}",
            inside({TYPE: "rag", INPUT: QUESTION, key: [DOCUMENT]}),
            {"documents": [DOCUMENT], "query": QUESTION},
        )
        for key in ("langwatch.rag.contexts", "langwatch.rag_contexts")
    ),
    *(
        Form(
            f"a tool's error under {key}",
            inside({TYPE: "tool", INPUT: {"type": "json", "value": GIVEN}, key: "It is locked."}),
            {"errors": ["It is locked."], "arguments": [GIVEN]},
        )
        for key in ("span.error.message", "exception.message")
    ),
    Form(
        "a tool without an error",
        inside({TYPE: "tool", INPUT: {"type": "json", "value": GIVEN}, OUTPUT: "4"}),
        {"errors": [None], "results": [4]},
    ),
    # the conventions
    *(
        Form(
            f"an agent's name under {key}",
            [span({"gen_ai.operation.name": "invoke_agent", key: "clerk"})],
            {"agent": "clerk"},
        )
        for key in ("gen_ai.agent.name", "gen_ai.agent", "agent.name")
    ),
    Form(
        "an operation that is called tool",
        inside(
            {
                "gen_ai.operation.name": "tool",
                "gen_ai.tool.name": "stock",
                "gen_ai.tool.call.id": "c1",
            }
        ),
        {"calls": ["stock"], "ids": ["c1"]},
    ),
    Form(
        "content that is a list of bare texts",
        [span(given({"role": "user", "content": TEXT}))],
        BOTH,
    ),
    Form(
        "a prompt and a completion that are bare texts",
        [
            span(
                {
                    "gen_ai.prompt": [{"role": "user", "content": TEXT}],
                    "gen_ai.completion": [{"text": ANSWER}],
                }
            )
        ],
        BOTH,
    ),
    Form(
        "a list of contents that is an object by number",
        [
            span(
                given(
                    {"role": "user", "content": {"0": {"text": "Is it"}, "1": {"text": "there?"}}}
                )
            )
        ],
        {"input": "Is it\nthere?"},
    ),
    Form(
        "instructions whose text is called content",
        [span(given({"role": "system", "content": [{"type": "text", "content": RULES}]}, ASK))],
        BOTH | {"system": RULES},
    ),
    Form(
        "wrapped messages beside others",
        [span({"gen_ai.prompt": [{"message": {"role": "user", "content": "Hello."}}, SAID, ASK]})],
        {"input": QUESTION, "history": [("user", "Hello."), ("assistant", ANSWER)]},
    ),
    # OpenInference and OpenLLMetry
    Form(
        "documents in one attribute",
        inside(
            {
                "openinference.span.kind": "RETRIEVER",
                "retrieval.documents": [{"document": DOCUMENT}, {"score": 0.5}],
            }
        ),
        {"documents": [DOCUMENT]},
    ),
    Form(
        "an entity that is a model",
        [
            span(
                {
                    "traceloop.span.kind": "llm",
                    "traceloop.entity.input": [ASK],
                    "traceloop.entity.output": [SAID],
                }
            )
        ],
        BOTH | {"said": ANSWER},
    ),
    # AI SDK
    Form(
        "an answer in one attribute for all",
        [
            span(
                {**PROMPT, "ai.response": {"text": ANSWER, "object": "{}"}},
                scope="ai",
                name="ai.generateText",
            )
        ],
        BOTH,
    ),
    Form(
        "an object in one attribute for all",
        [
            span(
                {**PROMPT, "ai.response": {"object": '{"left": 4}'}},
                scope="ai",
                name="ai.generateObject",
            )
        ],
        {"output": '{"left": 4}'},
    ),
    Form(
        "an object beside an empty text",
        [
            span(
                {**PROMPT, "ai.response.text": "", "ai.response.object": RESULT},
                name="ai.streamObject",
                scope="opencode",
            )
        ],
        {"output": '{"left": 4}'},
    ),
    Form(
        "a prompt that is one text",
        [
            span(
                {"ai.prompt": f'"{QUESTION}"', "ai.response.text": ANSWER},
                scope="ai",
                name="ai.generateText",
            )
        ],
        BOTH,
    ),
    Form(
        "a tool of a tracer of another name",
        inside(
            {"ai.toolCall.name": "stock", "ai.toolCall.args": GIVEN, "ai.toolCall.result": RESULT},
            scope="opencode",
            name="ai.toolCall",
        ),
        {"calls": ["stock"], "arguments": [GIVEN], "results": [RESULT]},
    ),
    # Mastra
    *(
        Form(
            f"an agent's span alone, scope {scope}",
            [
                span(
                    {
                        **RUN,
                        "mastra.agent_run.input": [
                            SYSTEM,
                            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
                        ],
                        "mastra.agent_run.output": {"text": ANSWER, "files": []},
                        "mastra.metadata.threadId": "s-1",
                    },
                    scope=scope,
                )
            ],
            BOTH | {"session": "s-1"},
        )
        for scope in (MASTRA, "@mastra/otel-bridge", "an.exporter")
    ),
    Form(
        "an agent's span alone with an empty text",
        [
            span(
                {**RUN, "mastra.agent_run.input": [ASK], "mastra.agent_run.output": {"text": ""}},
                scope=MASTRA,
            )
        ],
        {"output": ABSENT},
    ),
    *(
        Form(
            f"a step whose model is in its {name}",
            [
                span(RUN, scope=MASTRA),
                span({"mastra.span.type": "model_step", **more}, scope=MASTRA, parent="s1", at=2),
            ],
            {"model": "m-1"},
        )
        for name, more in (
            ("request", {"mastra.model_step.input": {"body": {"model": "m-1", "messages": [ASK]}}}),
            ("metadata", {"mastra.metadata.modelMetadata": {"modelId": "m-1"}}),
        )
    ),
    Form(
        "an agent and a step",
        [
            span({**RUN, "mastra.agent_run.output": {"text": f"I look. {ANSWER}"}}, scope=MASTRA),
            span(
                {"mastra.span.type": "model_step", "mastra.model_step.output": {"text": ANSWER}},
                scope=MASTRA,
                parent="s1",
                at=2,
            ),
        ],
        {"output": ANSWER, "said": ANSWER},
    ),
    # Google's ADK
    Form(
        "a response as Gemini's API has it",
        [
            span(
                {
                    "gen_ai.operation.name": "generate_content",
                    "gcp.vertex.agent.llm_request": REQUEST,
                    "gcp.vertex.agent.llm_response": CANDIDATES,
                }
            )
        ],
        BOTH,
    ),
    # GitHub Copilot
    Form(
        "a user's digest",
        [span({**given(ASK), "enduser.pseudo.id": "a1b2"}, scope="github.copilot")],
        BOTH | {"user": "a1b2"},
    ),
    Form(
        "a user's digest of another emitter",
        [span({**given(ASK), "enduser.pseudo.id": "a1b2"}, scope="a.tracer")],
        BOTH | {"user": ABSENT},
    ),
]
