"""A tournament between agents."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from spanscore.errors import JudgeError
from spanscore.judge.config import Config
from spanscore.judge.marks import NOTICE
from spanscore.judge.port import Judge, Prompt
from spanscore.judge.transcript import excerpt
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import AgentTrace
from spanscore.stats import Estimate, mean
from spanscore.threads import waiting

Mode: TypeAlias = Literal["round_robin", "linear"]
"""Who meets whom: every two agents, or in each conversation the champion and the next agent, who
may take its place.
"""

_NOTHING_SPENT = JudgeUsage()
_TOLERANCE = 1e-9  # thirds of a point do not add up exactly


@dataclass(frozen=True, slots=True)
class Contest:
    """Two agents on one conversation.

    `winner` is None for a tie, and where `error` says why nobody judged.

    `reasons` and `confidence` are of both askings, in which the agents are shown in this order and
    in the other; the confidence is the mean of the two, 0 where they disagree. In the linear mode
    the first agent is the champion.
    """

    case: str
    agents: tuple[str, str]
    winner: str | None = None
    confidence: float = 0.0
    reasons: tuple[str, ...] = ()
    agreed: bool = False
    error: str | None = None
    usage: JudgeUsage = _NOTHING_SPENT

    def points_of(self, agent: str) -> float:
        """1 for the winner, a half for a tie, 0 for the loser."""
        return 0.5 if self.winner is None else float(self.winner == agent)

    def to_json(self) -> dict[str, Any]:
        """As the result file has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the ranking; agents with the same points share one, and the next is as many lower.

    `share` is the mean of the points over the contests, or in the linear mode over the
    conversations, with an interval over the conversations; None for an agent that was in no judged
    contest.
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
        return {**asdict(self), "share": self.share and self.share.to_json()}


@dataclass(frozen=True, slots=True)
class Tournament:
    """All contests, and what they come to. `winner` is None where several share the first place.

    `champions` are, in the linear mode, those of each conversation by its name.
    """

    contests: tuple[Contest, ...]
    ranking: tuple[Place, ...]
    mode: Mode = "round_robin"
    champions: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def winner(self) -> str | None:
        """The agent that stands alone on the first place."""
        first = [x.agent for x in self.ranking if x.rank == 1]
        return first[0] if len(first) == 1 and any(not x.error for x in self.contests) else None

    def to_json(self) -> dict[str, Any]:
        """As the result file has it."""
        return {
            "mode": self.mode,
            "winner": self.winner,
            "ranking": [x.to_json() for x in self.ranking],
            "champions": {case: list(agents) for case, agents in self.champions.items()},
            "contests": [x.to_json() for x in self.contests],
        }


_Points: TypeAlias = tuple[str, str, float]
"""An agent, and its points in one contest or conversation, by that one's name."""


def tournament(contests: Sequence[Contest], mode: Mode) -> Tournament:
    """What the contests come to; in the linear mode those of a conversation are in the order in
    which they were.
    """
    if mode == "round_robin":
        return Tournament(tuple(contests), tuple(ranked(contests)), mode)
    crowned = champions(contests)
    places = _places(contests, _crowns(contests, crowned))
    return Tournament(tuple(contests), tuple(places), mode, crowned)


def ranked(contests: Sequence[Contest]) -> list[Place]:
    """The agents by their points: 1 for a contest won, a half for a tie.

    >>> [
    ...     (x.rank, x.agent)
    ...     for x in ranked(
    ...         [Contest("q", ("a", "b"), "b", agreed=True), Contest("q", ("a", "c"), "c")]
    ...     )
    ... ]
    [(1, 'b'), (1, 'c'), (3, 'a')]
    """
    met = [(x, agent) for x in contests if not x.error for agent in x.agents]
    return _places(contests, [(agent, x.case, x.points_of(agent)) for x, agent in met])


def champions(contests: Iterable[Contest]) -> dict[str, tuple[str, ...]]:
    """The champions of each conversation: the agent whom nobody beat any more, and those that tied
    with it.

    >>> champions(
    ...     [Contest("q", ("a", "b"), "b", agreed=True), Contest("q", ("b", "c"), agreed=True)]
    ... )
    {'q': ('b', 'c')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for contest in contests:
        champion, challenger = contest.agents
        if contest.error:
            continue
        if contest.winner == challenger:
            found[contest.case] = (challenger,)
        else:
            equals = (challenger,) if contest.winner is None else ()
            found[contest.case] = (*found.get(contest.case, (champion,)), *equals)
    return found


def _crowns(contests: Iterable[Contest], crowned: Mapping[str, Sequence[str]]) -> list[_Points]:
    """A point for each conversation, shared by its champions; 0 for the others that were in a
    judged contest.
    """
    met = dict.fromkeys((x.case, agent) for x in contests if not x.error for agent in x.agents)
    shares = {case: 1 / len(agents) for case, agents in crowned.items()}
    return [(agent, case, shares[case] if agent in crowned[case] else 0.0) for case, agent in met]


def _places(contests: Iterable[Contest], counted: Iterable[_Points]) -> list[Place]:
    """The ranking by the sums of points."""
    results: defaultdict[str, list[float]] = defaultdict(list)
    for contest in contests:
        for agent in contest.agents:
            results[agent] += [] if contest.error else [contest.points_of(agent)]
    points: defaultdict[str, list[_Points]] = defaultdict(list)
    for result in counted:
        points[result[0]].append(result)
    totals = {agent: sum(x for *_, x in points[agent]) for agent in results}
    return [
        Place(
            1 + sum(other > totals[agent] + _TOLERANCE for other in totals.values()),
            agent,
            totals[agent],
            won=results[agent].count(1.0),
            tied=results[agent].count(0.5),
            lost=results[agent].count(0.0),
            share=_share(points[agent]),
        )
        for agent in sorted(totals, key=lambda x: (-round(totals[x], 9), x))
    ]


def _share(points: Sequence[_Points]) -> Estimate | None:
    if not points:
        return None
    return mean([x for *_, x in points], clusters=[x for _, x, _ in points], bounds=(0, 1))


_INSTRUCTIONS = f"""\
You compare the work of two AI agents that had the same conversation to hold. You are given what \
the user said and what each of the two answered. After that stands your assignment.

How you work:
- Judge by what is shown alone, and by substance: length, politeness and self-praise are worth \
nothing.
- Which of the two is shown first means nothing.
- Name the words or values that decide.
- Answer with one JSON object of the form that is asked for, and nothing else.

{NOTICE}"""
_QUESTION = """\
Which of the two agents served the user better? Compare whether each did what was asked, whether \
what it says is right (an expected answer, where one is shown, is right by definition), and \
whether something is missing or made up. Name the winner: "first" or "second"; "tie" where neither \
is better in a way that matters to the user. Give your confidence from 0.0 to 1.0, and the reason \
in one to three sentences."""


class _Opinion(BaseModel):
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    reason: str
    """What decides, in one to three sentences."""

    winner: Literal["first", "second", "tie"]
    """Which of the two is better."""

    confidence: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
    """How sure you are, from 0.0 to 1.0."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation as several agents held it, by their names; `expected` is what the answer
    should be, if known.
    """

    case: str
    agents: Mapping[str, Sequence[AgentTrace]]
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How much a tournament asks: contests, and calls of the judge, which are two for each contest.

    An answer that a judge has to repair, or that a further model is asked for, is a call more.
    """

    contests: int

    @property
    def calls(self) -> int:
        """Each contest is judged both ways round."""
        return 2 * self.contests


def plan(conversations: Iterable[Conversation], mode: Mode = "round_robin") -> Plan:
    """How much a tournament of these conversations will ask.

    >>> both = Conversation("q", {"a": (), "b": (), "c": (), "d": ()})
    >>> plan([both]).calls, plan([both], "linear").calls
    (12, 6)
    """
    counts = [len(x.agents) for x in conversations]
    if mode == "linear":
        return Plan(sum(max(n - 1, 0) for n in counts))
    return Plan(sum(n * (n - 1) // 2 for n in counts))


async def best_of_async(
    conversations: Iterable[Conversation],
    judge: Judge,
    config: Config | None = None,
    *,
    models: Sequence[str] = (),
    mode: Mode = "round_robin",
    done: Callable[[], Any] = lambda: None,
) -> Tournament:
    """Let agents meet on the conversations that they have in common, each time both ways round.

    In the mode `round_robin` every two agents meet on every conversation. In the mode `linear` one
    agent of each conversation is its champion and meets the others in turn; who beats the champion
    takes its place. Who begins changes from one conversation to the next, for the first agent has
    the most contests to win.

    `models` are asked in place of the judge's own, which does not learn the agents' names. Where
    the two askings disagree it is a tie: then the place decided, and not the answer. A contest that
    the judge fails to judge counts for nobody. `done` is called after each contest. Raises
    ValueError where two conversations have one name.

    `best_of` waits for it, also inside a running event loop.
    """
    given = list(conversations)
    if twice := [name for name, count in Counter(x.case for x in given).items() if count > 1]:
        raise ValueError(
            f"two conversations have the name {twice[0]!r}; give each a name of its own"
        )
    asking = _Asking(judge, config or Config(), models, done)
    if mode == "linear":
        orders = [(x, _rotated(list(x.agents), place)) for place, x in enumerate(given)]
        runs = await asyncio.gather(*(asking.linear(x, order) for x, order in orders))
        return tournament([contest for run in runs for contest in run], mode)
    meetings = [(x, pair) for x in given for pair in combinations(x.agents, 2)]
    contests = await asyncio.gather(*(asking.contest(x, pair) for x, pair in meetings))
    return tournament(contests, mode)


best_of = waiting(best_of_async)
"""Let agents meet, and wait for it; see `best_of_async`."""


def _rotated(agents: Sequence[str], places: int) -> list[str]:
    """The agents in the same order, beginning so many places further on.

    >>> _rotated(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    first = places % len(agents) if agents else 0
    return [*agents[first:], *agents[:first]]


@dataclass(frozen=True, slots=True)
class _Asking:
    """Asks the judge about two agents; each asking stands by itself."""

    judge: Judge
    config: Config
    models: Sequence[str]
    done: Callable[[], Any]

    async def linear(self, conversation: Conversation, agents: Sequence[str]) -> list[Contest]:
        """The first agent is champion; each of the others meets the champion of the moment, who
        stays in a tie.
        """
        contests: list[Contest] = []
        champion, *challengers = agents or ("",)
        for challenger in challengers:
            contest = await self.contest(conversation, (champion, challenger))
            contests.append(contest)
            champion = contest.winner or champion
        return contests

    async def contest(self, conversation: Conversation, pair: tuple[str, str]) -> Contest:
        """Both ways round."""
        contest = await self._judged(conversation, pair)
        self.done()
        return contest

    async def _judged(self, conversation: Conversation, pair: tuple[str, str]) -> Contest:
        one, other = pair
        usage = _NOTHING_SPENT
        opinions: list[_Opinion] = []
        for first, second in ((one, other), (other, one)):
            try:
                opinion, spent = await self._opinion(conversation, first, second)
            except JudgeError as error:
                usage += error.usage if isinstance(error.usage, JudgeUsage) else _NOTHING_SPENT
                why = f"{type(error).__name__}: {error}"
                return Contest(conversation.case, pair, error=why, usage=usage)
            opinions.append(opinion)
            usage += spent
        forth, back = opinions
        winner = {"first": one, "second": other, "tie": None}[forth.winner]
        agreed = winner == {"first": other, "second": one, "tie": None}[back.winner]
        confidence = (forth.confidence + back.confidence) / 2 if agreed else 0.0
        return Contest(
            conversation.case,
            pair,
            winner if agreed else None,
            confidence,
            (forth.reason, back.reason),
            agreed,
            usage=usage,
        )

    async def _opinion(
        self, conversation: Conversation, first: str, second: str
    ) -> tuple[_Opinion, JudgeUsage]:
        expected, agents = conversation.expected, conversation.agents
        texts = {} if expected is None else {"Expected answer": expected}
        for place, agent in (("first", first), ("second", second)):
            heading = f"What the {place} agent was told and answered"
            texts[heading] = _conversation_of(agents[agent])
        most, rules = self.config.max_transcript_tokens, self.config.redact.rules
        shown = await asyncio.to_thread(excerpt, texts, max_tokens=most, rules=rules)
        prompt = Prompt(_INSTRUCTIONS, shown.text, _QUESTION)
        answer = await self.judge.ask(prompt, _Opinion, models=self.models)
        return answer.value, answer.usage


def _conversation_of(traces: Sequence[AgentTrace]) -> str:
    """A conversation as its user saw it."""
    lines = (x for t in traces for x in (("user", t.user_input), ("agent", t.final_output)))
    return "\n".join(f"{who}: {'(not recorded)' if x is None else x}" for who, x in lines)
