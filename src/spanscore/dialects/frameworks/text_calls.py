"""Frameworks that put calls and results into the texts of models: DSPy and smolagents."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms import messages
from spanscore.dialects.forms.decorated_calls import read_arguments
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_list,
    as_object,
    change_messages,
    evaluated,
    indexed,
    literal,
    object_at,
    opened,
    structure,
    text,
)
from spanscore.model.json import Json, printed
from spanscore.model.span import Attributes, Span, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_DSPY_SCOPE = "openinference.instrumentation.dspy"

_MODULES = (".forward", ".aforward")
_CALLS = (".__call__", ".acall")
_AGENTS = frozenset({"ReAct", "CodeAct", "Avatar"})
_PREDICTORS = ("Predict.", "Predict(")
_ENVELOPES = ("input_args", "kwargs")  # how a function's open-ended arguments are called
_QUESTIONS = (
    "question",
    "query",
    "user_input",
    "user_message",
    "user_request",
    "message",
    "request",
    "task",
    "input",
)
_NEXT_TOOL = "next_tool_name"
_ANSWERS = ("answer", "response", "final_answer", "output", "result", "process_result", "reply")
_REASONING = ("reasoning", "rationale")
_TRAJECTORY = "trajectory"
_DSPY_STEP = re.compile(r"(thought|tool_name|tool_args|observation)_(\d{1,4})")
_FIELD = re.compile(r"^\[\[ ## (\w+) ## \]\]", re.MULTILINE)
_ORDERS = ("\n\nRespond with the corresponding output fields", "\n\nRespond with a JSON object")
_NOT_SUPPLIED = "Not supplied for this"  # in the place of a field that an earlier turn did not have
_MAX_INSTRUCTIONS = 256 * 1024  # characters in which tools are looked for
_FINISH = "finish"  # the tool by which ReAct ends its loop
_NUMBERED = re.compile(r"\s*\(\d{1,4}\) ")
_WORDS = frozenset({"None", "True", "False"})  # str() of values that JSON spells otherwise


def logged_by_mlflow(span: Span) -> bool:
    """Whether a span of MLflow's, which has one scope for all frameworks, is DSPy's."""
    attributes = span.attributes
    if "mlflow.spanType" not in attributes:  # it is written in the semantic conventions
        return False
    tool = span.name.startswith("Tool.") and "args" in attributes
    return (
        tool or attributes.get("mlflow.message.format") == '"dspy"' or span.name.endswith(_MODULES)
    )


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenInference's, in place."""
    _complete(
        span,
        facts,
        *(structure(span.attributes.get(x)).value for x in ("input.value", "output.value")),
    )


def complete_mlflow(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of MLflow's, in place."""
    _complete(
        span,
        facts,
        *(opened(span.attributes.get(x)) for x in ("mlflow.spanInputs", "mlflow.spanOutputs")),
    )


def _complete(span: Span, facts: Facts, given: Any, returned: Any) -> None:
    """Add to the facts of a span, in place; `given` and `returned` are what it took and returned,
    parsed.
    """
    if facts["kind"] == "tool":
        _complete_tool_dspy(span, facts)
    elif span.name.endswith(_MODULES):
        _read_module(span, facts, _called_with(given), returned)
    elif facts["kind"] == "model":
        _complete_model_dspy(facts, returned)


def _complete_tool_dspy(span: Span, facts: Facts) -> None:
    name = span.name.removeprefix("Tool.")
    facts["tool_name"] = next((name.removesuffix(x) for x in _CALLS if name.endswith(x)), name)
    facts["arguments"] = _called_with(facts.get("arguments"))
    if facts["tool_name"] == _FINISH:
        facts["kind"] = "other"


def _called_with(given: Any) -> Any:
    """The arguments by name, out of the object that stands for a function's open-ended ones."""
    if isinstance(given, dict) and len(given) == 1:
        name, inner = next(iter(given.items()))
        return inner if name in _ENVELOPES and isinstance(inner, dict) else given
    return given


def _read_module(span: Span, facts: Facts, given: Any, returned: Any) -> None:
    """A program's inputs and its prediction. A predictor only wraps the model call inside it."""
    name = span.name.partition(".")[0]
    fields = as_object(returned)
    if span.name.startswith(_PREDICTORS):
        facts["kind"] = "workflow"
    elif name in _AGENTS or isinstance(fields.get(_TRAJECTORY), dict):
        facts["kind"], facts["agent_name"] = "agent", name
        facts["output"] = (*_steps(as_object(fields.get(_TRAJECTORY))), *_answered_dspy(fields))
    facts["input_text"] = _chosen(given, _QUESTIONS) if isinstance(given, dict) else None
    if not isinstance(fields.get(_NEXT_TOOL), str):  # which tool to call is no answer
        facts["output_text"] = returned if isinstance(returned, str) else _chosen(fields, _ANSWERS)


def _answered_dspy(fields: Mapping[str, Any]) -> tuple[Message, ...]:
    answer = _chosen(fields, _ANSWERS)
    return () if answer is None else (Message("assistant", answer, _reasoning(fields)),)


def _complete_model_dspy(facts: Facts, returned: Any) -> None:
    if not facts.get("output") and isinstance(returned, list):  # the texts alone
        facts["output"] = (
            tuple(Message("assistant", x) for x in returned if isinstance(x, str)) or None
        )
    given, produced = facts.get("input"), facts.get("output")
    if given:
        if facts.get("tools") is None:
            facts["tools"] = _tools_in(given)
        facts["input"] = tuple(x for message in given for x in _opened_message(message))
    if produced:
        facts["output"] = tuple(x for message in produced for x in _opened_message(message))


def _tools_in(given: tuple[Message, ...]) -> tuple[Tool, ...] | None:
    """The tools that the first instructions with any of them list."""
    for message in given:
        if message.role == "system" and message.text and len(message.text) < _MAX_INSTRUCTIONS:
            offered = _offered_dspy(message.text)
            if offered:
                return offered
    return None


def _opened_message(message: Message) -> Iterator[Message]:
    """The messages that the fields of one stand for: a question and what the agent has done since,
    or an answer.
    """
    plain = not message.calls and not message.results
    fields = _fields(message.text, message.role) if plain and message.text else {}
    if message.role == "user" and fields:
        yield Message("user", _chosen(fields, _QUESTIONS))
        yield from _steps(fields)
    elif message.role == "assistant" and fields:
        yield _produced(fields)
    else:
        yield message


def _produced(fields: Mapping[str, Any]) -> Message:
    """What a model wrote: a thought and the tool to call next, or an answer."""
    name = fields.get(_NEXT_TOOL)
    if not isinstance(name, str):
        return Message("assistant", _chosen(fields, _ANSWERS), _reasoning(fields))
    if name == "None":  # an earlier turn, of which a signature with other fields shows nothing
        return Message("assistant")
    thought, given = fields.get("next_thought"), opened(fields.get("next_tool_args"))
    calls = () if name == _FINISH else (RequestedCall(None, name, {} if given is None else given),)
    return Message("assistant", thought if isinstance(thought, str) else None, None, calls)


def _steps(fields: Mapping[str, Any]) -> Iterator[Message]:
    """The messages of a trajectory: each thought with its call, and what the tool returned."""
    steps: dict[int, dict[str, Any]] = {}
    for key, value in fields.items():
        if found := _DSPY_STEP.fullmatch(key):
            steps.setdefault(int(found[2]), {})[found[1]] = value
    for _, step in sorted(steps.items()):
        name, thought = step.get("tool_name"), step.get("thought")
        if not isinstance(name, str):
            continue
        called = (
            () if name == _FINISH else (RequestedCall(None, name, opened(step.get("tool_args"))),)
        )
        yield Message("assistant", thought if isinstance(thought, str) else None, None, called)
        if called and "observation" in step:
            yield Message("tool", results=(_observed_dspy(name, step["observation"]),))


def _observed_dspy(name: str, observation: Any) -> ToolResult:
    """What a tool returned; ReAct writes an exception as text."""
    printed_word = isinstance(observation, str) and observation in _WORDS
    value = literal(observation) if printed_word else opened(observation)
    failed = isinstance(value, str) and value.startswith(f"Execution error in {name}:")
    return ToolResult(None, value, printed(value) if failed else None)


def _fields(text: str, role: str) -> dict[str, Any]:
    """The fields of a message: under headers, or a model's as a JSON object; empty where it has
    none.
    """
    headers = list(_FIELD.finditer(text))
    if not headers:
        return as_object(opened(text) if role == "assistant" else None)
    ends = [*(x.start() for x in headers[1:]), _end(text)]
    return {
        x[1]: text[x.end() : end].strip("\n")
        for x, end in zip(headers, ends, strict=True)
        if x[1] != "completed"
    }


def _end(text: str) -> int:
    """Where the last field ends: before the order in which to answer."""
    return next((at for at in map(text.rfind, _ORDERS) if at >= 0), len(text))


def _reasoning(fields: Mapping[str, Any]) -> str | None:
    return next((x for x in map(fields.get, _REASONING) if isinstance(x, str)), None)


def _chosen(fields: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The question or the answer among a signature's fields: the only one, one of `names`, else all
    as JSON.
    """
    left = {k: v for k, v in fields.items() if not _is_beside(k, v)}
    if not left:
        return None
    if len(left) > 1:
        named = next((x for x in names if x in left), None)
        return printed(left if named is None else left[named])
    return printed(next(iter(left.values())))


def _is_beside(name: str, value: Any) -> bool:
    """Whether a field is neither question nor answer: reasoning, the conversation so far, a step of
    the trajectory.
    """
    if name in _REASONING or name == _TRAJECTORY or _DSPY_STEP.fullmatch(name) or value is None:
        return True
    if isinstance(value, dict):
        return value.keys() == {"messages"}
    return isinstance(value, str) and (value.startswith(("messages=[", _NOT_SUPPLIED)))


@lru_cache(maxsize=16)  # each call of an agent repeats its instructions
def _offered_dspy(instructions: str) -> tuple[Tool, ...]:
    """The tools that ReAct numbers in its instructions, each on a line, their arguments as a Python
    literal.
    """
    found = []
    for line in instructions.splitlines():
        start = _NUMBERED.match(line)
        head, marker, given = line.rpartition(" It takes arguments ")
        if start is None or not marker:
            continue
        name, _, description = (
            head[start.end() :].removesuffix(".").partition(", whose description is <desc>")
        )
        if name == _FINISH or not name or " " in name:
            continue
        properties = literal(given.strip().removesuffix(".").removesuffix(" in JSON format"))
        schema: Json = (
            {"type": "object", "properties": properties} if isinstance(properties, dict) else None
        )
        found.append(Tool(name, description.removesuffix("</desc>") or None, schema))
    return tuple(found)


_SMOLAGENTS_SCOPE = "openinference.instrumentation.smolagents"
_CONVENTIONS = "opentelemetry.instrumentation.genai.smolagents"
_FINAL_ANSWER = "final_answer"  # a tool that every agent has, whose argument is the answer
_INTERPRETER = "python_interpreter"  # of one that writes code
_NO_TOOLS = frozenset({_FINAL_ANSWER, _INTERPRETER})
# its own roles, and those of APIs; some SDKs are given the enum itself, and print it
_REQUESTING, _ANSWERING = ("tool-call", "assistant"), ("tool-response", "user")
_PRINTED_ROLE = "MessageRole."
_CALLED, _OBSERVED, _ASKED = "Calling tools:\n", "Observation:", "New task:\n"
_FAILED, _RETRY = "\nError:\n", "\nNow let's retry: "
_FAILED_CALL = re.compile(r"\AError executing tool '([^'\n]{1,200})' with arguments (?=\{)")
_ADVICE = "\nPlease try again or use another tool"
_ENDS, _MAX_ENDS = re.compile(r"\}: "), 20  # where the arguments of a failed call may end
_SMOLAGENTS_STEP = '{"memory_step": '
_CALL, _PLAIN = frozenset({"args", "kwargs"}), "sanitize_inputs_outputs"
"""What is recorded of a tool's call, and whether plain values were made of its arguments beside."""

_MANAGED_ANSWER = re.compile(
    r"\AHere is the final answer from your managed agent '[^'\n]{1,200}':\n"
)


def place(span: Span, facts: Facts, _outermost: bool) -> None:
    """Take a step of a run for bookkeeping: it was given the memory, and returned any result."""
    given = span.attributes.get("input.value")
    if (
        facts["kind"] == "workflow"
        and isinstance(given, str)
        and given.startswith(_SMOLAGENTS_STEP)
    ):
        facts["kind"] = "other"


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if facts["kind"] == "agent":
        _complete_agent(span, facts)
    elif facts["kind"] == "model":
        _complete_model_smolagents(facts)
    elif facts["kind"] == "tool":
        _complete_tool_smolagents(span.attributes, facts)


def complete_conventions(_span: Span, facts: Facts) -> None:
    """Add to the facts of a span in the semantic conventions, in place."""
    if facts["kind"] == "model":
        change_messages(facts, _with_plain_role)
        _complete_model_smolagents(facts)
    elif facts["kind"] == "agent":
        _leave_answering_tool(facts)
    elif facts.get("tool_name") == _FINAL_ANSWER:
        facts["kind"] = "other"


def _with_plain_role(message: Message) -> Message:
    if not message.role.startswith(_PRINTED_ROLE):
        return message
    role = message.role.removeprefix(_PRINTED_ROLE)
    return changed(message, role=role.lower().replace("_", "-"))


def _complete_agent(span: Span, facts: Facts) -> None:
    facts["tools"] = _offered_smolagents(span.attributes)
    called = object_at(span.attributes, "input.value")
    if "task" in called:
        facts["input_text"] = called["task"] if isinstance(called["task"], str) else None
    if called.get("reset") is False:  # then it counts the tokens of all runs so far
        facts["input_tokens"] = facts["output_tokens"] = None
        add_damaged(facts, "tokens")
    if facts["agent_name"] == span.name:
        facts["agent_name"] = span.name.removesuffix(".run")


def _complete_model_smolagents(facts: Facts) -> None:
    if given := facts.get("input"):
        facts["input"] = tuple(_remembered(given))
    if produced := facts.get("output"):
        facts["output"] = tuple(map(_answered_smolagents, produced))
        if facts["output"] != produced:  # its answer is no call, for which a model stops
            facts["finish_reasons"] = ("stop",)
    _leave_answering_tool(facts)


def _leave_answering_tool(facts: Facts) -> None:
    if offered := facts.get("tools"):
        facts["tools"] = tuple(x for x in offered if x.name != _FINAL_ANSWER)


def _complete_tool_smolagents(attributes: Attributes, facts: Facts) -> None:
    given, name = facts.get("arguments"), facts["tool_name"]
    if isinstance(given, dict) and _CALL <= given.keys() <= _CALL | {_PLAIN}:
        read_arguments(given, facts)
        _name_positional(attributes, facts)
    if name == _FINAL_ANSWER:
        facts["kind"] = "other"
    elif name is not None:
        facts["tools"] = (_described(name, attributes),)


def _name_positional(attributes: Attributes, facts: Facts) -> None:
    """Name the arguments that were given by place, beside others by name: the tool's inputs are in
    their order.
    """
    inputs, named = structure(attributes.get("tool.parameters")).value, facts.get("arguments")
    given = facts.get("positional") or ()
    if isinstance(inputs, dict) and isinstance(named, dict) and 0 < len(given) <= len(inputs):
        placed = dict(zip(inputs, given, strict=False))
        if placed.keys().isdisjoint(named):
            facts["arguments"], facts["positional"] = {**placed, **named}, ()


def _offered_smolagents(attributes: Attributes) -> tuple[Tool, ...] | None:
    """The tools of an agent, of which only the names are listed, and the agents that it can call;
    None for none.
    """
    listed = attributes.get("smolagents.tools_names")
    managed = indexed(attributes, "smolagents.managed_agents.")
    names = [x for x in as_list(listed) if isinstance(x, str) and x not in _NO_TOOLS]
    agents = [x for x in managed if isinstance(x, dict) and isinstance(x.get("name"), str)]
    return (
        *map(Tool, names),
        *(Tool(x["name"], text(x.get("description"))) for x in agents),
    ) or None


def _described(name: str, attributes: Attributes) -> Tool:
    """A tool by its own span: an agent that writes code has the definitions of its tools in the
    prompt alone.
    """
    inputs = structure(attributes.get("tool.parameters")).value
    schema: Json = {"type": "object", "properties": inputs} if isinstance(inputs, dict) else None
    return Tool(name, text(attributes.get("tool.description")), schema)


def _remembered(given: Sequence[Message]) -> Iterator[Message]:
    """Messages with the calls and results that smolagents gives the model as text.

    Some APIs are given one message where it has several of a role in a row.
    """
    calls: tuple[RequestedCall, ...] = ()
    for message in given:
        if message.role in _ANSWERING:
            yield from _parts(message, calls)
        elif message.role in _REQUESTING:
            text, called, listed = f"\n{message.text or ''}".rpartition(f"\n{_CALLED}")
            calls = _calls(literal(listed)) if called else ()
            yield _requesting(message, text.removeprefix("\n"), calls) if calls else message
        else:
            yield message


def _requesting(message: Message, text: str, calls: tuple[RequestedCall, ...]) -> Message:
    return _answered_smolagents(changed(message, role="assistant", text=text or None, calls=calls))


def _calls(listed: Any) -> tuple[RequestedCall, ...]:
    """The calls in what smolagents prints; code that an agent writes is none."""
    fields = {"role": "assistant", "tool_calls": listed if isinstance(listed, list) else None}
    message = messages.message(fields, "assistant")
    return () if message is None else tuple(x for x in message.calls if x.name != _INTERPRETER)


def _parts(message: Message, calls: Sequence[RequestedCall]) -> Iterator[Message]:
    """The results of calls, the error and the tasks in a message."""
    if message.role != "user":
        yield from _results(message, calls)
        return
    before, *tasks = f"\n{message.text or ''}".split(f"\n{_ASKED}")
    if before:
        yield from _results(changed(message, text=before.removeprefix("\n")), calls)
    for task in tasks:
        yield from _results(changed(message, text=task), calls)


def _results(message: Message, calls: Sequence[RequestedCall]) -> Iterator[Message]:
    """What a step observed, without that of the answer, or other text; then the error in which it
    ended.
    """
    text, error = _without_error(message.text or "")
    if not text.startswith(_OBSERVED):
        if text or error is None:
            yield changed(message, text=text)
    elif any(x.name != _FINAL_ANSWER for x in calls) or not calls:
        results = _observed_smolagents(text.removeprefix(_OBSERVED).removeprefix("\n"), calls)
        yield changed(message, role="tool", text=None if results else text, results=results)
    if error is not None:
        yield from _failing(changed(message, role="tool", text=error))


def _without_error(text: str) -> tuple[str, str | None]:
    stated, retried, _ = f"\n{text}".rpartition(_RETRY)
    before, failed, error = stated.rpartition(_FAILED)
    return (before.removeprefix("\n"), error) if retried and failed else (text, None)


def _observed_smolagents(text: str, calls: Sequence[RequestedCall]) -> tuple[ToolResult, ...]:
    """The results of calls in a text.

    Those of several are one a line, which is certain only where each is a value that was printed.
    """
    if len(calls) == 1:
        return (ToolResult(calls[0].call_id, evaluated(opened(_MANAGED_ANSWER.sub("", text)))),)
    values = [evaluated(opened(x)) for x in text.split("\n")]
    if len(values) != len(calls) or any(isinstance(x, str) for x in values):
        return ()
    return tuple(ToolResult(x.call_id, value) for x, value in zip(calls, values, strict=True))


def _failing(message: Message) -> Iterator[Message]:
    """The call that failed, which smolagents does not list, and its error; any other error as it
    is.
    """
    call, error = _failed_call((message.text or "").removesuffix(_ADVICE))
    if call is None:
        yield message
    else:
        yield Message("assistant", calls=(call,))
        failed = ToolResult(None, error, error, name=call.name)
        yield changed(message, text=None, results=(failed,))


def _failed_call(error: str) -> tuple[RequestedCall | None, str]:
    found = _FAILED_CALL.match(error)
    if found is not None:
        for end in islice(_ENDS.finditer(error, found.end()), _MAX_ENDS):
            arguments = literal(error[found.end() : end.start() + 1])
            if isinstance(arguments, dict):
                return RequestedCall(None, found[1], arguments), error[end.end() :]
    return None, error


def _answered_smolagents(message: Message) -> Message:
    """The message with its answer as text instead of a call."""
    answers = [x.arguments for x in message.calls if x.name == _FINAL_ANSWER]
    if not answers:
        return message
    answer: Any = answers[-1]
    if isinstance(answer, dict) and answer.keys() == {"answer"}:
        answer = answer["answer"]
    return changed(
        message,
        text=printed(answer),
        calls=tuple(x for x in message.calls if x.name != _FINAL_ANSWER),
    )


QUIRKS = (
    Quirk(
        "dspy", "openinference", (_DSPY_SCOPE,), complete=complete_openinference, returns_state=True
    ),
    Quirk("dspy", "mlflow", matches=logged_by_mlflow, complete=complete_mlflow),
    Quirk(
        "smolagents",
        "openinference",
        (_SMOLAGENTS_SCOPE,),
        place=place,
        complete=complete,
        returns_state=True,
    ),
    Quirk(
        "smolagents",
        "semconv",
        (_CONVENTIONS,),
        values=(("gen_ai.input.messages", f'"{_PRINTED_ROLE}'),),  # of any SDK given them
        complete=complete_conventions,
    ),
)
