"""Recorded traces matched to cases and trials."""

import difflib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from spanscore.errors import InputError
from spanscore.metrics.expected import ExpectedCall
from spanscore.metrics.session.agentic import Interaction
from spanscore.model.span import Attributes
from spanscore.model.trace import AgentTrace
from spanscore.suites.suite import Case, Expectation, ExpectedTool, Suite

AttributesOf: TypeAlias = Callable[[AgentTrace], Iterable[Attributes]]
"""The attributes of the spans and resources that an agent trace was rebuilt from."""

_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Recording:
    """One trial of a case: the turns of one conversation, oldest first; `run` is the
    `test.suite.run.id` they have.

    `is_session`: they are a whole session, and not a part of one that has other turns too. `error`
    is what the agent raised, where that is known.
    """

    case: Case
    traces: tuple[AgentTrace, ...]
    run: str | None = None
    is_session: bool = True
    error: str | None = None

    @property
    def session_id(self) -> str | None:
        """The session that it was recorded in."""
        return self.traces[0].session_id

    @property
    def name(self) -> str:
        """What it is called in a message."""
        first = self.traces[0].trace_ids[0]
        return f"session {self.session_id}" if self.session_id else f"trace {first}"


@dataclass(slots=True)
class Matched:
    """What was found: the trials of each case by its id, and the cases that nothing matches.

    `unclaimed_ids` are the case ids of recordings that the suite has no case of, `of_others` the
    suites that recordings name in place of this one, by the case ids that they name.
    """

    recordings: dict[str, list[Recording]] = field(default_factory=dict)
    unmatched: list[Case] = field(default_factory=list)
    unclaimed_ids: frozenset[str] = frozenset()
    of_others: Mapping[str, str] = field(default_factory=dict)

    def in_words(self, case: Case) -> str:
        """Why a case has no recording, in a line."""
        sought = [f"test.case.id {case.id!r}"]
        if case.session_id:
            others = " (or another of its list)" if len(case.session_id) > 1 else ""
            sought.append(f"the session {case.session_id[0]!r}{others}")
        if case.attributes:
            sought.append("its attributes")
        if case.first_input is not None:
            sought.append(f"the input {case.first_input[:_SHOWN_CHARS]!r}")
        near = difflib.get_close_matches(case.id, self.unclaimed_ids, n=1)
        hint = f"; there is test.case.id {near[0]!r}, is it that?" if near else ""
        if case.id in self.of_others:
            hint = (
                f"; it is recorded with test.suite.name {self.of_others[case.id]!r}, which is not"
                " this suite's name"
            )
        return (
            f"case {case.id!r}: nothing recorded matches it; sought was"
            f" {', then '.join(sought)}{hint}"
        )


def own_attributes(trace: AgentTrace) -> Iterable[Attributes]:
    """What an agent trace by itself holds of attributes: those of its resource."""
    yield trace.target.resource


def match(
    suite: Suite, traces: Sequence[AgentTrace], attributes_of: AttributesOf = own_attributes
) -> Matched:
    """Find the trials of each case: by test.case.id, else by its session, else its attributes, else
    the user's input.

    Raises InputError where a trace is of two cases, or it cannot be told which turns are one
    conversation.
    """
    index = _Index(suite)
    found: defaultdict[str, list[Recording]] = defaultdict(list)
    claimed, left = _claimed(index, traces, attributes_of)
    for (case_id, run, _), those in claimed.items():
        case = index.cases[case_id]
        found[case_id] += [Recording(case, x, run) for x in _conversations(case, those)]
    for (_, run), of_group in _grouped(left).items():
        for case, some in _by_input(index.by_input, of_group):
            found[case.id].append(Recording(case, tuple(some), run))
    sizes = Counter(x.session_key for x in traces)
    for case_id, recordings in found.items():
        recordings.sort(key=lambda x: _order(x.traces[0]))
        found[case_id] = [
            replace(x, is_session=sizes[x.traces[0].session_key] == len(x.traces))
            for x in recordings
        ]
    ids_there = {x.trial.case: x.trial.suite for x in traces if x.trial and x.trial.case}
    return Matched(
        dict(found),
        [x for x in suite.cases if x.id not in found],
        frozenset(ids_there.keys() - index.cases.keys()),
        {x: name for x, name in ids_there.items() if name is not None and name != suite.name},
    )


_Inputs: TypeAlias = Mapping[str, Sequence[tuple[Case, Sequence[str | None]]]]
"""Cases by what the user says first in them, each with all that the user says; all as `normalised`
gives it.
"""


def _inputs(cases: Iterable[Case]) -> _Inputs:
    found: defaultdict[str, list[tuple[Case, Sequence[str | None]]]] = defaultdict(list)
    for case in cases:
        inputs = [normalised(x.input) for x in case.conversation]
        if inputs and inputs[0] is not None:
            found[inputs[0]].append((case, inputs))
    return found


class _Index:
    """The cases of a suite by what they are found by."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite.name
        self.cases = {x.id: x for x in suite.cases}
        self.by_session: defaultdict[str, list[Case]] = defaultdict(list)
        for case in suite.cases:
            for session_id in case.session_id:
                self.by_session[session_id].append(case)
        self.selecting = [(x, _texts([x.attributes])) for x in suite.cases if x.attributes]
        self.by_input = _inputs(suite.cases)

    def may_hold(self, trace: AgentTrace) -> bool:
        """Whether a trace may be of this suite: it says so, or does not say."""
        return trace.trial is None or trace.trial.suite in {None, self.suite}


_Claimed: TypeAlias = dict[tuple[str, str | None, str | None], list[AgentTrace]]
"""Traces by case, run and session."""


def _claimed(
    index: _Index, traces: Sequence[AgentTrace], attributes_of: AttributesOf
) -> tuple[_Claimed, list[AgentTrace]]:
    """The traces that say by themselves, or whose session says, of which case they are; and those
    that do not.
    """
    claimed: defaultdict[tuple[str, str | None, str | None], list[AgentTrace]] = defaultdict(list)
    left: list[AgentTrace] = []
    for (session, run), of_group in _grouped(traces).items():
        stated = {x.trial.case for x in of_group if x.trial and x.trial.case}
        ids = stated if session is not None else set()
        only = next(iter(ids)) if len(ids) == 1 else None
        for trace in of_group:
            case = _claiming(index, trace, only, attributes_of)
            if case is not None:
                claimed[case.id, run, session].append(trace)
            elif not ids and not (trace.trial and trace.trial.case) and index.may_hold(trace):
                left.append(trace)
    return claimed, left


def normalised(text: str | None) -> str | None:
    r"""A user's words as they are compared: without case, forms of one letter, and runs of white
    space.

    >>> normalised(" What is\nUP? ")
    'what is up?'
    """
    if text is None:
        return None
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _grouped(traces: Iterable[AgentTrace]) -> dict[tuple[str | None, str | None], list[AgentTrace]]:
    """The traces of each session and run, oldest first; those of no session together."""
    members: defaultdict[tuple[str | None, str | None], list[AgentTrace]] = defaultdict(list)
    for trace in sorted(traces, key=_order):
        members[trace.session_key, trace.trial.run if trace.trial else None].append(trace)
    return members


def _order(trace: AgentTrace) -> tuple[int, tuple[str, ...], str]:
    return trace.started_ns, trace.trace_ids, trace.opening_span_id


def _claiming(
    index: _Index, trace: AgentTrace, session_case: str | None, attributes_of: AttributesOf
) -> Case | None:
    """The case that a trace is of by what it says itself; `session_case` is the one case that its
    session names.
    """
    if not index.may_hold(trace):
        return None
    named = (trace.trial.case if trace.trial else None) or session_case
    if named is not None:
        return index.cases.get(named)
    if trace.session_id is not None and trace.session_id in index.by_session:
        return _only(index.by_session[trace.session_id], trace, f"the session {trace.session_id!r}")
    if not index.selecting:
        return None
    texts = _texts(attributes_of(trace))
    selected = [case for case, wanted in index.selecting if wanted <= texts]
    return _only(selected, trace, "its attributes") if selected else None


def _only(cases: Sequence[Case], trace: AgentTrace, by: str) -> Case:
    if len(cases) > 1:
        names = " and ".join(repr(x.id) for x in cases[:3])
        raise InputError(
            f"trace {trace.trace_ids[0]} is of cases {names} by {by}; let only one of them match,"
            " or set test.case.id"
        )
    return cases[0]


def _texts(attributes: Iterable[Attributes]) -> set[tuple[str, str]]:
    return {(key, _text(value)) for each in attributes for key, value in each.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _conversations(case: Case, traces: list[AgentTrace]) -> Iterator[tuple[AgentTrace, ...]]:
    """The traces that are known to be of one case, run and session (or of no session), as
    conversations.
    """
    if case.first_input is not None:
        again = [tuple(some) for _, some in _by_input(_inputs([case]), traces)]
        if len(again) > 1 or (traces[0].session_id is None and again):
            yield from again
            return
    if traces[0].session_id is not None or len(traces) == len(case.expectations):
        yield tuple(traces)
    elif len(case.expectations) == 1:
        yield from ((x,) for x in traces)
    else:
        raise InputError(
            f"case {case.id!r}: {len(traces)} traces without a session, and the case has"
            f" {len(case.conversation)} turns; record session.id, so that it can be told which"
            " belong together"
        )


def _by_input(
    inputs: _Inputs, traces: Sequence[AgentTrace]
) -> Iterator[tuple[Case, Sequence[AgentTrace]]]:
    """The conversations in a sequence of turns, by what the user says in them; what is of no case
    is passed over.
    """
    user_inputs = [normalised(x.user_input) for x in traces]
    at = 0
    while at < len(traces):
        begun = inputs.get(user_inputs[at] or "", ())
        lengths = [(case, _matching(wanted, user_inputs, at)) for case, wanted in begun]
        longest = max((length for _, length in lengths), default=0)
        if longest:
            best = [case for case, length in lengths if length == longest]
            yield _only(best, traces[at], "the user's input"), traces[at : at + longest]
        at += longest or 1


def _matching(wanted: Sequence[str | None], inputs: Sequence[str | None], at: int) -> int:
    """How many turns of a case follow from `at` on: all of them, or those before the record ends;
    else 0.
    """
    there = inputs[at : at + len(wanted)]
    is_match = all(x is None or x == y for x, y in zip(wanted, there, strict=False))
    return len(there) if is_match else 0


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
    cases = tuple(_cases([x for x in _by_session(traces) if any(map(_states_something, x))]))
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


def _states_something(trace: AgentTrace) -> bool:
    return trace.expected is not None or "expected" in trace.damaged


def _by_session(traces: Sequence[AgentTrace]) -> list[list[AgentTrace]]:
    """The turns of each session, oldest first; those of none by themselves."""
    found: defaultdict[tuple[str | None, str], list[AgentTrace]] = defaultdict(list)
    for trace in sorted(traces, key=lambda x: (x.started_ns, x.id)):
        found[trace.session_key, trace.id if trace.session_key is None else ""].append(trace)
    return list(found.values())


def _cases(conversations: Sequence[Sequence[AgentTrace]]) -> Iterator[Case]:
    """The cases that conversations are of: those with an id first, then each by what the user says
    in it.
    """
    by_words: defaultdict[tuple[str | None, ...], list[AgentTrace]] = defaultdict(list)
    named: dict[str, None] = {}
    for conversation in conversations:
        ids = [x.trial.case for x in conversation if x.trial and x.trial.case]
        named |= dict.fromkeys(ids)
        if not ids:
            by_words[_words(conversation)].append(conversation[0])
    yield from (Case(id=x) for x in named)
    taken = set(named)
    for first, *others in by_words.values():
        sessions = [x.session_id for x in (first, *others) if x.session_id is not None]
        question = first.user_input or sessions[0]
        case_id = _free(" ".join(question.split())[:_MAX_ID_CHARS], taken)
        taken.add(case_id)
        by = {"session_id": tuple(sessions)} if sessions else {"input": first.user_input}
        yield Case.model_validate({"id": case_id, **by})


def _words(conversation: Sequence[AgentTrace]) -> tuple[str | None, ...]:
    """What the user says in a conversation, by which its other trials are known."""
    session_id = conversation[0].session_id
    words = tuple(normalised(x.user_input) for x in conversation)
    if session_id is None and words[0] is None:
        raise InputError(
            f"trace {conversation[0].trace_ids[0]} states what is expected of it, but neither a"
            " session nor the user's input, by which it could be known; set test.case.id on"
            " its span"
        )
    return (str(session_id is None), *words, None if all(words) else session_id)


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number behind it where it is taken."""
    if name not in taken:
        return name
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return next(x for x in numbered if x not in taken)


class UnalignedError(Exception):
    """It is not known which turn is which, or one is missing; the message says so."""


def interactions(recording: Recording) -> list[Interaction]:
    """The interactions of which something is expected, in order. Raises UnalignedError."""
    return [
        Interaction(
            trace,
            expected.expected_answer,
            tuple(x.call() for x in expected.expected_tools or ()) or None,
            expected.tool_sequence_matters,
            expected.final_answer_uses_tools,
        )
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
        return list(map(_completed, case.conversation, _aligned(recording)))
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
        while at < len(inputs) and wanted not in {None, inputs[at]}:
            at += 1
        found += traces[at : at + 1]
        at += 1
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
    damaged = {"tool_calls"} if any("tool_calls" in x.damaged for x in traces) else set()
    return replace(
        last,
        user_input="\n".join(x.user_input for x in traces if x.user_input) or None,
        tool_calls=tuple(call for x in traces for call in x.tool_calls or ()) if known else None,
        model_calls=tuple(call for x in traces for call in x.model_calls),
        damaged=tuple(sorted({*last.damaged, *damaged})),
    )
