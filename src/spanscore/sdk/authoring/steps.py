"""`spanscore.tool` and `spanscore.model_call`: steps as spans."""

import secrets
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from spanscore.sdk.authoring import genai, spans
from spanscore.sdk.authoring.spans import Attribute, Block, SpanBlock
from spanscore.sdk.authoring.turn import Input, given_to
from spanscore.sdk.authoring.values import TRUNCATED, Plain, bounded, guarded, json_of, result_of

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


@overload
def tool(function: _FunctionT, /) -> _FunctionT: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, capture: bool = True
) -> Callable[[_FunctionT], _FunctionT]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    capture: bool = True,
) -> Any:
    """Record each call of a function as a tool call: arguments, result or error, and the call's id.

    The function stays what it is: it returns, awaits or yields as before, and its own exceptions
    pass. A class is recorded by its instances' calls. Of a generator the result is the list of what
    it yielded, unless it returns one.

    Args:
        function: The function, method, class or other object that can be called.
        name: The tool's name; else the function's.
        description: What the tool does; else the function's docstring.
        capture: Whether arguments and results are recorded; False: only that it was called.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     return a + b
    >>> add(1)
    2
    """
    if function is None:
        return lambda given: _recorded(given, name, description, capture=capture)
    return _recorded(function, name, description, capture=capture)


class call_id(Block):  # noqa: N801 - it is used as a function is
    """Give the tool that is called in the block the id that the model gave the call.

    >>> with call_id("call_7"):
    ...     pass
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def _enter(self) -> Context:
        return context.set_value(spans.CALL_ID, [self._identity])


def _recorded(function: Any, name: str | None, description: str | None, *, capture: bool) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_recorded(function.__func__, name, description, capture=capture))
    tool_described = genai.described(function, name, description)
    if isinstance(function, type):
        calls = _recorded(
            function.__call__, tool_described.name, tool_described.description, capture=capture
        )
        function.__call__ = calls  # type: ignore[method-assign] # its instances are called by it
        setattr(function, genai.DESCRIBED, tool_described)
        return function
    arguments = genai.Arguments(function)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_Call":
        call = _Call(capture=capture)
        call.begin(tool_described, lambda: arguments.named(args, kwargs))
        return call

    wrapper = spans.recorded(function, begin)
    setattr(wrapper, genai.DESCRIBED, tool_described)
    return wrapper


class _Call(SpanBlock):
    """One call of a tool."""

    context: Context | None = None

    def __init__(self, *, capture: bool) -> None:
        self._capture = capture

    @guarded
    def begin(self, tool: genai.Described, named: Callable[[], dict[str, Any] | None]) -> None:
        """Begin its span, of which `context` is the context; `named` gives the arguments."""
        self._span = spans.open_span(
            f"execute_tool {tool.name}",
            {spans.OPERATION: "execute_tool", spans.TOOL_NAME: bounded(tool.name)},
        )
        self.context = context.set_value(spans.CALL_ID, None, self._span.context)
        self._capture = self._capture and spans.captures_content()
        given = _given_id()
        if self._span.is_recording:
            arguments = named() or {}
            made = given or _requested_id(tool.name, arguments) or f"call_{secrets.token_hex(12)}"
            self._span.set(
                {
                    spans.TOOL_TYPE: "function",
                    spans.TOOL_DESCRIPTION: bounded(tool.description) if tool.description else None,
                    spans.TOOL_CALL_ID: made,
                    spans.ARGUMENTS: json_of(arguments) if self._capture else None,
                }
            )

    @guarded
    def returned(self, value: object) -> None:
        """Record the result."""
        try:
            if self._capture and self._span is not None and self._span.is_recording:
                self._span.set({spans.RESULT: result_of(value)})
        finally:
            self.finished()

    @guarded
    def yielded(self, items: list[Any], value: object, *, is_whole: bool) -> None:
        """Record what a generator gave."""
        given = items if value is None else value
        self.returned(given if is_whole or value is not None else [*items, TRUNCATED])

    def failed(self, error: BaseException) -> None:
        """Record why there is no result."""
        self.finished(error)


def _given_id() -> str | None:
    """The id of `call_id` around the call, which is that of one call alone."""
    waiting = context.get_value(spans.CALL_ID)
    return str(waiting.pop()) if isinstance(waiting, list) and waiting else None


def _requested_id(name: str, arguments: dict[str, Any]) -> str | None:
    """The id that a model of the turn gave the call; without a turn, the call is found when the
    trace is rebuilt.
    """
    turn = spans.current_turn()
    return None if turn is None else turn.requested_id(name, Plain().value(arguments))


_T = TypeVar("_T")


class ModelCall(SpanBlock):
    """A request to a model: a context manager, synchronous and asynchronous.

    Made by `model_call`.
    """

    def __init__(
        self, model: str, provider: str | None, given: Callable[[], dict[str, Attribute | None]]
    ) -> None:
        self._model = model
        self._provider = provider
        self._given = given

    def answer(
        self, response: _T, *, input_tokens: int | None = None, output_tokens: int | None = None
    ) -> _T:
        """Record what the model answered, and return it as it is.

        `response` is what the library of OpenAI or Anthropic returned, which tells the tokens by
        itself, or a message, or a text.
        """
        self._answer(response, input_tokens, output_tokens)
        return response

    @guarded
    def _open(self, given: object) -> None:
        del given
        self._span = spans.open_span(
            f"chat {self._model}",
            {spans.OPERATION: "chat", spans.REQUEST_MODEL: self._model},
            kind=SpanKind.CLIENT,
        )
        if self._span.is_recording:
            self._span.set({spans.PROVIDER: self._provider, **self._given()})

    @guarded
    def _answer(self, value: object, input_tokens: int | None, output_tokens: int | None) -> None:
        if self._span is None or not self._span.is_recording:
            return
        response = genai.response_of(value)
        self._span.set(
            {
                spans.RESPONSE_MODEL: response.model,
                spans.RESPONSE_ID: response.id,
                spans.FINISH_REASONS: list(response.finish_reasons) or None,
                spans.INPUT_TOKENS: response.input_tokens if input_tokens is None else input_tokens,
                spans.OUTPUT_TOKENS: (
                    response.output_tokens if output_tokens is None else output_tokens
                ),
            }
        )
        if spans.captures_content():
            reason = response.finish_reasons[-1] if response.finish_reasons else None
            output = genai.messages_of(response.answer, "assistant", finish_reason=reason)
            self._span.set({spans.OUTPUT: output})
        turn = spans.current_turn()
        if turn is not None:
            turn.note_requests(genai.requested_calls(response.answer))


def model_call(
    model: str,
    input: Input = None,  # noqa: A002 - as `turn` names it
    *,
    provider: str | None = None,
    tools: Iterable[Any] | None = None,
    instructions: str | None = None,
) -> ModelCall:
    """Record a request to a model that no instrumentation records; within an instrumented client it
    is not needed.

    Args:
        model: The model's name.
        input: What the model is given: a text, or the messages.
        provider: Who serves it, in OpenTelemetry's words: `openai`, `anthropic`, `aws.bedrock`, …
        tools: The tools on offer, as `spanscore.turn` takes them.
        instructions: The system instructions, where they are no message.

    >>> with model_call("gpt-4o-mini", [{"role": "user", "content": "Hi"}]) as call:
    ...     _ = call.answer("Hello!", input_tokens=8, output_tokens=2)
    """
    return ModelCall(model, provider, lambda: given_to(input, instructions, tools))
