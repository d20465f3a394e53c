"""The spans that the SDK writes."""

import contextlib
import functools
import inspect
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextvars import Token
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode

from spanscore import __version__
from spanscore.sdk.authoring.values import MAX_CHARS, bounded, guarded

if TYPE_CHECKING:
    from spanscore.sdk.authoring.turn import Turn

Attribute: TypeAlias = str | bool | int | float | list[str] | list[float]

_MAX_STATUS_CHARS = 1_000
_CONTENT_OFF = {"false", "no_content"}


def captures_content() -> bool:
    """Whether texts, arguments and results are recorded, as they are unless the environment says
    otherwise.
    """
    return os.environ.get(CAPTURE_CONTENT, "").strip().lower() not in _CONTENT_OFF


class OpenSpan:
    """A span that is being recorded. Nothing that goes wrong with it reaches the agent."""

    __slots__ = ("_is_ended", "context", "span")

    def __init__(self, span: Span, around: Context) -> None:
        """`around` is the context of the agent's code that runs inside of it."""
        self.span = span
        self.context = around
        self._is_ended = False

    @property
    def is_recording(self) -> bool:
        """Whether anything that is set still counts: it was sampled, and has not ended."""
        return not self._is_ended and self.span.is_recording()

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be set any more."""
        return self._is_ended

    @guarded
    def set(self, attributes: Mapping[str, Attribute | None]) -> None:
        """Set those attributes that are not None."""
        if self.is_recording:
            self.span.set_attributes(_stated(attributes))

    @guarded
    def fail(self, error: BaseException) -> None:
        """Record the exception that ended the work, and end the span."""
        if self.is_recording:
            if isinstance(error, Exception):
                self.span.record_exception(error)
            self.span.set_attribute(ERROR_TYPE, _qualified(type(error)))
            described = bounded(str(error))[:_MAX_STATUS_CHARS]
            self.span.set_status(Status(StatusCode.ERROR, described or type(error).__name__))
        self.end()

    @guarded
    def end(self) -> None:
        """End the span; a second time nothing happens."""
        if not self._is_ended:
            self._is_ended = True
            self.span.end()


def open_span(
    name: str, attributes: Mapping[str, Attribute | None], *, kind: SpanKind = SpanKind.INTERNAL
) -> OpenSpan:
    """Begin a span inside of the current one; one that records nothing, where nothing is to be
    traced.
    """
    if is_suppressed():
        return OpenSpan(INVALID_SPAN, context.get_current())
    tracer = trace.get_tracer(SCOPE, __version__)
    span = tracer.start_span(well_named(name), kind=kind, attributes=_stated(attributes))
    return OpenSpan(span, trace.set_span_in_context(span))


def _stated(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    return {key: value for key, value in attributes.items() if value is not None}


def well_named(name: str) -> str:
    """A span's name that can be sent."""
    return bounded(name)[:256]


class Block:
    """A block of the agent's code, in which a context is current: a context manager, synchronous
    and asynchronous.
    """

    _token: Token[Context] | None = None

    def __enter__(self) -> Self:
        within = self._enter()
        if within is not None:
            self._token = context.attach(within)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._token is not None:
            detach(self._token)
            self._token = None
        self._leave(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.__exit__(kind, error, traceback)

    def _enter(self) -> Context | None:
        """Begin; the context of the block, None: the current one."""
        raise NotImplementedError

    def _leave(self, error: BaseException | None) -> None:
        """End, by an exception where there is one."""


class SpanBlock(Block):
    """A block that is recorded as a span."""

    _span: OpenSpan | None = None

    def begun(self, given: object = None) -> Context | None:
        """Begin the span without making it current; its context, where there is one."""
        self._open(given)
        return None if self._span is None else self._span.context

    def finished(self, error: BaseException | None = None) -> None:
        """End the span, which is not current."""
        if self._span is not None:
            self._span.end() if error is None else self._span.fail(error)

    _enter, _leave = begun, finished

    def _open(self, given: object) -> None:
        raise NotImplementedError


def _qualified(kind: type[BaseException]) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


SCOPE = "spanscore.sdk"

OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
SESSION = "session.id"
USER = "user.id"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
ERROR_TYPE = "error.type"

TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_DESCRIPTION = "gen_ai.tool.description"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"

PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"

PLAN = "spanscore.plan"
EXPECTED_ANSWER = "spanscore.expected.answer"
EXPECTED_TOOLS = "spanscore.expected.tools"
EXPECTED_OUTCOMES = "spanscore.expected.outcomes"
EXPECTED_ORDER = "spanscore.expected.tool_sequence_matters"

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's environment variable: `false` or `NO_CONTENT` keeps texts, arguments and results
out of spans.
"""


TURN = context.create_key("spanscore-turn")
NAMED = context.create_key("spanscore-session")
CALL_ID = context.create_key("spanscore-call-id")


_SUPPRESSING = (
    getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation"),
    "suppress_instrumentation",
)
"""Set while nothing is to be traced, as where a judge is asked."""


def is_suppressed() -> bool:
    """Whether the calling code is not to be traced."""
    return any(context.get_value(key) for key in _SUPPRESSING)


def detach(token: Token[Context]) -> None:
    """Make current what was so before `attach`.

    A generator may be ended in another context than it began in, as by a web framework's threads;
    there nothing is to be restored. OpenTelemetry's own `detach` logs an error then.
    """
    if not isinstance(token, Token):  # of another implementation of contexts
        context.detach(token)
        return
    with contextlib.suppress(ValueError, RuntimeError):
        token.var.reset(token)


class Named(NamedTuple):
    """The session and user that turns belong to which name none themselves."""

    session_id: str | None = None
    user_id: str | None = None


def current_turn() -> "Turn | None":
    """The innermost turn that the calling code runs in."""
    found: Turn | None = context.get_value(TURN)  # type: ignore[assignment] # only a Turn is put there
    return found


def current_names(within: Context | None = None) -> Named:
    """The session and user around the calling code; or those in another context than the current
    one.
    """
    found = context.get_value(NAMED, within)
    return found if isinstance(found, Named) else Named()


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


class _Within(Block):
    """A block of a run's own code; an exception other than its end fails the run."""

    def __init__(self, run: Run, end: tuple[type[BaseException], ...] = ()) -> None:
        self._run = run
        self._end = end

    def _enter(self) -> Context | None:
        return self._run.context

    def _leave(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, self._end):
            self._run.failed(error)


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
    with _Within(run):
        value = await work
    run.returned(value)
    return value


def stepped(run: Run, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yield what the generator yields, as `yield from` does; its consumer's own work is not within
    the run.

    Of one that its consumer needs no more, what it yielded so far is what it gave.
    """
    items = _Items(run)
    step: Callable[[], Any] = partial(next, work)
    while True:
        try:
            with _Within(run, (StopIteration,)):
                item = step()
        except StopIteration as stop:
            items.end(stop.value)
            return stop.value
        items.add(item)
        try:
            sent = yield item
        except GeneratorExit:
            with _Within(run):
                work.close()
            items.end()
            raise
        except BaseException as thrown:  # noqa: BLE001 - the generator decides what becomes of it
            step = partial(work.throw, thrown)
        else:
            step = partial(work.send, sent)


class _Items:
    """What a generator yielded, as far as it is kept."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._kept: list[Any] = []
        self._is_whole = True
        self._chars = 0

    def add(self, item: object) -> None:
        left = MAX_CHARS - self._chars
        self._chars += len(item) if isinstance(item, str) else 1
        if len(self._kept) < _MAX_ITEMS and self._chars <= MAX_CHARS:
            self._kept.append(item)
            return
        if self._is_whole and isinstance(item, str) and len(self._kept) < _MAX_ITEMS:
            self._kept.append(item[:left])
        self._is_whole = False

    def end(self, value: object = None) -> None:
        self._run.yielded(self._kept, value, is_whole=self._is_whole)


class Beginning(Protocol):
    """Begins to record a call of a function, which was given these arguments."""

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Run:
        """Raises nothing."""


def recorded(function: FunctionT, begin: Beginning) -> FunctionT:
    """The function, each call of which is recorded; it stays of its kind: coroutine, generator or
    neither.
    """
    called = function if inspect.isroutine(function) else type(function).__call__

    def is_of(test: Callable[[object], bool]) -> bool:
        return test(function) or test(called)

    def calling(*args: Any, **kwargs: Any) -> Any:
        run = begin(args, kwargs)
        return follow(run, _called(run, function, args, kwargs))

    async def awaiting(*args: Any, **kwargs: Any) -> Any:
        run = begin(args, kwargs)
        return await awaited(run, _called(run, function, args, kwargs))

    def generating(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        run = begin(args, kwargs)
        return (yield from stepped(run, _called(run, function, args, kwargs)))

    wrapper: Any = calling
    if is_of(inspect.iscoroutinefunction):
        wrapper = awaiting
    elif is_of(inspect.isasyncgenfunction):
        wrapper = _async_generator_function(function, begin)
    elif is_of(inspect.isgeneratorfunction):
        wrapper = generating
    return cast("FunctionT", functools.wraps(function)(wrapper))


def _async_generator_function(function: Callable[..., Any], begin: Beginning) -> Callable[..., Any]:
    """As `stepped`, of an asynchronous generator."""

    async def calling(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run = begin(args, kwargs)
        work: AsyncGenerator[Any, Any] = _called(run, function, args, kwargs)
        items = _Items(run)
        step: Callable[[], Any] = partial(anext, work)
        while True:
            try:
                with _Within(run, (StopAsyncIteration,)):
                    item = await step()
            except StopAsyncIteration:
                items.end()
                return
            items.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                with _Within(run):
                    await work.aclose()
                items.end()
                raise
            except BaseException as thrown:  # noqa: BLE001 - the generator decides what becomes of it
                step = partial(work.athrow, thrown)
            else:
                step = partial(work.asend, sent)

    return calling


def _called(
    run: Run, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the function within the run."""
    with _Within(run):
        return function(*args, **kwargs)
