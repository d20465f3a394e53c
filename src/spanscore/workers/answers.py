"""What worker processes do: jobs read, sessions evaluated."""

import gc
import logging
import pickle
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, TypeVar

from spanscore import dialects, metrics, turns
from spanscore.assemble.backlog import Requests
from spanscore.assemble.fragments import Units
from spanscore.dialects import SpanNames
from spanscore.embed import open_embedder
from spanscore.embed.config import Config as Embedding
from spanscore.errors import RetryableError, SpanscoreError
from spanscore.evaluation import Config as Evaluation, Engine
from spanscore.evaluation.engine import (
    FirstScores,
    SessionScores,
    digest_of,
    session_scores,
    trace_scores,
)
from spanscore.judge.config import Config as Judge
from spanscore.model.trace import AgentTrace, in_scope
from spanscore.store import records
from spanscore.store.config import Config as Store
from spanscore.store.journal import JournalReader
from spanscore.store.lookup import SessionReader, StoredSessions
from spanscore.telemetry import Config as Telemetry, Meter, about, configure_logging, declared
from spanscore.telemetry.declared import Declared
from spanscore.telemetry.logs import stack
from spanscore.turn_scheduling import JobKind, JobReader, ReadJob, ReadResult
from spanscore.watches import ContentNote, ContentNotes


@dataclass(frozen=True, slots=True)
class EvaluationSetup:
    """What a worker process needs of the configuration to evaluate sessions and traces."""

    evaluation: Evaluation
    judge: Judge
    embedding: Embedding
    store: Store
    """Where sessions are read."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker process needs of the configuration."""

    journal: Path
    telemetry: Telemetry
    stitch_off: frozenset[str]
    session_scope: tuple[str, ...]
    attributes: frozenset[str]
    evaluation: EvaluationSetup | None = None
    """What evaluates sessions and traces; None where the server does that itself."""
    span_names: SpanNames = field(default_factory=SpanNames)


@dataclass(frozen=True, slots=True)
class Task:
    """A job to be read; `is_referred_to`: another trace refers to its trace."""

    job: ReadJob
    is_referred_to: bool = False


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Sessions to be evaluated as they are stored, by their keys; `tenant` None: all tenants'."""

    keys: Sequence[str]
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A task could not be done: the class of the error, and where it was raised.

    `traceback` is as log lines contain it: the frames, without texts that may quote a trace.
    `is_for_server`: the server can do it, since it is no fault of what the task is about. The
    journal could not be read, or what was found could not be sent.
    """

    error: str
    traceback: str
    is_for_server: bool = False

    @classmethod
    def by(cls, error: BaseException) -> Self:
        """What failed by an error."""
        return cls(type(error).__name__, stack(error))


@dataclass(frozen=True, slots=True)
class Answers:
    """What became of the tasks of a batch, in their order; and of each, what was noted of the
    content of its traces.
    """

    read: Sequence[ReadResult | Failed]
    notes: Sequence[Sequence[ContentNote]]


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of stored sessions; `decisions` are the labels of each that `evaluation.rules`
    made. `rest` are the keys of the sessions that are to be asked for once more.
    """

    scores: Sequence[SessionScores]
    decisions: Sequence[Mapping[str, str]]
    rest: Sequence[str] = ()


def encoded(answer: Answers | Scored | Failed) -> bytes:
    """An answer, pickled; what of it cannot be, such as values nested too deeply, has failed."""
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - of values that anybody may have sent
        if isinstance(answer, Answers):
            return pickle.dumps(Answers([_sendable(x) for x in answer.read], answer.notes))
        return pickle.dumps(_unsent(error))


def _sendable(read: ReadResult | Failed) -> ReadResult | Failed:
    try:
        pickle.dumps(read)
    except Exception as error:  # noqa: BLE001 - as above
        return _unsent(error)
    return read


def _unsent(error: Exception) -> Failed:
    return Failed(type(error).__name__, "", is_for_server=True)


ReadSessions: TypeAlias = Callable[
    [Sequence[str], str | None], tuple[StoredSessions, tuple[str, ...]]
]


_Found = TypeVar("_Found")


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

    def __init__(
        self,
        setup: EvaluationSetup,
        read: ReadSessions | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`read` is as `SessionReader.read`, in place of the setup's store.

        Raises ConfigError where the embedding cannot be opened.
        """
        self._read = read or SessionReader(setup.store).read
        self._decisions = _Decisions()
        self._engine = Engine(
            setup.evaluation,
            None,
            open_embedder(setup.embedding),
            judge_config=setup.judge,
            meter=self._decisions,
            clock_ns=clock_ns,
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
            scores = [_at_once(session_scores(self._engine, x)) for x in stored.decoded()]
            return Scored(scores, self._decisions.take(), rest)
        except Exception as error:  # noqa: BLE001 - the server says which sessions these are
            self._decisions.take()  # they are made again where the sessions are evaluated again
            return Failed.by(error)

    def traces(self, traces: Sequence[AgentTrace]) -> dict[str, FirstScores]:
        """The scores of traces as their first revisions, by the traces' ids.

        Those that are not there are for the server: their evaluation uses other traces, or fails.
        """
        found: dict[str, FirstScores] = {}
        for trace in traces:
            try:
                evaluations = _at_once(trace_scores(self._engine, trace, earlier=None))
                record = records.encode(trace)
            except Exception:  # noqa: BLE001 - the server meets it as well, and reports it
                self._decisions.take()
                continue
            found[trace.id] = FirstScores(
                record, digest_of(trace, record), evaluations, self._decisions.take()
            )
        return found

    def scored(self, result: ReadResult) -> ReadResult:
        """What was read with the scores of its agent traces.

        Of a turn the server may change them, a trace that is tied to others may wait for these, and
        one that was read early is read again unless it shows that it is whole.
        """
        if result.fragment is not None or result.job.kind is JobKind.TURN:
            return result
        if result.job.kind is JobKind.EARLY and not turns.shows_whole(result.traces):
            return result
        return replace(result, first_scores=self.traces(result.traces))


def _at_once(evaluation: Coroutine[Any, Any, _Found]) -> _Found:
    """What an evaluation gives that waits for nothing."""
    try:
        evaluation.send(None)
    except StopIteration as done:
        found: _Found = done.value
        return found
    evaluation.close()
    raise RuntimeError("an evaluation without a judge waits for something")


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

    def answers(self, tasks: Sequence[Task], checksums: Mapping[int, int | None]) -> Answers:
        """What became of each task; `checksums` are those of the requests they need, by row."""
        self._journal.checksums = checksums
        answered = [(self._answer(task), self._notes.take()) for task in tasks]
        return Answers([read for read, _ in answered], [notes for _, notes in answered])

    def _answer(self, task: Task) -> ReadResult | Failed:
        job = task.job
        with about(trace_id=job.trace_id, tenant=job.tenant):
            try:
                result = self._reader.read(job, lambda *_: task.is_referred_to)
                result = replace(result, traces=in_scope(result.traces, self._session_scope))
                return result if self._evaluating is None else self._evaluating.scored(result)
            except RetryableError as error:
                _log.warning("%s", error)
                return Failed(type(error).__name__, "", is_for_server=True)
            except Exception as error:  # noqa: BLE001 - one trace must not stop the others
                return Failed.by(error)


_COLLECT_EVERY: Final = 50_000
"""As in the server: objects between two collections."""


class _Work:
    """What this process, a worker, was set up to do."""

    answering: Answering
    evaluating: Evaluating | None = None


def set_up(setup: Setup) -> None:
    """Have this process, a worker, do what the other functions say."""
    configure_logging(setup.telemetry)
    dialects.configure(setup.span_names)
    _Work.evaluating = None if setup.evaluation is None else Evaluating(setup.evaluation)
    _Work.answering = Answering(setup, _Work.evaluating)
    import_readers()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)


def import_readers() -> None:
    """Import what reads and measures traces, which each process that is forked from here then has
    from the start.
    """
    for package in (dialects, turns):
        for name in package.__all__:
            getattr(package, name)
    dialects.all_dialects()
    metrics.available()


def read_jobs(tasks: Sequence[Task], checksums: Mapping[int, int | None]) -> bytes:
    """The `Answers` to tasks, as `encoded`."""
    return encoded(_Work.answering.answers(tasks, checksums))


def score_sessions(wanted: SessionKeys) -> bytes:
    """What `Evaluating.sessions` gives, as `encoded`."""
    if _Work.evaluating is None:
        raise ValueError("the setup has no sessions evaluated")
    return encoded(_Work.evaluating.sessions(wanted))
