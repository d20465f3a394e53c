"""Failed judgements, asked again later."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from spanscore import metrics
from spanscore.config import Settings
from spanscore.evaluation import rubric
from spanscore.evaluation.config import AskAgain
from spanscore.judge import open_for_trial
from spanscore.judge.port import Answer, AnswerT, Ending, Judge, Prompt
from spanscore.judge.trial import Trials
from spanscore.model.score import ScopeKind
from spanscore.scoring import Scoring
from spanscore.store.store import Store, Unanswered
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

_NS = 10**9
_EVERY_S = 10.0
_LOG_EVERY_NS = 60 * _NS
_LOOKED_AT = 500
_PUT_OFF_NS = 10 * 60 * _NS
"""How long what cannot be asked now, or is asked with its session, is left alone."""


@dataclass(frozen=True, slots=True)
class ConfiguredMetrics:
    """What may be asked: the names of the configured metrics, and the models of those that are
    judged.

    The rubric's models are under `rubric`; `of_judge` are the judge's own.
    """

    metrics: frozenset[str]
    models: Mapping[str, tuple[str, ...]]
    of_judge: tuple[str, ...] = ()

    def has(self, metric: str) -> bool:
        """Whether a metric is still configured."""
        return metric in self.metrics or (rubric.is_rubric(metric) and rubric.NAME in self.models)

    def models_of(self, metric: str) -> tuple[str, ...]:
        """The models that may answer for a metric."""
        return self.models.get(rubric.NAME if rubric.is_rubric(metric) else metric, self.of_judge)


@dataclass(eq=False)
class Rescoring:
    """Asks again, some traces at a time, and says how it went. Belongs to one event loop."""

    config: AskAgain
    configured: ConfiguredMetrics
    trials: Trials | None
    scoring: Scoring
    store: Store
    meter: Meter
    _: KW_ONLY
    session_due: Callable[[str], None]
    """Called with the key of a session that is to be evaluated again."""
    clock_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._answers_since_ns = 0
        self._answered: set[tuple[str, str]] = set()
        self._sessions: set[str] = set()
        self._logged_ns = 0
        self._left = 0
        self.meter.watch(declared.EVALUATIONS_UNANSWERED, lambda: self._left)

    async def run(self) -> None:
        """Ask again for ever.

        What was skipped for a budget before the start is due: the budget begins anew.
        """
        is_new = True
        while True:
            try:
                if is_new:
                    await self.scoring.patiently(self.store.make_due, "budget", self.clock_ns())
                    is_new = False
                await self.once()
            except Exception:  # noqa: BLE001 - what is missing can wait, the server cannot
                _log.exception("what got no answer cannot be asked again now")
            await self.sleep(_EVERY_S)

    async def once(self) -> None:
        """Ask again for some of what is due."""
        now_ns = self.clock_ns()
        self._left = await self.scoring.patiently(self.store.count_unanswered)
        if self._left:
            await self._ask_for_due(now_ns)
            self._left = await self.scoring.patiently(self.store.count_unanswered)
        self._log_left(now_ns)

    async def _ask_for_due(self, now_ns: int) -> None:
        await self._give_up(now_ns)
        await self._note_answers(now_ns)
        rows = await self.scoring.patiently(self.store.unanswered, now_ns, _LOOKED_AT)
        await self._ask(await self._askable(rows, now_ns), now_ns)

    async def _give_up(self, now_ns: int) -> None:
        config = self.config
        given_up = await self.scoring.patiently(
            self.store.give_up,
            before_ns=now_ns - config.max_age,
            max_tries=config.max_tries,
            keep=config.max_waiting,
        )
        if given_up:
            self.meter.add(declared.EVALUATIONS_ASKED_AGAIN, given_up, outcome="given_up")
            _log.warning(
                "%d scores that got no answer are given up, by the bounds of evaluation.ask_again",
                given_up,
            )

    async def _note_answers(self, now_ns: int) -> None:
        """Where a model has begun to answer, what waits for a judge need wait no longer."""
        since_ns = 0 if self.trials is None else self.trials.answers_since_ns
        if since_ns > self._answers_since_ns:
            self._answers_since_ns = since_ns
            await self.scoring.patiently(self.store.make_due, "judge", now_ns)

    async def _askable(self, rows: Sequence[Unanswered], now_ns: int) -> list[Unanswered]:
        """Those of `rows` that may be answered now; the others are put off, or forgotten where
        nobody wants them.
        """
        unwanted = [x for x in rows if not self.configured.has(x.metric)]
        hopeless = [x for x in rows if x not in unwanted and not self._may_be_answered(x)]
        if unwanted:
            await self.scoring.patiently(self.store.forget, unwanted)
        if hopeless:
            await self.scoring.patiently(self.store.put_off, hopeless, now_ns + _PUT_OFF_NS)
        return [x for x in rows if x not in unwanted and x not in hopeless]

    def _may_be_answered(self, row: Unanswered) -> bool:
        if row.cause == "embedding":
            return True
        return self.trials is not None and self.trials.may_answer(
            self.configured.models_of(row.metric)
        )

    async def _ask(self, rows: Sequence[Unanswered], now_ns: int) -> None:
        by_subject: defaultdict[tuple[ScopeKind, str], list[Unanswered]] = defaultdict(list)
        for row in rows:
            by_subject[row.scope, row.subject_id].append(row)
        most = max(1, round(self.config.per_minute * _EVERY_S / 60))
        await asyncio.gather(*(self._ask_one(x, now_ns) for x in list(by_subject.values())[:most]))

    async def _ask_one(self, rows: Sequence[Unanswered], now_ns: int) -> None:
        """Ask again for what is missing of one trace or session."""
        subject_id = rows[0].subject_id
        if rows[0].scope == "session":
            await self._with_session(subject_id, rows, now_ns)
            return
        later = [x for x in rows if _runs_with_session(x.metric)]
        now = [x for x in rows if x not in later]
        if later:
            trace = await self.scoring.patiently(self.store.trace, subject_id, tenant=None)
            if trace is None or trace.session_key is None:
                await self.scoring.patiently(self.store.forget, later)
            else:
                await self._with_session(trace.session_key, later, now_ns)
        if now:
            await self._of_trace(subject_id, now)

    async def _with_session(self, session_id: str, rows: Sequence[Unanswered], now_ns: int) -> None:
        """Have a session evaluated again, with what is missing of it and of its traces."""
        await self.scoring.patiently(self.store.put_off, rows, now_ns + _PUT_OFF_NS)
        self._evaluate_again(session_id)

    def _evaluate_again(self, session_id: str) -> None:
        """Have a session evaluated again as if it had gone on."""
        self._sessions.add(session_id)
        self.session_due(session_id)

    async def _of_trace(self, trace_id: str, rows: Sequence[Unanswered]) -> None:
        try:
            found = await self.scoring.complete(trace_id, [x.metric for x in rows])
        except Exception:  # noqa: BLE001 - one trace must not stop the server
            _log.exception("a trace cannot be evaluated again", extra={"trace_id": trace_id})
            found = None
        if found is None:
            await self.scoring.patiently(self.store.forget, rows)
            return
        outcomes = {"answered": len(found), "unanswered": len(rows) - len(found)}
        for outcome, count in outcomes.items():
            if count:
                self.meter.add(declared.EVALUATIONS_ASKED_AGAIN, count, outcome=outcome)
        self._answered.update((trace_id, x.metric) for x in found)
        for key in {x.session_key or x.session_id for x in found} - {None}:
            self._evaluate_again(str(key))

    def _log_left(self, now_ns: int) -> None:
        """Say how much was made up for, once a minute at most, and when all is."""
        if not (self._answered or self._sessions) or (
            self._left and now_ns - self._logged_ns < _LOG_EVERY_NS
        ):
            return
        traces = len({trace_id for trace_id, _ in self._answered})
        line = (
            "asked again: %d scores of %d traces that had got no answer are there now, %d are still"
            " missing; sessions that are evaluated again: %d"
        )
        _log.info(line, len(self._answered), traces, self._left, len(self._sessions))
        self._answered.clear()
        self._sessions.clear()
        self._logged_ns = now_ns


def open_trials(
    settings: Settings, meter: Meter, ending: Ending, judge: Judge | None = None
) -> Trials | None:
    """Of all models that may be asked, or of `judge` in their place, until the `ending`; None where
    there is none, or where recorded answers stand in for them.
    """
    if judge is not None:
        given = _Given(judge)
        return Trials([type(judge).__name__], lambda: ending.of(given), meter)
    judges = [x for x in settings.judges if x.models]
    if settings.judge.recorded_answers is not None or not judges:
        return None
    return Trials(settings.all_models(), lambda: ending.of(open_for_trial(judges[0])), meter)


class _Given:
    """A judge that an application gave, which knows no models by name."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        del models
        return await self._judge.ask(prompt, schema)


def configured_metrics(settings: Settings) -> ConfiguredMetrics:
    """What a configuration asks for."""
    own = tuple(dict.fromkeys(model for judge in settings.judges for model in judge.models))
    names = frozenset(x.name for variant in settings.evaluation.variants() for x in variant.build())
    return ConfiguredMetrics(names, settings.models(), own)


def _runs_with_session(metric: str) -> bool:
    known = metrics.available().get(metric)
    return known is not None and known.run == "session" and not rubric.is_rubric(metric)
