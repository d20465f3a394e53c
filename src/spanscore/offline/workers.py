"""Traces and sessions scored in worker processes."""

import asyncio
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from spanscore.config import Settings
from spanscore.evaluation import Engine, Overrides
from spanscore.evaluation.own import load_plugins, make_known
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.selection import measurable, only_wanted, open_engine
from spanscore.store import records
from spanscore.worker_processes import WorkerPool

_NAMED = 3
"""Ids that an error has of those that a worker process worked on."""

Show = Callable[[AgentTrace | Session, Sequence[Evaluation]], Any]
"""Makes of a trace or session with its scores what is printed; pickled, as is what it makes."""


WithEarlier: TypeAlias = tuple[AgentTrace, Sequence[AgentTrace]]
"""A trace, and the turns of its session before it."""


class Setup(NamedTuple):
    """How a worker scores. `folder` is where the configuration's own metrics are looked for."""

    settings: Settings
    folder: Path
    wanted: Overrides
    show: Show


class ScoredElsewhere(NamedTuple):
    """The wanted evaluations, what `Show` made of them, and the stored form of all: those that
    others rest on too.
    """

    evaluations: list[Evaluation]
    shown: Any
    records: list[str]


class TracesCall(NamedTuple):
    """Traces to be scored, pickled, and what errors call them."""

    about: str
    content: bytes

    @property
    def size_bytes(self) -> int:
        """How much memory it takes until it is answered; the traces themselves take more."""
        return len(self.content)


class SessionRecords(NamedTuple):
    """The stored forms of a session's turns by their start, and of the evaluations of each."""

    key: str
    traces: list[str]
    evaluations: list[list[str]]


class ScoringInWorkers:
    """Has traces and sessions scored in the processes of a pool."""

    def __init__(self, pool: WorkerPool, setup: Setup) -> None:
        self._pool = pool
        self._setup = pickle.dumps(setup)

    @property
    def count(self) -> int:
        """How many processes there are."""
        return len(self._pool)

    def call(self, given: Sequence[WithEarlier]) -> TracesCall:
        """The call that asks for the scores of traces."""
        names = [trace.trace_ids[0] for trace, _ in given]
        content = pickle.dumps(given, pickle.HIGHEST_PROTOCOL)
        return TracesCall(f"the scores of {_named('trace', names)}", content)

    def traces(self, call: TracesCall) -> "Future[list[ScoredElsewhere]]":
        """The scores that a call asks for, in the order of its traces."""
        return self._pool.submit(_score_traces, self._setup, call.content, about=call.about)

    def sessions(
        self, found: Sequence[SessionRecords]
    ) -> "Future[list[tuple[Session, ScoredElsewhere]]]":
        """Sessions, their traces without their contents, and their scores, in their order."""
        about = f"the scores of {_named('session', [x.key for x in found])}"
        return self._pool.submit(_score_sessions, self._setup, found, about=about)


def _named(kind: str, ids: Sequence[str]) -> str:
    """Some of these ids, and how many more there are."""
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return f"{kind}{'s' if len(ids) > 1 else ''} {', '.join(ids[:_NAMED])}{more}"


class _Opened(NamedTuple):
    engine: Engine
    wanted: Overrides
    measured: Overrides
    show: Show
    runner: asyncio.Runner


@lru_cache(maxsize=1)
def _opened(setup: bytes) -> _Opened:
    """The engine of this process."""
    settings, folder, wanted, show = pickle.loads(setup)  # noqa: S301 - from the process that started this one
    load_plugins(settings.evaluation.plugins, folder)
    make_known(settings.evaluation.criteria)
    return _Opened(
        open_engine(settings),
        wanted,
        measurable(wanted, settings.evaluation),
        show,
        asyncio.Runner(),
    )


def _score_traces(setup: bytes, content: bytes) -> list[ScoredElsewhere]:
    opened = _opened(setup)
    given = pickle.loads(content)  # noqa: S301 - from the process that started this one

    async def score(trace: AgentTrace, earlier: Sequence[AgentTrace]) -> ScoredElsewhere:
        evaluations = await opened.engine.evaluate_trace(trace, opened.measured, earlier=earlier)
        return _elsewhere(opened, trace, evaluations)

    async def score_all() -> list[ScoredElsewhere]:
        # All at once: a metric of the user's own may wait, such as for an HTTP server.
        return await asyncio.gather(*(score(trace, earlier) for trace, earlier in given))

    return opened.runner.run(score_all())


def _score_sessions(
    setup: bytes, found: Sequence[SessionRecords]
) -> list[tuple[Session, ScoredElsewhere]]:
    opened = _opened(setup)

    async def score_all() -> list[tuple[Session, ScoredElsewhere]]:
        # All at once, as traces are.
        return await asyncio.gather(*(_scored_session(opened, x) for x in found))

    return opened.runner.run(score_all())


async def _scored_session(
    opened: _Opened, found: SessionRecords
) -> tuple[Session, ScoredElsewhere]:
    traces = tuple(map(records.decode_trace, found.traces))
    session = Session(traces[0].session_id or found.key, traces)
    decoded = map(records.decode_evaluations, found.evaluations)
    signals = {
        trace.id: {x.metric: x for x in own} for trace, own in zip(traces, decoded, strict=True)
    }
    evaluations = await opened.engine.evaluate_session(session, signals, opened.wanted)
    bare = Session(session.session_id, tuple(map(_bare, traces)))
    return bare, _elsewhere(opened, session, evaluations)._replace(records=[])


def _elsewhere(
    opened: _Opened, subject: AgentTrace | Session, evaluations: Sequence[Evaluation]
) -> ScoredElsewhere:
    wanted = only_wanted(opened.wanted, evaluations)
    return ScoredElsewhere(
        wanted, opened.show(subject, wanted), records.encode_evaluations(evaluations)
    )


def _bare(trace: AgentTrace) -> AgentTrace:
    """What identifies a trace."""
    return AgentTrace(
        trace_ids=trace.trace_ids,
        root_span_id=trace.root_span_id,
        target=trace.target,
        opening_span_id=trace.opening_span_id,
        started_ns=trace.started_ns,
        ended_ns=trace.ended_ns,
        session_id=trace.session_id,
        session_key=trace.session_key,
    )
