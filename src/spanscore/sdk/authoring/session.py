"""`spanscore.session`: the conversation that turns belong to."""

from contextvars import Token
from typing import Self

from opentelemetry import context
from opentelemetry.context import Context

from spanscore.sdk.authoring.current import NAMED, Named, current_turn, detach


class session:  # noqa: N801 - it is used as a function is
    """Name the session, and perhaps the user, of the current turn; in a `with`, of all turns that
    begin in the block.

    Where `spanscore.instrument` scores in process, spans of a framework that begin in the block are
    named likewise.

    >>> with session("chat-7", user_id="u-1"):
    ...     pass  # turns of the conversation
    """

    def __init__(self, session_id: str, user_id: str | None = None) -> None:
        self._named = Named(session_id, user_id)
        self._token: Token[Context] | None = None
        turn = current_turn()
        if turn is not None:
            turn.session(session_id, user_id)

    def __enter__(self) -> Self:
        self._token = context.attach(context.set_value(NAMED, self._named))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            detach(self._token)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exception: object) -> None:
        self.__exit__()
