"""Mastra: spans with a type of its own, their content under the names of whichever exporter and
version sent it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms.arguments import call_id, tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    damaged,
    keep_json_text,
    read_call,
    read_function,
    recorded,
)
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.provider_bodies import messages_of
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    as_object,
    first_identity,
    first_text,
    is_redacted,
    object_at,
    objects,
    opened,
    read_tokens,
    read_usage,
    structure,
    text,
)
from spanscore.model.json import Json, dumps, printed
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, Step, StepKind
from spanscore.model.trace import Tool

_TYPE = "mastra.span.type"
_KINDS: Final[dict[str, StepKind]] = {
    "agent_run": "agent",
    # the loop: it sums up the steps inside it, or stands for the only one
    "model_generation": "model",
    "llm_generation": "model",
    "model_step": "model",
    "model_inference": "model",  # inside a step: tokens and model
    **dict.fromkeys(
        ("tool_call", "mcp_tool_call", "client_tool_call", "provider_tool_call"), "tool"
    ),
    **dict.fromkeys(("workflow_run", "workflow_step"), "workflow"),
}
# What went in and came out: by the OpenTelemetry exporter's names (the first is
# `mastra.TYPE.input`), those that it had before version 1, the Langfuse exporter's and the Arize
# exporter's.
_INPUTS = (
    "gen_ai.tool.call.arguments",
    "gen_ai.input.messages",
    "gen_ai.tool.input",
    "input",
    "langfuse.observation.input",
    "input.value",
)
_OUTPUTS = (
    "gen_ai.tool.call.result",
    "gen_ai.output.messages",
    "gen_ai.tool.output",
    "output",
    "langfuse.observation.output",
    "output.value",
)
_METADATA = "metadata"  # what the Arize exporter writes as one object
_PREFIXES = ("mastra.metadata.", "")  # of an application's metadata; before version 1 without one
_SESSIONS = (
    "mastra.metadata.sessionId",
    "gen_ai.conversation.id",
    "mastra.metadata.threadId",
    "sessionId",
    "threadId",
)
_PERSONS = ("userId", "resourceId")
_USERS = tuple(prefix + name for prefix in _PREFIXES for name in _PERSONS)
_AGENTS = ("gen_ai.agent.name", "agent.name", "gen_ai.agent.id", "agent.id")
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name")
_CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id")
_DESCRIPTIONS = ("gen_ai.tool.description", "tool.description")
_OFFERED = ("gen_ai.tool.definitions", "agent.available_tools")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "modelId")
_LOOPS = frozenset({"model_generation", "llm_generation"})
_LEVELS_IN_LOOP = 2
"""Steps, and the inferences in them."""
_MAX_TEXTS, _MAX_CHARS, _MAX_TRIES = 10, 20_000, 50
"""Of an answer that is JSON, looked for as it was written: agents' texts, its length, places where
it may begin.
"""

_TOO_DEEP = "[MaxDepth]"
"""What Mastra puts in the place of what is nested too deep for it."""
_MENTION = re.compile(r"\[(?:tool: [^\[\]]*|reasoning)\]")
"""What stands for a call or for thoughts in a step's preview of its messages."""


def read(span: Span, context: Context) -> Facts:
    """The facts of a span of an agent, a workflow, a model or a tool; processors, memory and chunks
    are none.
    """
    attributes = span.attributes
    kind = _KINDS.get(str(attributes.get(_TYPE)), "other")
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(attributes, _SESSIONS),
        "user_id": first_identity(attributes, _USERS)
        or first_identity(object_at(attributes, _METADATA), _PERSONS),
    }
    given = _recorded(attributes, "input", _INPUTS)
    returned = _recorded(attributes, "output", _OUTPUTS)
    if kind == "agent":
        facts["agent_name"] = first_text(attributes, _AGENTS)
        facts["system"] = text(attributes.get("gen_ai.system_instructions"))
        offered = first_text(attributes, _OFFERED)
        facts["tools"] = None if offered is None else tools(offered)
        _read_question(given, facts)
        # before version 1, when the agent's text was that of its last step alone
        if "output" in attributes:
            facts["output_text"] = _answer_text(structure(returned).value)
    elif kind == "model":
        _read_model(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "workflow" and context.outermost:
        read_function(opened(given, scalars=False), Parsed(opened(returned, scalars=False)), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _recorded(attributes: Attributes, side: str, names: tuple[str, ...]) -> Value:
    own = attributes.get(f"mastra.{text(attributes.get(_TYPE))}.{side}")
    if own is not None:
        return own
    return next((x for x in map(attributes.get, names) if x is not None), None)


def _read_question(given: Value, facts: Facts) -> None:
    """The question of an agent: text as it is, even if it is JSON, or messages.

    What it returned is left to its model calls: from version 1 on its text is that of all steps in
    a row.
    """
    facts["damaged"] = damaged(input=given)
    items = _question_items(given)
    if items:
        facts["input"] = messages([_opened(x) for x in items]).messages
    else:
        facts["input_text"] = given if isinstance(given, str) and not is_redacted(given) else None


def _question_items(given: Value) -> list[Any] | None:
    """The messages or texts that an agent was given as JSON, those that are whole where it was cut;
    None for text.
    """
    items: Any = opened(given, scalars=False)
    if isinstance(items, str):
        parsed = recorded(given)
        items = parsed.value if parsed.damaged else None
    if isinstance(items, dict):
        items = items["messages"] if items.keys() == {"messages"} else [items]
    are_messages = isinstance(items, list) and all(
        isinstance(x, str) or _is_message(x) for x in items
    )
    return items if are_messages else None


def _is_message(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("role"), str)
        and not item.keys().isdisjoint(_CONTENTS)
    )


_CONTENTS = frozenset({"content", "parts"})


def _opened(item: Any) -> Any:
    """A message as Mastra stores it, with parts inside its content."""
    inner = as_object(item).get("content")
    if isinstance(inner, dict) and "parts" in inner:
        return {**item, "content": inner["parts"]}
    return item


def _read_model(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given), structure(returned)
    body: Any = (
        request.value.get("body", request.value)
        if isinstance(request.value, dict)
        else request.value
    )
    facts["input"] = _cleaned(messages_of(body, "user"))
    response_body = _response_body(attributes)
    facts["output"] = _with_thoughts(_answer(response.value), response_body)
    facts["damaged"] = cut(input=request, output=response)
    facts["agent_name"] = first_text(attributes, _AGENTS)
    facts["model"] = first_text(attributes, _MODELS) or _model_in(body, attributes)
    facts["tools"] = _described(body) or _described(response_body)
    read_tokens(attributes, facts)
    read_usage(as_object(response_body).get("usage"), facts)


def _model_in(body: Any, attributes: Attributes) -> str | None:
    """The model that the request names, or else the step's metadata."""
    described = object_at(attributes, "mastra.metadata.modelMetadata")
    return text(as_object(body).get("model")) or text(described.get("modelId"))


def _cleaned(given: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """Messages without what Mastra put in the place of calls and results: a step only has a preview
    of them.
    """
    if given is None:
        return None
    return tuple(
        changed(
            message,
            text=_without_mentions(message),
            calls=tuple(x for x in message.calls if _TOO_DEEP not in (x.name, x.arguments)),
            results=tuple(
                x for x in message.results if x.call_id is not None and x.value != _TOO_DEEP
            ),
        )
        for message in given
    )


def _without_mentions(message: Message) -> str | None:
    """The text up to the mentions at its end; they are looked for from there, since a text may be
    long.
    """
    text = message.text
    if not text or message.role != "assistant":
        return text
    end = len(text)
    while (at := text.rfind("[", 0, end)) >= 0 and _MENTION.fullmatch(text, at, end):
        end = at - text[max(at - 1, 0) : at].isspace()
    return text[:end] or None


def _answer(response: Any) -> tuple[Message, ...] | None:
    """What a model answered: messages, or an object with a text, calls, thoughts and a generated
    object.
    """
    if not isinstance(response, dict):
        return messages(response, "assistant").messages if isinstance(response, list) else None
    text, called = _answer_text(response), response.get("toolCalls")
    parts: list[Any] = [{"type": "text", "text": text}] if text is not None else []
    parts += [{"type": "reasoning", "text": x} for x in _thoughts(response.get("reasoning"))]
    parts += [{**x, "type": "tool-call"} for x in objects(called)]
    answer: list[Any] = [{"role": "assistant", "content": parts}]
    return messages(answer).messages if parts else None


def _answer_text(response: Any) -> str | None:
    """The text of an answer, or the object that was generated in its place."""
    if not isinstance(response, dict):
        return None
    text, made = response.get("text"), response.get("object")
    if not text and made is not None:
        return printed(made)
    return text if isinstance(text, str) else None


def _thoughts(reasoning: Any) -> Iterable[Any]:
    listed = reasoning if isinstance(reasoning, list) else [reasoning]
    return (x.get("text", x.get("content")) if isinstance(x, dict) else x for x in listed)


def _response_body(attributes: Attributes) -> Any:
    """The provider's response as a step carries it: tokens, and of OpenAI's Responses the tools and
    the thoughts.
    """
    body = next(
        (x for x in (attributes.get(prefix + "body") for prefix in _PREFIXES) if x is not None),
        None,
    )
    return structure(object_at(attributes, _METADATA).get("body") if body is None else body).value


def _with_thoughts(answer: tuple[Message, ...] | None, body: Any) -> tuple[Message, ...] | None:
    """The answer with the thoughts that only the response contains."""
    if (
        not answer
        or answer[0].reasoning
        or not isinstance(body, dict)
        or not isinstance(body.get("output"), list)
    ):
        return answer
    thoughts = [x.reasoning for x in messages_of(body, "assistant") or () if x.reasoning]
    return (changed(answer[0], reasoning="\n".join(thoughts)), *answer[1:]) if thoughts else answer


def _described(body: Any) -> tuple[Tool, ...] | None:
    """The tools of a request; their schemas only where Mastra has not shortened them."""
    listed = as_object(body).get("tools")
    found = tools(listed) if isinstance(listed, list) and listed else None
    return found and tuple(
        x if _is_schema(x.parameters) else changed(x, parameters=None) for x in found
    )


def _is_schema(parameters: Json) -> bool:
    return (
        isinstance(parameters, dict)
        and "properties" in parameters
        and _TOO_DEEP not in dumps(parameters)
    )


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = name = first_text(attributes, _TOOL_NAMES)
    facts["call_id"] = call_id(first_identity(attributes, _CALL_IDS))
    described = first_text(attributes, _DESCRIPTIONS)
    facts["tools"] = (Tool(name, described),) if name and described else None
    read_call(span, given, returned, facts)
    facts["error"] = facts["error"] or _refused(facts.get("result"))


def _refused(result: Json) -> str | None:
    """Why Mastra did not run a tool at all: the arguments did not fit the schema."""
    if isinstance(result, dict) and result.get("error") is True and "validationErrors" in result:
        return text(result.get("message")) or "error"
    return None


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps without those of a thread's title, a question and an answer that are JSON as they
    were written.

    Only the agent's text has such an answer so, at its end. Where no model's span came, that text
    is the answer.
    """
    steps = keep_json_text(
        _with_titles_aside(steps),
        lambda attributes: (_recorded(attributes, "input", _INPUTS), None),
    )
    returned = (
        _recorded(x.span.attributes, "output", _OUTPUTS) for x in steps if x.kind == "agent"
    )
    texts = [
        x
        for x in (_answer_text(structure(y).value) for y in returned)
        if x and x.endswith(("}", "]"))
    ][:_MAX_TEXTS]
    if not any(x.kind == "model" for x in steps):
        return [_answering(x) if x.kind == "agent" else x for x in steps]
    return [_as_written(x, texts) if texts and x.kind == "model" else x for x in steps]


def _answering(run: Step) -> Step:
    returned = _answer_text(structure(_recorded(run.span.attributes, "output", _OUTPUTS)).value)
    is_known = run.output or run.output_text is not None or "output" in run.damaged
    return run if is_known or not returned else changed(run, output_text=returned)


def _with_titles_aside(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, those with which an agent's memory gave the thread a title as none of the turn's.

    An agent's run has one loop. Any other one beside it has instructions of its own.
    """
    runs = {x.span.span_id: x for x in steps if x.kind == "agent"}
    loops: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        if str(step.span.attributes.get(_TYPE)) in _LOOPS and step.span.parent_span_id in runs:
            loops[step.span.parent_span_id].append(step)
    aside = {
        x.span.span_id
        for run, found in loops.items()
        if len(found) > 1
        for x in _besides(runs[run], found)
    }
    for _ in range(_LEVELS_IN_LOOP if aside else 0):
        aside.update([x.span.span_id for x in steps if x.span.parent_span_id in aside])
    if aside:
        return [changed(x, kind="other") if x.span.span_id in aside else x for x in steps]
    return steps


def _besides(run: Step, loops: Sequence[Step]) -> list[Step]:
    """Those of a run's loops that are not the agent's own, by the system prompt of each."""
    first = min(loops, key=lambda x: (x.span.start_ns, x.span.span_id))
    own = run.system or _instructions(first)
    if not any(own in _instructions(x) for x in loops):
        return []
    return [x for x in loops if _instructions(x) and own not in _instructions(x)]


def _instructions(step: Step) -> str:
    return "\n".join(x.text for x in step.input or () if x.role == "system" and x.text)


def _as_written(step: Step, texts: Sequence[str]) -> Step:
    answer = step.output[-1].text if step.output else None
    if answer is None or len(answer) > _MAX_CHARS or not answer.startswith(("{", "[")):
        return step
    written = next((x for x in (_ending(text, answer) for text in texts) if x is not None), None)
    if not step.output or written is None:
        return step
    return changed(step, output=(*step.output[:-1], changed(step.output[-1], text=written)))


def _ending(text: str, answer: str) -> str | None:
    """The end of `text` that is the same JSON as `answer`."""
    written = text.rstrip()
    if written.endswith(answer):
        return text[len(written) - len(answer) :]
    wanted, at = structure(answer), len(text)
    for _ in range(_MAX_TRIES):
        at = text.rfind(answer[0], max(0, len(text) - 2 * _MAX_CHARS), at)
        if at < 0 or wanted.damaged:
            return None
        found = structure(text[at:])
        if (
            not found.damaged
            and isinstance(found.value, (dict, list))
            and dumps(found.value) == dumps(wanted.value)
        ):
            return text[at:]
    return None


DIALECT = Dialect(
    "mastra",
    read,
    keys=(_TYPE,),
    prefilters=(b"mastra.span.type",),
    refine_trace=refine_trace,
    content=(ContentSwitch("leave out hideInput and hideOutput in tracingOptions"),),
)
