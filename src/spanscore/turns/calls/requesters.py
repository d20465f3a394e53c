"""Find the agent whose model call requested a tool, where only a later model call's input contains the request."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from spanscore.model.step import Message, Step
from spanscore.turns.calls.appearances import Call
from spanscore.turns.facts.turn_steps import TurnSteps

_MAX_OF_LENGTH = 100
"""Model calls that are compared where many were given equally many messages."""


class Requesters:
    """The model calls of a turn by how many messages they were given; filed when first asked for, as it seldom is."""

    def __init__(self, turn: TurnSteps) -> None:
        self._turn = turn
        self._filed: defaultdict[int, list[tuple[Step, Message]]] | None = None
        self._told: tuple[Step, list[Message], dict[int, int]] | None = None
        self._agents: set[str | None] | None = None

    def of(self, told: Step, message: Message) -> Step | None:
        """The model call whose answer `message` is, in what the model call `told` was given later.

        It was given just what comes before that message. Of several, the one of the same agent, else the last.
        """
        said, before = self._said_to(told)
        count = before.get(id(message), 0)
        if not count:
            return None
        alike = [x for x, last in self._given(count)[-_MAX_OF_LENGTH:] if last == said[count - 1]]
        earlier = [x for x in alike if x.span.start_ns < told.span.start_ns]
        agent = self._turn.tree.place(told).agent
        own = [x for x in earlier if self._turn.tree.place(x).agent is agent]
        return next(reversed(own or earlier), None)

    def agent(self, given: Step, message: Message, given_to: str | None) -> str | None:
        """The agent that requested it; where the turn has only one, that one, which is `given_to`; else None."""
        requester = self.of(given, message)
        if requester is not None:
            return self._turn.agent_of(requester)
        if self._agents is None:
            self._agents = {self._turn.agent_of(x) for x in self._turn.models}
        return given_to if len(self._agents) <= 1 else None

    def _said_to(self, told: Step) -> tuple[list[Message], dict[int, int]]:
        """What a model call was given, without system messages, and how many of these stand before each, by its id.

        It is kept for the call that was asked for last: each of the calls that it was told of is looked for there.
        """
        if self._told is None or self._told[0] is not told:
            said = _said(told)
            before: dict[int, int] = {}
            for at, message in enumerate(said):
                before.setdefault(id(message), at)
            self._told = told, said, before
        return self._told[1:]

    def _given(self, count: int) -> list[tuple[Step, Message]]:
        """The model calls that were given so many messages, by time, each with the last of them."""
        if self._filed is None:
            self._filed = defaultdict(list)
            for model in self._turn.models:
                said = _said(model)
                if said:
                    self._filed[len(said)].append((model, said[-1]))
        return self._filed.get(count, [])


def _said(model: Step) -> list[Message]:
    return [x for x in model.input or () if x.role != "system"]


def leave_to_requesters(calls: Iterable[Call], turn: TurnSteps) -> None:
    """Drop the agent of the tool's span, where the agent whose model requested the call is more exact.

    It does where it lies inside the agent around, as in a chat of several, or where the model call itself names it.
    """
    for call in calls:
        asked, ran = call.request, call.ran
        if asked is None or ran is None or asked.agent is None or ran.agent in {None, asked.agent}:
            continue
        is_inside = turn.tree.place(asked.step).agents > turn.tree.place(ran.step).agents
        if is_inside or (asked.step.agent_name and not ran.step.agent_name):
            call.ran = replace(ran, agent=None)
