"""The conversations that every recorded framework runs, as data: what is said, which tools are
called and return what.

This file is copied beside each framework's script, so it needs nothing but Python; `python
conversation.py` prints it all as JSON, for scripts in other languages. The agents' scripts use
`turns`, `tools` and `instructions`; the model server plays `Turn.steps`; the tests hold what is
rebuilt against the same data.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call and what the tool returns."""

    name: str
    arguments: dict[str, Any]
    result: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the model: text, and the tools it asks for; without any, the agent has
    finished.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    agent: str = ""
    """Whose model call it is; empty for the only agent."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user says, as whom and in which session, and what the model answers to it."""

    session: str
    user: str
    question: str
    steps: tuple[Step, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for step in self.steps for call in step.calls)


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: its instructions and the tools it is given."""

    name: str
    instructions: str
    tools: tuple[Callable[..., Any], ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns one after the other. The first agent is the one the user talks to."""

    name: str
    agents: tuple[Agent, ...]
    turns: tuple[Turn, ...]

    @property
    def tools(self) -> tuple[Callable[..., Any], ...]:
        return tuple(tool for agent in self.agents for tool in agent.tools)


def stock_level(sku: str, site: str = "central") -> int:
    """Count the units of an article that are in stock at a site."""
    return 17 if (sku, site) == ("00042", "north") else 0


def article_note(sku: str) -> str | None:
    """Read the note that the staff left on an article, if any."""
    return "" if sku == "00311" else None


def find_articles(query: str, limit: int = 5) -> list[dict[str, Any]]:
    """Search the catalogue by name."""
    found = [{"sku": "00311", "name": "Teekanne „Møller“, grün", "price": 24.0}]
    return found[:limit] if query == "Teekanne" else []


def reserve(sku: str, quantity: int, pickup: bool = False) -> dict[str, Any] | str:
    """Reserve units of an article for a customer."""
    if pickup or sku != "00107":
        return f"Error: article {sku} is locked for stocktaking"
    return {
        "result": "reserved",
        "content": {"sku": sku, "quantity": quantity, "shelf": "Ä-7"},
        "error": None,
    }


def on_sale(sku: str) -> bool:
    """Tell whether an article is on sale this week."""
    return sku == "00999"


def opening_hours(day: str) -> str:
    """Look up the opening hours of the shop."""
    return f"{day}: 09:00-18:00"


def track_parcel(parcel: str) -> dict[str, Any]:
    """Look up where a parcel is."""
    return {
        "status": "in transit",
        "result": None,
        "content": f"Parcel {parcel} left Århus at 07:40.",
    }


def called(tool: Callable[..., Any], **arguments: Any) -> Call:
    """A call, with what the tool really returns."""
    return Call(tool.__name__, arguments, tool(**arguments))


_REQUEST = '{"task": "reserve", "sku": "00107", "quantity": 2, "note": null}'

SHOP = Conversation(
    "shop",
    (
        Agent(
            "warehouse_helper",
            "You help the staff of a small warehouse. Look things up with the tools; never guess a"
            " number.",
            (stock_level, article_note, find_articles, reserve, on_sale),
        ),
    ),
    (
        # a plan beside parallel calls; 0, null and [] are results; a default argument; text beyond
        # ASCII
        Turn(
            "floor-7",
            "clerk-0042",
            "Is the tea pot 00042 in stock, and did anyone leave a note on it? If not, find a green"
            " one.",
            (
                Step(
                    "Plan: 1. count 00042 and read its note. 2. search the catalogue for a green"
                    " one.",
                    (called(stock_level, sku="00042"), called(article_note, sku="00042")),
                ),
                Step("", (called(find_articles, query="Teekanne grün – 1,2 l"),)),  # noqa: RUF001  # the dash is meant
                Step(
                    "Article 00042 is out of stock and has no note. I found no green “Teekanne”"
                    " either. ☕"
                ),
            ),
        ),
        Turn(  # two calls alike at once; an empty text; an error that is returned as text
            "floor-7",
            "clerk-0042",
            "Try again.",
            (
                Step(
                    "",
                    (
                        called(stock_level, sku="00042", site="north"),
                        called(stock_level, sku="00042", site="north"),
                    ),
                ),
                Step("", (called(article_note, sku="00311"),)),
                Step("", (called(reserve, sku="00042", quantity=2),)),
                Step(
                    "The north site has 17 of 00042, but they are locked for stocktaking; the note"
                    " on 00311 is empty."
                ),
            ),
        ),
        Turn(  # a question that is JSON; false; a tool's own object that looks like an envelope
            "00815",
            "007",
            _REQUEST,
            (
                Step("", (called(on_sale, sku="00107"),)),
                Step("", (called(reserve, sku="00107", quantity=2),)),
                Step("Reserved: two of 00107, at the regular price, shelf Ä-7."),
            ),
        ),
        Turn(  # the same question once more in the same session
            "00815",
            "007",
            _REQUEST,
            (
                Step("", (called(reserve, sku="00107", quantity=2, pickup=True),)),
                Step("", (called(find_articles, query="Teekanne", limit=1),)),
                Step("Article 00107 is locked for stocktaking now; 00311 would be a replacement."),
            ),
        ),
    ),
)

HAND_OVER = "hand_over"
"""Stands for the tool by which the front desk reaches the parcel clerk: each framework has its own
(see README.md).
"""

DESK = Conversation(
    "desk",
    (
        Agent(
            "front_desk",
            "You are the front desk of a shop. Leave all that concerns parcels to the parcel"
            " clerk.",
            (opening_hours,),
        ),
        Agent(
            "parcel_clerk",
            "You are the parcel clerk. You find out where parcels are.",
            (track_parcel,),
        ),
    ),
    (
        Turn(
            "counter-3",
            "visitor-09",
            "Where is my parcel 00731?",
            (
                Step("I ask the parcel clerk.", (Call(HAND_OVER, {}, None),), "front_desk"),
                Step("", (called(track_parcel, parcel="00731"),), "parcel_clerk"),
                Step("Parcel 00731 left Århus this morning.", (), "parcel_clerk"),
                Step(
                    "Your parcel 00731 is on its way: it left Århus this morning.", (), "front_desk"
                ),
            ),
        ),
        Turn(
            "counter-3",
            "visitor-09",
            "And when do you close on Friday?",
            (
                Step("", (called(opening_hours, day="Friday"),), "front_desk"),
                Step("On Friday we close at 18:00.", (), "front_desk"),
            ),
        ),
    ),
)

CONVERSATIONS = {x.name: x for x in (SHOP, DESK)}

_TYPES = {str: "string", int: "integer", bool: "boolean"}


def schema(tool: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    given = {name: kind for name, kind in tool.__annotations__.items() if name != "return"}
    values = tool.__defaults__ or ()
    defaults = dict(zip(list(given)[len(given) - len(values) :], values, strict=True))
    properties = {
        name: {"type": _TYPES[kind], **({"default": defaults[name]} if name in defaults else {})}
        for name, kind in given.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [x for x in given if x not in defaults],
    }


def as_json(conversation: Conversation) -> dict[str, Any]:
    """All of a conversation; `results` is what each tool returns, in the order of the calls."""
    return {
        "name": conversation.name,
        "agents": [
            {
                "name": agent.name,
                "instructions": agent.instructions,
                "tools": [
                    {"name": x.__name__, "description": x.__doc__, "parameters": schema(x)}
                    for x in agent.tools
                ],
            }
            for agent in conversation.agents
        ],
        "turns": [asdict(x) for x in conversation.turns],
    }


if __name__ == "__main__":
    json.dump(
        {name: as_json(x) for name, x in CONVERSATIONS.items()},
        sys.stdout,
        indent=1,
        ensure_ascii=False,
    )
