"""A model that keeps its limits: it refuses a prompt beyond its context and breaks an answer off at
its longest.
"""

import json
from typing import Any

from obliging_model import ObligingModel
from scripted_server import Reply, refusal

from spanscore.judge.transcript import estimate_tokens

_CHARACTERS_PER_TOKEN = 4


class LimitedModel:
    """Gives an obliging model's answers within `context_tokens` of prompt, and `max_tokens` of the
    request.
    """

    def __init__(self, context_tokens: int, **said: Any) -> None:
        self._context_tokens = context_tokens
        self._model = ObligingModel(**said)

    def __call__(self, request: dict[str, Any]) -> Reply:
        """The completion for a request's body, or an error 400 as OpenAI words it."""
        tokens = sum(estimate_tokens(message["content"]) for message in request["messages"])
        if tokens > self._context_tokens:
            told = (
                f"This model's maximum context length is {self._context_tokens} tokens. You"
                f" requested {tokens}."
            )
            return refusal(400, told, "context_length_exceeded")
        completion = json.loads(self._model(request).body)
        choice = completion["choices"][0]
        text, most = choice["message"]["content"], request["max_tokens"] * _CHARACTERS_PER_TOKEN
        if len(text) > most:
            choice["message"]["content"], choice["finish_reason"] = text[:most], "length"
        return Reply(json.dumps(completion))
