"""The turns of a recorded conversation beside what a case expects of them."""

from collections.abc import Sequence
from dataclasses import replace

from spanscore.metrics.expected_tools import ExpectedCall
from spanscore.metrics.session.agentic import Interaction
from spanscore.model.trace import AgentTrace
from spanscore.suites.matching import Recording, normalised
from spanscore.suites.stated import completed, is_lost
from spanscore.suites.suite import Expectation


class UnalignedError(Exception):
    """It is not known which turn is which, or one is missing; the message says so."""


def interactions(recording: Recording) -> list[Interaction]:
    """The interactions of which something is expected, in order. Raises UnalignedError."""
    return [
        _interaction(trace, expected)
        for expected, trace in _paired(recording)
        if not expected.is_empty
    ]


def expected_calls(recording: Recording) -> tuple[tuple[ExpectedCall, ...], bool]:
    """The tool calls that are expected in all turns, and whether their order matters throughout."""
    try:
        expected = [x for x, _ in _paired(recording) if x.expected_tools]
    except UnalignedError:
        return recording.case.calls, recording.case.calls_are_ordered
    calls = tuple(tool.call() for x in expected for tool in x.expected_tools or ())
    return calls, all(x.tool_sequence_matters for x in expected)


def _paired(recording: Recording) -> list[tuple[Expectation, AgentTrace]]:
    """What is expected, by the case or else by the recording itself, with the turn of which it is.

    Raises.
    """
    case, traces = recording.case, recording.traces
    if case.conversation:
        return [
            _completed(*pair) for pair in zip(case.conversation, _aligned(recording), strict=True)
        ]
    if case.is_empty or len(traces) == 1:  # what turns state is of each by itself
        return [_completed(case, x) for x in traces]
    return [(case, _as_one(traces))]


def _completed(expectation: Expectation, trace: AgentTrace) -> tuple[Expectation, AgentTrace]:
    if is_lost(expectation, trace):
        raise UnalignedError(
            "what the recording states that it should come to arrived cut or redacted"
        )
    return completed(expectation, trace), trace


def _aligned(recording: Recording) -> list[AgentTrace]:
    """For each turn of the case its trace: by what the user says, else by their number."""
    turns, traces = recording.case.conversation, recording.traces
    inputs = [normalised(x.user_input) for x in traces]
    found: list[AgentTrace] = []
    at = 0
    for turn in turns:
        wanted = normalised(turn.input)
        place = (
            at
            if wanted is None
            else next((x for x in range(at, len(inputs)) if inputs[x] == wanted), len(inputs))
        )
        if place >= len(traces):
            break
        found.append(traces[place])
        at = place + 1
    if len(found) == len(turns):
        return found
    if len(traces) == len(turns):
        return list(traces)
    missing = turns[len(found)].input
    what = f"turn {len(found)}" + (f" ({missing[:80]!r})" if missing else "")
    raise UnalignedError(
        f"{what} is not in the recording, which has {len(traces)} of {len(turns)} turns"
    )


def _as_one(traces: Sequence[AgentTrace]) -> AgentTrace:
    """A whole conversation as one interaction: all that was said and done, and the last answer."""
    last = traces[-1]
    if len(traces) == 1:
        return last
    known = all(x.tool_calls is not None for x in traces)
    return replace(
        last,
        user_input="\n".join(x.user_input for x in traces if x.user_input) or None,
        tool_calls=tuple(call for x in traces for call in x.tool_calls or ()) if known else None,
        model_calls=tuple(call for x in traces for call in x.model_calls),
        damaged=tuple(
            sorted(
                {
                    *last.damaged,
                    *(name for x in traces for name in x.damaged if name == "tool_calls"),
                }
            )
        ),
    )


def _interaction(trace: AgentTrace, expected: Expectation) -> Interaction:
    return Interaction(
        trace,
        expected.expected_answer,
        tuple(x.call() for x in expected.expected_tools or ()) or None,
        expected.tool_sequence_matters,
        expected.final_answer_uses_tools,
    )
