"""Evaluate sessions as they are stored, in a worker process."""

import asyncio

from spanscore.embed import open_embedder
from spanscore.evaluation import Engine
from spanscore.evaluation.session_scores import SessionScores, session_scores
from spanscore.store.reading import StoredSessions
from spanscore.telemetry import Meter, declared
from spanscore.telemetry.declared import Declared
from spanscore.workers.messages import Failed, Scored, SessionSetup


class _Decisions(Meter):
    """Keeps what the rules decided, which the server counts."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[dict[str, str]] = []

    def add(self, metric: Declared, count: float = 1, /, **labels: str) -> None:
        """See `Meter.add`."""
        super().add(metric, count, **labels)
        if metric is declared.RULES_DECISIONS:
            self._made.append(labels)

    def take(self) -> list[dict[str, str]]:
        """The labels of the decisions since this was asked last."""
        made, self._made = self._made, []
        return made


class ScoringSessions:
    """Evaluates sessions, without a judge. Not thread-safe."""

    def __init__(self, setup: SessionSetup) -> None:
        """Raises ConfigError where the embedding cannot be opened."""
        self._decisions = _Decisions()
        embedder = open_embedder(setup.embedding)
        self._loop = asyncio.Runner()
        self._engine = Engine(
            setup.evaluation, None, embedder, judge_config=setup.judge, meter=self._decisions
        )

    def scored(self, stored: StoredSessions) -> Scored | Failed:
        """The scores of stored sessions."""
        try:
            scores = self._loop.run(self._all(stored))
            return Scored(scores, self._decisions.take())
        except Exception as error:  # noqa: BLE001 - the server says which sessions these are
            self._decisions.take()  # they are made again where the sessions are evaluated again
            return Failed.by(error)

    async def _all(self, stored: StoredSessions) -> list[SessionScores]:
        return [await session_scores(self._engine, found) for found in stored.decoded()]
