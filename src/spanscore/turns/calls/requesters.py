"""Find the agent whose model call requested a tool, where only a later model call's input contains
the request.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from spanscore.model.step import Message, Step
from spanscore.turns.calls.appearances import Call
from spanscore.turns.facts.turn_steps import TurnSteps

_MAX_OF_LENGTH = 100
"""Model calls that are compared where many were given equally many messages."""


class Requesters:
    """The model calls of a turn by how many messages they were given; sorted when first needed, as
    it seldom is.
    """

    def __init__(self, turn: TurnSteps) -> None:
        self._turn = turn
        self._by_length: defaultdict[int, list[tuple[Step, Message]]] | None = None
        self._latest: tuple[Step, list[Message], dict[int, int]] | None = None
        self._agents: set[str | None] | None = None

    def of(self, later: Step, message: Message) -> Step | None:
        """The model call whose output is `message`, which the input of a `later` model call
        contains.

        That model call was given exactly what comes before the message. Of several, it is one of
        the same agent, else the last.
        """
        given, before = self._input_of(later)
        count = before.get(id(message), 0)
        if not count:
            return None
        place_of = self._turn.tree.place
        alike = [
            model
            for model, last in self._of_length(count)[-_MAX_OF_LENGTH:]
            if last == given[count - 1]
        ]
        earlier = [model for model in alike if model.span.start_ns < later.span.start_ns]
        agent = place_of(later).agent
        own = [model for model in earlier if place_of(model).agent is agent]
        return next(reversed(own or earlier), None)

    def agent(self, later: Step, message: Message, given_to: str | None) -> str | None:
        """The agent that requested it; where the turn has only one, that one, which is `given_to`;
        else None.
        """
        requester = self.of(later, message)
        if requester is not None:
            return self._turn.agent_of(requester)
        if self._agents is None:
            self._agents = {self._turn.agent_of(model) for model in self._turn.models}
        return given_to if len(self._agents) <= 1 else None

    def _input_of(self, model: Step) -> tuple[list[Message], dict[int, int]]:
        """The input of a model call without system messages, and how many of these stand before
        each, by its id.

        It is kept for the latest call: each of the calls in its input is looked for there.
        """
        if self._latest is None or self._latest[0] is not model:
            given = _without_system(model)
            before: dict[int, int] = {}
            for at, message in enumerate(given):
                before.setdefault(id(message), at)
            self._latest = model, given, before
        return self._latest[1:]

    def _of_length(self, count: int) -> list[tuple[Step, Message]]:
        """The model calls that were given so many messages, by time, each with the last of them."""
        if self._by_length is None:
            self._by_length = defaultdict(list)
            for model in self._turn.models:
                given = _without_system(model)
                if given:
                    self._by_length[len(given)].append((model, given[-1]))
        return self._by_length.get(count, [])


def _without_system(model: Step) -> list[Message]:
    return [message for message in model.input or () if message.role != "system"]


def leave_to_requesters(calls: Iterable[Call], turn: TurnSteps) -> None:
    """Remove the agent that the tool's span shows, where the agent whose model requested the call
    is more exact.

    It is where it lies inside the agent around, as in a chat of several agents, or where the model
    call itself names it.
    """
    for call in calls:
        request, ran = call.request, call.ran
        if (
            request is None
            or ran is None
            or request.agent is None
            or ran.agent in {None, request.agent}
        ):
            continue
        is_inside = turn.tree.place(request.step).agents > turn.tree.place(ran.step).agents
        if is_inside or (request.step.agent_name and not ran.step.agent_name):
            call.ran = replace(ran, agent=None)
