"""A worker's answers: jobs read, sessions evaluated."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from spanscore import dialects, turns
from spanscore.assemble.backlog import Requests
from spanscore.assemble.fragments import Units
from spanscore.content import ContentNotes
from spanscore.embed import open_embedder
from spanscore.errors import RetryableError, SpanscoreError
from spanscore.evaluation import Engine
from spanscore.evaluation.engine import (
    FirstScores,
    SessionScores,
    digest_of,
    session_scores,
    trace_scores,
    uses_others,
)
from spanscore.model.trace import AgentTrace, in_scope
from spanscore.store import records
from spanscore.store.journal import JournalReader
from spanscore.store.lookup import SessionReader, StoredSessions
from spanscore.telemetry import Meter, about, declared
from spanscore.telemetry.declared import Declared
from spanscore.turn_scheduling import JobKind, JobReader, ReadResult
from spanscore.workers.messages import (
    Answers,
    Batch,
    EvaluationSetup,
    Failed,
    Scored,
    SessionKeys,
    Setup,
    Task,
)

ReadSessions: TypeAlias = Callable[
    [Sequence[str], str | None], tuple[StoredSessions, tuple[str, ...]]
]


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
                evaluations = await trace_scores(self._engine, trace)
                record = records.encode(trace)
            except Exception as error:  # noqa: BLE001 - the server meets it as well, and reports it
                _log.debug("a trace is left to the server: %s", type(error).__name__)
                self._decisions.take()
                continue
            found[trace.id] = FirstScores(
                record, digest_of(trace, record), evaluations, self._decisions.take()
            )
        return found


_log = logging.getLogger(__name__)

_MAX_DECODED_BYTES = 32 * 2**20
"""Decoded requests that are kept: the traces of a batch are in the same few."""


class Answering:
    """Reads batches of jobs. Not thread-safe."""

    def __init__(self, setup: Setup, evaluating: Evaluating | None = None) -> None:
        """`evaluating` makes the scores of what was read, where that needs nothing else.

        Raises sqlite3.Error where the journal cannot be opened.
        """
        self._evaluating = evaluating
        self._session_scope = setup.session_scope
        self._journal = JournalReader(setup.journal)
        self._notes = ContentNotes()
        units = Units(dialects.unit_scopes, dialects.unit_of, dialects.goes_on)
        requests = Requests(self._journal.read, _MAX_DECODED_BYTES, units=units)
        self._reader = JobReader(
            lambda cut: requests.load(cut.key, cut.rows),
            turns.Stitching(setup.stitch_off),
            attributes=setup.attributes,
            watch=self._notes,
        )

    def answers(self, batch: Batch) -> Answers:
        """What became of each task."""
        self._journal.checksums = batch.checksums
        answered = [(self._answer(task), self._notes.take()) for task in batch.tasks]
        return Answers([read for read, _ in answered], [notes for _, notes in answered])

    def _answer(self, task: Task) -> ReadResult | Failed:
        job = task.job
        with about(trace_id=job.trace_id, tenant=job.tenant):
            try:
                result = self._reader.read(job, lambda *_: task.is_referred_to)
                return self._scored(
                    replace(result, traces=in_scope(result.traces, self._session_scope))
                )
            except RetryableError as error:
                _log.warning("%s", error)
                return Failed(type(error).__name__, "", is_for_server=True)
            except Exception as error:  # noqa: BLE001 - one trace must not stop the others
                return Failed.by(error)

    def _scored(self, result: ReadResult) -> ReadResult:
        """What was read with the scores of its agent traces.

        Of a turn the server may change them, a trace that is tied to others may wait for these, and
        one that was read early is read again unless it shows that it is whole.
        """
        if self._evaluating is None or result.fragment is not None:
            return result
        if result.job.kind is JobKind.TURN or _is_read_again(result):
            return result
        return replace(result, first_scores=self._evaluating.traces(result.traces))


def _is_read_again(result: ReadResult) -> bool:
    return result.job.kind is JobKind.EARLY and not turns.shows_whole(result.traces)
