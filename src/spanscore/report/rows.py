"""The rows of turns and sessions, failures first."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spanscore.model.trace import AgentTrace
from spanscore.report.results import ORDER, Joined, Scored, as_json, state
from spanscore.report.texts import Texts

_INPUT_CHARS, _OUTPUT_CHARS, _NAME_CHARS = 240, 160, 80
_MAX_NAMES = 12
_MS = 1e6

Numbers: TypeAlias = Mapping[tuple[str, str | None], int]
"""The place of each metric, what others gave under its source."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn with its scores; `trace` is None where nothing but scores of it is known.

    `key` is its session's.
    """

    id: str
    trace: AgentTrace | None
    scores: tuple[Scored, ...]
    key: str | None
    user_input: str | None

    @classmethod
    def of(cls, trace: AgentTrace, joined: Joined) -> "Turn":
        """The turn of an agent trace."""
        scores = tuple(joined.of_turn[trace.id])
        return cls(trace.id, trace, scores, trace.session_key, trace.user_input)

    @property
    def state(self) -> str:
        """What it came to."""
        return state(self.scores)


def turns(traces: Sequence[AgentTrace], joined: Joined) -> list[Turn]:
    """All turns in the order of a report: failing ones first, those with most failing scores at the
    top.
    """
    found = [Turn.of(x, joined) for x in traces]
    found += [_stray(target, scores) for target, scores in joined.strays.items()]
    return sorted(found, key=_urgency)


def row(turn: Turn, texts: Texts, numbers: Numbers) -> dict[str, Any]:
    """The turn's row. `numbers` are those of the metrics."""
    found: dict[str, Any] = {"id": turn.id, "state": turn.state, **_counts(turn.scores, numbers)}
    trace = turn.trace
    if trace is None:
        found["input"] = texts.line(turn.user_input, _INPUT_CHARS) if turn.user_input else None
    else:
        found |= _facts(trace, texts)
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def sessions(found: Iterable[Turn], joined: Joined) -> dict[str, list[Turn]]:
    """The turns of each session in their order in time; sessions of one turn and no score of their
    own left out.
    """
    members: defaultdict[str, list[Turn]] = defaultdict(list)
    for turn in found:
        if turn.key is not None:
            members[turn.key].append(turn)
    for key in joined.of_session:
        members.setdefault(key, [])
    kept = {x: own for x, own in members.items() if len(own) > 1 or x in joined.of_session}
    order = sorted(kept, key=lambda x: _session_urgency(kept[x], joined.of_session.get(x, [])))
    return {key: sorted(kept[key], key=_time) for key in order}


def session_row(
    key: str, own: Sequence[Turn], scores: Sequence[Scored], texts: Texts, numbers: Numbers
) -> dict[str, Any]:
    """The session's row, without the places of its turns."""
    return {
        "key": texts.line(key, 300),
        "state": state(scores),
        "failing_turns": sum(x.state == "fail" for x in own),
        **_counts(scores, numbers),
    }


def _counts(scores: Sequence[Scored], numbers: Numbers) -> dict[str, Any]:
    def named(is_meant: Callable[[Scored], bool]) -> list[int]:
        return list(dict.fromkeys(numbers[x.name] for x in scores if is_meant(x)))[:_MAX_NAMES]

    return {
        "fails": named(lambda x: x.passed is False and x.source is None),
        "errors": named(lambda x: x.status == "failed"),
        "scored": sum(x.status == "scored" for x in scores),
        "others": named(lambda x: x.source is not None),
    }


def _facts(trace: AgentTrace, texts: Texts) -> dict[str, Any]:
    calls = trace.tool_calls or ()
    tools = [texts.line(x, _NAME_CHARS) for x in dict.fromkeys(x.name for x in calls)]
    return {
        "input": texts.line(trace.user_input, _INPUT_CHARS) if trace.user_input else None,
        "output": texts.line(trace.final_output, _OUTPUT_CHARS) if trace.final_output else None,
        "agent": texts.line(trace.agent_name, _NAME_CHARS) if trace.agent_name else None,
        "service": texts.line(trace.service_name, _NAME_CHARS) if trace.service_name else None,
        "start": round(trace.started_ns / _MS),
        "took": max(0, trace.ended_ns - trace.started_ns) / _MS,
        "calls": len(calls),
        "models": len(trace.model_calls),
        "call_errors": sum(x.error is not None for x in calls),
        "tools": tools[:_MAX_NAMES],
        "trace": trace.trace_ids[0] if trace.trace_ids else None,
    }


def _stray(target: tuple[str, str], scores: Sequence[Scored]) -> Turn:
    keys = (as_json(x.raw).get("session_key") for x in scores)
    session = next((str(x) for x in keys if x), None)
    return Turn(":".join(target), None, tuple(scores), session, next(_inputs(scores), None))


def _inputs(scores: Iterable[Scored]) -> Iterator[str]:
    for scored in scores:
        text = (as_json(scored.raw).get("metadata") or {}).get("user_input")
        if isinstance(text, str) and text.strip():
            yield text


def _urgency(turn: Turn) -> tuple[Any, ...]:
    failing = sum(x.passed is False and x.source is None for x in turn.scores)
    return ORDER.index(turn.state), -failing, *_time(turn)


def _session_urgency(own: Sequence[Turn], scores: Sequence[Scored]) -> tuple[int, int]:
    """Sessions that fail, then those of which a turn does, then the others."""
    failing, place = sum(x.state == "fail" for x in own), ORDER.index(state(scores))
    return (place if place == 0 else 1 if failing else place + 1), -failing


def _time(turn: Turn) -> tuple[int, str]:
    return (turn.trace.started_ns if turn.trace else 0), turn.id


InTest: TypeAlias = tuple[str, int, int]
"""A test, the number of a trial, and a place in it, from 0."""


def paired(
    own: Sequence[Turn],
    baseline: Sequence[Turn],
    tests: tuple[Mapping[InTest, str], Mapping[InTest, str]] = ({}, {}),
) -> dict[str, str]:
    """By the id of an own turn, that of the baseline's turn.

    Inputs that occur twice in a run pair nothing.

    `tests` are the ids of turns by where they are in the tests of both runs.
    """
    there = {x.id for x in baseline}
    found = {x.id: x.id for x in own if x.id in there}
    for place, turn_id in tests[0].items():
        if turn_id not in found and place in tests[1]:
            found[turn_id] = tests[1][place]
    taken = set(found.values())
    others = {text: x.id for text, x in _unique([x for x in baseline if x.id not in taken]).items()}
    left = _unique([x for x in own if x.id not in found])
    return found | {turn.id: others[text] for text, turn in left.items() if text in others}


def _unique(turns: Sequence[Turn]) -> dict[str, Turn]:
    """The turns by their inputs, white space collapsed, where no other turn of the run has the
    same.
    """
    named = [(" ".join(x.user_input.split()), x) for x in turns if x.user_input]
    counts = Counter(text for text, _ in named)
    return {text: turn for text, turn in named if counts[text] == 1}
