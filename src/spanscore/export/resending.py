"""Scores that could not be delivered: how many there are, and the loops that send them again where
somebody asks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from spanscore.export.patience import Patience
from spanscore.export.port import Outbox
from spanscore.model.score import Evaluation
from spanscore.model.undelivered import Undelivered

_log = logging.getLogger(__name__)

_BATCH = 64

Again: TypeAlias = Callable[
    [Sequence[tuple[Undelivered, Evaluation, bool]]], Awaitable[Sequence[Undelivered]]
]
"""Sends some again; gives those that still do not arrive.

The flag is true where a later revision has superseded the score.
"""


class Resending:
    """Belongs to one event loop. Each exporter has its own loop, so that none waits for another."""

    def __init__(self, outbox: Outbox, patience: Patience, ways: Mapping[str, Again]) -> None:
        self._outbox = outbox
        self._patience = patience
        self._ways = ways
        self._requested = {name: asyncio.Event() for name in ways}
        self.counts: dict[str, int] = {}
        """How many scores each exporter could not deliver, those that are configured no more among
        them.
        """

    async def look(self) -> None:
        """Count what is undelivered, and begin to send again what is asked for."""
        found = await self._patience.get(partial(asyncio.to_thread, self._outbox.undelivered))
        self.counts = {name: count for name, (count, _) in found.items()}
        for name, (_, is_requested) in found.items():
            if is_requested and name in self._requested:
                self._requested[name].set()

    @property
    def notice(self) -> str | None:
        """What a person is to know of it; None: nothing."""
        named = ", ".join(
            f"{count:,} by {name}" for name, count in sorted(self.counts.items()) if count
        )
        return (
            f"scores that could not be delivered: {named}; see spanscore scores --undelivered"
            if named
            else None
        )

    def loops(self) -> list[Callable[[], Awaitable[None]]]:
        """What starts the loops, one an exporter."""
        return [partial(self._run, name, again) for name, again in self._ways.items()]

    async def _run(self, name: str, again: Again) -> None:
        while True:
            await self._requested[name].wait()
            self._requested[name].clear()
            sent, still = 0, 0
            while rows := await self._patience.get(
                partial(asyncio.to_thread, self._outbox.to_send_again, name, _BATCH)
            ):
                failed = await again(rows)
                seqs = [note.seq for note, _, _ in rows]
                await self._patience.get(
                    partial(asyncio.to_thread, self._outbox.settle, name, seqs, failed)
                )
                sent, still = sent + len(rows) - len(failed), still + len(failed)
            if sent or still:
                _log.info(
                    "%s: of what was to be sent again %d scores arrived, %d did not",
                    name,
                    sent,
                    still,
                )
                await self.look()
