"""What the judge needs of a model provider, so that the asking knows no vendor's library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat.

    `reused` is how many characters at its beginning the next calls begin with too: a provider's
    prompt cache that must be told keeps the prompt as far as there. 0: none is told of.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    reused: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's raw answer. `cost_usd` is None where the price is not known.

    `finish_reason` is the provider's word for why the answer ended, such as `stop`, `length` or
    `content_filter`; `cut_off`: it reached the limit on its tokens. `refusal` is the reason that
    the model or a content filter gave for declining, without secrets; "" where nobody declined.
    `headers` are those of the response, in lower case.
    """

    text: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    cut_off: bool = False
    finish_reason: str = "stop"
    refusal: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class CallError(Exception):
    """A call got no completion. The message holds no secret.

    `status` is the HTTP status, None where there was none; `headers` are those of the response, in
    lower case. `hopeless` says that no retry helps although the status sounds like it (a spent
    quota). `context_exceeded`: the prompt is longer than the model's context window. `refused`: a
    content filter declined the prompt.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        timed_out: bool = False,
        headers: Mapping[str, str] | None = None,
        hopeless: bool = False,
        context_exceeded: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.timed_out = timed_out
        self.headers = headers or {}
        self.hopeless = hopeless
        self.context_exceeded = context_exceeded
        self.refused = refused


class Provider(Protocol):
    """A way to reach models by name."""

    async def complete(
        self,
        model: str,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        timeout_s: float,
        max_output_tokens: int | None = None,
    ) -> Completion:
        """One call of `model`, never retried; `schema` is its `response_format`. Raises CallError.

        `max_output_tokens` None: as configured.
        """
        ...

    async def knows(self, model: str) -> bool:
        """Whether the model's name leads to anybody who could be called."""
        ...

    async def takes_schema(self, model: str) -> bool:
        """Whether `model` can be held to a JSON schema by its provider."""
        ...

    async def cost_usd(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """What a call of this size costs; None where the price is not known."""
        ...
