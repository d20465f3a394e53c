"""`spanscore.model_call`: one request to a model that no instrumentation records, as a span of
`chat`.
"""

from collections.abc import Iterable, Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Self, TypeVar

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from spanscore.sdk.authoring import attributes as names
from spanscore.sdk.authoring.current import current_turn, detach
from spanscore.sdk.authoring.definitions import definitions_of
from spanscore.sdk.authoring.guarding import guarded
from spanscore.sdk.authoring.messages import instructions_of, messages_of, requested_calls
from spanscore.sdk.authoring.responses import Response, response_of
from spanscore.sdk.authoring.spans import Attribute, OpenSpan, captures_content, open_span
from spanscore.sdk.authoring.turn import Input

_T = TypeVar("_T")


class ModelCall:
    """A request to a model: a context manager, synchronous and asynchronous.

    Made by `model_call`.
    """

    def __init__(self, model: str, given: Input, attributes: Mapping[str, Any]) -> None:
        self._model = model
        self._input = given
        self._attributes = attributes
        self._span: OpenSpan | None = None
        self._token: Token[Context] | None = None

    def answer(
        self, response: _T, *, input_tokens: int | None = None, output_tokens: int | None = None
    ) -> _T:
        """Record what the model answered, and return it as it is.

        `response` is what the library of OpenAI or Anthropic returned, which tells the tokens by
        itself, or a message, or a text.
        """
        self._answer(response, input_tokens, output_tokens)
        return response

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(error)

    @guarded
    def _begin(self) -> None:
        self._span = open_span(
            f"chat {self._model}",
            {names.OPERATION: "chat", names.REQUEST_MODEL: self._model},
            kind=SpanKind.CLIENT,
        )
        self._token = context.attach(self._span.context)
        if self._span.is_recording:
            self._span.set(self._given())

    def _given(self) -> dict[str, Attribute | None]:
        tools, instructions = self._attributes["tools"], self._attributes["instructions"]
        content = captures_content()
        return {
            names.PROVIDER: self._attributes["provider"],
            names.TOOL_DEFINITIONS: None if tools is None else definitions_of(tools),
            names.INPUT: messages_of(self._input, "user")
            if content and self._input is not None
            else None,
            names.INSTRUCTIONS: instructions_of(instructions) if content and instructions else None,
        }

    @guarded
    def _answer(self, value: object, input_tokens: int | None, output_tokens: int | None) -> None:
        if self._span is None or not self._span.is_recording:
            return
        response = response_of(value)
        counted = {
            names.INPUT_TOKENS: response.input_tokens if input_tokens is None else input_tokens,
            names.OUTPUT_TOKENS: response.output_tokens if output_tokens is None else output_tokens,
        }
        self._span.set({**_named(response), **counted})
        if captures_content():
            reason = response.finish_reasons[-1] if response.finish_reasons else None
            self._span.set(
                {names.OUTPUT: messages_of(response.answer, "assistant", finish_reason=reason)}
            )
        turn = current_turn()
        if turn is not None:
            turn.note_requests(requested_calls(response.answer))

    @guarded
    def _end(self, error: BaseException | None) -> None:
        if self._token is not None:
            detach(self._token)
            self._token = None
        if self._span is not None:
            self._span.end() if error is None else self._span.fail(error)


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
    return ModelCall(
        model, input, {"provider": provider, "tools": tools, "instructions": instructions}
    )


def _named(response: Response) -> dict[str, Attribute | None]:
    return {
        names.RESPONSE_MODEL: response.model,
        names.RESPONSE_ID: response.id,
        names.FINISH_REASONS: list(response.finish_reasons) or None,
    }
