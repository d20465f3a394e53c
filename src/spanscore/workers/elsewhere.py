"""Have worker processes evaluate sessions."""

from spanscore.evaluation.session_scores import SessionScores
from spanscore.store.reading import StoredSessions
from spanscore.telemetry import Meter, declared
from spanscore.workers.messages import Failed
from spanscore.workers.pool import WorkerDiedError, WorkerPool
from spanscore.workers.reading import KillsWorkersError, ReadFailedError

_TRIES = 3
"""How often a session is evaluated by itself before it is held to be what kills the processes."""


class _ForServerError(Exception):
    """A worker process could not send what it found."""


class SessionsElsewhere:
    """Evaluates sessions in the processes of a pool. Loses none where one dies."""

    def __init__(self, pool: WorkerPool, meter: Meter) -> None:
        self._pool = pool
        self._meter = meter

    async def session_scores(self, stored: StoredSessions) -> list[SessionScores] | None:
        """The scores of each session; None where the server has to evaluate them.

        Raises KillsWorkersError where processes died on one again and again, ReadFailedError with
        an error of theirs.
        """
        try:
            return await self._each(stored)
        except _ForServerError:
            return None

    async def _each(self, stored: StoredSessions) -> list[SessionScores]:
        try:
            return await self._scored(stored)
        except WorkerDiedError:  # one of them may have killed it
            return [x for one in stored.one_by_one() for x in await self._alone(one)]

    async def _alone(self, stored: StoredSessions) -> list[SessionScores]:
        for _ in range(_TRIES):
            try:
                return await self._scored(stored)
            except WorkerDiedError:
                continue
        raise KillsWorkersError(
            f"{_TRIES} worker processes died while they evaluated session {stored.keys[0]!r}"
        )

    async def _scored(self, stored: StoredSessions) -> list[SessionScores]:
        scored = await self._pool.score(stored)
        if isinstance(scored, Failed) and scored.is_for_server:
            raise _ForServerError
        if isinstance(scored, Failed):
            raise ReadFailedError(scored.error, scored.traceback)
        for labels in scored.decisions:
            self._meter.add(declared.RULES_DECISIONS, **labels)
        return list(scored.scores)
