"""Which kind of step a span is, by its operation or by what it contains."""

from typing import Final

from spanscore.dialects.conventions.semconv.events import Events
from spanscore.dialects.forms.values import text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_COMPLETION,
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OPERATION_NAME,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_PROMPT,
    GEN_AI_REQUEST_MODEL,
    GEN_AI_RESPONSE_MODEL,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_NAME,
    GEN_AI_USAGE_COMPLETION_TOKENS,
    GEN_AI_USAGE_INPUT_TOKENS,
    GEN_AI_USAGE_OUTPUT_TOKENS,
    GEN_AI_USAGE_PROMPT_TOKENS,
    MCP_METHOD_NAME,
)
from spanscore.dialects.keys.openinference import (
    INPUT_VALUE,
    LLM_INPUT_MESSAGES,
    LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    LLM_MODEL_NAME,
    LLM_TOKEN_COUNT_COMPLETION,
    LLM_TOKEN_COUNT_PROMPT,
    OUTPUT_VALUE,
)
from spanscore.model.span import Attributes
from spanscore.model.step import StepKind

_OPERATIONS: Final[dict[str, StepKind]] = {
    "chat": "model",
    "generate_content": "model",
    "text_completion": "model",
    "completion": "model",
    "fetch_response": "model",
    "invoke_agent": "agent",
    "handle_conversation_turn": "agent",
    "invoke_workflow": "workflow",
    "execute_task": "workflow",
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "create_agent": "other",
    "embeddings": "other",
    "plan": "other",
    # from here on: names that are not in the conventions, and that emitters use
    **dict.fromkeys(("call_llm", "llm_call", "llm_request", "generate", "response"), "model"),
    **dict.fromkeys(("agent_call", "agent.run"), "agent"),
    **dict.fromkeys(
        ("agent_step", "invoke_graph", "invoke_swarm", "user_prompt", "workflow.run"), "workflow"
    ),
    **dict.fromkeys(("tool_call", "tool.execute"), "tool"),
    **dict.fromkeys(("execute_event_loop_cycle", "schedule_tool_calls", "system_prompt"), "other"),
    "vector_db_retrieve": "retrieval",
}

COUNTS = frozenset(
    {
        GEN_AI_USAGE_INPUT_TOKENS,
        GEN_AI_USAGE_OUTPUT_TOKENS,
        GEN_AI_USAGE_PROMPT_TOKENS,
        GEN_AI_USAGE_COMPLETION_TOKENS,
        LLM_TOKEN_COUNT_PROMPT,
        LLM_TOKEN_COUNT_COMPLETION,
    }
)
"""The numbers of tokens that people set on the span of a model's call, in either convention."""

FUNCTIONS = frozenset({INPUT_VALUE, OUTPUT_VALUE})
"""What a function took and returned; of a span that states no more it is a function's."""

_MESSAGES = frozenset({GEN_AI_INPUT_MESSAGES, GEN_AI_OUTPUT_MESSAGES})
_CONTENT = _MESSAGES | frozenset(
    {
        GEN_AI_PROMPT,
        GEN_AI_COMPLETION,
        LLM_MODEL_NAME,
        LLM_INPUT_MESSAGES,
        LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    }
)
"""What a span of an operation that is not known has only where it is a model's; the last ones are
OpenInference's.
"""

_OF_UNNAMED = _CONTENT | COUNTS | frozenset({GEN_AI_RESPONSE_MODEL})
"""What a span without an operation has only where it is a model's."""


def kind_of(attributes: Attributes, events: Events, *, is_whole: bool) -> StepKind:
    """The kind of a span's step; `is_whole`: none of its attributes was dropped.

    An operation decides where it is known. Else the span is of a tool that it names, or of a model
    where it contains what only a model's span does.
    """
    operation = attributes.get(GEN_AI_OPERATION_NAME)
    kind = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if kind is not None:
        return kind
    method = attributes.get(MCP_METHOD_NAME)
    if method is not None and method != "tools/call":
        return "other"  # MCP's transport
    if text(attributes.get(GEN_AI_TOOL_NAME)):
        return "tool"
    if operation is None and method is None:
        return _kind_of_unnamed(attributes, events, is_whole=is_whole)
    content = _CONTENT if is_whole else _MESSAGES
    return "model" if events or not content.isdisjoint(attributes) else "other"


def _kind_of_unnamed(attributes: Attributes, events: Events, *, is_whole: bool) -> StepKind:
    """The kind of a step by what its span contains, where that states no operation."""
    if GEN_AI_TOOL_CALL_ID in attributes:
        return "tool"
    content = _OF_UNNAMED if is_whole else _MESSAGES
    if events or GEN_AI_REQUEST_MODEL in attributes or not content.isdisjoint(attributes):
        return "model"
    return "workflow" if is_whole and not FUNCTIONS.isdisjoint(attributes) else "other"
