"""The names of what the SDK writes: OpenTelemetry's GenAI attributes, and `spanscore.*` where there
is none.
"""

SCOPE = "spanscore.sdk"

OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
SESSION = "session.id"
USER = "user.id"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
ERROR_TYPE = "error.type"

TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_DESCRIPTION = "gen_ai.tool.description"
CALL_ID = "gen_ai.tool.call.id"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"

PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"

PLAN = "spanscore.plan"
EXPECTED_ANSWER = "spanscore.expected.answer"
EXPECTED_TOOLS = "spanscore.expected.tools"
EXPECTED_OUTCOMES = "spanscore.expected.outcomes"
EXPECTED_ORDER = "spanscore.expected.tool_sequence_matters"

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's environment variable: `false` or `NO_CONTENT` keeps texts, arguments and results
out of spans.
"""
