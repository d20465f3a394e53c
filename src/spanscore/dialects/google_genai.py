"""Google's Gen AI SDK under OpenTelemetry's instrumentation: functions the SDK itself calls, one attribute a value."""

from spanscore.dialects import _gemini, semconv
from spanscore.dialects._base import Context, Dialect, Facts, text
from spanscore.dialects._json import opened
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.trace import Tool

_SCOPE = "opentelemetry.instrumentation.google_genai"
_PARAMETER, _RETURN = "code.function.parameters.", "code.function.return"
_VALUE, _TYPE = ".value", ".type"


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans: a model call, which may hold the tools that the SDK ran for it, or such a tool."""
    facts = semconv.read(span, context)
    if facts["kind"] == "tool":
        _read_function(span.attributes, facts)
    elif facts["kind"] == "model":
        _gemini.without_envelopes(facts, objects=True)
    return facts


def _read_function(attributes: Attributes, facts: Facts) -> None:
    """What a function was called with and returned, before version 1.0 by attributes of its own."""
    if facts.get("arguments") is None:
        given = {
            key.removeprefix(_PARAMETER).removesuffix(_VALUE): _given(value, attributes.get(_typed(key)))
            for key, value in attributes.items()
            if key.startswith(_PARAMETER) and key.endswith(_VALUE)
        }
        empty = attributes.get("code.args.positional.count") == attributes.get("code.args.keyword.count") == 0
        facts["arguments"] = given if given or empty else None
    if not facts.get("has_result") and _RETURN + _VALUE in attributes:
        facts["result"] = _python(attributes[_RETURN + _VALUE], attributes.get(_RETURN + _TYPE))
        facts["has_result"] = True
    if facts["tool_name"] is not None:
        facts["tools"] = (Tool(facts["tool_name"], text(attributes.get("gen_ai.tool.description"))),)


def _typed(key: str) -> str:
    return key.removesuffix(_VALUE) + _TYPE


def _given(value: Value, kind: Value) -> Json:
    """An argument: text stays text, even where it is JSON, for it was given as text."""
    return value if isinstance(value, str) and kind == "str" else _python(value, kind)


def _python(value: Value, kind: Value) -> Json:
    """A recorded value: text as it was, numbers as they are, all else as JSON."""
    return opened(value, scalars=kind != "str")


DIALECT = Dialect("google_genai", read, scopes=(_SCOPE,), marks=(b"google_genai",))
