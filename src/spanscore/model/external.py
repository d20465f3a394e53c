"""External scores, joined to their turns."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, TypeAlias

from spanscore.model.score import Evaluation, EvaluatorKind
from spanscore.model.span import Headers, of_tenant, owner_of, tenant_in
from spanscore.model.trace import AgentTrace, Target, responses_of

HUMAN, PROGRAMMATIC = "human", "programmatic"
"""The sources that are no evaluator."""

MAX_SHARED = 20
"""Turns that may share a response id; one that more have, as a model stub gives all its answers,
names none of them.
"""

KIND_OF_SOURCE: Mapping[str, EvaluatorKind] = {HUMAN: "HUMAN", PROGRAMMATIC: "CODE"}
"""What gave a score, where only the source is recorded."""

_PASSES = frozenset(
    {"pass", "passed", "true", "yes", "correct", "thumbs_up", "thumbs-up", "thumbs up", "👍"}
)
_FAILS = frozenset(
    {
        "fail",
        "failed",
        "false",
        "no",
        "incorrect",
        "thumbs_down",
        "thumbs-down",
        "thumbs down",
        "👎",
    }
)


def verdict(label: str | None) -> bool | None:
    """Whether a label is a pass or a fail; None where it is neither.

    >>> verdict("Passed"), verdict("thumbs_down"), verdict("formal")
    (True, False, None)
    """
    word = (label or "").strip().lower()
    return True if word in _PASSES else False if word in _FAILS else None


def etag(score: Evaluation) -> str:
    """What changes with each change of a score that others gave, and is the same wherever it is
    shown.
    """
    facts = (
        score.uid,
        score.revision,
        score.value,
        score.label,
        score.reason,
        score.evaluated_at_ns,
    )
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def stand_in_span_id(trace_id: str) -> str:
    """The span id that stands for "some span of this trace" where only the trace is known, and OTLP
    wants a parent.

    >>> stand_in_span_id("0af7651916cd43dd8448eb211c80319c")
    '23326507fc9e033c'
    """
    return hashlib.sha256(f"spanscore score {trace_id}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Turn:
    """What shows whether a score is of a turn: its OTel traces, spans and responses, and its owner.

    `responses` has a line for each model call whose answer has an id: the id of its span, a blank,
    the response id.
    """

    id: str
    trace_ids: tuple[str, ...]
    span_ids: str
    responses: str
    session_id: str | None
    session_key: str | None
    owner: Headers

    @classmethod
    def of(cls, trace: AgentTrace) -> "Turn":
        """These facts of an agent trace."""
        # as one text, since whoever reads large files keeps many
        span_ids = " ".join(sorted(spans_of(trace)))
        responses = "\n".join(
            f"{span_id} {response_id}" for response_id, span_id in responses_of(trace).items()
        )
        owner = owner_of(trace.target.resource)
        return cls(
            trace.id,
            trace.trace_ids,
            span_ids,
            responses,
            trace.session_id,
            trace.session_key,
            owner,
        )

    def has_span(self, span_id: str) -> bool:
        """Whether a span is known to be one of the turn's."""
        return bool(span_id) and span_id in self.span_ids.split(" ")

    def spans_by_response(self) -> dict[str, str]:
        """The ids of the spans of model calls, by the response ids of their answers."""
        pairs = (line.split(" ", 1) for line in self.responses.split("\n") if line)
        return {response_id: span_id for span_id, response_id in pairs}


class _Members(NamedTuple):
    """The turns of one OTel trace, and which of them have a span or a response."""

    trace_id: str
    turns: Sequence[Turn]
    by_span: Mapping[str, Sequence[Turn]]
    by_response: Mapping[str, Sequence[Turn]]

    @classmethod
    def of(cls, trace_id: str, turns: Sequence[Turn]) -> "_Members":
        """Those of the trace with this id."""
        by_span: dict[str, list[Turn]] = {}
        by_response: dict[str, list[Turn]] = {}
        for turn in turns:
            for span_id in filter(None, turn.span_ids.split(" ")):
                by_span.setdefault(span_id, []).append(turn)
            for response_id in turn.spans_by_response():
                by_response.setdefault(response_id, []).append(turn)
        return cls(trace_id, turns, by_span, by_response)


class Joined(NamedTuple):
    """Scores by what they are of.

    `of_no_turn` are of a trace with several turns, and of none that can be named.

    `scores` has the others: those that are joined to a turn, those of sessions, and those of traces
    that are not known.
    """

    scores: list[Evaluation]
    of_no_turn: list[Evaluation]


def join(scores: Iterable[Evaluation], turns: Iterable[AgentTrace]) -> Joined:
    """`scores`, each joined to the one of `turns` that it is of; of each source only the newest.

    See `Turns.join`.
    """
    return Turns(map(Turn.of, turns)).join(scores)


_Response: TypeAlias = tuple[Headers, str]


class Turns:
    """Turns, by the traces that scores name.

    `shared` are responses, by tenant and id, that more than `MAX_SHARED` turns have, also where few
    of them are known.
    """

    def __init__(
        self, turns: Iterable[Turn] = (), shared: Collection[tuple[str, str]] = ()
    ) -> None:
        self._known: dict[str, Turn] = {}
        self._shared = shared
        self._of_trace: dict[str, list[Turn]] = {}
        # made for the first score that names one
        self._of_response: dict[_Response, list[Turn]] | None = None
        # of the trace that the last score named: a trace may have many turns
        self._members = _Members.of("", ())
        for turn in turns:
            self.add(turn)

    def add(self, turn: Turn) -> None:
        """Know a turn."""
        if turn.id in self._known:
            return
        self._known[turn.id] = turn
        for trace_id in turn.trace_ids:
            self._of_trace.setdefault(trace_id, []).append(turn)
        self._members = _Members.of("", ())
        if self._of_response is not None:
            _note_responses(turn, self._of_response)

    def join(self, scores: Iterable[Evaluation]) -> Joined:
        """`scores`, each with the agent trace that it is of as its subject, and of each source only
        the newest.

        A score is of the turn that has its span; else of the one in which a model call was answered
        with the response that it names, whatever trace the evaluator itself has recorded it in;
        else of the only turn of its trace. Of a trace with several turns it is of none where
        neither tells which. What one tenant gave to a trace of another's is left out.
        """
        found, of_no_turn = [], []
        for score in scores:
            turn = self.turn_of(score)
            if turn is not None:
                found.append(_of_turn(score, turn))
            elif self._names_own(score):
                of_no_turn.append(score)
            elif not self.knows(score):
                found.append(score)
        return Joined(newest(found), newest(of_no_turn))

    def turn_of(self, score: Evaluation) -> Turn | None:
        """The turn that a score is of, as `join` finds it; None where it is of none, or of one that
        is not known.
        """
        if score.scope != "trace":
            return None
        target = score.target
        members = self._members_of(target.trace_id)
        with_span = members.by_span.get(target.span_id, ()) if target.span_id else ()
        answered_here = members.by_response.get(target.response_id or "", ())
        answered = {x.id: x for x in (*answered_here, *self._answered(score))}.values()
        has_same_owner = _SameOwner(score)
        if any(map(has_same_owner, answered)):
            evidence: tuple[Iterable[Turn], ...] = (with_span, answered_here, answered)
        else:
            evidence = (with_span, members.turns)
        return next(
            (x for turns in evidence if (x := _only(filter(has_same_owner, turns))) is not None),
            None,
        )

    def placed(self, score: Evaluation) -> Evaluation:
        """The score with the agent trace that it is of as its subject; as it is where that is
        none.
        """
        turn = self.turn_of(score)
        return score if turn is None else _of_turn(score, turn)

    def knows(self, score: Evaluation) -> bool:
        """Whether a turn that the score may be of is among them."""
        return any(True for _ in self._named(score))

    def _names_own(self, score: Evaluation) -> bool:
        """Whether one of the turns whose trace or response the score names has the owner of the
        score.
        """
        return any(map(_SameOwner(score), self._named(score)))

    def _named(self, score: Evaluation) -> Iterator[Turn]:
        """The turns of the trace, and those of the response, that a score names."""
        if score.scope != "trace":
            return iter(())
        return chain(self._of_trace.get(score.target.trace_id, ()), self._answered(score))

    def _members_of(self, trace_id: str) -> _Members:
        if self._members.trace_id != trace_id:
            self._members = _Members.of(trace_id, self._of_trace.get(trace_id, ()))
        return self._members

    def _answered(self, score: Evaluation) -> Sequence[Turn]:
        """The turns of the score's owner that have the response that it names; none where too many
        share it.
        """
        response_id = score.target.response_id
        if response_id is None or (score.tenant, response_id) in self._shared:
            return ()
        if self._of_response is None:
            self._of_response = {}
            for turn in self._known.values():
                _note_responses(turn, self._of_response)
        answered = self._of_response.get((owner_of(score.target.resource), response_id), ())
        return answered if len(answered) <= MAX_SHARED else ()


def _note_responses(turn: Turn, of_response: dict[_Response, list[Turn]]) -> None:
    for response_id in turn.spans_by_response():
        turns = of_response.setdefault((turn.owner, response_id), [])
        if len(turns) <= MAX_SHARED:
            turns.append(turn)


def _only(turns: Iterator[Turn]) -> Turn | None:
    """The one of `turns`; None where there is none, or a second one."""
    first = next(turns, None)
    return first if next(turns, None) is None else None


class _SameOwner:
    """Whether a score comes from where a turn came from.

    One that was created by the API, maybe before the turn came, has no owner but its tenant.
    """

    def __init__(self, score: Evaluation) -> None:
        self._owner = owner_of(score.target.resource)
        self._is_created = bool(score.digest)

    def __call__(self, turn: Turn) -> bool:
        return self._owner == turn.owner or (
            self._is_created and self._owner == of_tenant(tenant_in(turn.owner))
        )


def _of_turn(score: Evaluation, turn: Turn) -> Evaluation:
    session_id = score.session_id or turn.session_id
    target = _target(score.target, turn)
    return replace(
        score,
        subject_id=turn.id,
        session_id=session_id,
        session_key=turn.session_key,
        target=target,
    )


def _target(target: Target, turn: Turn) -> Target:
    """Of a score that names the turn by a response alone the call's span, where the turn is in one
    trace.
    """
    if target.trace_id in turn.trace_ids:
        return target
    span_id = (
        turn.spans_by_response().get(target.response_id or "", "")
        if len(turn.trace_ids) == 1
        else ""
    )
    return replace(target, trace_id=turn.trace_ids[0], span_id=span_id)


def spans_of(trace: AgentTrace) -> set[str]:
    """The ids of the spans that a turn is known to have: its target, its opening span and those of
    its calls.
    """
    found = {trace.target.span_id, trace.root_span_id, trace.opening_span_id}
    found.update(x.span_id for x in trace.model_calls)
    found.update(x.span_id for x in trace.tool_calls or ())
    found.update(x.span_id for x in trace.retrieved)
    return {x for x in found if x}


def newest(scores: Iterable[Evaluation]) -> list[Evaluation]:
    """Of each source's scores of one subject by one name the last given, in the order in which they
    were given.

    Who changes their mind gives a score again.
    """
    last: dict[tuple[object, ...], Evaluation] = {}
    for score in sorted(scores, key=lambda x: x.evaluated_at_ns):
        by = score.evaluator
        place = score.target.span_id or score.target.response_id
        last[score.scope, score.subject_id, place, score.metric, by.source, by.name, by.author] = (
            score
        )
    return sorted(last.values(), key=lambda x: x.evaluated_at_ns)
