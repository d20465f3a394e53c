"""What recordings state of themselves that they should come to: it completes a case, or stands in
place of a suite.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from spanscore.errors import InputError
from spanscore.model.trace import AgentTrace
from spanscore.suites.matching import Recording, normalised
from spanscore.suites.suite import Case, Expectation, ExpectedTool, Suite

_ExpectationT = TypeVar("_ExpectationT", bound=Expectation)

_MAX_ID_CHARS = 60
_NAME = "stated in the traces"


def completed(expectation: _ExpectationT, trace: AgentTrace) -> _ExpectationT:
    """The expectation, with what the trace itself states of each fact that it does not mention."""
    stated, found = trace.expected, dict[str, object]()
    if stated is None:
        return expectation
    if expectation.expected_answer is None and stated.answer is not None:
        found["expected_answer"] = stated.answer
    if expectation.expected_tools is None and stated.tools is not None:
        found["expected_tools"] = tuple(
            ExpectedTool(tool_name=x.name, parameters=x.arguments, step=x.step)
            for x in stated.tools
        )
        found["tool_sequence_matters"] = stated.in_order is not False
    return expectation.model_copy(update=found) if found else expectation


def is_lost(expectation: Expectation, trace: AgentTrace) -> bool:
    """Whether a trace stated something of which the expectation says nothing, and that arrived cut
    or redacted.
    """
    return "expected" in trace.damaged and (
        expectation.expected_answer is None or expectation.expected_tools is None
    )


def outcomes(recording: Recording) -> tuple[str, ...]:
    """The statements that should be true in the end: those of the case, else those of its turns."""
    if recording.case.expected_outcomes:
        return recording.case.expected_outcomes
    stated = (outcome for x in recording.traces if x.expected for outcome in x.expected.outcomes)
    return tuple(dict.fromkeys(stated))


def suite_of(traces: Sequence[AgentTrace]) -> Suite:
    """A suite of all conversations in which a turn states what it should come to.

    A case is known by `test.case.id`, else by what the user says: the same conversation in another
    session is another trial of it. Raises InputError where nothing is stated, or where the traces
    are of several suites.
    """
    found = _Conversations()
    for conversation in _conversations(traces):
        if any(x.expected is not None or "expected" in x.damaged for x in conversation):
            found.add(conversation)
    cases = found.cases()
    if not cases:
        raise InputError(
            "no trace states what is expected of it; give a suite first (spanscore test SUITE"
            " PATH...), or record it with spanscore.expect (docs/attributes.md has the attributes)"
        )
    return Suite(name=_suite_name(traces), cases=cases)


def _suite_name(traces: Iterable[AgentTrace]) -> str:
    names = sorted({x.trial.suite for x in traces if x.trial and x.trial.suite})
    if len(names) > 1:
        raise InputError(
            f"the traces are of the suites {' and '.join(map(repr, names[:3]))}; give the traces"
            " of one"
        )
    return names[0] if names else _NAME


def _conversations(traces: Sequence[AgentTrace]) -> list[list[AgentTrace]]:
    """The turns of each session, oldest first; those of none by themselves."""
    found: defaultdict[str, list[AgentTrace]] = defaultdict(list)
    for trace in sorted(traces, key=lambda x: (x.started_ns, x.id)):
        found[
            f"trace {trace.id}" if trace.session_key is None else f"session {trace.session_key}"
        ].append(trace)
    return list(found.values())


@dataclass(slots=True)
class _Found:
    """A case: the sessions that it was recorded in, or the question, where it was recorded in
    none.
    """

    sessions: list[str] = field(default_factory=list)
    input: str | None = None


class _Conversations:
    """The cases that conversations are of, by their ids and by what the user says in them."""

    def __init__(self) -> None:
        self._named: dict[str, None] = {}
        self._by_words: dict[tuple[str | None, ...], _Found] = {}

    def add(self, conversation: Sequence[AgentTrace]) -> None:
        """Take up a conversation of which something is expected."""
        named = [x.trial.case for x in conversation if x.trial and x.trial.case]
        if named:
            self._named.update(dict.fromkeys(named))
            return
        session_id = conversation[0].session_id
        words = tuple(normalised(x.user_input) for x in conversation)
        if session_id is None and words[0] is None:
            raise InputError(
                f"trace {conversation[0].trace_ids[0]} states what is expected of it, but neither a"
                " session nor the user's input, by which it could be known; set test.case.id on"
                " its span"
            )
        key = words if all(words) else (*words, session_id)
        found = self._by_words.setdefault(
            (str(session_id is None), *key), _Found(input=conversation[0].user_input)
        )
        if session_id is not None:
            found.sessions.append(session_id)

    def cases(self) -> tuple[Case, ...]:
        """All cases, those with an id of their own first."""
        taken = set(self._named)
        cases = [Case(id=x) for x in self._named]
        for found in self._by_words.values():
            case_id = _free(
                " ".join((found.input or found.sessions[0]).split())[:_MAX_ID_CHARS], taken
            )
            taken.add(case_id)
            by = {"session_id": tuple(found.sessions)} if found.sessions else {"input": found.input}
            cases.append(Case.model_validate({"id": case_id, **by}))
        return tuple(cases)


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number behind it where it is taken."""
    if name not in taken:
        return name
    return next(
        x for number in range(2, len(taken) + 3) if (x := f"{name} ({number})") not in taken
    )
