"""`measure` and `check_metric`: laws of every metric."""

import asyncio
import dataclasses
import string
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError

from spanscore.embed.ngrams import Ngrams
from spanscore.embed.port import Embedder
from spanscore.errors import InputError
from spanscore.evaluation.judgement import Judging
from spanscore.evaluation.measurement import Measuring, Panel, measured_by_signals
from spanscore.evaluation.outcomes import evaluations
from spanscore.judge import renderer
from spanscore.judge.config import Config
from spanscore.judge.port import Judge
from spanscore.metrics import SIGNAL_WEIGHTS, Judged, Metric, SessionMetric, Signals, available
from spanscore.metrics.own import CriterionMetric, SessionCriterionMetric, metric_of
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.trace import AgentTrace, Session
from spanscore.testing.judges import ScriptedAnswer, ScriptedJudge
from spanscore.testing.traces import sample_sessions, sample_traces
from spanscore.threads import waited_for

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
    who, by = judge_of(judge), embedder or Ngrams()
    return waited_for(lambda: measured(made, subject, who, earlier, by))


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
    if isinstance(metric, SessionMetric) and isinstance(subject, Session):
        found = measured_by_signals(metric, subject, Signals(), SIGNAL_WEIGHTS)
    else:
        panel = None
        if judge:
            panel = Panel(Judging(judge, config, renderer(config), asyncio.Semaphore(1)), config)
        [found] = await Measuring(panel, embedder).measured([metric], subject, earlier)
    [evaluation] = evaluations([found], subject, revision=1, clock_ns=time.time_ns)
    return evaluation


def judge_of(judge: Judge | ScriptedAnswer | None) -> Judge | None:
    """A judge, or one that says what is given."""
    if judge is None or hasattr(judge, "ask"):
        return cast("Judge | None", judge)
    return ScriptedJudge(default=judge)


_UNKNOWN = "no_metric_has_such_an_option"


def check_metric(
    metric: Measurable, *subjects: AgentTrace | Session, judge: Judge | ScriptedAnswer | None = None
) -> dict[str, Evaluation]:
    """Hold a metric to what holds for all: on sample turns or sessions, and on `subjects`, which
    are the author's.

    On each it gives a score on its scale, with a reason, or a skip, and never an error; twice the
    same; it changes nothing of what it measures; a fact that it needs and that arrived damaged is a
    skip. Its name, options, threshold and questions are such as a configuration and a judge can
    take. `judge` answers where it asks one; by default one that gives the lower end, the middle and
    the upper end of the scale in turn.

    Returns the evaluations by what was measured, for a test to look at. Raises AssertionError, with
    a line for each thing that is wrong.
    """
    made = instance_of(metric, {})
    problems = [*_of_class(made), *_of_questions(made)]
    found: dict[str, Evaluation] = {}
    for name, subject in _subjects(made, subjects).items():
        wrong, evaluation = waited_for(lambda subject=subject: _of_subject(made, subject, judge))  # type: ignore[misc] # a default binds it now
        problems += [f"{name}: {x}" for x in wrong]
        found[name] = evaluation
    if problems:
        heading = f"{made.name} is not as a metric is:"
        raise AssertionError("\n- ".join([heading, *problems]))
    return found


def _subjects(
    metric: Metric, given: Sequence[AgentTrace | Session]
) -> Mapping[str, AgentTrace | Session]:
    own = {f"the {metric.scope} {n} that was given": x for n, x in enumerate(given, start=1)}
    return {**(sample_sessions() if metric.scope == "session" else sample_traces()), **own}


def _of_class(metric: Metric) -> Iterator[str]:
    kind = type(metric)
    low, high = metric.scale
    if not metric.summary.strip():
        yield "it has no summary: give the function a docstring, or the class a `summary`"
    if not low < high:
        yield f"its scale is {low:g} to {high:g}: the lower end comes first"
    if not getattr(kind, "__dataclass_params__").frozen:  # noqa: B009 - which a type checker does not know
        yield "its class is no frozen dataclass: decorate it with @dataclass(frozen=True)"
    facts = (*metric.needs, *metric.weighs)
    if unknown := [x for x in facts if x not in AgentTrace.__dataclass_fields__]:
        yield f"it needs {', '.join(unknown)}, which no trace has"
    threshold = getattr(metric, "threshold", None)
    if isinstance(threshold, int | float) and not low <= threshold <= high:
        yield f"its threshold {threshold:g} is not on its scale, {low:g} to {high:g}"
    try:
        TypeAdapter(kind).validate_python({_UNKNOWN: 1})
        yield (
            "it takes any option: leave `__pydantic_config__` as it is, so that a mistyped one is"
            " refused"
        )
    except ValidationError:
        return


def _of_questions(metric: Metric) -> Iterator[str]:
    """What is wrong with what a judge is asked."""
    known: set[str] = set()
    if not isinstance(metric, Judged):
        return
    for stage in metric.stages:
        for question in stage:
            if missing := set(question.needs) - known:
                yield (
                    f"question {question.key!r} needs {', '.join(sorted(missing))}, which no"
                    " earlier stage asks"
                )
            template = string.Template(question.text)
            if not template.is_valid():
                yield f"question {question.key!r} has a lone $ in its text: write $$"
            named = set(template.get_identifiers())
            quoted = {*question.needs, *({"calls"} if question.of_calls else ())}
            if (unknown := named - quoted) and type(metric).quotes is Judged.quotes:
                yield (
                    f"question {question.key!r} quotes ${', $'.join(sorted(unknown))}, which"
                    " nothing gives"
                )
        known |= {x.key for x in stage}


async def _of_subject(
    metric: Metric, subject: AgentTrace | Session, judge: Judge | ScriptedAnswer | None
) -> tuple[list[str], Evaluation]:
    """What is wrong with how a subject is measured, and the last evaluation of it."""
    before = _text(subject)
    embedder = Ngrams()
    problems: list[str] = []
    judges = [judge_of(x) for x in (_answers(metric) if judge is None else [judge])]
    for each in judges:
        evaluation = await measured(metric, subject, each, embedder=embedder)
        problems += _of_outcome(evaluation)
    if not isinstance(metric, Judged):
        again = await measured(metric, subject, None, embedder=embedder)
        if _shown(again) != _shown(evaluation):
            problems.append(
                "measured twice, it gives another outcome: let it depend on nothing but what it"
                " measures"
            )
    if _text(subject) != before:
        problems.append(
            "it changes what it measures, which other metrics see then: copy before you change"
        )
    if isinstance(subject, AgentTrace):
        problems += [x async for x in _of_damage(metric, subject, judges[0])]
    return list(dict.fromkeys(problems)), evaluation


def _answers(metric: Metric) -> list[ScriptedAnswer]:
    """What judges are to say of a metric: its worst, a middling and its best."""
    own = (CriterionMetric, SessionCriterionMetric)
    criterion = metric.criterion if isinstance(metric, own) else None
    if criterion and criterion.is_yes_no:
        return [False, True]
    low, high = metric.scale
    found = [low, (low + high) / 2, high]
    return [int(x) for x in found] if criterion and criterion.whole_numbers else [*found]


def _of_outcome(evaluation: Evaluation) -> Iterator[str]:
    outcome = evaluation.outcome
    if not isinstance(outcome, Failure):
        if not outcome.reason.strip():
            yield f"it gives a {type(outcome).__name__} without a reason"
        return
    needs = "; `needs` names facts without which it is skipped"
    hint = needs if "NoneType" in outcome.message else ""
    yield f"it fails: {outcome.type}: {outcome.message}{hint}"


async def _of_damage(metric: Metric, trace: AgentTrace, judge: Judge | None) -> AsyncIterator[str]:
    for fact in metric.needs:
        damaged = dataclasses.replace(trace, damaged=(fact,))
        evaluation = await measured(metric, damaged, judge, embedder=Ngrams())
        if not isinstance(evaluation.outcome, Skip):
            yield f"it gives a score though {fact}, which it needs, arrived cut"


def _shown(evaluation: Evaluation) -> str:
    return dumps([evaluation.status, evaluation.value, evaluation.reason])


def _text(subject: AgentTrace | Session) -> str:
    traces = subject.traces if isinstance(subject, Session) else (subject,)
    return dumps([x.to_json() for x in traces])
