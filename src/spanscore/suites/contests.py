"""What came of a tournament: its contests, the champions of each conversation, and the ranking."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from spanscore.model.score import JudgeUsage
from spanscore.stats import Estimate, mean

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
        usage = {name: getattr(self.usage, name) for name in JudgeUsage.__dataclass_fields__}
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "usage": usage}


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
        share = None if self.share is None else self.share.to_json()
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "share": share}


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


@dataclass(frozen=True, slots=True)
class _Points:
    """An agent's points in one contest or conversation."""

    agent: str
    case: str
    points: float


def tournament(contests: Sequence[Contest], mode: Mode) -> Tournament:
    """What the contests come to; in the linear mode those of a conversation are in the order in
    which they were.
    """
    if mode == "round_robin":
        return Tournament(tuple(contests), tuple(ranked(contests)), mode)
    crowned = champions(contests)
    return Tournament(
        tuple(contests), tuple(_places(contests, _crowns(contests, crowned))), mode, crowned
    )


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
    judged = [x for x in contests if not x.error]
    return _places(
        contests, [_Points(agent, x.case, x.points_of(agent)) for x in judged for agent in x.agents]
    )


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
    return [
        _Points(agent, case, 1 / len(crowned[case]) if agent in crowned[case] else 0.0)
        for case, agent in met
    ]


def _places(contests: Iterable[Contest], counted: Iterable[_Points]) -> list[Place]:
    """The ranking by the sums of points."""
    results: defaultdict[str, list[float]] = defaultdict(list)
    for contest in contests:
        for agent in contest.agents:
            results[agent] += [] if contest.error else [contest.points_of(agent)]
    points: defaultdict[str, list[_Points]] = defaultdict(list)
    for result in counted:
        points[result.agent].append(result)
    totals = {agent: sum(x.points for x in points[agent]) for agent in results}
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
    return mean([x.points for x in points], clusters=[x.case for x in points], bounds=(0, 1))
