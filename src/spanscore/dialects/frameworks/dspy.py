"""DSPy's fields and trajectories in OpenInference's and MLflow's spans."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.structure import Facts, as_object, literal, opened, structure
from spanscore.model.json import Json, printed
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_SCOPE = "openinference.instrumentation.dspy"

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
_STEP = re.compile(r"(thought|tool_name|tool_args|observation)_(\d{1,4})")
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
        *(structure(span.attributes.get(x)).value for x in (keys.INPUT_VALUE, keys.OUTPUT_VALUE)),
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
        _complete_tool(span, facts)
    elif span.name.endswith(_MODULES):
        _read_module(span, facts, _called_with(given), returned)
    elif facts["kind"] == "model":
        _complete_model(facts, returned)


def _complete_tool(span: Span, facts: Facts) -> None:
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
        facts["output"] = (*_steps(as_object(fields.get(_TRAJECTORY))), *_answered(fields))
    facts["input_text"] = _chosen(given, _QUESTIONS) if isinstance(given, dict) else None
    if not isinstance(fields.get(_NEXT_TOOL), str):  # which tool to call is no answer
        facts["output_text"] = returned if isinstance(returned, str) else _chosen(fields, _ANSWERS)


def _answered(fields: Mapping[str, Any]) -> tuple[Message, ...]:
    answer = _chosen(fields, _ANSWERS)
    return () if answer is None else (Message("assistant", answer, _reasoning(fields)),)


def _complete_model(facts: Facts, returned: Any) -> None:
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
            offered = _offered(message.text)
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
        if found := _STEP.fullmatch(key):
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
            yield Message("tool", results=(_observed(name, step["observation"]),))


def _observed(name: str, observation: Any) -> ToolResult:
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
    if name in _REASONING or name == _TRAJECTORY or _STEP.fullmatch(name) or value is None:
        return True
    if isinstance(value, dict):
        return value.keys() == {"messages"}
    return isinstance(value, str) and (value.startswith(("messages=[", _NOT_SUPPLIED)))


@lru_cache(maxsize=16)  # each call of an agent repeats its instructions
def _offered(instructions: str) -> tuple[Tool, ...]:
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


QUIRKS = (
    Quirk(
        name="dspy",
        under="openinference",
        scopes=(_SCOPE,),
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(name="dspy", under="mlflow", matches=logged_by_mlflow, complete=complete_mlflow),
)
