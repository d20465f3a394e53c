"""`spanscore.turn` and `spanscore.session`."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from opentelemetry import context, trace
from opentelemetry.context import Context

from spanscore.model.json import Json
from spanscore.sdk.authoring import genai, spans, values
from spanscore.sdk.authoring.spans import Attribute, Block, SpanBlock
from spanscore.sdk.authoring.values import guarded

ExpectedTools: TypeAlias = Iterable[Any] | Mapping[str, Mapping[str, Any] | None]
"""Names, functions, pairs of one of these and arguments, objects with `name` and `arguments`; or
arguments by name.
"""


def expectation(
    answer: object = None,
    tools: ExpectedTools | None = None,
    outcomes: str | Sequence[str] = (),
    *,
    in_order: bool | None = None,
) -> dict[str, Attribute | None]:
    """The attributes; None for what is not expected."""
    stated = [outcomes] if isinstance(outcomes, str) else list(outcomes)
    calls = None if tools is None else [_tool(x) for x in _listed(tools)]
    return {
        spans.EXPECTED_ANSWER: None if answer is None else values.text_of(answer),
        spans.EXPECTED_TOOLS: None if calls is None else values.json_of(calls),
        spans.EXPECTED_OUTCOMES: [values.bounded(x) for x in stated] or None,
        spans.EXPECTED_ORDER: in_order,
    }


def _listed(tools: ExpectedTools) -> Iterable[Any]:
    if isinstance(tools, str) or callable(tools):
        return [tools]
    return tools.items() if isinstance(tools, Mapping) else tools


def _tool(expected: Any) -> Json:
    if isinstance(expected, Mapping):
        given = values.Plain().value(expected)
        assert isinstance(given, dict)  # noqa: S101 - for the type checker: a mapping stays one
        return {"name": given.get("name", given.get("tool_name")), **given}
    if isinstance(expected, tuple | list):
        function, arguments = expected
        found: dict[str, Json] = {"name": _name(function)}
        return (
            found if arguments is None else found | {"arguments": values.Plain().value(arguments)}
        )
    return {"name": _name(expected)}


def _name(function: Any) -> str:
    if isinstance(function, str):
        return function
    return (getattr(function, genai.DESCRIBED, None) or genai.described(function)).name


Input: TypeAlias = str | Mapping[str, Any] | Sequence[Any] | None
"""What the user said: a text, or the messages of the conversation up to it."""

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])
_T = TypeVar("_T")

_MAX_REQUESTED = 1_000


class Turn(SpanBlock):
    """One turn of an agent: a context manager, synchronous and asynchronous, and a decorator.

    Made by `turn`.
    """

    def __init__(self, options: "_Options") -> None:
        self._options = options
        self._requested: list[tuple[str, Json, str]] = []
        self._requesting = threading.Lock()  # an agent may run its tools in threads

    @property
    def span_context(self) -> trace.SpanContext | None:
        """The ids of its span; None before it begins, and where nothing records it."""
        found = None if self._span is None else self._span.span.get_span_context()
        return found if found is not None and found.is_valid else None

    @property
    def trace_id(self) -> str | None:
        """The id of its trace, 32 hex digits; None before it begins, and where nothing records
        it.
        """
        found = self.span_context
        return None if found is None else trace.format_trace_id(found.trace_id)

    @property
    def span_id(self) -> str | None:
        """The id of its span, 16 hex digits; None before it begins, and where nothing records
        it.
        """
        found = self.span_context
        return None if found is None else trace.format_span_id(found.span_id)

    @property
    def traceparent(self) -> str | None:
        """Its trace and span in the form of W3C Trace Context: what `record_score` takes, also in
        another process.
        """
        found = self.span_context
        if found is None:
            return None
        ids = f"{trace.format_trace_id(found.trace_id)}-{trace.format_span_id(found.span_id)}"
        return f"00-{ids}-{found.trace_flags:02x}"

    def plan(self, plan: str | Sequence[str]) -> None:
        """Record what the agent means to do: a text, or its steps.

        A second plan takes the place of the first.
        """
        if spans.captures_content():
            self.set(lambda: _planned(plan), "a plan")

    def answer(self, answer: _T) -> _T:
        """Record what the agent answers, and return it as it is: a text, messages, or a value that
        is shown as JSON.
        """

        def made() -> dict[str, Attribute | None]:
            return {spans.OUTPUT: genai.messages_of(answer, "assistant", finish_reason="stop")}

        if spans.captures_content():
            self.set(made, "an answer")
        return answer

    def expect(
        self,
        answer: object = None,
        *,
        tools: ExpectedTools | None = None,
        outcomes: str | Sequence[str] = (),
        in_order: bool | None = None,
    ) -> None:
        """Record what the turn should come to; see `spanscore.expect`."""
        self.set(lambda: expectation(answer, tools, outcomes, in_order=in_order), "an expectation")

    def session(self, session_id: str, user_id: str | None = None) -> None:
        """Name the session that the turn belongs to, and its user."""
        self.set(lambda: named(session_id, user_id), "a session")

    @guarded
    def set(
        self, attributes: Callable[[], Mapping[str, Attribute | None]], what: str = "an attribute"
    ) -> None:
        """Set attributes of the turn's span, which are only made where they are recorded."""
        if self._span is None or self._span.has_ended:
            values.report_once(
                what,
                f"{what} was recorded outside of its turn, and is lost: record it inside of the"
                " block",
            )
        elif self._span.is_recording:
            self._span.set(attributes())

    @guarded
    def note_requests(self, calls: Iterable[tuple[str, Json, str]]) -> None:
        """Remember the calls that a model asked for, so that the tools that run next have their
        ids.
        """
        noted = list(calls)
        with self._requesting:
            self._requested = [*self._requested, *noted][-_MAX_REQUESTED:]

    def requested_id(self, name: str, arguments: Json) -> str | None:
        """The id of the first call of a tool with these arguments that a model asked for and none
        took up yet.
        """
        with self._requesting:
            for at, (requested, given, call_id) in enumerate(self._requested):
                if requested == name and given == arguments:
                    del self._requested[at]
                    return call_id
        return None

    def __call__(self, function: _FunctionT) -> _FunctionT:
        """Make a turn of each call of a function: its first argument is the input, what it returns
        the answer.
        """
        return _decorated(function, self._options)

    @guarded
    def _open(self, given: object) -> None:
        opened = spans.open_span(self._options.span_name, {spans.OPERATION: "invoke_agent"})
        opened.context = context.set_value(spans.TURN, self, opened.context)
        self._span = opened
        if opened.is_recording:
            opened.set(self._options.attributes(self._options.input if given is None else given))


@dataclass(frozen=True)
class _Options:
    """What a turn is begun with."""

    input: Input
    session_id: str | None
    user_id: str | None
    tools: Iterable[Any] | None
    agent_name: str | None
    instructions: str | None
    given: Mapping[str, Attribute] | None

    @property
    def span_name(self) -> str:
        """As OpenTelemetry's conventions have it."""
        return "invoke_agent" if self.agent_name is None else f"invoke_agent {self.agent_name}"

    def attributes(self, given: object) -> dict[str, Attribute | None]:
        """The attributes of the turn's span when it begins, having been given `given`."""
        around = spans.current_names()
        return {
            **(self.given or {}),
            spans.AGENT_NAME: self.agent_name,
            **named(self.session_id or around.session_id, self.user_id or around.user_id),
            **given_to(given, self.instructions, self.tools),
        }


def given_to(
    given: object, instructions: str | None, tools: Iterable[Any] | None
) -> dict[str, Attribute | None]:
    """The attributes of what an agent or a model is given."""
    content = spans.captures_content()
    instructed = genai.instructions_of(instructions) if content and instructions else None
    return {
        spans.INPUT: genai.messages_of(given, "user") if content and given is not None else None,
        spans.INSTRUCTIONS: instructed,
        spans.TOOL_DEFINITIONS: None if tools is None else genai.definitions_of(tools),
    }


def turn(
    input: Input = None,  # noqa: A002 - what the user's input is called everywhere else
    *,
    session_id: str | None = None,
    user_id: str | None = None,
    tools: Iterable[Any] | None = None,
    agent_name: str | None = None,
    instructions: str | None = None,
    attributes: Mapping[str, Attribute] | None = None,
) -> Turn:
    """One turn of an agent, from the user's input to its answer, as a span that begins and ends
    with the block.

    Args:
        input: What the user said, or the messages of the conversation up to it.
        session_id: The conversation that the turn belongs to; else that of `spanscore.session`
            around it.
        user_id: Who asks; else that of `spanscore.session` around it.
        tools: The tools on offer: functions (decorated or not), a provider's definitions, or names.
        agent_name: The agent's name; a turn inside of another one is that of a sub-agent.
        instructions: The system instructions.
        attributes: Further attributes of the span, such as `test.case.id`.

    >>> with turn("Is it raining?", session_id="chat-7") as this:
    ...     this.answer("No.")
    'No.'
    """
    return Turn(_Options(input, session_id, user_id, tools, agent_name, instructions, attributes))


def plan(plan: str | Sequence[str]) -> None:
    """Record what the agent of the current turn means to do: a text, or its steps."""
    if spans.captures_content():
        _setter()(lambda: _planned(plan), "a plan")


def expect(
    answer: object = None,
    *,
    tools: ExpectedTools | None = None,
    outcomes: str | Sequence[str] = (),
    in_order: bool | None = None,
) -> None:
    """Record what the current turn should come to, for `spanscore test` to hold it against.

    No judge is shown it.

    Without a turn it is recorded on the current span, such as a framework's.

    Args:
        answer: What the answer should say, in any words.
        tools: The tool calls that should be made: names or functions, or pairs of one and its
            arguments.
        outcomes: Statements that should be true in the end.
        in_order: Whether the order of the tool calls matters; None: it does, unless a suite says
            otherwise.
    """
    _setter()(lambda: expectation(answer, tools, outcomes, in_order=in_order), "an expectation")


def _setter() -> Callable[[Callable[[], Mapping[str, Attribute | None]], str], None]:
    """What sets attributes of the current turn; without one, of the current span."""
    running_turn = spans.current_turn()
    return _set_on_span if running_turn is None else running_turn.set


def named(session_id: str | None, user_id: str | None) -> dict[str, Attribute | None]:
    """The attributes that name a session and a user: OpenTelemetry's own, and that of its GenAI
    conventions.
    """
    session = None if session_id is None else values.bounded(str(session_id))
    user = None if user_id is None else values.bounded(str(user_id))
    return {spans.SESSION: session, spans.CONVERSATION: session, spans.USER: user}


@guarded
def _set_on_span(attributes: Callable[[], Mapping[str, Attribute | None]], what: str) -> None:
    span = trace.get_current_span()
    if span.is_recording():
        spans.OpenSpan(span, context.get_current()).set(attributes())
    elif not span.get_span_context().is_valid:
        values.report_once(
            what,
            f"{what} was recorded outside of any turn or span, and is lost: put it inside of one",
        )


def _planned(plan: str | Sequence[str]) -> dict[str, Attribute | None]:
    listed = (f"{number}. {step}" for number, step in enumerate(plan, 1))
    return {spans.PLAN: values.bounded(plan if isinstance(plan, str) else "\n".join(listed))}


class _DecoratedTurn:
    """A turn that is one call of a function."""

    def __init__(self, turn: Turn, given: object) -> None:
        self._turn = turn
        self.context = turn.begun(given)

    def returned(self, value: object) -> None:
        if value is not None:
            self._turn.answer(value)
        self._turn.finished()

    def yielded(self, items: list[Any], value: object, *, is_whole: bool) -> None:
        given: object = items
        if value is not None:
            given = value
        elif all(isinstance(x, str) for x in items):
            given = "".join(items) + ("" if is_whole else values.TRUNCATED)
        elif not is_whole:
            given = [*items, values.TRUNCATED]
        self.returned(given)

    def failed(self, error: BaseException) -> None:
        self._turn.finished(error)


def _decorated(function: _FunctionT, options: _Options) -> _FunctionT:
    arguments = genai.Arguments(function)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _DecoratedTurn:
        given = arguments.first(args, kwargs) if options.input is None else None
        return _DecoratedTurn(Turn(options), given)

    return spans.recorded(function, begin)


class session(Block):  # noqa: N801 - it is used as a function is
    """Name the session, and perhaps the user, of the current turn; in a `with`, of all turns that
    begin in the block.

    Where `spanscore.instrument` scores in process, spans of a framework that begin in the block are
    named likewise.

    >>> with session("chat-7", user_id="u-1"):
    ...     pass  # turns of the conversation
    """

    def __init__(self, session_id: str, user_id: str | None = None) -> None:
        self._named = spans.Named(session_id, user_id)
        turn = spans.current_turn()
        if turn is not None:
            turn.session(session_id, user_id)

    def _enter(self) -> Context:
        return context.set_value(spans.NAMED, self._named)
