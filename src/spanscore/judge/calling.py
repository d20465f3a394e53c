"""One call of a model as the judge makes it: paid for, in its turn, tried again where that helps,
and counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from spanscore.errors import (
    BudgetExhaustedError,
    JudgeError,
    JudgeRefusedError,
    JudgeTimeoutError,
    JudgeTooLongError,
    JudgeUnavailableError,
)
from spanscore.judge import retries
from spanscore.judge.answer import response_format
from spanscore.judge.budget import Budget, Need, Purse, Reservation
from spanscore.judge.calls import Calls
from spanscore.judge.config import Config
from spanscore.judge.lanes import Lane, Place
from spanscore.judge.provider import CallError, Completion, Message, Provider
from spanscore.judge.queues import Queues
from spanscore.judge.sizes import Sizes
from spanscore.judge.transcript import estimate_tokens
from spanscore.model.score import JudgeUsage


@dataclass(frozen=True, slots=True)
class Account:
    """What calls are paid from.

    Those of one that `stands_behind` let all others pass in a model's queue.
    """

    purse: Purse
    stands_behind: bool = False


@dataclass(slots=True)
class Spent:
    """What the calls for one answer of one model have taken so far, for which tenant, and their
    place in the queue.
    """

    account: Account
    tenant: str = ""
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    used: retries.Used = field(default_factory=retries.Used)
    place: Place | None = None


_WRITING_TO_CACHE = 1.25
"""What a token costs at most that a provider's prompt cache is told to keep: Claude's price of
writing, in prices.
"""


@dataclass(frozen=True, slots=True)
class _Request:
    """What is sent, to whom, and on whose account."""

    model: str
    messages: Sequence[Message]
    schema: type[BaseModel]
    enforced: bool
    spent: Spent
    place: Place

    @property
    def input_tokens(self) -> int:
        """The input's estimated length."""
        return sum(estimate_tokens(x.content) for x in self.messages)

    @property
    def response_format(self) -> Mapping[str, Any] | None:
        """The schema as the provider is to enforce it; None where it stands in the text."""
        return response_format(self.schema) if self.enforced else None


class Caller:
    """Calls the models of one judge. Belongs to one event loop."""

    def __init__(
        self,
        config: Config,
        provider: Provider,
        timing: retries.Timing,
        calls: Calls,
        beside: "Caller | None" = None,
    ) -> None:
        """`beside` is another judge's, whose budget and queues these calls share; its limits hold
        for both.
        """
        self._config = config
        self._provider = provider
        self._timing = timing
        self._calls = calls
        own = Account(Purse(Budget(config.budget), timing.clock_ns))
        self.account: Account = own if beside is None else beside.account
        """The judge's own, or that of the judge beside which it is."""
        self.queues: Queues = Queues(config, timing) if beside is None else beside.queues
        """Where the judge's calls wait."""
        self._sizes = Sizes()
        self._policy = retries.Policy(
            max_retries=config.max_retries,
            timeout_s=config.timeout / 1e9,
            initial_interval_s=config.backoff.initial_interval / 1e9,
            max_interval_s=config.backoff.max_interval / 1e9,
            max_elapsed_s=config.backoff.max_elapsed_time / 1e9,
        )
        if beside is None:
            calls.watch(self.account.purse.budget, timing)

    async def complete(
        self,
        model: str,
        messages: Sequence[Message],
        schema: type[BaseModel],
        spent: Spent,
        *,
        enforced: bool,
    ) -> Completion:
        """One completion; what it takes is added to `spent`. Raises JudgeError."""
        lane = self.queues.lane(model, self._config)
        spent.place = spent.place or lane.place(spent.tenant, behind=spent.account.stands_behind)
        request = _Request(model, messages, schema, enforced, spent, spent.place)

        async def once(timeout_s: float) -> Completion:
            return await self._paid(request, lane, timeout_s)

        try:
            return await retries.retrying(
                once, self._policy, self._timing, spent.used, lambda: self._calls.retried(model)
            )
        except CallError as error:
            reason = f"{model}: {error} (calls made: {spent.usage.calls})"
            raise _kind(error)(reason, status=error.status) from None

    async def _paid(self, request: _Request, lane: Lane, timeout_s: float) -> Completion:
        """One call, booked on the budget. Raises CallError, BudgetExhaustedError."""
        purse = request.spent.account.purse
        reserved = await purse.reserve(await self._needed(request), request.spent.tenant)
        try:
            completion = await self._in_turn(request, lane, reserved, timeout_s)
            tokens = completion.input_tokens + completion.output_tokens
            purse.settle(reserved, tokens, completion.cost_usd or 0.0)
        finally:
            purse.close(reserved)
        self._note(request, completion)
        if completion.cut_off and reserved.output_tokens < self._config.max_output_tokens:
            raise BudgetExhaustedError(
                f"{request.model}: what is left of {request.spent.account.purse.budget.key} paid"
                f" for {reserved.output_tokens} tokens of an answer, which was longer"
            )
        return completion

    async def _in_turn(
        self, request: _Request, lane: Lane, reserved: Reservation, timeout_s: float
    ) -> Completion:
        """One call once it is its turn; what is reserved comes back where nothing can be billed."""
        tried, may_be_billed = 0, False

        async def send() -> Completion:
            nonlocal tried, may_be_billed
            if tried:
                self._calls.retried(request.model)
            tried, may_be_billed = tried + 1, True
            try:
                return await self._sent(request, reserved.output_tokens, timeout_s)
            except CallError as error:
                may_be_billed = error.timed_out  # it may well have been worked on
                raise

        tokens = self._sizes.total(request.model, request.schema, request.input_tokens)
        try:
            return await lane.call(request.place, tokens, send)
        finally:
            if not may_be_billed:
                request.spent.account.purse.settle(reserved, 0, 0.0)

    async def _sent(
        self, request: _Request, max_output_tokens: int, timeout_s: float
    ) -> Completion:
        """One request to the provider, counted and timed."""
        spent, started_ns = request.spent, self._timing.clock_ns()
        spent.usage += JudgeUsage(calls=1)
        try:
            with self._calls.timed(request.model):
                return await self._provider.complete(
                    request.model,
                    request.messages,
                    request.response_format,
                    timeout_s,
                    max_output_tokens,
                )
        finally:
            spent.used.seconds += (self._timing.clock_ns() - started_ns) / 1e9

    async def _needed(self, request: _Request) -> Callable[[], Need]:
        """What the call may cost, by what is known when that is asked for.

        Raises JudgeUnavailableError where the price must be known and is not.
        """
        model, most = request.model, self._config.max_output_tokens
        is_priced = request.spent.account.purse.budget.counts_usd
        usd_per_input, usd_per_output = await self._prices(request) if is_priced else (0.0, 0.0)

        def needed() -> Need:
            tokens = self._sizes.most_input(model, request.schema, request.input_tokens)
            least = self._sizes.least_output(model, request.schema, most)
            return Need(tokens, least, most, tokens * usd_per_input, usd_per_output)

        return needed

    async def _prices(self, request: _Request) -> tuple[float, float]:
        """USD for a token of input, and for one of output, in a call of this size."""
        tokens, most = max(request.input_tokens, 1), self._config.max_output_tokens
        of_input = await self._provider.cost_usd(request.model, tokens, 0)
        of_both = await self._provider.cost_usd(request.model, tokens, most)
        if of_input is None or of_both is None:
            limit = f"{request.spent.account.purse.budget.key}.max_usd"
            raise JudgeUnavailableError(
                f"{request.model} was not asked: {limit} is set and its price is not known; add it"
                " to judge.prices"
            )
        writing = _WRITING_TO_CACHE if any(x.reused for x in request.messages) else 1.0
        return writing * of_input / tokens, (of_both - of_input) / most

    def _note(self, request: _Request, completion: Completion) -> None:
        self._calls.took(request.model, completion)
        self._sizes.note(request.model, request.schema, request.input_tokens, completion)
        request.spent.usage += JudgeUsage(
            0, completion.input_tokens, completion.output_tokens, completion.cost_usd
        )


def _kind(error: CallError) -> type[JudgeError]:
    """The type of the error that the caller of a judge gets."""
    if error.context_exceeded:
        return JudgeTooLongError
    if error.refused:
        return JudgeRefusedError
    return JudgeTimeoutError if error.timed_out else JudgeUnavailableError
