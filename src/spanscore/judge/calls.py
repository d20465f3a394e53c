"""One call of a model, paid for and retried."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic

from spanscore import retry
from spanscore.errors import (
    BudgetExhaustedError,
    JudgeError,
    JudgeRefusedError,
    JudgeTimeoutError,
    JudgeTooLongError,
    JudgeUnavailableError,
)
from spanscore.judge.answer import response_format
from spanscore.judge.budget import Need, Purse, Reservation, SharedLimits, open_purse
from spanscore.judge.config import Config
from spanscore.judge.pace import Timing
from spanscore.judge.port import AnswerT, Prompt
from spanscore.judge.provider import CallError, Completion, Message, Provider, read
from spanscore.judge.queues import Lane, Place, Queues
from spanscore.judge.transcript import estimate_tokens
from spanscore.model.score import JudgeUsage
from spanscore.telemetry import Meter, declared

_WRITING_TO_CACHE = 1.25
"""What a token costs at most that a provider's prompt cache is told to keep: Claude's price of
writing, in prices.
"""
_MOST_KINDS = 512
_UNKNOWN_OUTPUT = 1024
"""Tokens that an answer of a kind which was never seen is given at least."""
_SPARE_FACTOR, _SPARE_TOKENS = 2, 64
_SMOOTHING = 0.1


@dataclass(slots=True)
class Asking(Generic[AnswerT]):
    """One asking of one model: what is asked, what it is paid from, and what its calls took so far.

    No other asking sees its messages. `enforced`: the provider holds the answer to the schema;
    `used_s` is time in calls and waits after failed ones, without waits for the queue, in which it
    keeps its `place`.
    """

    model: str
    prompt: Prompt
    schema: type[AnswerT]
    purse: Purse
    enforced: bool = False
    messages: list[Message] = field(default_factory=list)
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    used_s: float = 0.0
    place: Place | None = None

    @property
    def input_tokens(self) -> int:
        """The input's estimated length."""
        return sum(estimate_tokens(x.content, len(x.pictures)) for x in self.messages)

    @property
    def response_format(self) -> Mapping[str, Any] | None:
        """The schema as the provider is to enforce it; None where it stands in the text."""
        return response_format(self.schema) if self.enforced else None


@dataclass(slots=True)
class _Seen:
    """What was seen of the calls of one model for one form of answer."""

    largest_output: int | None = None
    largest_input_share: float = 1.0
    share_of_estimate: float = 1.0

    def note(self, estimated: int, completion: Completion) -> None:
        """Take down what one call took; its input was thought to be so many tokens."""
        tokens_in, tokens_out = completion.input_tokens, completion.output_tokens
        estimated = max(estimated, 1)
        self.largest_input_share = max(self.largest_input_share, tokens_in / estimated)
        self.largest_output = max(self.largest_output or 0, tokens_out)
        taken = (tokens_in + tokens_out) / estimated
        self.share_of_estimate += _SMOOTHING * (taken - self.share_of_estimate)

    def least_output(self, most: int) -> int:
        """The output, in tokens, that an answer is sure to fit: twice the longest that was seen."""
        if self.largest_output is None:
            return min(_UNKNOWN_OUTPUT, most)
        return min(_SPARE_FACTOR * self.largest_output + _SPARE_TOKENS, most)


class Caller:
    """Calls the models of one judge. Belongs to one event loop."""

    def __init__(
        self,
        config: Config,
        provider: Provider,
        timing: Timing,
        meter: Meter,
        beside: "Caller | None" = None,
        limits: SharedLimits | None = None,
    ) -> None:
        """`beside` is another judge's, whose budget and queues these calls share; its limits hold
        for both. With `limits` they hold for all servers.
        """
        self._config = config
        self._provider = provider
        self._timing = timing
        self._meter = meter
        self._kinds: OrderedDict[Hashable, _Seen] = OrderedDict()
        self.purse: Purse = beside.purse if beside else open_purse(config.budget, timing, limits)
        """What calls are paid from: the judge's own, or that of the judge beside which it is."""
        self.queues: Queues = beside.queues if beside else Queues(config, timing, limits)
        """Where the judge's calls wait."""
        if beside is None:
            meter.watch(declared.JUDGE_BUDGET_LEFT, partial(self._budget, 0))
            meter.watch(declared.JUDGE_BUDGET_LIMIT, partial(self._budget, 1))

    async def complete(self, asking: Asking[Any]) -> Completion:
        """One completion; what it takes is added to `asking`. Raises JudgeError."""
        model, most_s = asking.model, self._config.backoff.max_elapsed_time / 1e9
        lane = self.queues.lane(model, self._config)
        behind = asking.purse.stands_behind
        asking.place = asking.place or lane.place(asking.prompt.tenant, behind=behind)
        tried = 0
        while True:
            tried += 1
            try:
                return await self._paid(asking, lane, most_s)
            except CallError as error:
                now_ns, chance = self._timing.clock_ns(), self._timing.chance()
                wait = wait_s(error, tried, asking.used_s, now_ns, self._config, chance)
                if wait is None:
                    reason = f"{model}: {error} (calls made: {asking.usage.calls})"
                    raise _kind(error)(reason, status=error.status) from None
            asking.used_s += wait
            await self._timing.sleep(wait)
            self._meter.add(declared.JUDGE_RETRIES, model=model)

    async def _paid(self, asking: Asking[Any], lane: Lane, most_s: float) -> Completion:
        """One call, booked on the budget. Raises CallError, BudgetExhaustedError."""
        timeout_s = min(self._config.timeout / 1e9, most_s - asking.used_s)
        if timeout_s <= 0:
            raise CallError(f"no time left of {most_s:g} s", timed_out=True)
        purse, estimated = asking.purse, asking.input_tokens
        reserved = await purse.reserve(await self._needed(asking), asking.prompt.tenant)
        try:
            completion = await self._in_turn(asking, lane, reserved, timeout_s)
            tokens = completion.input_tokens + completion.output_tokens
            purse.settle(reserved, tokens, completion.cost_usd or 0.0)
        finally:
            purse.close(reserved)
        self._note(asking, completion)
        self._seen(asking).note(estimated, completion)
        if completion.cut_off and reserved.output_tokens < self._config.max_output_tokens:
            raise BudgetExhaustedError(
                f"{asking.model}: what is left of {purse.budget.key} paid for"
                f" {reserved.output_tokens} tokens of an answer, which was longer"
            )
        return completion

    async def _in_turn(
        self, asking: Asking[Any], lane: Lane, reserved: Reservation, timeout_s: float
    ) -> Completion:
        """One call once it is its turn; what is reserved comes back where nothing can be billed."""
        assert asking.place is not None  # noqa: S101 - `complete` has given it one
        tried, may_be_billed = 0, False

        async def send() -> Completion:
            nonlocal tried, may_be_billed
            if tried:
                self._meter.add(declared.JUDGE_RETRIES, model=asking.model)
            tried, may_be_billed = tried + 1, True
            try:
                return await self._sent(asking, reserved.output_tokens, timeout_s)
            except CallError as error:
                may_be_billed = error.timed_out  # it may well have been worked on
                raise

        tokens = asking.input_tokens * self._seen(asking).share_of_estimate
        try:
            return await lane.call(asking.place, tokens, send)
        finally:
            if not may_be_billed:
                asking.purse.settle(reserved, 0, 0.0)

    async def _sent(
        self, asking: Asking[Any], max_output_tokens: int, timeout_s: float
    ) -> Completion:
        """One request to the provider, counted and timed; another without what the model does not
        take.

        What is cancelled is not counted: it ended in no way of the provider's.
        """
        model, outcome = asking.model, ""
        started_s, started_ns = time.monotonic(), self._timing.clock_ns()
        asking.usage += JudgeUsage(calls=1)
        form = asking.response_format
        try:
            completion = await self._provider.complete(
                model, asking.messages, form, timeout_s, max_output_tokens
            )
        except CallError as error:
            outcome = outcome_of(error)
            if not error.adapted:
                raise
        else:
            outcome = "ok"
            return completion
        finally:
            asking.used_s += (self._timing.clock_ns() - started_ns) / 1e9
            if outcome:
                took_s = time.monotonic() - started_s
                self._meter.add(declared.JUDGE_CALLS, model=model, outcome=outcome)
                self._meter.observe(
                    declared.JUDGE_CALL_DURATION, took_s, model=model, outcome=outcome
                )
        return await self._sent(asking, max_output_tokens, timeout_s)

    async def _needed(self, asking: Asking[Any]) -> Callable[[], Need]:
        """What the call may cost, by what is known when that is asked for.

        Raises JudgeUnavailableError where the price must be known and is not.
        """
        estimated, most = asking.input_tokens, self._config.max_output_tokens
        usd_per_input = usd_per_output = 0.0
        if asking.purse.budget.counts_usd:
            usd_per_input, usd_per_output = await self._prices(asking, max(estimated, 1), most)

        def needed() -> Need:
            seen = self._seen(asking)
            tokens = math.ceil(seen.largest_input_share * estimated)
            least = seen.least_output(most)
            return Need(tokens, least, most, tokens * usd_per_input, usd_per_output)

        return needed

    async def _prices(self, asking: Asking[Any], tokens: int, most: int) -> tuple[float, float]:
        """USD for a token of input, and for one of output, in a call of this size."""
        of_input = await self._provider.cost_usd(asking.model, tokens, 0)
        of_both = await self._provider.cost_usd(asking.model, tokens, most)
        if of_input is None or of_both is None:
            limit = f"{asking.purse.budget.key}.max_usd"
            raise JudgeUnavailableError(
                f"{asking.model} was not asked: {limit} is set and its price is not known; add it"
                " to judge.prices"
            )
        writing = _WRITING_TO_CACHE if any(x.reused for x in asking.messages) else 1.0
        return writing * of_input / tokens, (of_both - of_input) / most

    def _seen(self, asking: Asking[Any]) -> _Seen:
        """What is known of calls of this kind."""
        key = asking.model, asking.schema.__qualname__, tuple(asking.schema.model_fields)
        seen = self._kinds.setdefault(key, _Seen())
        self._kinds.move_to_end(key)
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)
        return seen

    def _note(self, asking: Asking[Any], completion: Completion) -> None:
        """Count what a call took that was answered."""
        model, cost_usd = asking.model, completion.cost_usd
        tokens_in, tokens_out = completion.input_tokens, completion.output_tokens
        asking.usage += JudgeUsage(0, tokens_in, tokens_out, cost_usd)
        self._meter.add(declared.JUDGE_TOKENS, tokens_in, model=model, type="input")
        self._meter.add(declared.JUDGE_TOKENS, tokens_out, model=model, type="output")
        if cost_usd is None:
            self._meter.add(declared.JUDGE_UNPRICED_CALLS, model=model)
        else:
            self._meter.add(declared.JUDGE_COST, cost_usd, model=model)

    def _budget(self, place: int) -> dict[tuple[str, ...], float]:
        """What is left of each limit (place 0), or the limit (1)."""
        left = self.purse.budget.left(self._timing.clock_ns())
        return {(unit,): found[place] for unit, found in left.items()}


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


def may_pass(error: CallError) -> bool:
    """Whether the same call may succeed later: 408, 409, 429, any 5xx, a time-out, no
    connection.
    """
    if error.hopeless or error.refused:
        return False
    return error.timed_out or retry.may_pass(error.status)


def wait_s(
    error: CallError, tried: int, elapsed_s: float, now_ns: int, config: Config, chance: float
) -> float | None:
    """Seconds to wait before the next try, after `tried` failed ones; None: give up.

    Exponential backoff of which half is random ("equal jitter"), so that clients that failed
    together do not come back together, and never sooner than Retry-After. A wait that would end
    past `backoff.max_elapsed_time` is not begun.
    """
    if tried > config.max_retries or not may_pass(error):
        return None
    first_s, longest_s = config.backoff.initial_interval / 1e9, config.backoff.max_interval / 1e9
    backoff_s = retry.backoff_s(tried, first_s, 0.5 * chance, longest_s=longest_s)
    wait = max(backoff_s, read(error.headers, now_ns).retry_after_s or 0.0)
    return wait if elapsed_s + wait < config.backoff.max_elapsed_time / 1e9 else None


def _kind(error: CallError) -> type[JudgeError]:
    """The type of the error that the caller of a judge gets."""
    if error.context_exceeded:
        return JudgeTooLongError
    if error.refused:
        return JudgeRefusedError
    return JudgeTimeoutError if error.timed_out else JudgeUnavailableError
