"""What the fixture `spanscore` gives to a test: the turns that its agent emitted, and their
scores.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

from spanscore.content import ContentWatch
from spanscore.errors import InputError
from spanscore.metrics import Metric
from spanscore.model.score import Evaluation, SkipCause
from spanscore.model.trace import AgentTrace, Session
from spanscore.rebuild import rebuild_all
from spanscore.received_scores import read_external
from spanscore.sdk.authoring.expectations import ExpectedTools
from spanscore.sdk.authoring.record_score import record_score
from spanscore.sdk.capturing import Capture
from spanscore.sdk.cassettes import Cassette
from spanscore.sdk.pytest_plugin.expecting import (
    Bounds,
    NoTurnError,
    case_of,
    require,
    require_outcome,
)
from spanscore.sdk.pytest_plugin.results import Gathered
from spanscore.sdk.pytest_plugin.scoring import Scoring, sessions

WAIT_S = 2.0
"""How long is waited for spans that are still open when a test asks for its turns, in seconds."""


Named: TypeAlias = str | type[Metric] | Callable[..., Any]
"""A metric by its name, or one of one's own as what `spanscore.metric` or `spanscore.criterion`
gave.
"""


class Recorder:
    """The turns of one test, or of one trial of it, and what they are expected to score."""

    def __init__(self, capture: Capture, scoring: Scoring, cassette: Cassette) -> None:
        self._capture = capture
        self._scoring = scoring
        self._cassette = cassette
        self._silent: list[str] = []
        self._scored: list[tuple[tuple[AgentTrace, ...], Evaluation]] = []

    def turn(self, *, timeout_s: float = WAIT_S) -> AgentTrace:
        """The test's latest turn: from a user's input to the agent's answer, rebuilt from what was
        emitted so far.

        Waits up to `timeout_s` seconds for spans that other threads have still to end. Raises
        NoTurnError where there is none.
        """
        __tracebackhide__ = True
        return self.turns(timeout_s=timeout_s)[-1]

    def turns(self, *, timeout_s: float = WAIT_S) -> list[AgentTrace]:
        """All turns of the test, oldest first; see `turn`."""
        __tracebackhide__ = True
        found = self.recorded(timeout_s)
        if not found:
            raise NoTurnError(self._why_none())
        return found

    def session(self, *, timeout_s: float = WAIT_S) -> Session:
        """The session of the latest turn; turns without a session id are one conversation.

        See `turn`.
        """
        __tracebackhide__ = True
        return sessions(self.turns(timeout_s=timeout_s))[-1]

    def evaluate(
        self, metrics: Sequence[Named] | Named | None = None, *, turn: AgentTrace | None = None
    ) -> list[Evaluation]:
        """The scores of the test's turns, or of one of them, and of their sessions.

        `metrics` are those to measure, or their names; None: those of the configuration. What was
        measured is not measured again. Raises NoTurnError where there is no turn, and InputError on
        a metric that there is not.
        """
        __tracebackhide__ = True
        turns = self.turns() if turn is None else [turn]
        if metrics is None:
            return self._measure(turns, None)
        names = [_name(metric) for metric in _listed(metrics)]
        missing = [name for name in names if not self._known(turns, name)]
        if missing:
            self._measure(turns, missing)
        return [score for name in names for score in self._known(turns, name)]

    def _measure(
        self, turns: Sequence[AgentTrace], names: Sequence[str] | None
    ) -> list[Evaluation]:
        """Measure metrics, and remember the scores in place of those that these turns had."""
        found = self._scoring.evaluated(turns, names, self._cassette)
        measured = {score.metric for score in found}
        self._scored = [
            (of, score)
            for of, score in self._scored
            if of != tuple(turns) or score.metric not in measured
        ]
        self._scored += [(tuple(turns), score) for score in found]
        self._cassette.save()
        return found

    @overload
    def expect(
        self,
        metric: Named,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        turn: AgentTrace | None = None,
    ) -> Evaluation: ...

    @overload
    def expect(
        self,
        *,
        answer: object = None,
        tools: ExpectedTools | None = None,
        outcomes: str | Sequence[str] = (),
        in_order: bool | None = None,
        turn: AgentTrace | None = None,
    ) -> None: ...

    def expect(
        self,
        metric: Named | None = None,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        answer: object = None,
        tools: ExpectedTools | None = None,
        outcomes: str | Sequence[str] = (),
        in_order: bool | None = None,
        turn: AgentTrace | None = None,
    ) -> Evaluation | None:
        """Require a score of each turn of the test, or of `turn`; or what the latest turn, or
        `turn`, is to come to.

        With a metric: that each score is within bounds; without bounds its own threshold decides.
        Gives the lowest score. Without one: that the answer says as much as `answer`, that the tool
        calls are `tools`, and that `outcomes` are true in the end, each as in a suite.

        Raises NotReachedError, an AssertionError, where it is not so, NotScoredError, another one,
        where it cannot be told, and InputError where it makes no sense.
        """
        __tracebackhide__ = True
        stated = answer is not None or tools is not None or bool(outcomes)
        if (metric is not None) == stated:
            raise InputError(
                "expect either a metric, such as task_completion, or an answer, tools or outcomes"
            )
        if metric is None:
            of = turn or self.turn()
            trial = self._scoring.tried(
                of, case_of(answer, tools, outcomes, in_order=in_order), self._cassette
            )
            self._cassette.save()
            self._scored += [((of,), x) for x in trial.evaluations]
            require_outcome(trial, of, self._how_to_score("no_judge"))
            return None
        turns = self.turns() if turn is None else [turn]
        found = self.evaluate(metric, turn=turn)
        return require(_name(metric), found, Bounds(at_least, at_most), turns, self._how_to_score)

    def record_score(
        self,
        name: str,
        value: bool | float | str,
        *,
        comment: str | None = None,
        scale: tuple[float, float] | None = None,
        source: str = "programmatic",
        author: str | None = None,
        turn: AgentTrace | None = None,
    ) -> None:
        """Record what the test itself found of its latest turn, or of `turn`, as
        `spanscore.record_score` does.

        It is shown beside the other scores in reports, and leaves with the agent's own spans.
        Raises NoTurnError.
        """
        __tracebackhide__ = True
        target = (turn or self.turn()).target
        traceparent = f"00-{target.trace_id}-{target.span_id}-01"
        record_score(
            name,
            value,
            comment=comment,
            scale=scale,
            source=source,
            author=author,
            trace=traceparent,
        )

    def recorded(self, timeout_s: float = 0.0) -> list[AgentTrace]:
        """The turns so far, oldest first; none is no error."""
        watch = ContentWatch()
        spans, logs = self._capture.telemetry(timeout_s)
        found = rebuild_all(
            spans, logs, watch=watch, stitch_off=self._scoring.settings.assemble.stitch_off
        )
        self._silent = [str(x) for x in watch.silent]
        return found

    def gathered(self, *, is_unknown: bool = False) -> Gathered:
        """What the test recorded, for reports."""
        turns = [x.to_json() for x in self.recorded()]
        given = read_external(*self._capture.telemetry())
        scores = [x.to_json() for x in (*(x for _, x in self._scored), *given)]
        answers = self._cassette
        return Gathered(
            turns, scores, is_unknown, self._capture.left_out, answers.replayed, answers.recorded
        )

    def _known(self, turns: Sequence[AgentTrace], metric: str) -> list[Evaluation]:
        return [x for those, x in self._scored if those == tuple(turns) and x.metric == metric]

    def _how_to_score(self, cause: SkipCause) -> str:
        """What may be done where there is no score for this cause; "" where nothing is known."""
        if cause == "no_judge":
            return (
                "name a judge with --spanscore-judge MODEL or SPANSCORE_JUDGE_MODEL, and"
                " --spanscore-record=once to keep its answers for runs without one"
            )
        return "; ".join(self._silent) if cause == "not_recorded" else ""

    def _why_none(self) -> str:
        """Why there is no turn, and what may be done about it."""
        scopes = self._capture.scopes()
        count, open_spans = sum(scopes.values()), self._capture.open_spans()
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return (
                "no turn was recorded: OTEL_SDK_DISABLED is set, so that no span is made; unset it"
                " for this test"
            )
        if open_spans:
            how = "consume the agent's answer to its end, or wait longer with turn(timeout_s=30)"
            return f"no turn was recorded: {open_spans} of its spans have not ended; {how}"
        if not count:
            how = "turn on the instrumentation of its framework, in a conftest.py for instance"
            return f"no turn was recorded: the agent emitted no span in this test; {how}"
        names = ", ".join(f"{x or 'no name'} ({n})" for x, n in sorted(scopes.items())[:5])
        return (
            f"no turn was recorded: of {count} spans, from {names}, none is known to be of an agent"
            " or a model; is the instrumentation one of GenAI spans?"
        )


def _name(metric: Named) -> str:
    """What a metric is called."""
    from spanscore.metrics.own import (  # noqa: PLC0415 - not in runs of pytest that score nothing
        name_of,
    )

    return metric if isinstance(metric, str) else name_of(metric)


def _listed(metrics: Sequence[Named] | Named) -> Sequence[Named]:
    return metrics if isinstance(metrics, Sequence) and not isinstance(metrics, str) else [metrics]
