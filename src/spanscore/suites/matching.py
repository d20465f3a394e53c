"""Which recorded traces are of which case, and which of them are one trial: a conversation from its
first turn.
"""

import difflib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from spanscore.errors import InputError
from spanscore.model.span import Attributes
from spanscore.model.trace import AgentTrace
from spanscore.suites.suite import Case, Suite

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
        return (
            f"session {self.session_id}"
            if self.session_id
            else f"trace {self.traces[0].trace_ids[0]}"
        )


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
            sought.append(
                f"the session {case.session_id[0]!r}"
                + " (or another of its list)" * (len(case.session_id) > 1)
            )
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
        {
            case_id: name
            for case_id, name in ids_there.items()
            if name is not None and name != suite.name
        },
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
        self.selecting = [
            (x, {(key, _text(value)) for key, value in x.attributes.items()})
            for x in suite.cases
            if x.attributes
        ]
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
        ids = (
            {x.trial.case for x in of_group if x.trial and x.trial.case}
            if session is not None
            else set()
        )
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
    return (
        None if text is None else " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    )


def _grouped(
    traces: Iterable[AgentTrace],
) -> dict[tuple[str | None, str | None], list[AgentTrace]]:
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
        lengths = [
            (case, _matching(wanted, user_inputs, at))
            for case, wanted in inputs.get(user_inputs[at] or "", ())
        ]
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
    return (
        len(there) if all(x is None or x == y for x, y in zip(wanted, there, strict=False)) else 0
    )
