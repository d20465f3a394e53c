"""Which answer of a conversation comes next, whatever a framework sends along: it is found by
counting model calls.
"""

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from conversation import HAND_OVER, Agent, Conversation, Step

ASIDE_TEXT = "Warehouse questions"
"""What a model call that offers no tools is told: a title, or whatever else a framework asks on the
side.
"""


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call as the model asks for it, by the name that the framework gave the tool."""

    call_id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model server says, before it is put into the words of one API."""

    answer_id: str
    text: str
    requests: tuple[ToolRequest, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """How a framework uses the model; the table `[model]` of its recording.toml."""

    hand_over: str = ""
    """Name, or its end, of the tool by which the front desk reaches the clerk."""
    hand_over_arguments: dict[str, Any] = field(default_factory=dict)
    hands_off: bool = False
    """Whether the clerk answers the user itself, so that the front desk is not asked again."""
    without_tools: bool = False
    """Whether calls that offer no tools belong to the conversation too: the framework describes its
    tools in text.
    """
    answer_tool: str = ""
    """The tool by which the framework wants the final answer, and its argument, as in
    `final_answer.answer`.
    """


@dataclass(slots=True)
class _Place:
    turn: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    """Agent -> model calls that it has made in this turn."""
    pending: tuple[str, ...] = ()
    """Ids of the tool calls that were asked for last."""


def tokens(turn: int, step: int) -> tuple[int, int]:
    """(input, output) tokens of one model call, both counted from 0: no two calls and no two sums
    are alike.
    """
    return 101 + 40 * turn + 7 * step, 11 + 5 * turn + step


class Script:
    """The conversation's answers, each given once, in order; of several agents, in each one's own
    order.
    """

    def __init__(self, conversation: Conversation, options: Options) -> None:
        self._conversation = conversation
        self._options = options
        self._place = _Place()
        self._lock = threading.Lock()
        self._asides = 0

    @property
    def turns_answered(self) -> int:
        return self._place.turn

    def next(self, body: dict[str, Any], offered: list[str]) -> Answer:
        """The answer to a request that offers these tools."""
        said = json.dumps(body, ensure_ascii=False)
        with self._lock:
            if self._place.turn >= len(self._conversation.turns) or not self._belongs(
                said, offered
            ):
                self._asides += 1
                return Answer(f"aside{self._asides}", ASIDE_TEXT)
            return self._advance(self._agent(said, offered), offered)

    def _belongs(self, said: str, offered: list[str]) -> bool:
        if self._options.without_tools or any(
            _is(name, tool.__name__) for name in offered for tool in self._tools()
        ):
            return True
        return any(x in said for x in self._place.pending)

    def _tools(self) -> tuple[Any, ...]:
        return self._conversation.tools

    def _agent(self, said: str, offered: list[str]) -> Agent:
        """Whose model call it is: the agent whose instructions are in it, else the one whose tools
        are on offer.
        """
        agents = self._conversation.agents
        named = [x for x in agents if x.instructions in said] or list(agents)
        if len(named) > 1:
            named = [
                x for x in named if any(_is(y, tool.__name__) for y in offered for tool in x.tools)
            ] or named
        return named[0]

    def _advance(self, agent: Agent, offered: list[str]) -> Answer:
        place, several = self._place, len(self._conversation.agents) > 1
        turn = self._conversation.turns[place.turn]
        steps = [(i, x) for i, x in enumerate(turn.steps) if not several or x.agent == agent.name]
        asked = place.asked.get(agent.name, 0)
        number, step = steps[min(asked, len(steps) - 1)]
        place.asked[agent.name] = asked + 1
        answer = self._answer(place.turn, number, step, offered)
        place.pending = tuple(x.call_id for x in answer.requests)
        if not step.calls and self._ends(turn.steps, number):
            self._place = _Place(place.turn + 1)
        return answer

    def _ends(self, steps: tuple[Step, ...], number: int) -> bool:
        """Whether the turn is over with this step: the last one, or the clerk's own where he
        answers the user.
        """
        return number == len(steps) - 1 or (self._options.hands_off and number == len(steps) - 2)

    def _answer(self, turn: int, number: int, step: Step, offered: list[str]) -> Answer:
        answer_id = f"t{turn + 1}s{number + 1}"
        requests = []
        for i, call in enumerate(step.calls):
            known, arguments = call.name, call.arguments
            if known == HAND_OVER:
                known, arguments = self._options.hand_over, self._options.hand_over_arguments
            name = next((x for x in offered if _is(x, known)), known)
            requests.append(ToolRequest(f"{answer_id}c{i + 1}", name, arguments))
        text = step.text
        tool, _, argument = self._options.answer_tool.partition(".")
        if tool and not requests and tool in offered:
            text, requests = "", [ToolRequest(f"{answer_id}c1", tool, {argument: step.text})]
        return Answer(answer_id, text, tuple(requests), *tokens(turn, number))


def _is(name: str, tool: str) -> bool:
    """Whether `name` is the tool's, with or without the framework's prefix: `mcp__shop__reserve`,
    `shop-reserve`.
    """
    return name == tool or (
        bool(tool) and re.search(rf"[^A-Za-z0-9]{re.escape(tool)}$", name) is not None
    )
