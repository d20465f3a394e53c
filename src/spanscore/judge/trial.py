"""Trials of whether a model answers."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from spanscore.errors import ConfigError, JudgeError, JudgeTimeoutError
from spanscore.judge.pace import Timing
from spanscore.judge.port import Answer, Judge, Prompt
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

_NS = 10**9
FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 300.0
"""Between two trials of a model that does not answer; doubled from the first to the longest."""

LEAST_WAIT_S = 60.0
"""Between two trials of a model that answers, however many evaluations fail meanwhile."""

_NO_ANSWER = (
    "the judge gives no answer: %s. What to do: %s. Spans are taken and traces rebuilt meanwhile;"
    " scores that need the judge fail until it answers, and are then asked for again"
)

_QUESTION = Prompt("You check that you can be reached.", "1 + 1 = 2", "Is the sum above right?")


class Verdict(BaseModel):
    """The answer that is asked for."""

    right: bool


async def ask(judge: Judge, model: str) -> Answer[Verdict]:
    """One question of some sixty tokens. Raises JudgeError where `model` gives no valid answer."""
    return await judge.ask(_QUESTION, Verdict, models=(model,))


_OF_KEYS = "give a valid key: judge.api_key, or the provider's environment variable"
_OF_REQUESTS = (
    "see what the provider says of the request: judge.model, judge.temperature, judge.json_schema,"
    " judge.max_output_tokens and judge.extra decide what is in it"
)
_ADVICE = {
    400: _OF_REQUESTS,
    401: _OF_KEYS,
    403: _OF_KEYS,
    404: "see the model's name in judge.model, and judge.api_base",
    422: _OF_REQUESTS,
    429: "see the provider's rate limits, and what is left of its quota",
}
"""What to do, by HTTP status."""


def advice(error: Exception) -> str:
    """What to do about a judge that does not answer, by the provider's status.

    >>> advice(JudgeError("wrong key", status=401))
    "give a valid key: judge.api_key, or the provider's environment variable"
    """
    if isinstance(error, ConfigError):
        return "install what the judge needs: pip install 'spanscore[judge]'"
    status = error.status if isinstance(error, JudgeError) else None
    if status in _ADVICE:
        return _ADVICE[status]
    if isinstance(error, JudgeTimeoutError):
        return "see judge.api_base, the network, and judge.timeout"
    return (
        "see judge.model, judge.api_base and judge.api_key, or the provider's environment variable"
    )


@dataclass(frozen=True, slots=True)
class State:
    """What is known of one model: whether it answers since when (Unix ns), and if not, why and what
    to do.
    """

    status: Literal["not tried", "answers", "fails"]
    since_ns: int
    reason: str | None = None
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As the health check shows it."""
        shown = {"status": self.status, "reason": self.reason, "fix": self.fix}
        return {name: value for name, value in shown.items() if value is not None}


class Trials:
    """Tries models one by one, says once what does not work and once that it works again.

    Belongs to one event loop. `doubt` asks for a trial before one is due.
    """

    def __init__(
        self,
        models: Iterable[str],
        open_judge: Callable[[], Judge],
        meter: Meter,
        timing: Timing = Timing(),  # noqa: B008 - frozen
    ) -> None:
        """`open_judge` gives a judge for one trial: it keeps no answers, and its budget is its
        own.
        """
        self._open_judge = open_judge
        self._timing = timing
        self._states = {x: State("not tried", timing.clock_ns()) for x in dict.fromkeys(models)}
        self._doubted = asyncio.Event()
        self._trying = asyncio.Lock()
        meter.watch(declared.JUDGE_UP, self._up)

    @property
    def states(self) -> Mapping[str, State]:
        """What is known of each model, by its name."""
        return self._states

    @property
    def trouble(self) -> str | None:
        """Which models do not answer, and why; None where all do, or none was tried."""
        failing = [_of(model, x.reason) for model, x in self._states.items() if x.status == "fails"]
        return "the judge gives no answers: " + "; ".join(failing) if failing else None

    @property
    def answers_since_ns(self) -> int:
        """When a model last began to answer, in Unix ns; 0 where none does."""
        return max((x.since_ns for x in self._states.values() if x.status == "answers"), default=0)

    def may_answer(self, models: Iterable[str]) -> bool:
        """Whether asking any of these models is worth it: one that was never tried may answer."""
        return any(
            model not in self._states or self._states[model].status != "fails" for model in models
        )

    def doubt(self) -> None:
        """An evaluation failed since its judge gave no answer: see whether it works."""
        self._doubted.set()

    async def run(self, *, at_start: bool = True) -> None:
        """Try all models, `at_start` or when there is doubt; then, for ever, those that fail, and
        all when there is doubt.
        """
        wait_s = FIRST_WAIT_S
        if at_start:
            await self.try_all()
        else:
            await self._doubted.wait()
            await self.settle()
        while self._states:
            if any(x.status == "fails" for x in self._states.values()):
                await self._timing.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
                await self.try_all(only_failing=True)
                continue
            wait_s = FIRST_WAIT_S
            await self._timing.sleep(LEAST_WAIT_S)
            await self._doubted.wait()
            await self.settle()

    async def try_all(self, *, only_failing: bool = False) -> None:
        """Try each model once, at the same time."""
        async with self._trying:
            await self._try_all(only_failing=only_failing)

    async def settle(self) -> None:
        """Try all models where there is doubt; return when no trial is under way."""
        async with self._trying:
            if self._doubted.is_set():
                await self._try_all(only_failing=False)

    async def _try_all(self, *, only_failing: bool) -> None:
        self._doubted.clear()
        models = [
            x for x, state in self._states.items() if state.status == "fails" or not only_failing
        ]
        await asyncio.gather(*map(self._try, models))

    async def _try(self, model: str) -> None:
        before = self._states[model]
        try:
            await ask(self._open_judge(), model)
        except Exception as error:  # noqa: BLE001 - whatever it is, the model cannot be asked, and the server goes on
            self._fails(model, before, error)
        else:
            self._answers(model, before)

    def _fails(self, model: str, before: State, error: Exception) -> None:
        reason, fix = " ".join(str(error).split()) or type(error).__name__, advice(error)
        since_ns = before.since_ns if before.status == "fails" else self._timing.clock_ns()
        self._states[model] = State("fails", since_ns, reason, fix)
        if before.reason != reason:
            _log.error(_NO_ANSWER, reason, fix)

    def _answers(self, model: str, before: State) -> None:
        now_ns = self._timing.clock_ns()
        since_ns = before.since_ns if before.status == "answers" else now_ns
        self._states[model] = State("answers", since_ns)
        if before.status == "fails":
            _log.info("%s answers again, after %d s", model, (now_ns - before.since_ns) // _NS)
        elif before.status == "not tried":
            _log.info("%s answers", model)

    def _up(self) -> dict[tuple[str, ...], float]:
        return {
            (model,): float(x.status == "answers")
            for model, x in self._states.items()
            if x.status != "not tried"
        }


def _of(model: str, reason: str | None) -> str:
    """`reason` with the model's name before it, which the judge's own errors begin with."""
    return reason if reason and reason.startswith(f"{model}: ") else f"{model}: {reason}"
