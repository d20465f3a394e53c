"""One call of a model, paid for and retried."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from spanscore.judge import pace
from spanscore.judge.answer import response_format
from spanscore.judge.budget import Budget, Need, Purse, Reservation
from spanscore.judge.config import Config
from spanscore.judge.pace import Timing
from spanscore.judge.provider import CallError, Completion, Message, Provider
from spanscore.judge.queues import Lane, Place, Queues
from spanscore.judge.shared_limits import SharedLimits, open_purse
from spanscore.judge.transcript import estimate_tokens
from spanscore.model.score import JudgeUsage
from spanscore.telemetry import Meter, declared


class Calls:
    """Counts for one judge."""

    def __init__(self, meter: Meter, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._meter = meter
        self._clock_s = clock_s

    def watch(self, budget: Budget, timing: Timing) -> None:
        """Have the meter ask what is left of the budget."""

        def left() -> dict[tuple[str, ...], float]:
            return {(unit,): left for unit, (left, _) in budget.left(timing.clock_ns()).items()}

        def limits() -> dict[tuple[str, ...], float]:
            return {(unit,): limit for unit, (_, limit) in budget.left(timing.clock_ns()).items()}

        self._meter.watch(declared.JUDGE_BUDGET_LEFT, left)
        self._meter.watch(declared.JUDGE_BUDGET_LIMIT, limits)

    @contextmanager
    def timed(self, model: str) -> Iterator[None]:
        """One call, by how it ended.

        What is cancelled is not counted: it ended in no way of the provider's.
        """
        started_s = self._clock_s()
        outcome = "ok"
        try:
            yield
        except CallError as error:
            outcome = outcome_of(error)
            self._called(model, outcome, started_s)
            raise
        self._called(model, outcome, started_s)

    def took(self, model: str, completion: Completion) -> None:
        """What a call that was answered took."""
        self._meter.add(declared.JUDGE_TOKENS, completion.input_tokens, model=model, type="input")
        self._meter.add(declared.JUDGE_TOKENS, completion.output_tokens, model=model, type="output")
        if completion.cost_usd is None:
            self._meter.add(declared.JUDGE_UNPRICED_CALLS, model=model)
        else:
            self._meter.add(declared.JUDGE_COST, completion.cost_usd, model=model)

    def kept(self, model: str, *, found: bool) -> None:
        """An answer was looked for among those that were kept."""
        self._meter.add(
            declared.JUDGE_CACHE_HITS if found else declared.JUDGE_CACHE_MISSES, model=model
        )

    def repaired(self, model: str) -> None:
        """An answer did not fit, and is asked for again."""
        self._meter.add(declared.JUDGE_REPAIRS, model=model)

    def retried(self, model: str) -> None:
        """A call is made again."""
        self._meter.add(declared.JUDGE_RETRIES, model=model)

    def _called(self, model: str, outcome: str, started_s: float) -> None:
        self._meter.add(declared.JUDGE_CALLS, model=model, outcome=outcome)
        self._meter.observe(
            declared.JUDGE_CALL_DURATION, self._clock_s() - started_s, model=model, outcome=outcome
        )


def outcome_of(error: CallError) -> str:
    """One of few words for how a call failed.

    >>> outcome_of(CallError("slow down", status=429))
    'rate_limited'
    """
    if error.timed_out:
        return "timeout"
    if error.status == 429:
        return "rate_limited"
    return "unavailable" if error.status is None or error.status >= 500 else "refused"


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
    used: pace.Used = field(default_factory=pace.Used)
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
        return sum(estimate_tokens(x.content, len(x.pictures)) for x in self.messages)

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
        timing: pace.Timing,
        calls: Calls,
        beside: "Caller | None" = None,
        limits: SharedLimits | None = None,
    ) -> None:
        """`beside` is another judge's, whose budget and queues these calls share; its limits hold
        for both. With `limits` they hold for all servers.
        """
        self._config = config
        self._provider = provider
        self._timing = timing
        self._calls = calls
        own = Account(open_purse(config.budget, timing, limits))
        self.account: Account = own if beside is None else beside.account
        """The judge's own, or that of the judge beside which it is."""
        self.queues: Queues = Queues(config, timing, limits) if beside is None else beside.queues
        """Where the judge's calls wait."""
        self._sizes = Sizes()
        self._policy = pace.Policy(
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
            return await pace.retrying(
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
        """One request to the provider; another without what the model does not take."""
        while True:
            try:
                return await self._sent_once(request, max_output_tokens, timeout_s)
            except CallError as error:
                if not error.adapted:
                    raise

    async def _sent_once(
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


_MOST_KINDS = 512
_UNKNOWN_OUTPUT = 1024
"""Tokens that an answer of a kind which was never seen is given at least."""
_SPARE_FACTOR, _SPARE_TOKENS = 2, 64
_SMOOTHING = 0.1


@dataclass(slots=True)
class _Seen:
    largest_output: int = 0
    largest_input_share: float = 1.0
    share_of_estimate: float = 1.0


class Sizes:
    """What was seen of the calls of each kind: one model, and one form of answer."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Hashable, _Seen] = OrderedDict()

    def note(
        self, model: str, schema: type[BaseModel], estimated_input: int, completion: Completion
    ) -> None:
        """Take down what one call took; `estimated_input` is what its input was thought to be, in
        tokens.
        """
        key = _kind_of_question(model, schema)
        seen = self._seen.setdefault(key, _Seen())
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_KINDS:
            self._seen.popitem(last=False)
        input_share = completion.input_tokens / max(estimated_input, 1)
        seen.largest_input_share = max(seen.largest_input_share, input_share)
        seen.largest_output = max(seen.largest_output, completion.output_tokens)
        taken = (completion.input_tokens + completion.output_tokens) / max(estimated_input, 1)
        seen.share_of_estimate += _SMOOTHING * (taken - seen.share_of_estimate)

    def least_output(self, model: str, schema: type[BaseModel], most: int) -> int:
        """The output, in tokens, that an answer of this kind is sure to fit: twice the longest one
        that was seen.
        """
        seen = self._seen.get(_kind_of_question(model, schema))
        wanted = (
            _UNKNOWN_OUTPUT if seen is None else _SPARE_FACTOR * seen.largest_output + _SPARE_TOKENS
        )
        return min(wanted, most)

    def most_input(self, model: str, schema: type[BaseModel], estimated_input: int) -> int:
        """The input, in tokens, that a call may turn out to have: the estimate, or more where it
        was too low before.
        """
        seen = self._seen.get(_kind_of_question(model, schema))
        return (
            estimated_input
            if seen is None
            else math.ceil(seen.largest_input_share * estimated_input)
        )

    def total(self, model: str, schema: type[BaseModel], estimated_input: int) -> float:
        """About how many tokens a call takes, input and output together."""
        seen = self._seen.get(_kind_of_question(model, schema))
        return estimated_input * (1.0 if seen is None else seen.share_of_estimate)


def _kind_of_question(model: str, schema: type[BaseModel]) -> Hashable:
    return model, schema.__qualname__, tuple(schema.model_fields)
