"""`check_metric`: what holds for every metric, whoever wrote it."""

import dataclasses
import string
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from pydantic import TypeAdapter, ValidationError

from spanscore.embed.ngrams import Ngrams
from spanscore.judge.port import Judge
from spanscore.looping import waited_for
from spanscore.metrics import Judged, Metric
from spanscore.metrics.own import CriterionMetric, SessionCriterionMetric
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.trace import AgentTrace, Session
from spanscore.testing.judges import ScriptedAnswer, ScriptedJudge
from spanscore.testing.measuring import Measurable, instance_of, judge_of, measured
from spanscore.testing.traces import sample_sessions, sample_traces

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
        raise AssertionError(
            "\n".join([f"{made.name} is not as a metric is:", *(f"- {x}" for x in problems)])
        )
    return found


def _subjects(
    metric: Metric, given: Sequence[AgentTrace | Session]
) -> Mapping[str, AgentTrace | Session]:
    samples: dict[str, AgentTrace | Session] = {}
    samples |= sample_sessions() if metric.scope == "session" else sample_traces()
    return samples | {
        f"the {metric.scope} {number} that was given": x for number, x in enumerate(given, start=1)
    }


def _of_class(metric: Metric) -> Iterator[str]:
    kind = type(metric)
    low, high = metric.scale
    if not metric.summary.strip():
        yield "it has no summary: give the function a docstring, or the class a `summary`"
    if not low < high:
        yield f"its scale is {low:g} to {high:g}: the lower end comes first"
    if not getattr(kind, "__dataclass_params__").frozen:  # noqa: B009 - which a type checker does not know
        yield "its class is no frozen dataclass: decorate it with @dataclass(frozen=True)"
    if unknown := [
        x for x in (*metric.needs, *metric.weighs) if x not in AgentTrace.__dataclass_fields__
    ]:
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
    judges = (
        [judge_of(judge)]
        if judge is not None
        else [ScriptedJudge(default=x) for x in _answers(metric)]
    )
    for each in judges:
        evaluation = await measured(metric, subject, each, embedder=embedder)
        problems += _of_outcome(evaluation)
    if not isinstance(metric, Judged) and _shown(
        await measured(metric, subject, None, embedder=embedder)
    ) != _shown(evaluation):
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
    if isinstance(metric, CriterionMetric | SessionCriterionMetric) and metric.criterion.is_yes_no:
        return [False, True]
    low, high = metric.scale
    middle = (low + high) / 2
    is_whole = (
        isinstance(metric, CriterionMetric | SessionCriterionMetric)
        and metric.criterion.whole_numbers
    )
    return [int(low), int(middle), int(high)] if is_whole else [low, middle, high]


def _of_outcome(evaluation: Evaluation) -> Iterator[str]:
    outcome = evaluation.outcome
    if not isinstance(outcome, Failure):
        if not outcome.reason.strip():
            yield f"it gives a {type(outcome).__name__} without a reason"
        return
    hint = (
        "; `needs` names facts without which it is skipped" if "NoneType" in outcome.message else ""
    )
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
