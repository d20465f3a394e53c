"""The threads in which the API's requests read and write the store: slow ones hold up each other,
and nothing else.
"""

import asyncio
import contextvars
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

AnswerT = TypeVar("AnswerT")
AskedP = ParamSpec("AskedP")

answered_tenant: ContextVar[str] = ContextVar("answered_tenant", default="")
"""Whose request is being answered; "" without tenants."""

# beside the threads of all else, they leave some of the store's connections free
_AT_ONCE: Final = 6
_AT_ONCE_OF_TENANT: Final = 4


class _Question(NamedTuple):
    future: "Future[Any]"
    ask: Callable[[], Any]


class TenantThreads:
    """Threads that tenants take turns in: next is the tenant with the fewest calls under way.

    Thread-safe.

    One tenant has at most 4 of the 6, so that others need not wait for its slow calls. Calls of one
    tenant are begun in their order.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="request")
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[_Question]] = {}
        self._running = Counter[str]()

    def submit(self, tenant: str, ask: Callable[[], Any]) -> "Future[Any]":
        """What `ask` returns, called for a tenant in one of the threads when it is its turn."""
        question = _Question(Future(), ask)
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append(question)
        self._threads.submit(self._work)
        return question.future

    def _work(self) -> None:
        """Answer what waits, as long as something does that may be begun."""
        while (next_ := self._next()) is not None:
            tenant, question = next_
            try:
                _answer(question)
            finally:
                with self._lock:
                    self._running[tenant] -= 1
                    self._running += Counter()  # without the tenants of which nothing is under way

    def _next(self) -> tuple[str, _Question] | None:
        with self._lock:
            free = [x for x in self._waiting if not x or self._running[x] < _AT_ONCE_OF_TENANT]
            if not free:
                return None
            tenant = min(free, key=lambda x: self._running[x])
            queue = self._waiting.pop(tenant)
            question = queue.popleft()
            if queue:
                self._waiting[tenant] = queue  # behind the others that wait
            self._running[tenant] += 1
            return tenant, question


def _answer(question: _Question) -> None:
    if not question.future.set_running_or_notify_cancel():
        return
    try:
        found = question.ask()
    except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
        question.future.set_exception(error)
    else:
        question.future.set_result(found)


_threads = TenantThreads()


async def in_thread(
    ask: Callable[AskedP, AnswerT], *arguments: AskedP.args, **options: AskedP.kwargs
) -> AnswerT:
    """What a function that blocks returns, called for a request.

    As `asyncio.to_thread`, whose threads exporters and the ticks of monitors need.
    """
    question = partial(contextvars.copy_context().run, ask, *arguments, **options)
    found: AnswerT = await asyncio.wrap_future(_threads.submit(answered_tenant.get(), question))
    return found
