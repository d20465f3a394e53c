"""Have worker processes evaluate sessions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from spanscore.evaluation.scores import BatchScores
from spanscore.telemetry import Meter, declared
from spanscore.workers.lone_tries import LoneTries
from spanscore.workers.messages import Failed, Scored, SessionKeys
from spanscore.workers.pool import NotForkedError, WorkerDiedError, WorkerPool
from spanscore.workers.reading import ReadFailedError

_OF_PROCESS: Final = 2
"""Batches of sessions that processes have or get next, for each process. Those that are tried one
by one, which may take minutes, do not count.
"""


class SessionsElsewhere:
    """Evaluates sessions in the processes of a pool. Loses none where one dies."""

    def __init__(self, pool: WorkerPool, meter: Meter, lone_tries: LoneTries) -> None:
        self._pool = pool
        self._lone_tries = lone_tries
        self._meter = meter
        self._room = asyncio.Semaphore(_OF_PROCESS * len(pool))

    async def session_scores(
        self, keys: Sequence[str], tenant: str | None = None
    ) -> AsyncIterator[BatchScores]:
        """The scores of sessions; one that cannot be evaluated costs the others nothing.

        Large ones come in several batches. Where the process dies, or an error ends a batch, each
        session of it is evaluated by itself, and comes when it is.
        """
        while keys:
            try:
                async with self._room:
                    scored = await self._pool.score(SessionKeys(keys, tenant))
            except Exception:  # noqa: BLE001 - such as WorkerDiedError: one session may be the cause
                break
            if len(keys) > 1 and _is_error(scored):
                break
            rest = scored.rest if isinstance(scored, Scored) else ()
            yield self._batch(keys[: len(keys) - len(rest)], scored)
            keys = rest
        alone = partial(self._alone, tenant)
        async for key, answer in self._lone_tries.answers(keys, alone):
            yield self._batch([key], answer)

    async def _alone(
        self, tenant: str | None, key: str, limit_s: float
    ) -> Scored | Failed | Exception:
        try:
            return await self._pool.score(SessionKeys([key], tenant), alone_s=limit_s)
        except (WorkerDiedError, NotForkedError):
            raise
        except Exception as error:  # noqa: BLE001 - one session must not stop the others
            return error

    def _batch(self, keys: Sequence[str], scored: Scored | Failed | Exception) -> BatchScores:
        """What became of sessions."""
        if isinstance(scored, Scored):
            for labels in scored.decisions:
                self._meter.add(declared.RULES_DECISIONS, **labels)
            return BatchScores(keys, [*scored.scores])
        if isinstance(scored, Exception):
            return BatchScores(keys, failed={keys[0]: scored})
        if scored.is_for_server:
            return BatchScores(keys, for_server=keys)
        error = ReadFailedError(scored.error, scored.traceback)
        return BatchScores(keys, failed={keys[0]: error})


def _is_error(scored: Scored | Failed) -> bool:
    """Whether a session of the batch, which one is not known, cannot be evaluated."""
    return isinstance(scored, Failed) and not scored.is_for_server
