"""The lead among the servers on a store."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from spanscore.errors import PermanentError, RetryableError

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class Led(Protocol):
    """A store, as far as the lead needs it."""

    @property
    def is_shared(self) -> bool: ...  # noqa: D102 # the class has it

    def lead(self) -> bool: ...  # noqa: D102 # the class has it

    def try_again(self) -> None: ...  # noqa: D102 # the class has it


class Leadership:
    """Has one of the servers on a store do what must be done once. Belongs to one event loop.

    The only server on a store always leads.
    """

    def __init__(self, store: Led) -> None:
        self._store = store
        self._begun, self._ended = asyncio.Event(), asyncio.Event()
        self._note(is_leader=not store.is_shared)

    async def run(self) -> None:
        """Look who leads until cancelled; where nobody does, this server does."""
        while self._store.is_shared:
            try:
                is_leader = await asyncio.to_thread(self._store.lead)
            except (RetryableError, PermanentError) as error:
                _log.debug("nobody can tell who leads: %s", error)
                is_leader = False
            else:  # a server that does not lead may have nothing else to ask
                with suppress(RetryableError, PermanentError):
                    await asyncio.to_thread(self._store.try_again)
            if is_leader != self.is_leader:
                _log.info("this server %s", "leads" if is_leader else "leads no more")
                self._note(is_leader=is_leader)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def only(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do `work` while this server leads, from its beginning each time that it begins to.

        Returns, or raises, as `work` does.
        """
        while True:
            await self._begun.wait()
            doing = asyncio.create_task(work())
            ended = asyncio.create_task(self._ended.wait())
            try:
                await asyncio.wait({doing, ended}, return_when=asyncio.FIRST_COMPLETED)
                if doing.done():
                    return doing.result()
            finally:
                ended.cancel()
                doing.cancel()
                await asyncio.wait({doing})

    def _note(self, *, is_leader: bool) -> None:
        self.is_leader = is_leader
        """Whether this server leads, as of the last look."""
        now, other = (self._begun, self._ended) if is_leader else (self._ended, self._begun)
        now.set()
        other.clear()
