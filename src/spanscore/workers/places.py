"""Which worker process has which batches, for how long, and which are better given to another."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spanscore.workers.messages import Alone, Batch, SessionKeys
from spanscore.workers.running import Running

_PATIENCE_S: Final = 1.0
"""A batch that takes longer keeps none waiting behind it."""

LIMIT_S: Final = 60.0
"""What a batch may take, which is some MiB: a process that takes longer is killed. Each of what is
in it may take longer by itself.
"""


@dataclass(slots=True, eq=False)
class Sent:
    """A message, and where its answer is waited for."""

    message: Batch | SessionKeys | Alone
    answer: "asyncio.Future[Any]"
    is_moved: bool = False
    """Whether a second process is to get it, since the first is slow with another one."""


@dataclass(slots=True)
class Place:
    """The place of one process, which may have had others before it.

    Times are by `time.monotonic`.
    """

    running: Running | None = None
    """None while no process takes batches."""

    sent: "deque[Sent]" = field(default_factory=deque)
    """Batches without an answer, in the order in which the process works on them."""

    working_since_s: float = 0.0
    """When the process began with the first of them."""

    has_answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with each answer."""

    batches: int = 0
    restarts: int = 0
    fault: str | None = None
    """Why no process runs: how the last one ended, or why the next did not start."""

    def give(self, sent: Sent, now_s: float) -> None:
        """The process gets a batch."""
        if not self.sent:
            self.working_since_s = now_s
        self.sent.append(sent)

    def take_answered(self, now_s: float) -> Sent:
        """The batch that the process has just answered; it begins with the next one."""
        self.batches += 1
        self.working_since_s = now_s
        self.has_answered.set()
        return self.sent.popleft()

    def take_back(self) -> tuple[Sent | None, list[Sent]]:
        """The process is dead: the batch that it worked on, and those that it had not begun and
        that no other process has.
        """
        first = self.sent.popleft() if self.sent else None
        others = [x for x in self.sent if not x.is_moved]
        for sent in self.sent:
            sent.is_moved = False  # one process is left that has it, or none
        self.sent.clear()
        return first, others

    def is_overdue(self, now_s: float) -> bool:
        """Whether the process takes too long for its batch."""
        return bool(self.sent) and now_s - self.working_since_s > LIMIT_S

    def is_slow(self, now_s: float) -> bool:
        """Whether the process takes so long for its batch that no other one is to wait for it."""
        return bool(self.sent) and now_s - self.working_since_s > _PATIENCE_S

    def is_engaged(self, now_s: float) -> bool:
        """Whether a batch that it gets now would have to wait for one that takes long."""
        return self.is_slow(now_s) or (bool(self.sent) and isinstance(self.sent[0].message, Alone))

    def works_on(self, sent: Sent) -> bool:
        """Whether this is the batch that the process works on."""
        return bool(self.sent) and self.sent[0] is sent

    def to_json(self) -> dict[str, Any]:
        """As the health endpoint shows it."""
        state = "starting" if self.running is None else "working" if self.sent else "idle"
        found: dict[str, Any] = {
            "pid": None if self.running is None else self.running.process.pid,
            "state": state,
            "batches": self.batches,
            "restarts": self.restarts,
        }
        return found if self.fault is None else found | {"fault": self.fault}


def to_move(places: Sequence[Place], now_s: float) -> Iterator[Sent]:
    """Batches that wait behind a slow one, which the next process with room is to get.

    They stay where they are, too: whoever answers first has answered.
    """
    waiting = [
        sent
        for place in places
        if place.is_slow(now_s)
        for sent in list(place.sent)[1:]
        if not sent.is_moved and not sent.answer.done()
    ]
    for sent in waiting:
        sent.is_moved = True
        yield sent
