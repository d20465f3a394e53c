"""Calls an agent for each trial of each case, and keeps apart what its instrumentation emits for
each.
"""

import asyncio
import functools
import inspect
import os
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from spanscore.model.trace import AgentTrace, Target
from spanscore.model.trace import Trial as Origin
from spanscore.rebuild import rebuild_all
from spanscore.sdk.capturing import Capture
from spanscore.sdk.providers import attached
from spanscore.suites import Case

Agent: TypeAlias = Callable[..., Any]
"""What answers a user: called with what the user says, and `session_id` where it has such a
parameter.
"""

_WAIT_S = 5.0
_MAX_ERROR_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One trial of a case: its turns in order, at least one; `error` is what the agent raised."""

    case: Case
    run_id: str
    traces: tuple[AgentTrace, ...]
    error: str | None = None


class AgentRuns:
    """Runs an agent, some trials at once. Belongs to one event loop."""

    def __init__(
        self,
        agent: Agent,
        suite: str,
        run_id: str,
        concurrency: int,
        stitch_off: Collection[str] = (),
    ) -> None:
        """`stitch_off` is that of the configuration (`assemble.stitch`)."""
        self._agent = agent
        self._suite = suite
        self._run_id = run_id
        self._stitch_off = stitch_off
        self._room = asyncio.Semaphore(concurrency)
        self._takes_session = _takes(agent, "session_id")
        self._providers = attached()
        self._providers.require_providers()

    async def all_of(self, cases: Sequence[Case], done: Callable[[], object]) -> list[AgentRun]:
        """A trial for each of `cases`, in their order; `done` is called after each."""

        async def one(case: Case) -> AgentRun:
            async with self._room:
                run = await self._trial(case)
            done()
            return run

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(x)) for x in cases]
        return [x.result() for x in tasks]

    async def _trial(self, case: Case) -> AgentRun:
        session_id = uuid.uuid4().hex
        traces: list[AgentTrace] = []
        error: str | None = None
        for turn in case.conversation:
            question = turn.input or ""
            started_ns = time.time_ns()
            with self._providers.captures.running() as capture:
                answer, error = await self._answered(question, session_id)
                found = await asyncio.to_thread(_rebuilt, capture, self._stitch_off)
            traces += found or [self._plain(question, answer, session_id, started_ns)]
            if error is not None:
                break
        origin = Origin(self._suite, self._run_id, case.id, None if error is None else "fail")
        return AgentRun(case, self._run_id, tuple(replace(x, trial=origin) for x in traces), error)

    async def _answered(self, question: str, session_id: str) -> tuple[Any, str | None]:
        """What the agent answers, or what it raised."""
        call = functools.partial(
            self._agent, question, **({"session_id": session_id} if self._takes_session else {})
        )
        try:
            answer = call() if _is_async(self._agent) else await asyncio.to_thread(call)
            return (await answer if inspect.isawaitable(answer) else answer), None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the agent's, and the trial has failed
            return None, f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]

    def _plain(self, question: str, answer: Any, session_id: str, started_ns: int) -> AgentTrace:
        """The turn of an agent that emits no span: what the user said and what it returned, and
        nothing else.
        """
        trace_id, span_id = uuid.uuid4().hex, os.urandom(8).hex()
        ended_ns = time.time_ns()
        return AgentTrace(
            trace_ids=(trace_id,),
            root_span_id=span_id,
            target=Target(trace_id, span_id, started_ns, ended_ns),
            opening_span_id=span_id,
            started_ns=started_ns,
            ended_ns=ended_ns,
            session_id=session_id if self._takes_session else None,
            user_input=question,
            final_output=None if answer is None else str(answer),
        )


def _rebuilt(capture: Capture, stitch_off: Collection[str]) -> list[AgentTrace]:
    return rebuild_all(*capture.telemetry(_WAIT_S), stitch_off=stitch_off)


def _is_async(agent: Agent) -> bool:
    call = agent.func if isinstance(agent, functools.partial) else agent
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - of an object that can be called
    )


def _takes(agent: Agent, name: str) -> bool:
    try:
        return name in inspect.signature(agent).parameters
    except (TypeError, ValueError):  # a callable written in C
        return False
