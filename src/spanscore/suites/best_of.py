"""A tournament: several agents' answers to the same conversation, two at a time before a judge,
both ways round.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from spanscore.errors import JudgeError
from spanscore.judge.config import Config
from spanscore.judge.excerpt import excerpt
from spanscore.judge.fence import NOTICE
from spanscore.judge.port import Judge, Prompt
from spanscore.looping import waited_for
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import AgentTrace
from spanscore.suites.contests import Contest, Mode, Tournament, tournament

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
_NOTHING_SPENT = JudgeUsage()


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


def best_of(
    conversations: Iterable[Conversation],
    judge: Judge,
    config: Config | None = None,
    *,
    models: Sequence[str] = (),
    mode: Mode = "round_robin",
    done: Callable[[], Any] = lambda: None,
) -> Tournament:
    """Let agents meet, and wait for it; also inside a running event loop.

    Arguments and errors as `best_of_async`.
    """
    return waited_for(
        lambda: best_of_async(conversations, judge, config, models=models, mode=mode, done=done)
    )


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
    return tournament(
        await asyncio.gather(*(asking.contest(x, pair) for x, pair in meetings)), mode
    )


def _rotated(agents: Sequence[str], places: int) -> list[str]:
    """The agents in the same order, beginning so many places further on.

    >>> _rotated(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    first = places % len(agents) if agents else 0
    return [*agents[first:], *agents[:first]]


class _Asking:
    """Asks the judge about two agents; each asking stands by itself."""

    def __init__(
        self, judge: Judge, config: Config, models: Sequence[str], done: Callable[[], Any]
    ) -> None:
        self._judge = judge
        self._models = models
        self._done = done
        self._excerpt = functools.partial(
            excerpt, max_tokens=config.max_transcript_tokens, rules=config.redact.rules
        )

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
        self._done()
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
                return Contest(
                    conversation.case, pair, error=f"{type(error).__name__}: {error}", usage=usage
                )
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
            conversation.case,
            pair,
            winners[0] if agreed else None,
            confidence,
            reasons,
            agreed,
            usage=usage,
        )

    async def _opinion(
        self, conversation: Conversation, first: str, second: str
    ) -> tuple[_Opinion, JudgeUsage]:
        texts = (
            {"Expected answer": conversation.expected} if conversation.expected is not None else {}
        )
        texts |= {
            "What the first agent was told and answered": _conversation_of(
                conversation.agents[first]
            ),
            "What the second agent was told and answered": _conversation_of(
                conversation.agents[second]
            ),
        }
        shown = await asyncio.to_thread(self._excerpt, texts)
        answer = await self._judge.ask(
            Prompt(_INSTRUCTIONS, shown.text, _QUESTION), _Opinion, models=self._models
        )
        return answer.value, answer.usage


def _conversation_of(traces: Sequence[AgentTrace]) -> str:
    """A conversation as its user saw it."""
    return "\n".join(
        line
        for x in traces
        for line in (f"user: {_quoted(x.user_input)}", f"agent: {_quoted(x.final_output)}")
    )


def _quoted(text: str | None) -> str:
    return "(not recorded)" if text is None else text
