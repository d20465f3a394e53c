"""Holds rebuilt agent traces, as JSON, against the conversation that was recorded, fact by fact."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from conversation import CONVERSATIONS, HAND_OVER, Agent, Call, Conversation, Step, Turn
from described import Case, Framework
from script import tokens

Trace: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a recording of one turn should give."""

    framework: Framework
    case: Case
    number: int
    """Of the turn, from 0."""

    @property
    def conversation(self) -> Conversation:
        return CONVERSATIONS[self.framework.conversation]

    @property
    def turn(self) -> Turn:
        return self.conversation.turns[self.number]

    @property
    def steps(self) -> list[tuple[int, Step]]:
        """The steps that were played, with their numbers: of a hand-off, without the front desk's
        last word.
        """
        steps = list(enumerate(self.turn.steps))
        return steps[:-1] if self.framework.model.hands_off and self._hands_over else steps

    @property
    def _hands_over(self) -> bool:
        return any(x.name == HAND_OVER for x in self.turn.calls)

    @property
    def calls(self) -> list[list[Call]]:
        """The tool calls of each step, without the handing over."""
        return [[y for y in x.calls if y.name != HAND_OVER] for _, x in self.steps]

    @property
    def agents(self) -> list[Agent]:
        """Who acts in the turn, the one whom the user talks to first."""
        acting = {x.agent for _, x in self.steps}
        return [
            x
            for x in self.conversation.agents
            if len(self.conversation.agents) == 1 or x.name in acting
        ]

    def bare(self, name: str) -> str:
        return name.removeprefix(self.case.truth.tool_prefix)

    def shown_calls(self, trace: Trace) -> list[dict[str, Any]]:
        """The tool calls of a trace; handing over may be one, or not, as the framework sees it."""
        hand_over = self.framework.model.hand_over
        calls = trace["tool_calls"] or []
        return [x for x in calls if not hand_over or not str(x["name"]).endswith(hand_over)]


Holds: TypeAlias = Callable[[Trace, Expected], bool]
Absent: TypeAlias = Callable[[Trace], bool]


def _user_input(trace: Trace, expected: Expected) -> bool:
    return trace["user_input"] == expected.turn.question


def _final_output(trace: Trace, expected: Expected) -> bool:
    return trace["final_output"] == expected.steps[-1][1].text


def _system(trace: Trace, expected: Expected) -> bool:
    return trace["system_instructions"] == expected.agents[0].instructions


def _plan(trace: Trace, expected: Expected) -> bool:
    said = next((x.text for _, x in expected.steps if x.text and x.calls), None)
    # one announced step is no plan
    return trace["plan"] == (said if said and "1." in said else None)


def _session(trace: Trace, expected: Expected) -> bool:
    if expected.case.truth.own_sessions:
        return trace["session_id"] is not None
    return trace["session_id"] == expected.turn.session


def _user(trace: Trace, expected: Expected) -> bool:
    return trace["user_id"] == expected.turn.user


def _tokens(trace: Trace, expected: Expected) -> bool:
    counts = [tokens(expected.number, i) for i, _ in expected.steps]
    said = (sum(x for x, _ in counts), sum(x for _, x in counts))
    return (trace["usage"]["input_tokens"], trace["usage"]["output_tokens"]) == said


def _tools_offered(trace: Trace, expected: Expected) -> bool:
    offered = {expected.bare(x["name"]) for x in trace["available_tools"] or []}
    return {x.__name__ for agent in expected.agents for x in agent.tools} <= offered


def _tool_descriptions(trace: Trace, expected: Expected) -> bool:
    said = {expected.bare(x["name"]): x["description"] for x in trace["available_tools"] or []}
    return all(
        _begins(said.get(x.__name__), x.__doc__) for agent in expected.agents for x in agent.tools
    )


def _begins(said: str | None, description: str) -> bool:
    """Whether it is the description; some frameworks put the arguments after it, or the signature
    before.
    """
    return description in (said or "")


def _tool_names(trace: Trace, expected: Expected) -> bool:
    return _agree(trace, expected, lambda call: expected.bare(call["name"]), lambda call: call.name)


def _tool_arguments(trace: Trace, expected: Expected) -> bool:
    tools = {x.__name__: x for x in expected.conversation.tools}

    def full(name: str, arguments: Any) -> str:
        """With the defaults, which a tool's span may have filled in."""
        if not isinstance(arguments, dict) or name not in tools:
            return canonical([name, arguments])
        names = [x for x in tools[name].__annotations__ if x != "return"]
        values = tools[name].__defaults__ or ()
        return canonical(
            [
                name,
                {**dict(zip(names[len(names) - len(values) :], values, strict=True)), **arguments},
            ]
        )

    return _agree(
        trace,
        expected,
        lambda call: full(expected.bare(call["name"]), call["arguments"]),
        lambda call: full(call.name, call.arguments),
    )


def _tool_results(trace: Trace, expected: Expected) -> bool:
    """Results as values, or in the words in which the framework put them for the model."""
    calls, shown = [y for x in expected.calls for y in x], expected.shown_calls(trace)
    if len(calls) != len(shown):
        return False
    results: dict[str, list[Any]] = {}
    for call in calls:
        results.setdefault(call.name, []).append(call.result)
    for call in shown:
        wanted = results.get(expected.bare(call["name"]), [])
        found = next((x for x in wanted if same_result(call["result"], x)), _MISSING)
        if found is _MISSING:
            return False
        wanted.remove(found)
    return True


def _tool_errors(trace: Trace, expected: Expected) -> bool:
    """An error where one was returned, and nowhere else."""

    def returned(call: Call) -> bool:
        return isinstance(call.result, str) and call.result.startswith("Error:")

    return _agree(
        trace,
        expected,
        lambda call: f"{expected.bare(call['name'])} {call['error'] is not None}",
        lambda call: f"{call.name} {returned(call)}",
    )


def _agree(
    trace: Trace,
    expected: Expected,
    shown: Callable[[dict[str, Any]], str],
    said: Callable[[Call], str],
) -> bool:
    """Whether the calls agree step by step; calls of one step are at once, so in any order."""
    calls = [shown(x) for x in expected.shown_calls(trace)]
    if len(calls) != sum(map(len, expected.calls)):
        return False
    for step in expected.calls:
        some, calls = calls[: len(step)], calls[len(step) :]
        if sorted(some) != sorted(map(said, step)):
            return False
    return True


_MISSING = object()


def same_result(shown: Any, returned: Any) -> bool:
    """Whether what is shown is what the tool returned, or its text as a framework would write
    it.
    """
    if canonical(shown) == canonical(returned):
        return True
    if not isinstance(shown, str) or isinstance(returned, str):
        return False
    texts = {str(returned)}
    if not isinstance(returned, (dict, list)):  # these are opened
        texts.add(json.dumps(returned))
    return shown in texts


def canonical(value: Any) -> str:
    """A text that is alike exactly for values alike in JSON, where 24 and 24.0 are one number, 0
    and false are not.
    """

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: plain(held) for key, held in x.items()}
        if isinstance(x, list):
            return [plain(held) for held in x]
        return int(x) if isinstance(x, float) and x.is_integer() else x

    return json.dumps(plain(value), sort_keys=True)


def _no_calls(trace: Trace, key: str) -> bool:
    return all(x[key] is None for x in trace["tool_calls"] or [])


FACTS: dict[str, tuple[Holds, Absent]] = {
    "user_input": (_user_input, lambda x: x["user_input"] is None),
    "final_output": (_final_output, lambda x: x["final_output"] is None),
    "system": (_system, lambda x: x["system_instructions"] is None),
    "tool_names": (_tool_names, lambda x: not x["tool_calls"]),
    "tool_arguments": (_tool_arguments, lambda x: _no_calls(x, "arguments")),
    "tool_results": (_tool_results, lambda x: _no_calls(x, "result")),
    "tool_errors": (_tool_errors, lambda x: _no_calls(x, "error")),
    "tools_offered": (_tools_offered, lambda x: not x["available_tools"]),
    "tool_descriptions": (
        _tool_descriptions,
        lambda x: all(y["description"] is None for y in x["available_tools"] or []),
    ),
    "session": (_session, lambda x: x["session_id"] is None),
    "user": (_user, lambda x: x["user_id"] is None),
    "tokens": (_tokens, lambda x: x["usage"] == {"input_tokens": None, "output_tokens": None}),
    "plan": (_plan, lambda x: x["plan"] is None),
}
"""Fact -> whether a trace says it as it was said, and whether it says nothing."""


def wrong(fact: str, traces: Iterable[Trace], framework: Framework, case: Case) -> list[int]:
    """The turns, from 1, of which `fact` is not what it should be; every turn, if the traces are
    not one each.
    """
    turns, traces = (
        CONVERSATIONS[framework.conversation].turns,
        sorted(traces, key=lambda x: x["started_ns"]),
    )
    if len(turns) != len(traces):
        return list(range(1, len(turns) + 1))
    holds, absent = FACTS[fact]
    if fact in case.truth.not_recorded:
        return [i for i, x in enumerate(traces, start=1) if not absent(x)]
    return [
        i for i, x in enumerate(traces, start=1) if not holds(x, Expected(framework, case, i - 1))
    ]


_FIELDS = {
    "user_input": "user_input",
    "final_output": "final_output",
    "system": "system_instructions",
    "tools_offered": "available_tools",
    "tool_results": "tool_calls",
    "plan": "plan",
}
"""Fact -> the field that `damaged` names."""


def untrue(traces: list[Trace], framework: Framework, case: Case) -> dict[str, Any]:
    """What is claimed of a case's agent traces -> where it does not hold; nothing where it does."""
    truth, turns = case.truth, CONVERSATIONS[framework.conversation].turns
    count = truth.agent_traces or len(turns)
    claims: dict[str, Any] = {
        f"there are {count} agent traces": len(traces) != count and f"{len(traces)} traces",
        "what is said to differ does differ": [
            x for x in truth.differs if not wrong(x, traces, framework, case)
        ],
        "turns share a session as they did": _sessions(traces, framework, case),
    }
    whole = _FIELDS.keys() - truth.differs.keys() - truth.not_recorded.keys()
    claims["what is as it was said is not damaged"] = [
        x["damaged"] for x in traces if {_FIELDS[y] for y in whole}.intersection(x["damaged"])
    ]
    for fact in FACTS.keys() - truth.differs.keys() if len(traces) == len(turns) else ():
        said = "null" if fact in truth.not_recorded else "as it was said"
        claims[f"{fact} is {said} in each turn"] = wrong(fact, traces, framework, case)
    return claims


def _sessions(traces: list[Trace], framework: Framework, case: Case) -> list[set[str | None]]:
    """The session ids of each session, where two share one or one has too many."""
    turns, groups = CONVERSATIONS[framework.conversation].turns, defaultdict(set)
    for turn, trace in zip(turns, sorted(traces, key=lambda x: x["started_ns"]), strict=False):
        groups[turn.session].add(trace["session_id"])
    ids = [x for group in groups.values() for x in group if x is not None]
    share = case.truth.agent_traces or len(ids) == len(set(ids)) <= len(groups)
    return [] if share else list(groups.values())
