"""Have worker processes evaluate sessions."""

import asyncio

from spanscore.evaluation.session_scores import BatchScores
from spanscore.store.reading import StoredSessions
from spanscore.telemetry import Meter, declared
from spanscore.workers.lone_tries import Sleep, tried_alone
from spanscore.workers.messages import Failed, Scored
from spanscore.workers.pool import WorkerPool
from spanscore.workers.reading import ReadFailedError


class SessionsElsewhere:
    """Evaluates sessions in the processes of a pool. Loses none where one dies."""

    def __init__(self, pool: WorkerPool, meter: Meter, *, sleep: Sleep = asyncio.sleep) -> None:
        self._pool = pool
        self._sleep = sleep
        self._meter = meter

    async def session_scores(self, stored: StoredSessions) -> BatchScores:
        """The scores of sessions; one that cannot be evaluated costs the others nothing.

        Where the process dies, or an error ends the batch, each session is evaluated by itself.
        """
        found = BatchScores()
        try:
            scored = await self._pool.score(stored)
        except Exception:  # noqa: BLE001 - such as WorkerDiedError: one session may be the cause
            await self._one_by_one(stored, found)
            return found
        if _is_error(scored) and len(stored.keys) > 1:
            await self._one_by_one(stored, found)
        else:
            self._add(stored, scored, found)
        return found

    async def _one_by_one(self, stored: StoredSessions, found: BatchScores) -> None:
        for one in stored.one_by_one():
            self._add(one, await self._alone(one), found)

    async def _alone(self, stored: StoredSessions) -> Scored | Failed | Exception:
        try:
            return await tried_alone(lambda: self._pool.score(stored), self._sleep)
        except Exception as error:  # noqa: BLE001 - one session must not stop the others
            return error

    def _add(
        self, stored: StoredSessions, scored: Scored | Failed | Exception, found: BatchScores
    ) -> None:
        """Add to `found` what became of sessions."""
        if isinstance(scored, Scored):
            found.scores += scored.scores
            for labels in scored.decisions:
                self._meter.add(declared.RULES_DECISIONS, **labels)
        elif isinstance(scored, Exception):
            found.failed[stored.keys[0]] = scored
        elif scored.is_for_server:
            found.for_server.append(stored)
        else:
            found.failed[stored.keys[0]] = ReadFailedError(scored.error, scored.traceback)


def _is_error(scored: Scored | Failed) -> bool:
    """Whether a session of the batch, which one is not known, cannot be evaluated."""
    return isinstance(scored, Failed) and not scored.is_for_server
