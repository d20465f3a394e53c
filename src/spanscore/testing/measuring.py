"""One metric on one trace or session, as the engine measures it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError

from spanscore.embed.ngrams import Ngrams
from spanscore.embed.port import Embedder
from spanscore.errors import InputError
from spanscore.evaluation.evaluations import evaluations, graded
from spanscore.evaluation.judgement import Judging
from spanscore.evaluation.measurement import Measuring, Panel, measured_by_signals
from spanscore.judge import renderer
from spanscore.judge.config import Config
from spanscore.judge.port import Judge
from spanscore.looping import waited_for
from spanscore.metrics import SIGNAL_WEIGHTS, Metric, SessionMetric, Signals, available
from spanscore.metrics.own import metric_of
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.testing.judges import ScriptedAnswer, ScriptedJudge

Measurable: TypeAlias = str | type[Metric] | Metric | Callable[..., Any]
"""A metric by its name, its class, the class with options, or the function that `@spanscore.metric`
decorates.
"""


def measure(
    metric: Measurable,
    subject: AgentTrace | Session,
    *,
    judge: Judge | ScriptedAnswer | None = None,
    earlier: Sequence[AgentTrace] = (),
    embedder: Embedder | None = None,
    **options: Any,
) -> Evaluation:
    """The evaluation that a metric, with these options, gives of a trace or a session; also inside
    a running loop.

    `judge` answers where the metric asks one: an object with `ask`, or what a `ScriptedJudge` is to
    say to all. `earlier` are the session's turns before the trace. `embedder` makes vectors;
    without it hashed n-grams are compared. Raises InputError where there is no such metric or
    option.
    """
    made = instance_of(metric, options)
    of = "session" if isinstance(subject, Session) else "trace"
    if made.scope != of:
        raise InputError(f"{made.name} measures a {made.scope}, not a {of}")
    return waited_for(
        lambda: measured(made, subject, judge_of(judge), earlier, embedder or Ngrams())
    )


def instance_of(metric: Measurable, options: dict[str, Any]) -> Metric:
    """A metric with its options. Raises InputError where there is none, or no such option."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str) and metric not in available():
        raise InputError(
            f"there is no metric {metric!r}; define it, or import the module that does"
        )
    kind = available()[metric] if isinstance(metric, str) else metric_of(metric)
    if kind is None:
        raise InputError(f"{metric!r} is no metric: decorate the function with @spanscore.metric")
    try:
        made: Metric = TypeAdapter(kind).validate_python(options)
    except ValidationError as error:
        [problem, *_] = error.errors(include_url=False)
        raise InputError(
            f"{kind.name}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}"
        ) from None
    return made


async def measured(
    metric: Metric,
    subject: AgentTrace | Session,
    judge: Judge | None,
    earlier: Sequence[AgentTrace] = (),
    embedder: Embedder | None = None,
) -> Evaluation:
    """What `measure` does, of a metric with its options."""
    config = Config()
    panel = (
        Panel(Judging(judge, config, renderer(config), asyncio.Semaphore(1)), config)
        if judge
        else None
    )
    if isinstance(metric, SessionMetric) and isinstance(subject, Session):
        found = measured_by_signals(metric, subject, Signals(), SIGNAL_WEIGHTS)
    else:
        found = (await Measuring(panel, embedder).measured([metric], subject, earlier))[metric.name]
    [evaluation] = evaluations(
        graded([metric], {metric.name: found}), subject, revision=1, now_ns=time.time_ns()
    )
    return evaluation


def judge_of(judge: Judge | ScriptedAnswer | None) -> Judge | None:
    """A judge, or one that says what is given."""
    if judge is None or hasattr(judge, "ask"):
        return cast("Judge | None", judge)
    return ScriptedJudge(default=judge)
