"""`spanscore.tool`: each call of a function as a span of OpenTelemetry's `execute_tool`."""

import secrets
from collections.abc import Callable
from typing import Any, TypeVar, overload

from opentelemetry import context
from opentelemetry.context import Context

from spanscore.sdk.authoring import attributes as names
from spanscore.sdk.authoring import running
from spanscore.sdk.authoring.arguments import Arguments
from spanscore.sdk.authoring.current import CALL_ID, current_turn
from spanscore.sdk.authoring.definitions import DESCRIBED, Described, described
from spanscore.sdk.authoring.guarding import guarded
from spanscore.sdk.authoring.spans import Active, OpenSpan, captures_content, open_span
from spanscore.sdk.authoring.values import TRUNCATED, Plain, bounded, json_of, result_of

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


@overload
def tool(function: _FunctionT, /) -> _FunctionT: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, capture: bool = True
) -> Callable[[_FunctionT], _FunctionT]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    capture: bool = True,
) -> Any:
    """Record each call of a function as a tool call: arguments, result or error, and the call's id.

    The function stays what it is: it returns, awaits or yields as before, and its own exceptions
    pass. A class is recorded by its instances' calls. Of a generator the result is the list of what
    it yielded, unless it returns one.

    Args:
        function: The function, method, class or other object that can be called.
        name: The tool's name; else the function's.
        description: What the tool does; else the function's docstring.
        capture: Whether arguments and results are recorded; False: only that it was called.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     return a + b
    >>> add(1)
    2
    """
    if function is None:
        return lambda given: _recorded(given, name, description, capture=capture)
    return _recorded(function, name, description, capture=capture)


class call_id:  # noqa: N801 - it is used as a function is
    """Give the tool that is called in the block the id that the model gave the call.

    >>> with call_id("call_7"):
    ...     pass
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._active: Active | None = None

    def __enter__(self) -> None:
        self._active = Active(context.set_value(CALL_ID, [self._identity]))
        self._active.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self._active is not None:
            self._active.__exit__(None, None, None)


def _recorded(function: Any, name: str | None, description: str | None, *, capture: bool) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_recorded(function.__func__, name, description, capture=capture))
    tool_described = described(function, name, description)
    if isinstance(function, type):
        calls = _recorded(
            function.__call__, tool_described.name, tool_described.description, capture=capture
        )
        function.__call__ = calls  # type: ignore[method-assign] # its instances are called by it
        setattr(function, DESCRIBED, tool_described)
        return function
    arguments = Arguments(function)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_Call":
        call = _Call(capture=capture)
        call.begin(tool_described, arguments, args, kwargs)
        return call

    wrapper = running.recorded(function, begin)
    setattr(wrapper, DESCRIBED, tool_described)
    return wrapper


class _Call:
    """One call of a tool."""

    def __init__(self, *, capture: bool) -> None:
        self.context: Context | None = None
        self._span: OpenSpan | None = None
        self._capture = capture

    @guarded
    def begin(
        self, tool: Described, arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Begin its span, of which `context` is the context."""
        self._span = open_span(
            f"execute_tool {tool.name}",
            {names.OPERATION: "execute_tool", names.TOOL_NAME: bounded(tool.name)},
        )
        self.context = context.set_value(CALL_ID, None, self._span.context)
        self._capture = self._capture and captures_content()
        given = _given_id()
        if self._span.is_recording:
            named = arguments.named(args, kwargs) or {}
            self._span.set(
                {
                    names.TOOL_TYPE: "function",
                    names.TOOL_DESCRIPTION: bounded(tool.description) if tool.description else None,
                    names.CALL_ID: given
                    or _requested_id(tool.name, named)
                    or f"call_{secrets.token_hex(12)}",
                    names.ARGUMENTS: json_of(named) if self._capture else None,
                }
            )

    @guarded
    def returned(self, value: object) -> None:
        """Record the result."""
        if self._span is None:
            return
        try:
            if self._capture and self._span.is_recording:
                self._span.set({names.RESULT: result_of(value)})
        finally:
            self._span.end()

    @guarded
    def yielded(self, items: list[Any], value: object, *, is_whole: bool) -> None:
        """Record what a generator gave."""
        given = items if value is None else value
        self.returned(given if is_whole or value is not None else [*items, TRUNCATED])

    def failed(self, error: BaseException) -> None:
        """Record why there is no result."""
        if self._span is not None:
            self._span.fail(error)


def _given_id() -> str | None:
    """The id of `call_id` around the call, which is that of one call alone."""
    waiting = context.get_value(CALL_ID)
    return str(waiting.pop()) if isinstance(waiting, list) and waiting else None


def _requested_id(name: str, arguments: dict[str, Any]) -> str | None:
    """The id that a model of the turn gave the call; without a turn, the call is found when the
    trace is rebuilt.
    """
    turn = current_turn()
    return None if turn is None else turn.requested_id(name, Plain().value(arguments))
