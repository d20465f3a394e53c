"""The order in which dialects claim spans, in one place."""

from collections.abc import Iterable

from spanscore.dialects.dialect import Dialect

ORDER = (
    "pydantic_ai",
    "vercel_ai",
    "google_adk",
    "google_genai",
    "strands",
    "bedrock",
    "livekit",
    "pipecat",
    "gemini_cli",
    "codex",
    "copilot",
    "mastra",
    "voltagent",
    "braintrust",
    "langfuse",
    "mlflow",
    "genkit",
    "llama_index",
    "agent_framework",
    "semantic_kernel",
    "autogen",
    "haystack",
    "logfire",
    "openinference",
    "langwatch",
    "laminar",
    "langsmith",
    "litellm",
    "claude_code",
    "openlit",
    "agentops",
    "openai_agents",
    "spring_ai",
    "quarkus",
    "sentry",
    "openllmetry",
    "semconv",
)
"""The names of the dialects whose place matters: one that extends another, or borrows its
attributes, is before it.

A dialect with a scope or an attribute of its own is before those that have to look at a whole span.
"""

_PLACES = {name: place for place, name in enumerate(ORDER)}


def in_order(dialects: Iterable[Dialect]) -> tuple[Dialect, ...]:
    """Dialects in the order in which they claim spans: by name those that `ORDER` lacks, then as
    `ORDER` has them.
    """
    return tuple(sorted(dialects, key=lambda x: (_PLACES.get(x.name, -1), x.name)))
