"""OpenLIT's decorator and instrumentations: the conventions, with what Python printed of arguments
and messages.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import CAPTURE, ContentSwitch, Context, Dialect
from spanscore.dialects.forms import arguments, langchain_messages
from spanscore.dialects.forms.arguments import call_id
from spanscore.dialects.forms.decorated_calls import only_argument
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.structure import (
    WHOLE_STRING,
    Facts,
    add_damaged,
    change_messages,
    evaluated,
    first_text,
    is_address,
    json_values,
    literal,
    opened,
    structure,
    text,
)
from spanscore.dialects.forms.tool_results import tool_output
from spanscore.dialects.forms.truncation import is_cut_or_redacted
from spanscore.dialects.log_turns import LogTurns, Part, Unit, span_of, under
from spanscore.model.span import Attributes, LogRecord, Span, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall

_TRACING_SCOPE = "openlit.otel.tracing"

_LINE = re.compile(r"^(system|developer|user|assistant|model|tool): ", re.MULTILINE)
_WHOLE = re.compile(r"^user: (\[\{'.*\}\])$", re.MULTILINE)
_LIST = "[{'"
_PRINTED_USER = f"user: {_LIST}"
_MAX_CALLS = 1000
_RECORDED = frozenset({"gen_ai.prompt", "gen_ai.completion"})


def complete(span: Span, facts: Facts) -> None:
    """Open the messages and the tool calls of a model call, in place."""
    attributes = span.attributes
    prompt, completion = _recorded(span)
    is_gemini = attributes.get("gen_ai.system") == "gemini"
    # Both are plain text, which is not cut where it begins as JSON does.
    plain = {
        side
        for side, x in (("input", prompt), ("output", completion))
        if x is not None and not is_cut_or_redacted(x)
    }
    facts["damaged"] = facts.get("damaged", frozenset()) - plain
    if prompt is not None:
        facts["input"] = _whole(prompt) or _by_line(prompt, is_gemini=is_gemini)
        if _PRINTED_USER in prompt and not _WHOLE.search(prompt):
            add_damaged(facts, "input")
    if span.dropped_attributes_count:
        add_damaged(facts, "input", "output")
    calls = _calls(attributes)
    if calls or completion:
        is_none = completion == "None" and (is_gemini or calls)
        facts["output"] = (Message("assistant", None if is_none else completion, calls=calls),)


def _recorded(span: Span) -> tuple[str | None, str | None]:
    """The prompt and the completion, which versions that record none on the span have in its
    events.
    """
    holder = span.attributes
    if _RECORDED.isdisjoint(holder):
        holder = {key: value for x in span.events for key, value in x.attributes.items()}
    return text(holder.get("gen_ai.prompt")), text(holder.get("gen_ai.completion"))


def _whole(prompt: str) -> tuple[Message, ...] | None:
    r"""All messages of the request, which it prints in the place of one that has no text; None
    where all have.

    >>> [x.text for x in _whole("user: Go on.\nuser: [{'role': 'user', 'content': 'Go on.'}]")]
    ['Go on.']
    """
    found = _WHOLE.findall(prompt)
    value: Any = literal(found[-1]) if found else None
    return messages(value).messages if isinstance(value, list) else None


def _by_line(prompt: str, *, is_gemini: bool = False) -> tuple[Message, ...]:
    r"""The messages, each from a line that begins with a role to the next such line; a user's
    without text, none.

    >>> [(x.role, x.text) for x in _by_line("system: Be\nbrief.\nuser: Why?\nuser: ")]
    [('system', 'Be\nbrief.'), ('user', 'Why?')]
    """
    starts = list(_LINE.finditer(prompt))
    if not starts:  # a plain prompt
        return (Message("user", prompt),)
    ends = [x.start() - 1 for x in starts[1:]] + [len(prompt)]
    lines = [(x[1], prompt[x.end() : end]) for x, end in zip(starts, ends, strict=True)]
    if is_gemini:
        lines = [(role, _text_part(content)) for role, content in lines]
    # or it was a tool's result
    remaining = (x for x in lines if x[0] != "user" or (x[1] and not x[1].startswith(_LIST)))
    return tuple(_message(role, content) for role, content in remaining)


def _text_part(content: str) -> str:
    """The text among the parts of a message of Gemini's, each with its name; "" where it has
    none.
    """
    if content.startswith("text: "):
        return content.removeprefix("text: ").split(", function_call: ")[0]
    return ""


def _message(role: str, content: str) -> Message:
    if role == "tool":
        return Message(role, results=(ToolResult(None, opened(content)),))
    return Message({"developer": "system", "model": "assistant"}.get(role, role), content)


def _calls(attributes: Attributes) -> tuple[RequestedCall, ...]:
    """The calls that a model requested, from lists of names, of ids and of arguments; none if their
    lengths differ.

    >>> _calls(
    ...     {
    ...         "gen_ai.tool.name": "f, g",
    ...         "gen_ai.tool.call.id": "1, 2",
    ...         "gen_ai.tool.args": '{"a": 1}, {}',
    ...     }
    ... )[1]
    RequestedCall(call_id='2', name='g', arguments={})
    """
    names = str(attributes.get("gen_ai.tool.name") or "").split(", ")
    ids = str(attributes.get("gen_ai.tool.call.id") or "").split(", ")
    given, _ = json_values(str(attributes.get("gen_ai.tool.args") or ""))
    if names == [""] or len(names) != len(given) or len(given) > _MAX_CALLS:
        return ()
    known = ids if len(ids) == len(names) else [""] * len(names)
    return tuple(map(RequestedCall, map(call_id, known), names, given))


SCOPE = "openlit.instrumentation."
_RESPONSE, _OPERATION = "gen_ai.response.id", "gen_ai.operation.name"
# of a span that records the id of its last model call's response as well
_GRAPH = "invoke_workflow"
_MAX_BEGUN, _MAX_ABOVE = 1000, 64
"""Of a record: spans that began before it, the latest, of which one may be around it; and spans
above that one.

Where it is in none of so many, its model call has nothing around it.
"""


def _unit(_attributes: Attributes, _trace_id: str) -> Unit | None:
    """Its trace, as for spans."""
    return None


def _parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
    """All of the trace, with a span for each model call that is only in records; they are written
    as it ends.
    """
    known = {x.span_id: x for x in spans}
    own = (
        x
        for x in spans
        if x.scope.name.startswith(SCOPE) and x.attributes.get(_OPERATION) != _GRAPH
    )
    answered = {
        response: x for x in own if (response := text(x.attributes.get(_RESPONSE))) is not None
    }
    lost: defaultdict[str, list[LogRecord]] = defaultdict(list)
    left: list[LogRecord] = []
    for log in logs:
        about = known.get(log.span_id)
        if (
            log.event_name != semconv.DETAILS
            or not log.span_id
            or not log.scope.name.startswith(SCOPE)
        ):
            left.append(log)
        elif about is None:
            lost[log.span_id].append(log)
        else:
            left.append(under(_answering(log, about, answered), log))
    if not lost:
        yield list(spans), left
        return
    places, found = _Places.of(known), list(spans)
    for span_id, records in lost.items():
        first = min(records, key=lambda x: x.time_ns)
        call = span_of(
            unit, semconv.DETAILS, first, identity=span_id, parent=places.around(first.time_ns)
        )
        found.append(changed(call, attributes={_OPERATION: first.attributes.get(_OPERATION)}))
        left += [under(call, x) for x in records]
    yield found, left


def _answering(log: LogRecord, written_in: Span, answered: Mapping[str, Span]) -> Span:
    """The model call that a record is about: that of a stream may be written after it, under what
    is around it.
    """
    operation = log.attributes.get(_OPERATION)
    if written_in.attributes.get(_OPERATION) == operation:
        return written_in
    call = answered.get(text(log.attributes.get(_RESPONSE)) or "")
    return written_in if call is None or call.attributes.get(_OPERATION) != operation else call


class _Places(NamedTuple):
    """The spans of OpenLIT's in a trace by when they began, to find the one in which a record was
    written.
    """

    known: Mapping[str, Span]
    spans: Sequence[Span]
    starts: Sequence[int]

    @classmethod
    def of(cls, known: Mapping[str, Span]) -> "_Places":
        own = (x for x in known.values() if x.scope.name.startswith(SCOPE))
        spans = sorted(own, key=lambda x: (x.start_ns, -x.end_ns))
        return cls(known, spans, [x.start_ns for x in spans])

    def around(self, time_ns: int) -> Span | None:
        """The innermost span that was open at a moment; of several side by side, the one that is
        around them all.
        """
        end = bisect_right(self.starts, time_ns)
        still_open = [x for x in self.spans[max(end - _MAX_BEGUN, 0) : end] if x.end_ns >= time_ns]
        if not still_open:
            return None
        above = list(self._with_above(still_open[-1]))
        ids = {x.span_id for x in above}
        return still_open[-1] if all(x.span_id in ids for x in still_open) else above[-1]

    def _with_above(self, span: Span) -> Iterator[Span]:
        place: Span | None = span
        for _ in range(_MAX_ABOVE):
            if place is None:
                return
            yield place
            place = self.known.get(place.parent_span_id)


LOG_TURNS = (LogTurns(SCOPE, _unit, _parts),)


_LANGCHAIN, _LANGGRAPH = "openlit.instrumentation.langchain", "openlit.instrumentation.langgraph"
_GOOGLE = "openlit.instrumentation.google_ai_studio"
_GROQ = "openlit.instrumentation.groq"
_DECORATOR = "openlit"
_RETURNED = ("gen_ai.output.messages", "gen_ai.completion")  # the second up to 1.36
# Atomic: a list ends at the first bracket before another field, so that not each of its brackets is
# tried as its end.
_FIELDS = "type|name|id|additional_kwargs|response_metadata|tool_call_id"
_PRINTED = re.compile(
    rf"content=(?>({WHOLE_STRING}|\[.*?\])(?= (?:{_FIELDS})=))(?: .*)?"
    rf" tool_call_id=({WHOLE_STRING})(.*)",
    re.DOTALL,
)
_FAILED = " status='error'"
_MAX_CHARS = 64 * 1024


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans."""
    return _READING.get(span.scope.name, _read_framework)(span, context)


def _read_decorated(span: Span, context: Context) -> Facts:
    """A function, of whatever it does: of one that answers a text with text, the outermost is the
    application's own.
    """
    called = {x: literal(str(span.attributes.get(f"function.{x}", ""))) for x in ("args", "kwargs")}
    question, answer = text(only_argument(called)), first_text(span.attributes, _RETURNED)
    if not context.outermost or question is None or answer is None or is_address(answer):
        return {"kind": "other"}
    return {"kind": "workflow", "input_text": question, "output_text": answer}


def _read_gemini(span: Span, context: Context) -> Facts:
    """A call of Gemini, with the results and the lack of a text as str() prints them."""
    facts = semconv.read(span, context)
    change_messages(facts, _unprinted)
    if facts["kind"] == "model":
        arguments.without_envelopes(facts, objects=True)
    return facts


def _unprinted(message: Message) -> Message:
    content = None if message.calls and message.text == "None" else message.text
    return changed(
        message,
        text=content,
        results=tuple(changed(x, value=evaluated(x.value)) for x in message.results),
    )


def _read_text(span: Span, context: Context) -> Facts:
    """A call of any provider's model, as earlier versions record it."""
    facts = _read_counted(span, context)
    is_cut = span.dropped_attributes_count > 0 and "gen_ai.operation.name" not in span.attributes
    if is_cut and ("gen_ai.prompt" in span.attributes or "gen_ai.completion" in span.attributes):
        facts = {"kind": "model", "damaged": frozenset({"tokens"})}
    if facts["kind"] == "model":
        complete(span, facts)
    return facts


def _read_counted(span: Span, context: Context) -> Facts:
    """A call of a provider under whose instrumentation tokens are 0 where they are not known."""
    facts = semconv.read(span, context)
    if facts.get("input_tokens") == facts.get("output_tokens") == 0:
        facts["input_tokens"] = facts["output_tokens"] = None
    return facts


def _read_framework(span: Span, context: Context) -> Facts:
    """A span of LangChain's or LangGraph's.

    The agent is the graph; what are called agents inside are its nodes.
    """
    facts, attributes = semconv.read(span, context), span.attributes
    if span.scope.name == _LANGGRAPH and facts["kind"] in {"agent", "workflow"}:
        graph = text(attributes.get("gen_ai.workflow.name"))
        facts["kind"], facts["agent_name"] = "agent" if graph else "workflow", graph
        if not graph:
            facts["input"] = facts["output"] = None
    if facts["kind"] == "agent" and facts.get("input") is None:
        facts["input"] = langchain_messages.state_messages(
            structure(attributes.get("gen_ai.workflow.input")).value
        )
        facts["output"] = None  # of a graph, its whole conversation
    elif facts["kind"] == "tool":
        _read_tool(attributes, facts)
    return facts


def _read_tool(attributes: Attributes, facts: Facts) -> None:
    given = facts.get("arguments")
    if isinstance(given, str):
        facts["arguments"] = literal(given)
    returned = attributes.get("gen_ai.tool.call.result")
    printed = None
    if isinstance(returned, str) and len(returned) <= _MAX_CHARS:
        printed = _PRINTED.fullmatch(returned)
    if printed is not None:
        content, answers, rest = printed.groups()
        message = {"type": "tool", "content": literal(content), "tool_call_id": literal(answers)}
        message["status"] = "error" if _FAILED in rest else "success"
        answer = tool_output(message, known=True)
        if answer is not None:
            facts["result"], facts["error"] = answer.value, facts.get("error") or answer.error


_READING: dict[str, Callable[[Span, Context], Facts]] = {
    _DECORATOR: _read_decorated,
    _GOOGLE: _read_gemini,
    _GROQ: _read_counted,
    _TRACING_SCOPE: _read_text,
}
"""By its scope, what reads a span in its own way."""

DIALECT = Dialect(
    "openlit",
    read,
    scopes=(_LANGCHAIN, _LANGGRAPH, *_READING),
    prefilters=(b"openlit",),
    log_turns=LOG_TURNS,
    content=(
        ContentSwitch(f"call openlit.init(capture_message_content=True), or set {CAPTURE}=true"),
    ),
)
