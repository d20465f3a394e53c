"""Frameworks for Java; LangChain4j's own quirks are in OpenInference's spans.

`spring_ai`: Spring AI's observations: the chat client around it all, its tools, and log records of
texts without roles.

`quarkus`: LangChain4j in Quarkus: spans of an AI service, its model calls and tools, with one text
for all messages.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms.arguments import arguments, call_id, result, tools
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    NO_CONTENT,
    Facts,
    as_object,
    first_text,
    identity,
    objects,
    opened,
    structure,
    text,
)
from spanscore.model.span import Attributes, LogRecord, Span, changed
from spanscore.model.step import Message, Step, StepKind
from spanscore.model.trace import Tool

_ADVISOR = "spring.ai.advisor.name"
_GOES_ON = ("tool_calls",)
_VERSION_1_TOOLS = "tool_call "  # how the names of its tools' spans begin


def separated(steps: Sequence[Step]) -> list[Step]:
    """The steps of a trace, those of the dialect each with the facts of its own call alone.

    A call's tokens count those of the calls before it in the loop. A streamed call contains the
    calls after it besides, since its observation ends with the last of them: its text, its tokens
    and its response are theirs as well.
    """
    if not any(x.kind == "model" for x in steps):
        return list(steps)
    known = {x.span.span_id: x for x in steps}
    _unfold(_streamed(steps), known)
    for calls in _loops(steps, known):
        _subtract(calls, known)
    return list(known.values())


def _streamed(steps: Sequence[Step]) -> list[list[Step]]:
    """Model calls that lie in one another, each chain from the outermost in."""
    models = {x.span.span_id: x for x in steps if x.kind == "model"}
    inner: defaultdict[str, list[Step]] = defaultdict(list)
    for step in models.values():
        if step.span.parent_span_id in models:
            inner[step.span.parent_span_id].append(step)
    chains: list[list[Step]] = []
    for step in models.values():
        if step.span.parent_span_id in models or step.span.span_id not in inner:
            continue
        chain = [step]
        while len(below := inner.get(chain[-1].span.span_id, [])) == 1 and len(chain) < len(models):
            chain += below
        if not below:  # where several calls lie in one, the loop has not made them
            chains.append(chain)
    return chains


def _unfold(chains: Sequence[Sequence[Step]], known: dict[str, Step]) -> None:
    """Put the calls of a chain beside each other, and the tools between them; the last records all
    tokens.
    """
    above: dict[str, str] = {}
    last_outputs: dict[str, tuple[Message, ...] | None] = {}
    for chain in chains:
        above.update((x.span.span_id, chain[0].span.parent_span_id) for x in chain)
        last_outputs[_text(chain[0].output)] = chain[-1].output
        for step, inside in pairwise(chain):
            known[step.span.span_id] = changed(
                step,
                output=_without(step.output, inside.output),
                input_tokens=None,
                output_tokens=None,
                response_id=None,
                finish_reasons=_GOES_ON,
            )
    for span_id, step in known.items() if chains else ():
        if step.span.parent_span_id in above:
            parent_id = above[step.span.parent_span_id]
            known[span_id] = changed(step, span=changed(step.span, parent_span_id=parent_id))
        elif step.kind == "agent" and step.output and _text(step.output) in last_outputs:
            known[span_id] = changed(step, output=last_outputs[_text(step.output)])


def _without(
    output: tuple[Message, ...] | None, inner: tuple[Message, ...] | None
) -> tuple[Message, ...] | None:
    """The text of a call before those that it contains; None where that cannot be separated."""
    if output is None or inner is None or not _text(output).endswith(_text(inner)):
        return None
    text = _text(output).removesuffix(_text(inner))
    return (Message("assistant", text),) if text else ()


def _text(output: tuple[Message, ...] | None) -> str:
    return "".join(x.text or "" for x in output or ())


def _loops(steps: Sequence[Step], known: dict[str, Step]) -> list[list[Step]]:
    """Model calls of one loop, in order of time: those that one advisor made, or a loop that looks
    like one.

    An advisor calls the model once. Without one, an application may have made the loop itself:
    there no call counts another, and the prompts, which only grow, distinguish the two.
    """
    found: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        if (
            step.kind == "model"
            and step.input_tokens is not None
            and step.output_tokens is not None
        ):
            found[step.span.parent_span_id].append(step)
    ran = {
        x.span.parent_span_id
        for x in steps
        if x.kind == "tool" and x.span.name.startswith(_VERSION_1_TOOLS)
    }
    loops = list[list[Step]]()
    for parent, calls in found.items():
        above = known.get(parent)
        is_advised = above is not None and _ADVISOR in above.span.attributes
        ordered = sorted(calls, key=lambda x: (x.span.start_ns, x.span.span_id))
        if len(ordered) > 1 and parent in ran and _rises(ordered, at_least_doubled=not is_advised):
            loops.append(ordered)
    return loops


def _rises(calls: Sequence[Step], *, at_least_doubled: bool) -> bool:
    counts = [(x.input_tokens or 0, x.output_tokens or 0) for x in calls]
    if any(one[0] > other[0] or one[1] > other[1] for one, other in pairwise(counts)):
        return False
    return not at_least_doubled or all(
        other[0] - one[0] >= counts[0][0] for one, other in pairwise(counts)
    )


def _subtract(calls: Sequence[Step], known: dict[str, Step]) -> None:
    for before, step in pairwise(calls):
        known[step.span.span_id] = changed(
            known[step.span.span_id],
            input_tokens=(step.input_tokens or 0) - (before.input_tokens or 0),
            output_tokens=(step.output_tokens or 0) - (before.output_tokens or 0),
        )


_KIND = "spring.ai.kind"
_KINDS: Final[dict[str, StepKind]] = {"chat_client": "agent", "tool_call": "tool"}
_OFFERED, _REASONS = "spring.ai.model.request.tool.names", "gen_ai.response.finish_reasons"
_LOGGERS = "org.springframework.ai."
_SCOPES = "org.springframework."
_CLIENT, _SPRING_AI_TOOL = "spring.ai.chat.client.", "spring.ai.tool."
_CLIENT_PROMPT, _CLIENT_ANSWER = "Chat Client Prompt Content:\n", "Chat Client Completion:\n"
_FOUND = "Vector Store Query Response:\n"
_THROWN = "Exception thrown by tool: "
"""How a record of level DEBUG begins that a tool's span has; its result is only the exception's
message then.
"""
_MODEL_PROMPT, _MODEL_ANSWER = "Chat Model Prompt Content:\n", "Chat Model Completion:\n"


def matches_spring_ai(span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a GenAI operation and a scope of Spring's, or has a log record of a
    class of Spring AI.
    """
    if span.scope.name.startswith(_SCOPES) and "gen_ai.operation.name" in span.attributes:
        return True
    return bool(logs) and any(x.scope.name.startswith(_LOGGERS) for x in logs)


def read_spring_ai(span: Span, context: Context) -> Facts:
    """The facts of an observation; an advisor is bookkeeping around the model."""
    attributes, facts = span.attributes, semconv.read(span, context)
    if _KIND in attributes:
        facts["kind"] = _KINDS.get(str(attributes[_KIND]), "other")
    logged = [x.body for x in context.logs if isinstance(x.body, str)]
    if facts["kind"] == "agent":
        _read_client(attributes, logged, facts)
    elif facts["kind"] == "tool":
        _read_tool(span, logged, facts)
    elif facts["kind"] == "model":
        _read_model(attributes, logged, facts)
    elif attributes.get(_KIND) == "vector_store" and attributes.get("db.operation.name") == "query":
        facts["kind"], facts["query"] = "retrieval", text(attributes.get("db.vector.query.content"))
        facts["documents"] = tuple(
            _texts(logged, _FOUND, attributes, "db.vector.query.response.documents") or ()
        )
    return facts


def _read_client(attributes: Attributes, logged: list[str], facts: Facts) -> None:
    facts["session_id"] = facts.get("session_id") or identity(
        attributes.get(_CLIENT + "conversation.id")
    )
    listed = _logged(logged, _CLIENT_PROMPT) or first_text(attributes, ("gen_ai.prompt",)) or ""
    system, user = system_and_user(listed)
    recorded = {
        "system": system or text(attributes.get(_CLIENT + "system.text")),
        "user": user or text(attributes.get(_CLIENT + "user.text")),
    }
    facts["input"] = tuple(
        Message(role, x) for role, x in recorded.items() if x is not None
    ) or facts.get("input")
    answered = texts(_logged(logged, _CLIENT_ANSWER) or "")
    if answered:
        facts["output"] = (Message("assistant", answered[-1]),)
    if facts.get("tools") is None:
        facts["tools"] = tools(
            first_text(attributes, (_CLIENT + "tool.names", _CLIENT + "tool.function.names"))
        )


def _read_model(attributes: Attributes, logged: list[str], facts: Facts) -> None:
    """A model's input and output: texts of a log record, or of attributes that applications add
    themselves.
    """
    prompts = _texts(logged, _MODEL_PROMPT, attributes, "gen_ai.prompt")
    answers = _texts(logged, _MODEL_ANSWER, attributes, "gen_ai.completion")
    if prompts:  # of several only the last has a known role; a tool's result has no text
        facts["input"] = (Message("user", prompts[-1]),) if prompts[-1] else None
        facts["input_is_part"] = True
    if answers is not None:
        facts["output"] = tuple(Message("assistant", x) for x in answers if x)
    if facts.get("tools") is None:
        facts["tools"] = tools(first_text(attributes, (_OFFERED,)))
    reasons = attributes.get(_REASONS)
    if isinstance(reasons, str):
        facts["finish_reasons"] = tuple(texts(reasons) or ())
    # it records so what no provider stated
    if facts.get("input_tokens") == 0 == facts.get("output_tokens"):
        facts["input_tokens"] = facts["output_tokens"] = None


def _read_tool(span: Span, logged: list[str], facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = facts.get("tool_name") or text(
        attributes.get(_SPRING_AI_TOOL + "definition.name")
    )
    facts["call_id"] = facts.get("call_id") or call_id(attributes.get(_SPRING_AI_TOOL + "call.id"))
    facts["error"] = status_error(span) or _thrown(logged)
    given = attributes.get(_SPRING_AI_TOOL + "call.arguments")
    if facts.get("arguments") is None and given is not None:
        facts["arguments"] = arguments(given)
    if not facts.get("has_result") and _SPRING_AI_TOOL + "call.result" in attributes:
        # an empty text is sent as no value by OpenTelemetry's Java SDK
        returned = attributes[_SPRING_AI_TOOL + "call.result"]
        facts["result"] = result(opened("" if returned is None else returned))
        facts["has_result"] = True
    if facts["tool_name"] is not None:
        schema = opened(attributes.get(_SPRING_AI_TOOL + "definition.schema"))
        facts["tools"] = (
            Tool(
                facts["tool_name"],
                text(attributes.get(_SPRING_AI_TOOL + "definition.description")),
                schema,
            ),
        )


def _thrown(records: list[str]) -> str | None:
    """The message of what a tool threw, by the record of it; `Exception thrown by tool: NAME.

    Message: MESSAGE`.
    """
    record = _logged(records, _THROWN)
    return None if record is None else record.partition(". Message: ")[2] or "error"


def _logged(records: list[str], title: str) -> str | None:
    return next((x.removeprefix(title) for x in records if x.startswith(title)), None)


def _texts(records: list[str], title: str, attributes: Attributes, key: str) -> list[str] | None:
    """The texts under a title or in an attribute; None where none are recorded, or they cannot be
    separated.
    """
    listed = _logged(records, title) or text(attributes.get(key))
    return None if listed is None else texts(listed)


_SPRING_AI = Dialect(
    "spring_ai",
    read_spring_ai,
    keys=(_KIND, _OFFERED),
    matches=matches_spring_ai,
    matching_scopes=(_SCOPES,),
    refine_trace=separated,
    prefilters=(b"spring.ai.", b"org.springframework.ai.", b"gen_ai."),
    content=(
        ContentSwitch(
            "set spring.ai.chat.client.observations.log-prompt,"
            " spring.ai.chat.observations.log-prompt, spring.ai.chat.observations.log-completion"
            " and spring.ai.tools.observations.include-content to true"
        ),
    ),
)


_BETWEEN = '", "'
_ASSISTANT, _USER, _QUOTED_TOOL = '", "assistant":"', '", "user":"', '", "tool":"'


def texts(listed: str) -> list[str] | None:
    """The texts of `["…", "…"]`; None where they cannot be separated.

    What lies between two texts may lie in one as well, as it does in JSON. Then a quote before it
    stays open.

    >>> texts('["a", "type "yes"", "{"b": "c", "d": "e"}"]'), texts("[]"), texts('["5" wide"]')
    (['a', 'type "yes"', '{"b": "c", "d": "e"}'], [], ['5" wide'])
    >>> texts('["5" wide", "b"]') is None
    True
    """
    inner = listed.strip()
    if inner == "[]":
        return []
    if not (inner.startswith('["') and inner.endswith('"]') and len(inner) > 3):
        return None
    pieces = inner[2:-2].split(_BETWEEN)
    found: list[str] = []
    opened: list[str] = []
    for piece in pieces:
        is_odd = piece.count('"') % 2 == 1
        if opened or is_odd:
            opened.append(piece)
        if is_odd and len(opened) > 1:
            found.append(_BETWEEN.join(opened))
            opened = []
        elif not opened:
            found.append(piece)
    if opened:
        return pieces if len(pieces) == 1 else None
    return found


def system_and_user(listed: str) -> tuple[str | None, str | None]:
    """The texts of those two roles in `["system":"…", "assistant":"…", "user":"…", "tool":""]`,
    always in this order.

    >>> system_and_user('["system":"Be brief.", "user":"{"user":"a", "tool":"b"}"]')
    ('Be brief.', '{"user":"a", "tool":"b"}')
    """
    inner = _BETWEEN[:3] + listed.strip().removeprefix("[").removesuffix("]")
    system = user = None
    if inner.startswith('", "system":"'):
        text = inner.removeprefix('", "system":"')
        ends = [at for at in map(text.find, (_ASSISTANT, _USER, _QUOTED_TOOL)) if at >= 0]
        system = text[: min(ends)] if ends else text.removesuffix('"')
    if (at := inner.find(_USER)) >= 0:
        text = inner[at + len(_USER) :].removesuffix('"')
        user = text.removesuffix(_QUOTED_TOOL)
    return system, user


_LANGCHAIN4J_SCOPE = "com.arize.langchain4j"

_PRINTED = ("SystemMessage { ", "UserMessage { ", "AiMessage { ", "ToolExecutionResultMessage { ")


def complete(span: Span, facts: Facts) -> None:
    """An AI service's span has no content of its own; of a model's messages the early versions show
    the objects.
    """
    if facts["kind"] == "agent":
        facts |= {**NO_CONTENT, "agent_name": None}
    elif facts["kind"] == "model" and any(
        (x.text or "").startswith(_PRINTED) for x in facts.get("input") or ()
    ):
        facts["input"] = _listed(structure(span.attributes.get("input.value")).value)


def _listed(given: Any) -> tuple[Message, ...] | None:
    """The same messages as `input.value` lists them; beside calls it leaves out the text."""
    found = [message(_plain(x), str(x.get("role"))) for x in objects(given)]
    return tuple(x for x in found if x is not None) or None


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    calls = as_object(content).get("tool_calls")
    fields = (
        {"content": None, "tool_calls": calls} if isinstance(calls, list) else {"content": content}
    )
    return {"role": item.get("role"), "tool_call_id": item.get("message.tool_call_id"), **fields}


_QUARKUS_SCOPE = "io.quarkus.opentelemetry"  # of all spans of Quarkus
_SERVICE, _QUARKUS_TOOL = "langchain4j.aiservices.", "langchain4j.tools."
_RESULT, _REASON = "gen_ai.tool.call.result", "gen_ai.response.finish_reasons"


def matches_quarkus(span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span is one of Quarkus, and has a GenAI attribute or a name that LangChain4j
    gives.
    """
    return span.scope.name == _QUARKUS_SCOPE and (
        span.name.startswith((_SERVICE, _QUARKUS_TOOL)) or semconv.matches(span, logs)
    )


def read_quarkus(span: Span, context: Context) -> Facts:
    """The facts of an AI service, of a model call or of a tool."""
    facts = semconv.read(span, context)
    if span.name.startswith(_SERVICE):
        service = span.name.removeprefix(_SERVICE).rpartition(".")[0]
        facts["kind"], facts["agent_name"] = "agent", text(service)
    elif facts["kind"] == "tool" or span.name.startswith(_QUARKUS_TOOL):
        _complete_tool(span, facts)
    elif facts["kind"] == "model":
        _complete_model(span, facts)
    return facts


def _complete_tool(span: Span, facts: Facts) -> None:
    facts["kind"] = "tool"  # before 1.4 nothing but the span's name shows it
    facts["tool_name"] = facts.get("tool_name") or text(span.name.removeprefix(_QUARKUS_TOOL))
    if facts.get("error") is None:  # a tool that throws leaves an exception, but no status
        facts["error"] = next(
            (_reason(x.attributes) for x in span.events if x.name == "exception"), None
        )
    # OpenTelemetry's Java SDK sends an empty text as no value
    if span.attributes.get(_RESULT, "") is None:
        facts["result"] = ""


def _reason(attributes: Attributes) -> str:
    return (
        text(attributes.get("exception.message"))
        or text(attributes.get("exception.type"))
        or "error"
    )


def _complete_model(span: Span, facts: Facts) -> None:
    """The prompt is the texts of all messages, line after line: several cannot be separated."""
    if "\n" in str(span.attributes.get("gen_ai.prompt")):
        facts["input"] = None
    reason = text(span.attributes.get(_REASON))
    if reason is not None:
        facts["finish_reasons"] = (reason,)


_QUARKUS = Dialect(
    "quarkus",
    read_quarkus,
    matches=matches_quarkus,
    matching_scopes=(_QUARKUS_SCOPE,),
    prefilters=(_QUARKUS_SCOPE.encode(),),
    content=(
        ContentSwitch(
            "set include-prompt, include-completion, include-tool-arguments and include-tool-result"
            " of quarkus.langchain4j.tracing to true"
        ),
    ),
)


DIALECTS = (_SPRING_AI, _QUARKUS)
QUIRKS = (
    Quirk(
        "langchain4j", "openinference", (_LANGCHAIN4J_SCOPE,), complete=complete, returns_state=True
    ),
)
