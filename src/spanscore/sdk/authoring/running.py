"""Follow the agent's own function to its end: one that returns, that is awaited, or that yields."""

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from opentelemetry.context import Context

from spanscore.sdk.authoring.spans import Active
from spanscore.sdk.authoring.values import MAX_CHARS

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MAX_ITEMS = 10_000


class Run(Protocol):
    """What is recorded of one call of a function."""

    @property
    def context(self) -> Context | None:
        """The context in which the function's own code runs; None: the current one."""

    def returned(self, value: object) -> None:
        """The function returned."""

    def yielded(self, items: list[Any], value: object, *, is_whole: bool) -> None:
        """The generator ended, having yielded `items` and returned `value`; not `is_whole`: there
        were more.
        """

    def failed(self, error: BaseException) -> None:
        """The function raised an exception."""


def follow(run: Run, value: Any) -> Any:
    """What a function returned, recorded; where the work only begins then, what follows that in the
    value's place.
    """
    if inspect.iscoroutine(value):
        return awaited(run, value)
    if inspect.isgenerator(value):
        return stepped(run, value)
    if inspect.isasyncgen(value):
        return _async_generator_function(lambda: value, lambda _args, _kwargs: run)()
    run.returned(value)
    return value


async def awaited(run: Run, work: Coroutine[Any, Any, Any]) -> Any:
    """Await the work, and record what it returns."""
    try:
        with Active(run.context):
            value = await work
    except BaseException as error:
        run.failed(error)
        raise
    run.returned(value)
    return value


def stepped(run: Run, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yield what the generator yields, as `yield from` does; its consumer's own work is not within
    the run.
    """
    items = _Items()
    step: Callable[[], Any] = partial(next, work)
    while True:
        try:
            with Active(run.context):
                item = step()
        except StopIteration as stop:
            run.yielded(items.kept, stop.value, is_whole=items.is_whole)
            return stop.value
        except BaseException as error:
            run.failed(error)
            raise
        items.add(item)
        try:
            sent = yield item
        except GeneratorExit:
            _close(run, work, items)
            raise
        except BaseException as thrown:  # noqa: BLE001 - the generator decides what becomes of it
            step = partial(work.throw, thrown)
        else:
            step = partial(work.send, sent)


def _close(run: Run, work: Generator[Any, Any, Any], items: "_Items") -> None:
    """Close the generator that its consumer needs no more: what it yielded so far is what it
    gave.
    """
    try:
        with Active(run.context):
            work.close()
    except BaseException as error:
        run.failed(error)
        raise
    run.yielded(items.kept, None, is_whole=items.is_whole)


async def _close_async(run: Run, work: AsyncGenerator[Any, Any], items: "_Items") -> None:
    try:
        with Active(run.context):
            await work.aclose()
    except BaseException as error:
        run.failed(error)
        raise
    run.yielded(items.kept, None, is_whole=items.is_whole)


class _Items:
    """What a generator yielded, as far as it is kept."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.is_whole = True
        self._chars = 0

    def add(self, item: object) -> None:
        left = MAX_CHARS - self._chars
        self._chars += len(item) if isinstance(item, str) else 1
        if len(self.kept) < _MAX_ITEMS and self._chars <= MAX_CHARS:
            self.kept.append(item)
            return
        if self.is_whole and isinstance(item, str) and len(self.kept) < _MAX_ITEMS:
            self.kept.append(item[:left])
        self.is_whole = False


class Beginning(Protocol):
    """Begins to record a call of a function, which was given these arguments."""

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Run:
        """Raises nothing."""


def recorded(function: FunctionT, begin: Beginning) -> FunctionT:
    """The function, each call of which is recorded; it stays of its kind: coroutine, generator or
    neither.
    """
    called = function if inspect.isroutine(function) else type(function).__call__
    wrapper: Any
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        wrapper = _coroutine_function(function, begin)
    elif inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(called):
        wrapper = _async_generator_function(function, begin)
    elif inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(called):
        wrapper = _generator_function(function, begin)
    else:
        wrapper = _function(function, begin)
    return cast("FunctionT", wrapper)


def _coroutine_function(function: Callable[..., Any], begin: Beginning) -> Callable[..., Any]:
    @functools.wraps(function)
    async def calling(*args: Any, **kwargs: Any) -> Any:
        run = begin(args, kwargs)
        return await awaited(run, _calling(run, function, args, kwargs))

    return calling


def _async_generator_function(function: Callable[..., Any], begin: Beginning) -> Callable[..., Any]:
    """As `stepped`, of an asynchronous generator."""

    @functools.wraps(function)
    async def calling(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run = begin(args, kwargs)
        work: AsyncGenerator[Any, Any] = _calling(run, function, args, kwargs)
        items = _Items()
        step: Callable[[], Any] = partial(anext, work)
        while True:
            try:
                with Active(run.context):
                    item = await step()
            except StopAsyncIteration:
                run.yielded(items.kept, None, is_whole=items.is_whole)
                return
            except BaseException as error:
                run.failed(error)
                raise
            items.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                await _close_async(run, work, items)
                raise
            except BaseException as thrown:  # noqa: BLE001 - the generator decides what becomes of it
                step = partial(work.athrow, thrown)
            else:
                step = partial(work.asend, sent)

    return calling


def _generator_function(function: Callable[..., Any], begin: Beginning) -> Callable[..., Any]:
    @functools.wraps(function)
    def calling(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        run = begin(args, kwargs)
        return (yield from stepped(run, _calling(run, function, args, kwargs)))

    return calling


def _function(function: Callable[..., Any], begin: Beginning) -> Callable[..., Any]:
    @functools.wraps(function)
    def calling(*args: Any, **kwargs: Any) -> Any:
        run = begin(args, kwargs)
        return follow(run, _calling(run, function, args, kwargs))

    return calling


def _calling(
    run: Run, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the function within the run."""
    try:
        with Active(run.context):
            return function(*args, **kwargs)
    except BaseException as error:
        run.failed(error)
        raise
