"""The judge's one port: ask a model a question about a transcript, get an answer in a schema."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from spanscore.model.score import JudgeUsage

AnswerT = TypeVar("AnswerT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a judge is sent, in this order, so that providers' prefix caches hit across metrics.

    `instructions` is the system message, the same for every metric; `transcript` the rendered,
    redacted and fenced trace; `question` what this metric asks about it. The others are not sent:
    `sample`, which of several answers to the same prompt is wanted, from 0; `tenant`, whose the
    trace is (no answer for one tenant is given to another); and `is_reused`, whether more is soon
    asked about the same transcript.
    """

    instructions: str
    transcript: str
    question: str
    sample: int = 0
    tenant: str = ""
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
