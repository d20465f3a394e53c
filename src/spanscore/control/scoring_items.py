"""One trace or session of a run: evaluated, compared with what the run gave it before, and
counted.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from spanscore.control.measurer import Measurer
from spanscore.evaluation import MAX_EARLIER_BYTES, MAX_EARLIER_TURNS, Overrides
from spanscore.evaluation.evaluations import cause_of, superseding
from spanscore.metrics import SessionMetric
from spanscore.model.score import Evaluation, Failure, JudgeUsage, Score, Skip
from spanscore.model.trace import AgentTrace, Session
from spanscore.scoring import Scoring
from spanscore.specs.runs import RunSpec
from spanscore.store.runs import Finished, Item, Run, Tallied
from spanscore.store.store import Store
from spanscore.store.writing import NO_TEXT, key

_log = logging.getLogger(__name__)

_MAX_ERROR = 500
_OF_SESSION = "runs_with_session"


class Worked(NamedTuple):
    """The evaluations of an item, and what becomes of it."""

    evaluations: list[Evaluation]
    finished: Finished


class ItemScoring:
    """Evaluates the items of one run. Belongs to one event loop."""

    def __init__(
        self, run: Run, spec: RunSpec, measurer: Measurer, scoring: Scoring, store: Store
    ) -> None:
        self._run = run
        self._spec = spec
        self._measurer = measurer
        self._scoring = scoring
        self._store = store

    async def work(self, item: Item) -> Worked:
        """Evaluate an item; on a retry only what had failed.

        Nothing is stored yet, and no error of it escapes.
        """
        try:
            if self._spec.target.scope == "session":
                return await self._session(item)
            return await self._trace(item)
        except Exception as error:  # noqa: BLE001 - one trace must not stop a run
            _log.exception("run %s: %r cannot be evaluated", self._run.id, item.subject_id)
            return failed(item, error)

    async def _trace(self, item: Item) -> Worked:
        trace = await self._of_store(self._store.trace, item.subject_id)
        if trace is None:
            return _no_longer_stored(item)
        before = await self._before(item, trace_id=trace.id)
        overrides = self._of_failed(before) if item.tries else self._measurer.overrides
        earlier = await self._earlier(trace)
        found = await self._measurer.engine.evaluate_trace(
            trace, overrides, revision=item.tries + 1, earlier=earlier
        )
        worked = self._worked(item, found, before)
        is_first = not before  # else this skip is counted already
        if is_first and self._measurer.names_rubric and trace.session_id is not None:
            worked = _with_skipped(worked, "rubric", _OF_SESSION)
        return worked

    async def _session(self, item: Item) -> Worked:
        stored = await self._of_store(self._store.sessions, [item.subject_id])
        if not stored:
            return _no_longer_stored(item)
        session = stored[0].session
        before = _own(session, await self._before(item, session_id=item.subject_id))
        engine, external = self._measurer.engine, []
        if engine.uses_external_scores:
            external = await self._of_store(self._store.external_scores, session_key=session.id)
        found = await engine.evaluate_session(
            session,
            _signals(before),
            self._of_failed_session(before) if item.tries else self._measurer.overrides,
            revision=item.tries + 1,
            external=external,
            with_signals=True,
        )
        return self._worked(item, found, before)

    async def _before(self, item: Item, **subject: str) -> list[Evaluation]:
        """What the run gave an item when it was tried before."""
        if not item.tries:
            return []
        found: list[Evaluation] = await self._of_store(
            self._store.evaluations, **subject, run=self._run.id
        )
        return found

    async def _of_store(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store has of the run's tenant."""
        return await self._scoring.patiently(ask, *arguments, **options, tenant=self._run.tenant)

    async def _earlier(self, trace: AgentTrace) -> list[AgentTrace]:
        if trace.session_id is None or not self._measurer.engine.looks_back:
            return []
        found: list[AgentTrace] = await self._scoring.patiently(
            self._store.turns_before, trace, limit=MAX_EARLIER_TURNS, max_bytes=MAX_EARLIER_BYTES
        )
        return found

    def _of_failed(self, before: Sequence[Evaluation]) -> Overrides:
        """What measures again what has failed; all, where nothing of it could be stored."""
        names = tuple(dict.fromkeys(x.metric for x in before if _has_failed(x)))
        return (
            replace(self._measurer.overrides, metrics=names) if names else self._measurer.overrides
        )

    def _of_failed_session(self, before: Sequence[Evaluation]) -> Overrides:
        """As `_of_failed`; with a signal that failed, the session's metrics that rest on signals
        are measured anew.
        """
        lost = [x for x in before if _has_failed(x)]
        own = {x.name for x in self._measurer.metrics}
        names = [x.metric for x in lost if x.scope == "session" or x.metric in own]
        if any(x.scope == "trace" for x in lost):
            names += [x.name for x in self._measurer.metrics if isinstance(x, SessionMetric)]
        chosen = tuple(dict.fromkeys(names))
        return (
            replace(self._measurer.overrides, metrics=chosen)
            if chosen
            else self._measurer.overrides
        )

    def _worked(
        self, item: Item, found: Sequence[Evaluation], before: Sequence[Evaluation]
    ) -> Worked:
        chance = self._run.progress.sampling
        made = [
            replace(x, run=self._run.id, withheld=not self._spec.export, sampling=chance, rank=rank)
            for rank, x in enumerate(found)
        ]
        made = superseding(made, before)
        newest = {(x.subject_id, x.metric): x for x in [*before, *made]}
        replaced = [x for x in before if newest[x.subject_id, x.metric] is not x]
        lost = next((x for x in newest.values() if _has_failed(x)), None)
        error = None if lost is None else _text(f"{lost.metric}: {lost.reason}")
        usage = sum((x.usage for x in made), JudgeUsage())
        tally = tallied(made) + -tallied(replaced)
        return Worked(
            made, Finished(item.subject_id, "FAILED" if lost else "DONE", error, tally, usage)
        )


def tallied(found: Iterable[Evaluation]) -> Tallied:
    """How many of these are scores, and why the others are none."""
    kinds: dict[type, Counter[str]] = {Skip: Counter(), Failure: Counter()}
    scored = 0
    for evaluation in found:
        match evaluation.outcome:
            case Skip(cause=cause):
                kinds[Skip][f"{evaluation.metric}\t{cause}"] += 1
            case Failure(type=error):
                kinds[Failure][f"{evaluation.metric}\t{error}"] += 1
            case Score():
                scored += 1
    return Tallied(scored, dict(kinds[Skip]), dict(kinds[Failure]))


def failed(item: Item, error: Exception) -> Worked:
    """An item of which nothing can be stored."""
    tally = Tallied(failed={f"\t{type(error).__name__}": 1})
    return Worked([], Finished(item.subject_id, "FAILED", _text(str(error)), tally, JudgeUsage()))


def _text(error: str) -> str:
    """An error as a column can hold it."""
    return NO_TEXT.sub("", error)[:_MAX_ERROR]


def _no_longer_stored(item: Item) -> Worked:
    tally = Tallied(skipped={"\tnot_stored": 1})
    return Worked(
        [], Finished(item.subject_id, "GONE", "it is no longer stored", tally, JudgeUsage())
    )


def _with_skipped(worked: Worked, metric: str, cause: str) -> Worked:
    finished = worked.finished
    scores = finished.scores + Tallied(skipped={f"{metric}\t{cause}": 1})
    return worked._replace(finished=finished._replace(scores=scores))


def _has_failed(evaluation: Evaluation) -> bool:
    """Whether there is no score for a reason that may pass, such as a spent budget, or for an
    error.
    """
    return evaluation.status == "failed" or cause_of(evaluation) is not None


def _own(session: Session, found: Iterable[Evaluation]) -> list[Evaluation]:
    """Those of `session` and its traces: its id may also be that of sessions in other
    namespaces.
    """
    traces, own_key = {x.id for x in session.traces}, key(session.id)
    return [
        x
        for x in found
        if (x.subject_id in traces if x.scope == "trace" else key(x.subject_id) == own_key)
    ]


def _signals(before: Iterable[Evaluation]) -> Mapping[str, Mapping[str, Evaluation]]:
    """What the run measured of a session's traces, by trace and metric, but for what failed."""
    found: dict[str, dict[str, Evaluation]] = {}
    for evaluation in before:
        if evaluation.scope == "trace" and not _has_failed(evaluation):
            found.setdefault(evaluation.subject_id, {})[evaluation.metric] = evaluation
    return found
