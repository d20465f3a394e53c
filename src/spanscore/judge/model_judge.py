"""The judge that asks language models."""

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from spanscore.judge import redaction
from spanscore.judge.answer import (
    Parts,
    UnusableAnswerError,
    kept_text,
    read,
    schema_of,
    schema_text,
)
from spanscore.judge.budget import Budget, Keep, Purse, SharedLimits
from spanscore.judge.cache import Cache, SingleFlight, content_key
from spanscore.judge.calls import Asking, Caller
from spanscore.judge.config import Config
from spanscore.judge.pace import Timing
from spanscore.judge.port import Answer, AnswerT, Judge, Prompt, Relayed
from spanscore.judge.provider import Completion, Message, Provider
from spanscore.model.score import JudgeUsage
from spanscore.telemetry import Meter, declared

_MAX_SHOWN_CHARACTERS = 8000
_MAX_QUOTED_CHARACTERS = 200


class _Behind(Relayed):
    """A judge that is paid from a purse of its own."""

    def __init__(self, judge: "ModelJudge", purse: Purse) -> None:
        super().__init__(judge)
        self._paid = judge
        self._purse = purse

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        return await self._paid.ask_for(self._purse, prompt, schema, models)


class ModelJudge:
    """A `Judge` that asks models through a `Provider`. Belongs to one event loop."""

    def __init__(
        self,
        config: Config,
        provider: Provider,
        cache: Cache | None = None,
        timing: Timing = Timing(),  # noqa: B008 - frozen
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
        self._meter = meter or Meter()
        above = beside.caller if beside else None
        self.caller: Caller = Caller(config, provider, timing, self._meter, above, limits)
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
        return self.caller.purse

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`.

        Nothing of `prompt` is sent before it has been redacted, if redaction is on.
        """
        return await self.ask_for(self.purse, prompt, schema, models)

    async def recall(
        self, questions: Sequence[tuple[Prompt, type[BaseModel]]], *, models: Sequence[str] = ()
    ) -> list[Answer[BaseModel] | None]:
        """See `RemembersAnswers.recall`."""
        model = next(iter(models or self._config.models))
        found = await asyncio.to_thread(self._kept, model, questions)
        if any(found):
            self._meter.add(declared.JUDGE_CACHE_HITS, model=model)
        return found

    async def remember(self, answers: Sequence[tuple[Prompt, BaseModel]], model: str) -> None:
        """See `RemembersAnswers.remember`."""
        await asyncio.to_thread(self._keep, model, answers)

    def behind(self, budget: Budget, keep: Keep | None = None) -> Judge:
        """This judge for work that is not urgent: paid from `budget`, its calls wait while others
        are to be made, and until `keep` has stored what is booked for them.
        """
        return _Behind(self, Purse(budget, self._timing.clock_ns, keep, stands_behind=True))

    async def ask_for(
        self, purse: Purse, prompt: Prompt, schema: type[AnswerT], models: Sequence[str]
    ) -> Answer[AnswerT]:
        """`ask`, paid from `purse`."""
        prompt = await asyncio.to_thread(redaction.redacted, prompt, self._config.redact.rules)
        spent = JudgeUsage()
        failures: list[JudgeError] = []
        for model in models or self._config.models:
            outcome = await self._from_one(Asking(model, prompt, schema, purse))
            if isinstance(outcome, Answer):
                return replace(outcome, usage=spent + outcome.usage)
            if isinstance(outcome.usage, JudgeUsage):
                spent += outcome.usage
            failures.append(outcome)
            if isinstance(outcome, BudgetExhaustedError):
                break
        raise _summed_up(failures, spent)

    def _kept(
        self, model: str, questions: Sequence[tuple[Prompt, type[BaseModel]]]
    ) -> list[Answer[BaseModel] | None]:
        """The answers that are kept; None for one that is not ours, or damaged, too."""
        if self._cache is None:
            return [None] * len(questions)
        keys = [self._key(model, prompt, schema) for prompt, schema in questions]
        kept = self._cache.get(keys)
        return [
            _as_kept(kept, key, schema, model)
            for key, (_, schema) in zip(keys, questions, strict=True)
        ]

    def _keep(self, model: str, answers: Sequence[tuple[Prompt, BaseModel]]) -> None:
        if self._cache is not None:
            self._cache.put(
                {self._key(model, x, type(answer)): kept_text(answer) for x, answer in answers}
            )

    def _key(self, model: str, prompt: Prompt, schema: type[BaseModel]) -> str:
        return content_key(model, prompt, schema_of(schema), self._parameters)

    async def _from_one(self, asking: Asking[AnswerT]) -> Answer[AnswerT] | JudgeError:
        """One model's answer: kept, being had by another asking at this moment, or asked for
        now.
        """
        key = self._key(asking.model, asking.prompt, asking.schema)
        flight = f"{id(asking.purse)} {key}"  # nobody pays for what another one asks
        outcome, shared = await self._flights.run(flight, lambda: self._kept_or_asked(key, asking))
        if not shared:
            return outcome
        if isinstance(outcome, JudgeError):
            free = copy.copy(outcome)
            free.usage = None
            return free
        return replace(outcome, usage=JudgeUsage(cached=1))

    async def _kept_or_asked(
        self, key: str, asking: Asking[AnswerT]
    ) -> Answer[AnswerT] | JudgeError:
        kept = await asyncio.to_thread(self._cache.get, [key]) if self._cache else {}
        answer = _as_kept(kept, key, asking.schema, asking.model)
        if answer is not None:
            self._meter.add(declared.JUDGE_CACHE_HITS, model=asking.model)
            return answer
        self._meter.add(declared.JUDGE_CACHE_MISSES, model=asking.model)
        try:
            value = await self._converse(asking)
        except JudgeError as error:
            error.usage = asking.usage
            return error
        if self._cache:
            await asyncio.to_thread(self._cache.put, {key: kept_text(value)})
        return Answer(value, asking.model, asking.usage)

    async def _converse(self, asking: Asking[AnswerT]) -> AnswerT:
        """Ask; if the answer is unusable show the model its error and ask once more.

        Raises JudgeError.
        """
        model, prompt, form = asking.model, asking.prompt, self._config.json_schema
        if not await self._provider.knows(model):
            raise JudgeUnavailableError(nobody_to_ask(model))
        asking.enforced = form == "always" or (
            form == "auto" and await self._provider.takes_schema(model)
        )
        texts = [prompt.transcript, prompt.question]
        texts += [] if asking.enforced else [schema_text(schema_of(asking.schema))]
        reused = len(prompt.transcript) if prompt.is_reused else 0
        asking.messages = [
            Message("system", prompt.instructions),
            Message("user", "\n\n".join(texts), reused, prompt.pictures),
        ]
        how = ""
        while True:
            completion = await self.caller.complete(asking)
            try:
                return read(completion.text, asking.schema)
            except UnusableAnswerError as error:
                if completion.refusal:  # no repair helps, another model may
                    refused = f"{model} gave no answer: {completion.refusal}"
                    raise JudgeRefusedError(refused) from None
                # of parts that were cut off the caller asks for fewer at once
                if how or (completion.cut_off and issubclass(asking.schema, Parts)):
                    raise JudgeAnswerError(
                        f"{model} gave no valid answer{how}. {self._fault(completion, error)}",
                        answer=completion.text,
                        model=model,
                        cut_off=completion.cut_off,
                    ) from None
                self._meter.add(declared.JUDGE_REPAIRS, model=model)
                asking.messages += _repair(completion, error)
                how = ", not even after one repair"

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


def _as_kept(
    kept: Mapping[str, str], key: str, schema: type[AnswerT], model: str
) -> Answer[AnswerT] | None:
    """An answer as it was kept; one that is not ours, or damaged, is as good as none."""
    try:
        return Answer(read(kept[key], schema), model, JudgeUsage(cached=1)) if key in kept else None
    except UnusableAnswerError:
        return None


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
