"""Scores that others gave, out of the requests that arrive and into the store."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from spanscore import received_scores
from spanscore.model.external import HUMAN, PROGRAMMATIC
from spanscore.model.score import Evaluation
from spanscore.model.span import LogRecord, Span
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

_BATCH = 64
"""Requests whose scores are committed together."""


class Requests(Protocol):
    """Who holds the requests."""

    def hold(self, row: int) -> None:
        """Keep a row until `let_go` is called for it."""
        ...

    def let_go(self, row: int) -> None:
        """Undo one `hold`."""
        ...

    def load_request(
        self, row: int, is_wanted: Callable[[bytes], bool]
    ) -> tuple[list[Span], list[LogRecord]]:
        """The spans and log records of a request whose protobuf `is_wanted`.

        Called from any thread.
        """
        ...


class ScoreIntake:
    """Has the requests wait that may hold scores of others, until these are in the store.

    What waits is a row of the journal for each request, so the journal's cap bounds it. Belongs to
    one event loop.
    """

    def __init__(
        self,
        requests: Requests,
        keep: Callable[[Sequence[Evaluation]], Awaitable[Sequence[Evaluation]]],
        meter: Meter,
        *,
        session_scope: Sequence[str],
    ) -> None:
        """`keep` puts scores into the store and returns those of them that are new."""
        self._requests = requests
        self._keep = keep
        self._meter = meter
        self._session_scope = session_scope
        self._rows: asyncio.Queue[int] = asyncio.Queue()

    def offer(self, row: int, body: bytes) -> None:
        """Take up a request, by its row and its protobuf, if it may hold such scores."""
        if received_scores.may_hold(body):
            self._requests.hold(row)
            self._rows.put_nowait(row)

    async def run(self) -> None:
        """Read and keep, for ever."""
        while True:
            rows = [await self._rows.get()]
            while len(rows) < _BATCH and not self._rows.empty():
                rows.append(self._rows.get_nowait())
            scores = await asyncio.to_thread(self._read, rows)
            if scores:
                await self._commit(scores)
            for row in rows:
                self._requests.let_go(row)
                self._rows.task_done()

    async def finish(self) -> None:
        """Wait until all that was offered is kept."""
        await self._rows.join()

    async def _commit(self, scores: Sequence[Evaluation]) -> None:
        try:
            new = await self._keep(scores)
        except Exception:  # noqa: BLE001 - what the store refuses for good must not stop the server
            # one that cannot be stored costs no others, which may be of other senders
            if len(scores) > 1:
                for score in scores:
                    await self._commit([score])
                return
            lost = scores[0]
            about = {"trace_id": lost.target.trace_id, "tenant": lost.tenant}
            _log.exception(
                "a score that others gave, %r, cannot be stored", lost.metric, extra=about
            )
            return
        count_external(self._meter, new)

    def _read(self, rows: Iterable[int]) -> list[Evaluation]:
        """The scores in these requests. Runs in a thread."""
        return [score for row in rows for score in self._read_one(row)]

    def _read_one(self, row: int) -> list[Evaluation]:
        try:
            loaded = self._requests.load_request(row, received_scores.may_hold)
            return received_scores.read_external(*loaded, session_scope=self._session_scope)
        except Exception:  # noqa: BLE001 - the same request would stop the server at each start
            _log.exception("the scores in a request cannot be read, and are left out")
            return []


def count_external(meter: Meter, scores: Iterable[Evaluation]) -> None:
    """Count scores that others gave, by the kind of who gave them."""
    for source, count in Counter(map(_kind_of_source, scores)).items():
        meter.add(declared.EXTERNAL_SCORES, count, source=source)


def _kind_of_source(score: Evaluation) -> str:
    source = score.evaluator.source
    return source if source in {HUMAN, PROGRAMMATIC} and source is not None else "evaluator"
