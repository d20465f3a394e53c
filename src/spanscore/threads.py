"""Event loops, request threads and their precedence."""

import asyncio
import contextvars
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Final, Generic, NamedTuple, ParamSpec, Self, TypeVar, overload

ResultT = TypeVar("ResultT")
FactT = TypeVar("FactT")
AskedP = ParamSpec("AskedP")


class cached_property(Generic[FactT]):  # noqa: N801 - it is used as a decorator
    """A property that is computed once: functools.cached_property, without the lock it takes before
    Python 3.12, which a fork may leave held for ever.
    """

    def __init__(self, compute: Callable[[Any], FactT]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> FactT: ...

    def __get__(self, instance: object | None, owner: type) -> Self | FactT:
        if instance is None:
            return self
        fact = instance.__dict__[self._name] = self._compute(instance)
        return fact


class Loop:
    """Runs coroutines for callers of any thread, also such as run an event loop themselves, which
    then waits.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="spanscore", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """The result of `work`. Raises what it raises; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the thread; may be called again."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def next_multiple(period_s: float) -> None:
    """Wait until the loop's time is a multiple of `period_s`, for half a period at least and one
    and a half at most.

    Periodic work with one period, or a multiple of it, so wakes an idle process once and not each
    at its own time.
    """
    await asyncio.sleep(_wait_s(asyncio.get_running_loop().time(), period_s))


def _wait_s(now_s: float, period_s: float) -> float:
    """How long `next_multiple` waits.

    >>> _wait_s(10.25, 1.0), _wait_s(10.75, 1.0), _wait_s(11.0, 1.0)
    (0.75, 1.25, 1.0)
    """
    wait_s = period_s - now_s % period_s
    return wait_s if wait_s > period_s / 2 else wait_s + period_s


def waited_for(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """The result of `work`, in an event loop of its own: in another thread where this one has a
    running loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    return _in_a_thread(work)


def waiting(function: Callable[AskedP, Coroutine[Any, Any, ResultT]]) -> Callable[AskedP, ResultT]:
    """A coroutine function for callers who wait for it; its name is without `_async`."""

    @wraps(function)
    def calling(*args: AskedP.args, **kwargs: AskedP.kwargs) -> ResultT:
        return waited_for(lambda: function(*args, **kwargs))

    calling.__name__ = function.__name__.removesuffix("_async")
    return calling


def _in_a_thread(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """As `waited_for`; an interrupt of the waiting thread, as a notebook's stop button is, ends the
    work as well.
    """
    outcome: list[ResultT | BaseException] = []
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def noted() -> ResultT:
        if (task := asyncio.current_task()) is not None:
            started.append((asyncio.get_running_loop(), task))
        return await work()

    def run() -> None:
        try:
            outcome.append(asyncio.run(noted()))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            outcome.append(error)

    thread = threading.Thread(target=run, name="spanscore", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        for loop, task in started:
            loop.call_soon_threadsafe(task.cancel)
        raise
    [result] = outcome
    if isinstance(result, BaseException):
        raise result
    return result


AnswerT = TypeVar("AnswerT")


class Turns:
    """Has threads that compute take turns, in the order in which they come.

    Python runs one of them at a time; if several try, they hand its lock to and fro between the
    processor's cores, and all take a third more CPU. None waits long for another.
    """

    def __init__(self, patience_s: float = 0.25) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._taken = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Within the block it is this thread's turn, or it has waited long enough."""
        self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._taken -= 1
                if self._waiting and not self._taken:
                    self._taken = 1
                    self._waiting.popleft().set()

    def run(
        self, work: Callable[AskedP, AnswerT], *arguments: AskedP.args, **options: AskedP.kwargs
    ) -> AnswerT:
        """What `work` returns, called when it is this thread's turn."""
        with self.turn():
            return work(*arguments, **options)

    def _begin(self) -> None:
        mine = threading.Event()
        with self._lock:
            if not self._taken:
                self._taken = 1
                return
            self._waiting.append(mine)
        mine.wait(self._patience_s)
        with self._lock:
            if not mine.is_set():
                self._waiting.remove(mine)
                self._taken += 1


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


_LONGEST_WAIT_S: Final = 0.02
"""Before each trace."""

_SHARE: Final = 0.25
"""Of the time, that work waits under a load that never pauses: the rest is its own, or what came
would be scored ever later.
"""

_SAVED_S: Final = 2.0
"""The wait that is saved up meanwhile: senders export in bursts, which go first as a whole."""

_WORTH_S: Final = 0.001

_PAUSE_S: Final = 0.005
"""Requests that follow one another within this time are one stream: what began between two of them
would keep the next one waiting.
"""


_ROUND_EVERY_S: Final = 0.002
"""How long work may keep the event loop from what is due: a round costs as much as a small trace,
since a thread that reads takes over meanwhile.
"""


class Allowance:
    """How long work may still wait: a share of the time that has gone by, saved up to a bound.

    Thread-safe.
    """

    def __init__(self, share: float = _SHARE, saved_s: float = _SAVED_S) -> None:
        """`saved_s` seconds at first and at most."""
        self._share = share
        self._most_s = self._left_s = saved_s
        self._at_s = math.inf
        self._lock = threading.Lock()

    def left_s(self, now_s: float) -> float:
        """The seconds left by now, which never runs backwards; 0 where too few to be worth it."""
        with self._lock:
            gained_s = max(0.0, now_s - self._at_s) * self._share
            self._left_s = min(self._most_s, self._left_s + gained_s)
            self._at_s = now_s
            return self._left_s if self._left_s >= _WORTH_S else 0.0

    def spend(self, waited_s: float) -> None:
        """Take a wait off what is left."""
        with self._lock:
            self._left_s -= waited_s


class Precedence:
    """Counts the requests that are being received, and has other work wait while there are any.

    Python runs one thread at a time: while a thread reads traces, the event loop waits for its turn
    at each step of each request. Belongs to one event loop, but for `give_way_in_thread`.
    """

    def __init__(
        self,
        is_urgent: Callable[[], bool] = lambda: False,
        *,
        longest_wait_s: float = _LONGEST_WAIT_S,
        pause_s: float = _PAUSE_S,
        allowance: Allowance | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """While `is_urgent`, other work does not wait; else `longest_wait_s` seconds at most for
        each trace, until there has been no request for `pause_s`, and as long as `allowance` lasts.
        """
        self._is_urgent = is_urgent
        self._longest_wait_s = longest_wait_s
        self._pause_s = pause_s
        self._allowance = allowance or Allowance()
        self._clock_s = clock_s
        self._requests = 0
        self._ended_at_s = -math.inf
        self._idle = asyncio.Event()
        self._idle_for_threads = threading.Event()
        self._next = asyncio.Lock()
        self._round_due_s = -math.inf
        self._next_thread = threading.Lock()
        self._idle.set()
        self._idle_for_threads.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Within the block a request is being received."""
        self._requests += 1
        if self._requests == 1:
            self._idle.clear()
            self._idle_for_threads.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._ended_at_s = self._clock_s()
                self._idle.set()
                self._idle_for_threads.set()

    def give_way_in_thread(self) -> None:
        """Wait until no request is being received, within the bound; threads that wait go on one by
        one.

        May be called from any thread.
        """
        if not self._is_receiving():
            return
        with self._next_thread, self._waiting() as until_s:
            while (left_s := self._may_wait_s(until_s)) > 0:
                if not self._idle_for_threads.wait(left_s):
                    return
                time.sleep(self._pause_left_s())

    async def give_way(self) -> None:
        """Wait in the event loop.

        Those that wait go on one by one, and let the loop do what is due in between.
        """
        if not self._is_receiving() and self._clock_s() < self._round_due_s:
            return
        async with self._next:
            await asyncio.sleep(0)
            self._round_due_s = self._clock_s() + _ROUND_EVERY_S
            with self._waiting() as until_s:
                while (left_s := self._may_wait_s(until_s)) > 0:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left_s):
                            await self._idle.wait()
                            await asyncio.sleep(self._pause_left_s())

    @contextmanager
    def _waiting(self) -> Iterator[float]:
        """Until when work may wait; the block waits, which is taken off the allowance."""
        began_s = self._clock_s()
        yield began_s + min(self._longest_wait_s, self._allowance.left_s(began_s))
        self._allowance.spend(self._clock_s() - began_s)

    def _may_wait_s(self, until_s: float) -> float:
        """How long to wait at most, by now; 0: not at all."""
        if not self._is_receiving() or self._is_urgent():
            return 0.0
        return until_s - self._clock_s()

    def _is_receiving(self) -> bool:
        return self._requests > 0 or self._pause_left_s() > 0

    def _pause_left_s(self) -> float:
        return max(0.0, self._ended_at_s + self._pause_s - self._clock_s())
