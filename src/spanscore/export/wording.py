"""Words and attributes of scores in every form."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from struct import Struct
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.model.json import dumps
from spanscore.model.score import (
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Score,
    Skip,
    Tally,
    reaches,
)
from spanscore.model.span import Attributes, Value, without_headers
from spanscore.otlp import codec
from spanscore.otlp.codec import well_formed

_TALLIES = {"trace": "_spanscore", "session": "_spanscore_session"}
"""The names under which tools show how all metrics came out: they sort by name, and these come
before all others. They differ since MLflow keeps a session's scores on one of its traces, and finds
by them every trace of the session.
"""

OF_SESSION, LATENCY = "spanscore.session_id", "spanscore.latency_s"
"""The attributes of a trace's score that name its session, and how long the agent worked."""

_CUT = " [cut]"
_SHORT_CHARS = 200
_FEW_ITEMS = 20
_MAX_DEPTH = 8


def summary(evaluation: Evaluation) -> str:
    """One line with the whole score: `task_completion = 0.83 (pass)`."""
    if isinstance(evaluation.outcome, Failure):
        return f"{evaluation.metric} failed: {evaluation.outcome.type}"
    if isinstance(evaluation.outcome, Skip):
        return f"{evaluation.metric} skipped: {evaluation.outcome.cause}"
    if evaluation.value is None:
        return f"{evaluation.metric} = {evaluation.label}"
    return _line(evaluation.metric, evaluation.value, evaluation.label, evaluation.threshold)


def verdict(evaluation: Evaluation) -> str:
    """How an evaluation came out, in a word or two: its label where it has one."""
    if isinstance(evaluation.outcome, Failure):
        return "error"
    return evaluation.label or ("score" if isinstance(evaluation.outcome, Score) else "no score")


def tally(found: Tally) -> str:
    """How all metrics came out: `1 of 9 failed`, `all 9 passed`, `all 3 passed, 2 errors`."""
    failed, judged, errors = len(found.failed), len(found.judged), len(found.errors)
    parts = []
    if judged:
        parts.append(f"{failed} of {judged} failed" if failed else f"all {judged} passed")
    if errors:
        parts.append("1 error" if errors == 1 else f"{errors} errors")
    return ", ".join(parts) or "no verdict"


def tally_summary(found: Tally) -> str:
    """How all metrics came out, and which failed: `1 of 9 failed: task_completion`."""
    failed = ", ".join(x.metric for x in found.failed)
    return f"{tally(found)}: {failed}" if failed else tally(found)


def tally_reason(found: Tally) -> str:
    """How all metrics came out, and why the first of them failed."""
    if not found.reason:
        return tally_summary(found)
    return f"{tally(found)}: {found.failed[0].metric}: {found.reason}"


def tally_lines(found: Tally) -> list[str]:
    """Each result of a tally in a line, in the order in which they matter."""
    return [
        (
            f"{x.metric} failed: {x.problem}"
            if x.value is None
            else _line(x.metric, x.value, x.label, x.threshold)
        )
        for x in found.results
    ]


def tallied(evaluation: Evaluation) -> list[Evaluation]:
    """The evaluation and, where it has one, its tally as an evaluation of its own: for tools with
    an API of their own.

    Its value is the share that passed.
    """
    found = evaluation.tally
    if found is None or not found.judged:
        return [evaluation]
    passed = 1 - len(found.failed) / len(found.judged)
    outcome = Score(passed, "\n".join([tally_reason(found), *tally_lines(found)]), {}, found.label)
    name = _TALLIES[evaluation.scope]
    own = Evaluator("CODE", name, evaluation.evaluator.version)
    summed = replace(
        evaluation, metric=name, outcome=outcome, threshold=None, scale=(0.0, 1.0), evaluator=own
    )
    return [evaluation, replace(summed, tally=None, usage=JudgeUsage())]


def is_tally(evaluation: Evaluation) -> bool:
    """Whether this is one that `tallied` adds."""
    return evaluation.metric in _TALLIES.values()


def revised(before: str | None) -> str:
    """What ends the name of a span that takes the place of one with the label `before`: ` (revised,
    was fail)`.
    """
    return " (revised)" if before is None else f" (revised, was {before})"


def rounded(value: float, threshold: float | None = None, digits: int = 4) -> float:
    """`value` to a few digits, but to more where it would else reach a threshold that it does not.

    >>> rounded(0.5050252531694168), rounded(0.49999, 0.5), rounded(0.49999, 0.5, digits=2)
    (0.505, 0.49999, 0.49999)
    """
    for more in range(digits, 16):
        near = round(value, more)
        if threshold is None or reaches(near, threshold) == reaches(value, threshold):
            return near
    return value


def _line(metric: str, value: float, label: str | None, threshold: float | None) -> str:
    near = rounded(value, threshold, 2)
    text = f"{near:.2f}" if round(near, 2) == near else f"{near}"
    return f"{metric} = {text}" + (f" ({label})" if label else "")


def labelled(evaluation: Evaluation) -> str:
    """The reason with the verdict before it: `fail (0.3, passes from 0.5): …`."""
    if evaluation.label is None or evaluation.value is None:
        return evaluation.reason
    if evaluation.threshold is None:
        return f"{evaluation.label}: {evaluation.reason}"
    value = rounded(evaluation.value, evaluation.threshold)
    return (
        f"{evaluation.label} ({value:.15g}, passes from {evaluation.threshold:g}):"
        f" {evaluation.reason}"
    )


def session(evaluation: Evaluation) -> str | None:
    """The session that a score itself has to name: its own, or that of a trace where no span
    does.
    """
    if evaluation.scope == "session":
        return evaluation.session_id or evaluation.subject_id
    return None if evaluation.target.span_id else evaluation.session_id


def bounds(scale: tuple[float, float] | None, threshold: float | None) -> dict[str, Value]:
    """The scale and the threshold that there are, as attributes."""
    found: dict[str, Value] = {}
    if scale is not None:
        found["spanscore.scale"] = [float(x) for x in scale]
    if threshold is not None:
        found["spanscore.threshold"] = float(threshold)
    return found


def evaluator(found: Evaluator) -> dict[str, Value]:
    """Who measured, as attributes; the conventions have one name for version and prompt."""
    version = "+".join(x for x in (found.version, found.prompt_hash) if x)
    conventional: dict[str, Value] = {"gen_ai.evaluation.evaluator.version": version}
    return named("spanscore.evaluator.", found) | (conventional if version else {})


def named(prefix: str, facts: Evaluator | JudgeUsage) -> dict[str, Value]:
    """The facts that there are, as attributes."""
    found = ((name, getattr(facts, name)) for name in facts.__dataclass_fields__)
    return {f"{prefix}{name}": value for name, value in found if value is not None}


def trial(evaluation: Evaluation) -> dict[str, Value]:
    """The test that the evaluated turn was recorded for, as OpenTelemetry names its facts."""
    if evaluation.trial is None:
        return {}
    named = {
        "test.suite.name": evaluation.trial.suite,
        "test.suite.run.id": evaluation.trial.run,
        "test.case.id": evaluation.trial.case,
        "test.case.result.status": evaluation.trial.status,
    }
    return {key: value for key, value in named.items() if value is not None}


def cut(text: str, max_chars: int) -> str:
    """`text`, at most `max_chars` long; where something is missing it ends in `[cut]`."""
    return text if len(text) <= max_chars else text[: max_chars - len(_CUT)] + _CUT


def metadata(facts: Mapping[str, Any], max_chars: int) -> str | None:
    """`facts` as JSON of at most `max_chars`; None where there are none.

    Where they are too long, long texts and lists in them are cut; where that does not do, only
    their names are left.
    """
    if not facts:
        return None
    try:
        text = dumps(facts)
    except RecursionError:  # a tool's arguments can be nested as deep as their sender likes
        text = ""
    if not text or len(text) > max_chars:
        text = dumps(_shortened(facts, 0))
    if len(text) > max_chars:
        text = dumps({"cut": [str(key)[:_SHORT_CHARS] for key in facts][:_FEW_ITEMS]})
    return text if len(text) <= max_chars else None


def _shortened(item: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return _CUT
    if isinstance(item, str):
        return cut(item, _SHORT_CHARS)
    if isinstance(item, Mapping):
        return {key: _shortened(x, depth + 1) for key, x in list(item.items())[:_FEW_ITEMS]}
    if isinstance(item, Sequence):
        return [_shortened(x, depth + 1) for x in item[:_FEW_ITEMS]]
    return item


_INDEXED = re.compile(r"evaluations\.(\d{1,9})\.")
_IDENTIFIER = "spanscore"


def annotate(span: Span, evaluations: Iterable[Evaluation], *, max_text_length: int = 8192) -> None:
    """Write scores into `span`, as `scored` has them, behind the attributes that it has.

    Nothing shows the span as emitted by spanscore: it is the user's.
    """
    keys = (x.key for x in span.attributes)
    codec.fill(span.attributes, scored(evaluations, keys, max_text_length=max_text_length))


def scored(
    evaluations: Iterable[Evaluation], keys: Iterable[str] = (), *, max_text_length: int = 8192
) -> dict[str, Value]:
    """Scores as attributes: `spanscore.METRIC.score`, `.label`, `.reason`, and OpenInference's
    indexed form.

    How all metrics came out is `spanscore.summary` and `spanscore.verdict`. A failed evaluation
    gives `spanscore.METRIC.error` with the error's type, a skipped one nothing. `keys` are those
    that the span has: evaluations that it carries already, from another evaluator, keep their
    places.
    """
    place = 1 + max((int(found[1]) for key in keys if (found := _INDEXED.match(key))), default=-1)
    written: dict[str, Value] = {}
    for evaluation in evaluations:
        outcome = evaluation.outcome
        if evaluation.tally is not None:
            written["spanscore.summary"] = tally_summary(evaluation.tally)
            written["spanscore.verdict"] = evaluation.tally.label
        if isinstance(outcome, Score):
            written |= _of_score(evaluation, outcome, place, max_text_length)
            place += 1
        elif isinstance(outcome, Failure):
            written[f"spanscore.{evaluation.metric}.error"] = outcome.type
    return {key: value for key, value in written.items() if value not in (None, "")}


def _of_score(
    evaluation: Evaluation, outcome: Score, place: int, max_text_length: int
) -> dict[str, Value]:
    reason = cut(outcome.reason, max_text_length)
    value = rounded(outcome.value, evaluation.threshold)
    own, indexed = f"spanscore.{evaluation.metric}", f"evaluations.{place}.evaluation"
    return {
        f"{own}.score": value,
        f"{own}.label": evaluation.label,
        f"{own}.reason": reason,
        f"{indexed}.name": evaluation.metric,
        f"{indexed}.score": value,
        f"{indexed}.label": evaluation.label,
        f"{indexed}.explanation": reason,
        f"{indexed}.annotator_kind": evaluation.evaluator.kind,
        f"{indexed}.identifier": _IDENTIFIER,
    }


_LENGTHS = 1024  # that are remembered of each text
_DELIMITED = 2  # the wire type of what comes with its length
_double = Struct("<d").pack


class Text:
    """The part of a message that is one text, such as an attribute."""

    def __init__(self, kind: type[Message], put: Callable[[Any, str], object]) -> None:
        """`put` writes a text into a new message of this kind, and nothing else."""

        def head_for(length: int) -> bytes:
            message = kind()
            put(message, "x" * length)
            return head(message, length)

        self._head_for = lru_cache(_LENGTHS)(head_for)

    def __call__(self, text: str) -> bytes:
        """The part with this text; lone surrogates, which UTF-8 has no form for, are replaced by
        U+FFFD.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = well_formed(text).encode()
        return self._head_for(len(data)) + data


class Double:
    """The part of a message that is an attribute with a double."""

    def __init__(self, kind: type[Message], key: str) -> None:
        message: Any = kind()
        codec.fill(message.attributes, {key: 0.0})
        self._head = head(message, len(_double(0.0)))

    def __call__(self, number: float) -> bytes:
        """The part with this number."""
        return self._head + _double(float(number))


def text_attribute(kind: type[Message], key: str) -> Text:
    """The part of a message that is an attribute with a text."""
    return Text(kind, lambda message, text: codec.fill(message.attributes, {key: text}))


def attributes(kind: type[Message], named: Attributes) -> bytes:
    """The part of a message that is these attributes."""
    message: Any = kind()
    codec.fill(message.attributes, named)
    return bytes(message.SerializeToString())


def head(message: Message, length: int) -> bytes:
    """What precedes a message's only value, of `length` bytes: tags, keys and lengths, whatever
    that value is.
    """
    whole = message.SerializeToString()
    return whole[: len(whole) - length]


def delimited(number: int, parts: Sequence[bytes]) -> list[bytes]:
    """The parts as the field with this number of the message around them; to be joined once, when
    all is there.
    """
    return [prefix(number, sum(map(len, parts))), *parts]


@lru_cache(maxsize=4096)
def prefix(number: int, length: int) -> bytes:
    """What precedes a field with this number whose value is so many bytes long."""
    return _varint(number << 3 | _DELIMITED) + _varint(length)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit is set where more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


SCOPE_NAME = "spanscore"
"""The instrumentation scope of everything that spanscore emits; what it receives under it, it never
evaluates.
"""

# Field numbers of export requests, the same for all three signals: a request has groups, each with
# a resource and scopes, each of those with the scope itself and its spans, log records or metrics.
_GROUPS, _RESOURCE, _SCOPES, _SCOPE, _ITEMS = 1, 1, 2, 1, 2

_SPANSCORE = InstrumentationScope(name=SCOPE_NAME, version=version("spanscore")).SerializeToString()


class ByResource:
    """An export request in the making: serialised spans, log records or metrics by the resource
    that they belong to.

    Resources differ by their contents; the identity of the attributes' dict is a short cut, since
    the scores of one trace share it.
    """

    def __init__(self) -> None:
        # keeps the dict: its id() must stay taken
        self._by_identity: dict[int, tuple[Attributes, list[bytes]]] = {}
        self._by_content: dict[bytes, list[bytes]] = {}

    def of(self, resource: Attributes) -> list[bytes]:
        """Where to append the items of the resource with these attributes."""
        known = self._by_identity.get(id(resource))
        if known is not None:
            return known[1]
        items = self._by_content.setdefault(attributes(Resource, without_headers(resource)), [])
        self._by_identity[id(resource)] = resource, items
        return items

    def request(self) -> bytes:
        """The serialised request; empty where there is nothing in it."""
        parts: list[bytes] = []
        for resource, items in self._by_content.items():
            scoped = delimited(_SCOPE, [_SPANSCORE])
            for item in items:
                scoped += (prefix(_ITEMS, len(item)), item)
            group = delimited(_RESOURCE, [resource]) + delimited(_SCOPES, scoped)
            parts += delimited(_GROUPS, group)
        return b"".join(parts)


class Provenance:
    """Encodes these attributes for one kind of message: a span or a log record."""

    def __init__(self, kind: type[Message]) -> None:
        self._run = text_attribute(kind, "spanscore.run.id")
        self._sampling = Double(kind, "spanscore.sampling")
        self._rule = text_attribute(kind, "spanscore.rule")
        self._agent_trace_id = text_attribute(kind, "spanscore.agent_trace_id")
        self._of_session = text_attribute(kind, OF_SESSION)
        self._outcome = text_attribute(kind, "spanscore.turn.outcome")
        self._latency = Double(kind, LATENCY)
        self._session_id = text_attribute(kind, "session.id")
        self._conversation_id = text_attribute(kind, "gen_ai.conversation.id")

    def __call__(self, evaluation: Evaluation) -> Iterator[bytes]:
        """The parts of the message: the run or rule, the chance of being drawn, the agent trace and
        the session.
        """
        if evaluation.run is not None:
            yield self._run(evaluation.run)
        if evaluation.sampling < 1:
            yield self._sampling(evaluation.sampling)
        if evaluation.rule is not None:
            yield self._rule(evaluation.rule)
        if evaluation.scope == "trace":
            yield from self._of_turn(evaluation)
        if evaluation.latency_s is not None:
            yield self._latency(evaluation.latency_s)
        if session_id := session(evaluation):
            yield from (self._session_id(session_id), self._conversation_id(session_id))

    def _of_turn(self, evaluation: Evaluation) -> Iterator[bytes]:
        yield self._agent_trace_id(evaluation.subject_id)
        if evaluation.turn_outcome is not None:
            yield self._outcome(evaluation.turn_outcome)
        if evaluation.session_id is not None:
            yield self._of_session(evaluation.session_id)
