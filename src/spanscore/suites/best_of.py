"""A tournament: several agents' answers to the same conversation, two at a time before a judge, both ways round."""

import asyncio
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from spanscore.errors import JudgeError
from spanscore.judge.config import Config
from spanscore.judge.excerpt import excerpt
from spanscore.judge.fence import NOTICE
from spanscore.judge.port import Judge, Prompt
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import AgentTrace
from spanscore.stats import Estimate, mean

_INSTRUCTIONS = f"""\
You compare the work of two AI agents that had the same conversation to hold. You are given what the user said and \
what each of the two answered. After that stands your assignment.

How you work:
- Judge by what is shown alone, and by substance: length, politeness and self-praise are worth nothing.
- Which of the two is shown first means nothing.
- Name the words or values that decide.
- Answer with one JSON object of the form that is asked for, and nothing else.

{NOTICE}"""
_QUESTION = """\
Which of the two agents served the user better? Compare whether each did what was asked, whether what it says is \
right (an expected answer, where one is shown, is right by definition), and whether something is missing or made up. \
Name the winner: "first" or "second"; "tie" where neither is better in a way that matters to the user. Give your \
confidence from 0.0 to 1.0, and the reason in one to three sentences."""
_NOTHING_SPENT = JudgeUsage()


class _Opinion(BaseModel):
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    reason: str
    """What decides, in one to three sentences."""

    winner: Literal["first", "second", "tie"]
    """Which of the two is better."""

    confidence: Annotated[float, Field(ge=0, le=1)]
    """How sure you are, from 0.0 to 1.0."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Two agents on one conversation. `winner` is None for a tie, and where `error` says why nobody judged.

    `reasons` and `confidence` are of both askings, in which the agents are shown in this order and in the other; the
    confidence is the mean of the two, 0 where they disagree.
    """

    case: str
    agents: tuple[str, str]
    winner: str | None = None
    confidence: float = 0.0
    reasons: tuple[str, ...] = ()
    agreed: bool = False
    error: str | None = None
    usage: JudgeUsage = _NOTHING_SPENT

    def to_json(self) -> dict[str, Any]:
        """As the result file has it."""
        usage = {name: getattr(self.usage, name) for name in JudgeUsage.__dataclass_fields__}
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "usage": usage}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the ranking; agents with the same points share one, and the next is as many lower.

    `share` is the mean of the points over the contests, with an interval over the conversations; None for no contest.
    """

    rank: int
    agent: str
    points: float
    won: int
    tied: int
    lost: int
    share: Estimate | None = None

    def to_json(self) -> dict[str, Any]:
        """As the result file has it."""
        share = None if self.share is None else self.share.to_json()
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "share": share}


@dataclass(frozen=True, slots=True)
class Tournament:
    """All contests, and what they come to. `winner` is None where several share the first place."""

    contests: tuple[Contest, ...]
    ranking: tuple[Place, ...]

    @property
    def winner(self) -> str | None:
        """The agent that stands alone on the first place."""
        first = [x.agent for x in self.ranking if x.rank == 1]
        return first[0] if len(first) == 1 and any(not x.error for x in self.contests) else None

    def to_json(self) -> dict[str, Any]:
        """As the result file has it."""
        ranking, contests = [x.to_json() for x in self.ranking], [x.to_json() for x in self.contests]
        return {"winner": self.winner, "ranking": ranking, "contests": contests}


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation as several agents held it, by their names; `expected` is what the answer should be, if known."""

    case: str
    agents: Mapping[str, Sequence[AgentTrace]]
    expected: str | None = None


async def best_of(
    conversations: Iterable[Conversation], judge: Judge, config: Config | None = None, *, models: Sequence[str] = ()
) -> Tournament:
    """Let every two agents meet on every conversation that both held, each time both ways round.

    `models` are asked in place of the judge's own, which does not learn the agents' names. Where the two askings
    disagree it is a tie: then the place decided, and not the answer. A contest that the judge fails to judge counts for
    nobody.
    """
    asking = _Asking(judge, config or Config(), models)
    meetings = [(x, pair) for x in conversations for pair in combinations(x.agents, 2)]
    contests = await asyncio.gather(*(asking.contest(x, pair) for x, pair in meetings))
    return Tournament(tuple(contests), tuple(ranked(contests)))


def ranked(contests: Sequence[Contest]) -> list[Place]:
    """The agents by their points: 1 for a contest won, a half for a tie.

    >>> [(x.rank, x.agent) for x in ranked([Contest("q", ("a", "b"), "b", agreed=True), Contest("q", ("a", "c"), "c")])]
    [(1, 'b'), (1, 'c'), (3, 'a')]
    """
    results: defaultdict[str, list[float]] = defaultdict(list)
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for contest in contests:
        for agent in contest.agents:
            points = 0.5 if contest.winner is None else float(contest.winner == agent)
            results[agent] += [] if contest.error else [points]
            cases[agent] += [] if contest.error else [contest.case]
    totals = {agent: sum(points) for agent, points in results.items()}
    return [
        Place(
            1 + sum(other > totals[agent] for other in totals.values()),
            agent,
            totals[agent],
            won=results[agent].count(1.0),
            tied=results[agent].count(0.5),
            lost=results[agent].count(0.0),
            share=mean(results[agent], clusters=cases[agent], bounds=(0, 1)) if results[agent] else None,
        )
        for agent in sorted(totals, key=lambda x: (-totals[x], x))
    ]


class _Asking:
    """Asks the judge about two agents; each asking stands by itself."""

    def __init__(self, judge: Judge, config: Config, models: Sequence[str]) -> None:
        self._judge = judge
        self._models = models
        self._excerpt = functools.partial(excerpt, max_tokens=config.max_transcript_tokens, rules=config.redact.rules)

    async def contest(self, conversation: Conversation, pair: tuple[str, str]) -> Contest:
        one, other = pair
        usage = _NOTHING_SPENT
        opinions: list[_Opinion] = []
        for first, second in ((one, other), (other, one)):
            try:
                opinion, spent = await self._opinion(conversation, first, second)
            except JudgeError as error:
                usage += error.usage if isinstance(error.usage, JudgeUsage) else _NOTHING_SPENT
                return Contest(conversation.case, pair, error=f"{type(error).__name__}: {error}", usage=usage)
            opinions.append(opinion)
            usage += spent
        forth, back = opinions
        winners = (
            {"first": one, "second": other, "tie": None}[forth.winner],
            {"first": other, "second": one, "tie": None}[back.winner],
        )
        agreed = winners[0] == winners[1]
        confidence = (forth.confidence + back.confidence) / 2 if agreed else 0.0
        reasons = (forth.reason, back.reason)
        return Contest(
            conversation.case, pair, winners[0] if agreed else None, confidence, reasons, agreed, usage=usage
        )

    async def _opinion(self, conversation: Conversation, first: str, second: str) -> tuple[_Opinion, JudgeUsage]:
        texts = {"Expected answer": conversation.expected} if conversation.expected is not None else {}
        texts |= {
            "What the first agent was told and answered": _held(conversation.agents[first]),
            "What the second agent was told and answered": _held(conversation.agents[second]),
        }
        shown = await asyncio.to_thread(self._excerpt, texts)
        answer = await self._judge.ask(Prompt(_INSTRUCTIONS, shown.text, _QUESTION), _Opinion, models=self._models)
        return answer.value, answer.usage


def _held(traces: Sequence[AgentTrace]) -> str:
    """A conversation as its user saw it."""
    return "\n".join(
        line for x in traces for line in (f"user: {_said(x.user_input)}", f"agent: {_said(x.final_output)}")
    )


def _said(text: str | None) -> str:
    return "(not recorded)" if text is None else text
