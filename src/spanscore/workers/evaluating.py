"""Evaluate in a worker process what needs no judge: sessions as they are stored, and traces as
their first revisions.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from spanscore.embed import open_embedder
from spanscore.errors import SpanscoreError
from spanscore.evaluation import Engine
from spanscore.evaluation.scores import (
    FirstScores,
    SessionScores,
    digest_of,
    evaluate_first,
    session_scores,
    uses_others,
)
from spanscore.model.trace import AgentTrace
from spanscore.store import records
from spanscore.store.reading import StoredSessions
from spanscore.store.session_reader import SessionReader
from spanscore.telemetry import Meter, declared
from spanscore.telemetry.declared import Declared
from spanscore.workers.messages import EvaluationSetup, Failed, Scored, SessionKeys

ReadSessions: TypeAlias = Callable[
    [Sequence[str], str | None], tuple[StoredSessions, tuple[str, ...]]
]

_log = logging.getLogger(__name__)


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


class Evaluating:
    """Evaluates sessions and traces, without a judge. Not thread-safe."""

    def __init__(self, setup: EvaluationSetup, read: ReadSessions | None = None) -> None:
        """`read` is as `SessionReader.read`, in place of the setup's store.

        Raises ConfigError where the embedding cannot be opened.
        """
        self._read = read or SessionReader(setup.store).read
        self._decisions = _Decisions()
        embedder = open_embedder(setup.embedding)
        self._loop = asyncio.Runner()
        self._engine = Engine(
            setup.evaluation, None, embedder, judge_config=setup.judge, meter=self._decisions
        )

    def sessions(self, wanted: SessionKeys) -> Scored | Failed:
        """The scores of stored sessions."""
        try:
            stored, rest = self._read(wanted.keys, wanted.tenant)
        except SpanscoreError as error:  # the server waits until the store can be read
            _log.warning("%s", error)
            return Failed(type(error).__name__, "", is_for_server=True)
        except Exception as error:  # noqa: BLE001 - as below; it must not end the process
            return Failed.by(error)
        try:
            scores = self._loop.run(self._of_sessions(stored))
            return Scored(scores, self._decisions.take(), rest)
        except Exception as error:  # noqa: BLE001 - the server says which sessions these are
            self._decisions.take()  # they are made again where the sessions are evaluated again
            return Failed.by(error)

    def traces(self, traces: Sequence[AgentTrace]) -> dict[str, FirstScores]:
        """The scores of traces as their first revisions, by the traces' ids.

        Those that are not there are for the server: their evaluation uses other traces, or fails.
        """
        alone = [trace for trace in traces if not uses_others(self._engine, trace)]
        return self._loop.run(self._of_traces(alone)) if alone else {}

    async def _of_sessions(self, stored: StoredSessions) -> list[SessionScores]:
        return [await session_scores(self._engine, found) for found in stored.decoded()]

    async def _of_traces(self, traces: Sequence[AgentTrace]) -> dict[str, FirstScores]:
        found: dict[str, FirstScores] = {}
        for trace in traces:
            try:
                evaluations = await evaluate_first(self._engine, trace)
                record = records.encode(trace)
            except Exception as error:  # noqa: BLE001 - the server meets it as well, and reports it
                _log.debug("a trace is left to the server: %s", type(error).__name__)
                self._decisions.take()
                continue
            found[trace.id] = FirstScores(
                record, digest_of(trace, record), evaluations, self._decisions.take()
            )
        return found
