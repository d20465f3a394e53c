"""Have worker processes evaluate sessions."""

from collections.abc import AsyncIterator
from typing import Final

from spanscore.evaluation.session_scores import BatchScores
from spanscore.store.reading import StoredSessions
from spanscore.telemetry import Meter, declared
from spanscore.workers.lone_tries import LoneTries
from spanscore.workers.messages import Failed, Scored
from spanscore.workers.pool import NotForkedError, WorkerDiedError, WorkerPool
from spanscore.workers.reading import ReadFailedError

_MOST: Final = 4 * 2**20
"""Characters of the records that a process gets at once, but for a session that has more: while a
message is encoded the server does nothing else.
"""


class SessionsElsewhere:
    """Evaluates sessions in the processes of a pool. Loses none where one dies."""

    def __init__(self, pool: WorkerPool, meter: Meter, lone_tries: LoneTries) -> None:
        self._pool = pool
        self._lone_tries = lone_tries
        self._meter = meter

    async def session_scores(self, stored: StoredSessions) -> AsyncIterator[BatchScores]:
        """The scores of sessions; one that cannot be evaluated costs the others nothing.

        Large ones come in several batches. Where the process dies, or an error ends a batch, each
        session of it is evaluated by itself, and comes when it is.
        """
        for part in stored.parts(_MOST):
            async for batch in self._scores_of(part):
                yield batch

    async def _scores_of(self, stored: StoredSessions) -> AsyncIterator[BatchScores]:
        try:
            scored = await self._pool.score(stored)
        except Exception:  # noqa: BLE001 - such as WorkerDiedError: one session may be the cause
            is_whole = False
        else:
            is_whole = len(stored.keys) == 1 or not _is_error(scored)
        if is_whole:
            yield self._batch(stored, scored)
            return
        async for one, answer in self._lone_tries.answers([*stored.one_by_one()], self._alone):
            yield self._batch(one, answer)

    async def _alone(self, stored: StoredSessions, limit_s: float) -> Scored | Failed | Exception:
        try:
            return await self._pool.score(stored, alone_s=limit_s)
        except (WorkerDiedError, NotForkedError):
            raise
        except Exception as error:  # noqa: BLE001 - one session must not stop the others
            return error

    def _batch(self, stored: StoredSessions, scored: Scored | Failed | Exception) -> BatchScores:
        """What became of sessions."""
        if isinstance(scored, Scored):
            for labels in scored.decisions:
                self._meter.add(declared.RULES_DECISIONS, **labels)
            return BatchScores([*scored.scores])
        if isinstance(scored, Exception):
            return BatchScores(failed={stored.keys[0]: scored})
        if scored.is_for_server:
            return BatchScores(for_server=[stored])
        error = ReadFailedError(scored.error, scored.traceback)
        return BatchScores(failed={stored.keys[0]: error})


def _is_error(scored: Scored | Failed) -> bool:
    """Whether a session of the batch, which one is not known, cannot be evaluated."""
    return isinstance(scored, Failed) and not scored.is_for_server
