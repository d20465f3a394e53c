"""The judge that asks language models."""

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from pydantic import BaseModel

from spanscore.errors import (
    BudgetExhaustedError,
    JudgeAnswerError,
    JudgeError,
    JudgeRefusedError,
    JudgeTimeoutError,
    JudgeTooLongError,
    JudgeUnavailableError,
)
from spanscore.judge import pace, redaction
from spanscore.judge.answer import (
    Parts,
    UnusableAnswerError,
    kept_text,
    read,
    schema_of,
    schema_text,
)
from spanscore.judge.budget import Budget, Keep, Purse
from spanscore.judge.cache import Cache, SingleFlight, content_key
from spanscore.judge.calls import Account, Caller, Calls, Spent
from spanscore.judge.config import Config
from spanscore.judge.port import Answer, AnswerT, Judge, Prompt
from spanscore.judge.provider import Completion, Message, Provider
from spanscore.judge.shared_limits import SharedLimits
from spanscore.model.score import JudgeUsage
from spanscore.telemetry import Meter

_MAX_SHOWN_CHARACTERS = 8000
_MAX_QUOTED_CHARACTERS = 200


@dataclass(slots=True)
class _Asking(Generic[AnswerT]):
    """One asking of one model: what is asked and what it has cost so far.

    No other asking sees its messages.
    """

    model: str
    prompt: Prompt
    schema: type[AnswerT]
    spent: Spent


def _as_kept(text: str, schema: type[AnswerT], model: str) -> Answer[AnswerT] | None:
    """An answer as it was kept; None for one that is not ours, or damaged, which is as good as
    none.
    """
    try:
        return Answer(read(text, schema), model, JudgeUsage(cached=1))
    except UnusableAnswerError:
        return None


class _Behind:
    """A judge on an account of its own."""

    def __init__(self, judge: "ModelJudge", account: Account) -> None:
        self._judge = judge
        self._account = account

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        return await self._judge.ask_for(self._account, prompt, schema, models)

    async def recall(
        self, questions: Sequence[tuple[Prompt, type[BaseModel]]], *, models: Sequence[str] = ()
    ) -> list[Answer[BaseModel] | None]:
        """See `RemembersAnswers.recall`."""
        return await self._judge.recall(questions, models=models)

    async def remember(self, answers: Sequence[tuple[Prompt, BaseModel]], model: str) -> None:
        """See `RemembersAnswers.remember`."""
        await self._judge.remember(answers, model)


class ModelJudge:
    """A `Judge` that asks models through a `Provider`. Belongs to one event loop."""

    def __init__(
        self,
        config: Config,
        provider: Provider,
        cache: Cache | None = None,
        timing: pace.Timing = pace.Timing(),  # noqa: B008 - frozen
        meter: Meter | None = None,
        beside: "ModelJudge | None" = None,
        limits: SharedLimits | None = None,
    ) -> None:
        """`beside` is another judge, whose budget and queues this one's calls share; its limits
        hold for both. With `limits` they hold for all servers.
        """
        self._config = config
        self._provider = provider
        self._cache = cache
        self._timing = timing
        self._calls = Calls(meter or Meter())
        self.caller: Caller = Caller(
            config, provider, timing, self._calls, beside.caller if beside else None, limits
        )
        """What calls the models."""
        self._flights: SingleFlight[Answer[Any] | JudgeError] = SingleFlight()
        self._parameters = {
            "temperature": config.sampling_temperature,
            "max_output_tokens": config.max_output_tokens,
            "api_base": config.api_base,
            **config.extra,
        }

    @property
    def purse(self) -> Purse:
        """What calls are paid from."""
        return self.caller.account.purse

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`.

        Nothing of `prompt` is sent before it has been redacted, if redaction is on.
        """
        return await self.ask_for(self.caller.account, prompt, schema, models)

    async def recall(
        self, questions: Sequence[tuple[Prompt, type[BaseModel]]], *, models: Sequence[str] = ()
    ) -> list[Answer[BaseModel] | None]:
        """See `RemembersAnswers.recall`."""
        model = next(iter(models or self._config.models))
        return await asyncio.to_thread(self._recalled, model, questions)

    async def remember(self, answers: Sequence[tuple[Prompt, BaseModel]], model: str) -> None:
        """See `RemembersAnswers.remember`."""
        await asyncio.to_thread(self._remembered, model, answers)

    def behind(self, budget: Budget, keep: Keep | None = None) -> Judge:
        """This judge for work that is not urgent: paid from `budget`, its calls wait while others
        are to be made, and until `keep` has stored what is booked for them.
        """
        purse = Purse(budget, self._timing.clock_ns, keep)
        return _Behind(self, Account(purse, stands_behind=True))

    async def ask_for(
        self, account: Account, prompt: Prompt, schema: type[AnswerT], models: Sequence[str]
    ) -> Answer[AnswerT]:
        """`ask`, paid from `account`."""
        prompt = await asyncio.to_thread(redaction.redacted, prompt, self._config.redact.rules)
        spent = JudgeUsage()
        failures: list[JudgeError] = []
        for model in models or self._config.models:
            outcome = await self._from_one(
                _Asking(model, prompt, schema, Spent(account, prompt.tenant))
            )
            if isinstance(outcome, Answer):
                return replace(outcome, usage=spent + outcome.usage)
            if isinstance(outcome.usage, JudgeUsage):
                spent += outcome.usage
            failures.append(outcome)
            if isinstance(outcome, BudgetExhaustedError):
                break
        raise _summed_up(failures, spent)

    def _recalled(
        self, model: str, questions: Sequence[tuple[Prompt, type[BaseModel]]]
    ) -> list[Answer[BaseModel] | None]:
        if self._cache is None:
            return [None] * len(questions)
        keys = [self._key(model, prompt, schema) for prompt, schema in questions]
        kept = self._cache.get(keys)
        if kept:
            self._calls.kept(model, found=True)
        return [
            _as_kept(kept[key], schema, model) if key in kept else None
            for key, (_, schema) in zip(keys, questions, strict=True)
        ]

    def _remembered(self, model: str, answers: Sequence[tuple[Prompt, BaseModel]]) -> None:
        if self._cache is not None:
            self._cache.put(
                {self._key(model, x, type(answer)): kept_text(answer) for x, answer in answers}
            )

    def _key(self, model: str, prompt: Prompt, schema: type[BaseModel]) -> str:
        return content_key(model, prompt, schema_of(schema), self._parameters)

    async def _from_one(self, asking: _Asking[AnswerT]) -> Answer[AnswerT] | JudgeError:
        """One model's answer: kept, being had by another asking at this moment, or asked for
        now.
        """
        key = self._key(asking.model, asking.prompt, asking.schema)
        flight = f"{id(asking.spent.account)} {key}"  # no account pays for what another one asks
        outcome, shared = await self._flights.run(
            flight, lambda: self._cached_or_answered(key, asking)
        )
        if not shared:
            return outcome
        if isinstance(outcome, JudgeError):
            free = copy.copy(outcome)
            free.usage = None
            return free
        return replace(outcome, usage=JudgeUsage(cached=1))

    async def _cached_or_answered(
        self, key: str, asking: _Asking[AnswerT]
    ) -> Answer[AnswerT] | JudgeError:
        kept = await asyncio.to_thread(self._cache.get, [key]) if self._cache else {}
        answer = _as_kept(kept[key], asking.schema, asking.model) if key in kept else None
        self._calls.kept(asking.model, found=answer is not None)
        if answer is not None:
            return answer
        try:
            value = await self._converse(asking)
        except JudgeError as error:
            error.usage = asking.spent.usage
            return error
        if self._cache:
            await asyncio.to_thread(self._cache.put, {key: kept_text(value)})
        return Answer(value, asking.model, asking.spent.usage)

    async def _converse(self, asking: _Asking[AnswerT]) -> AnswerT:
        """Ask; if the answer is unusable show the model its error and ask once more.

        Raises JudgeError.
        """
        if not await self._provider.knows(asking.model):
            raise JudgeUnavailableError(nobody_to_ask(asking.model))
        enforced = self._config.json_schema == "always" or (
            self._config.json_schema == "auto" and await self._provider.takes_schema(asking.model)
        )
        question = f"{asking.prompt.transcript}\n\n{asking.prompt.question}"
        if not enforced:
            question += f"\n\n{schema_text(asking.schema)}"
        reused = len(asking.prompt.transcript) if asking.prompt.is_reused else 0
        messages = [
            Message("system", asking.prompt.instructions),
            Message("user", question, reused, asking.prompt.pictures),
        ]
        completion = await self._call(asking, messages, enforced=enforced)
        try:
            return read(completion.text, asking.schema)
        except UnusableAnswerError as error:
            self._refuse_declined(asking, completion)
            # the caller asks for fewer parts at once
            if completion.cut_off and issubclass(asking.schema, Parts):
                raise self._invalid(
                    asking, completion, f"{asking.model} gave no valid answer. ", error
                ) from None
            self._calls.repaired(asking.model)
            messages += _repair(completion, error)
        completion = await self._call(asking, messages, enforced=enforced)
        try:
            return read(completion.text, asking.schema)
        except UnusableAnswerError as error:
            self._refuse_declined(asking, completion)
            problem = f"{asking.model} gave no valid answer, not even after one repair. "
            raise self._invalid(asking, completion, problem, error) from None

    def _refuse_declined(self, asking: _Asking[AnswerT], completion: Completion) -> None:
        """Raises JudgeRefusedError where the model or a filter declined: no repair helps, another
        model may.
        """
        if completion.refusal:
            raise JudgeRefusedError(f"{asking.model} gave no answer: {completion.refusal}")

    def _invalid(
        self,
        asking: _Asking[AnswerT],
        completion: Completion,
        problem: str,
        error: UnusableAnswerError,
    ) -> JudgeAnswerError:
        """The error of an answer that is of no use."""
        return JudgeAnswerError(
            problem + self._fault(completion, error),
            answer=completion.text,
            model=asking.model,
            cut_off=completion.cut_off,
        )

    def _fault(self, completion: Completion, error: UnusableAnswerError) -> str:
        """What was wrong with an answer: that it was empty, or the problem and where it ended or
        how it began.
        """
        text = " ".join(completion.text[:_MAX_SHOWN_CHARACTERS].split())
        if not text:
            spent = (
                "; all of judge.max_output_tokens went into reasoning" if completion.cut_off else ""
            )
            return f"The answer was empty (finish_reason: {completion.finish_reason}{spent})."
        if completion.cut_off:
            return f"{error} It was cut off at judge.max_output_tokens."
        shown = redaction.redact(text, self._config.redact.rules).text[:_MAX_QUOTED_CHARACTERS]
        return f"{error} It began: {shown!r}"

    async def _call(
        self, asking: _Asking[AnswerT], messages: Sequence[Message], *, enforced: bool
    ) -> Completion:
        """One completion, with retries. Raises JudgeError."""
        return await self.caller.complete(
            asking.model, messages, asking.schema, asking.spent, enforced=enforced
        )


def nobody_to_ask(model: str) -> str:
    """What is wrong with a model's name that leads to no provider."""
    return (
        f"{model}: there is no such provider; name the model as litellm does, such as"
        " openai/gpt-4o-mini"
    )


def _repair(completion: Completion, error: UnusableAnswerError) -> list[Message]:
    why = f"{error} The answer was cut off; be brief." if completion.cut_off else str(error)
    return [
        Message("assistant", completion.text[:_MAX_SHOWN_CHARACTERS] or "(empty)"),
        Message(
            "user",
            f"{why} Give the whole answer again as one JSON object that fits the schema, and"
            " nothing else.",
        ),
    ]


def _summed_up(failures: Sequence[JudgeError], spent: JudgeUsage) -> JudgeError:
    """One error for all models: of the type that says most about why there is no score."""
    if not failures:
        return JudgeUnavailableError("no model to ask: set judge.model", usage=spent)
    order = (
        BudgetExhaustedError,
        JudgeTooLongError,
        JudgeAnswerError,
        JudgeRefusedError,
        JudgeUnavailableError,
        JudgeTimeoutError,
    )
    found = next(failure for kind in order for failure in failures if isinstance(failure, kind))
    summary = copy.copy(found)
    summary.args, summary.usage = ("; then ".join(map(str, failures)),), spent
    return summary
