"""The judge's port: a prompt to an answer."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, overload, runtime_checkable

from pydantic import BaseModel

from spanscore.errors import JudgeTimeoutError
from spanscore.model.score import JudgeUsage

AnswerT = TypeVar("AnswerT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a judge is sent, in this order, so that providers' prefix caches hit across metrics.

    `instructions` is the system message, the same for every metric; `transcript` the rendered,
    redacted and fenced trace; `question` what this metric asks about it; `pictures` the addresses
    of pictures of the user's, which come last. The others are not sent:
    `sample`, which of several answers to the same prompt is wanted, from 0; `tenant`, whose the
    trace is (no answer for one tenant is given to another); and `is_reused`, whether more is soon
    asked about the same transcript.
    """

    instructions: str
    transcript: str
    question: str
    sample: int = 0
    tenant: str = ""
    pictures: tuple[str, ...] = ()
    is_reused: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Answer(Generic[AnswerT]):
    """A validated answer, the model that gave it, and what asking cost."""

    value: AnswerT
    model: str
    usage: JudgeUsage


class Judge(Protocol):
    """Anything that answers questions about a transcript."""

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """Ask, and validate the answer against `schema`.

        `models` are tried in order; empty: the configured ones. Raises a `JudgeError` when no valid
        answer was had; what was spent by then is `error.usage`.
        """
        ...


@runtime_checkable
class RemembersAnswers(Protocol):
    """A judge whose answers can be had again by question, also those that it gave to several
    questions at once.
    """

    async def recall(
        self, questions: Sequence[tuple[Prompt, type[BaseModel]]], *, models: Sequence[str] = ()
    ) -> list[Answer[BaseModel] | None]:
        """What the first of `models` is known to have answered to each prompt; None where nothing
        is. Asks nobody.
        """
        ...

    async def remember(self, answers: Sequence[tuple[Prompt, BaseModel]], model: str) -> None:
        """Take it that `model` gave each of these answers to the prompt beside it, asked by
        itself.
        """
        ...


T = TypeVar("T")


class Ending:
    """The time from which on no judge is waited for. Belongs to one event loop."""

    def __init__(self) -> None:
        self._has_begun = False
        self._limits: set[asyncio.Timeout] = set()
        self.unanswered = 0
        """Questions that were left without an answer."""

    def begin(self) -> None:
        """From now on what a judge does not answer at once fails, also what it was asked before.

        Idempotent.
        """
        if self._has_begun:
            return
        self._has_begun = True
        for limit in self._limits:
            limit.reschedule(asyncio.get_running_loop().time())

    @overload
    def of(self, judge: Judge) -> Judge: ...
    @overload
    def of(self, judge: None) -> None: ...
    def of(self, judge: Judge | None) -> Judge | None:
        """A judge that is waited for until then."""
        return None if judge is None else _Ended(judge, self)

    async def waited(self, asking: Awaitable[T]) -> T:
        """What `asking` gives. Raises JudgeTimeoutError where that is not before the end."""
        try:
            async with asyncio.timeout(0 if self._has_begun else None) as limit:
                self._limits.add(limit)
                try:
                    return await asking
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
        self.unanswered += 1
        raise JudgeTimeoutError("the process ended before the judge answered")


class Relayed:
    """What stands before a judge that remembers its answers remembers them as well."""

    def __init__(self, judge: Judge) -> None:
        if isinstance(judge, RemembersAnswers):
            self.recall, self.remember = judge.recall, judge.remember


class _Ended(Relayed):
    """A judge that is waited for until an end."""

    def __init__(self, judge: Judge, ending: Ending) -> None:
        super().__init__(judge)
        self._judge = judge
        self._ending = ending

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        return await self._ending.waited(self._judge.ask(prompt, schema, models=models))
