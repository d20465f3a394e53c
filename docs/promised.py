"""What is promised beside the Python API, one line each, for the records that tests hold: see
docs/stability.md.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

from spanscore import config
from spanscore.api import v1
from spanscore.model.score import (
    Annotation,
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Outcome,
    Score,
    Skip,
)
from spanscore.model.trace import (
    AgentTrace,
    Expected,
    ExpectedTool,
    ModelCall,
    PastMessage,
    RequestedCall,
    Retrieval,
    Target,
    Tool,
    ToolCall,
    Trial,
    Usage,
)

FOLDER = Path(__file__).resolve().parents[1] / "tests/docs/promised"
_TYPES = {str: "text", int: "number", float: "number", bool: "true or false", dict: "object"}


def agent_trace() -> list[str]:
    """The keys of a line of `spanscore inspect --jsonl`, each with the type of its value."""
    target = Target("ab" * 16, "cd" * 8, 1, 2, {"service.name": "shop"}, "response")
    requested = (RequestedCall("call", "tool", {}),)
    trace = AgentTrace(
        trace_ids=("ab" * 16,),
        root_span_id="cd" * 8,
        target=target,
        opening_span_id="cd" * 8,
        started_ns=1,
        ended_ns=2,
        session_id="session",
        user_id="user",
        agent_name="agent",
        service_name="service",
        user_input="question",
        final_output="answer",
        system_instructions="instructions",
        available_tools=(Tool("tool", "description", {}),),
        tool_calls=(
            ToolCall(
                "call",
                "tool",
                {},
                "result",
                "error",
                "cd" * 8,
                1,
                agent="agent",
                returned=True,
                ended_ns=2,
            ),
        ),
        model_calls=(
            ModelCall("cd" * 8, "model", "text", "reasoning", requested, 1, 2, 3, 4, "response"),
        ),
        history=(PastMessage("user", "text", requested),),
        retrieved=(Retrieval("cd" * 8, "query", ("document",)),),
        plan="plan",
        usage=Usage(1, 2),
        damaged=("plan",),
        dialects=("semconv",),
        trial=Trial("suite", "run", "case", "pass"),
        expected=Expected(
            answer="answer", tools=(ExpectedTool("tool", {}, 1),), outcomes=("o",), in_order=True
        ),
        session_key="key",
        attributes={"name": ("value",)},
    )
    return sorted(set(_paths(trace.to_json())))


def score() -> list[str]:
    """The keys of a line of `spanscore eval --jsonl`, each with the types that its value has."""
    outcomes: list[Outcome | Annotation] = [
        Score(0.5, "reason"),
        Skip("reason"),
        Failure("Error", "message"),
    ]
    return sorted({line for outcome in outcomes for line in _paths(_evaluation(outcome).to_json())})


def _evaluation(outcome: Outcome | Annotation) -> Evaluation:
    return Evaluation(
        scope="trace",
        subject_id="ab" * 16,
        metric="metric",
        outcome=outcome,
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("LLM", "metric", "1", "model", "hash", "embedding", "human", "author"),
        target=Target("ab" * 16, "cd" * 8, 1, 2),
        session_id="session",
        usage=JudgeUsage(1, 2, 3, 0.1, 0),
        rule="rule",
        run="run",
    )


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, held in value.items():
            yield from _paths(held, f"{path}.{key}" if path else key)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for held in value:
            yield from _paths(held, f"{path}[]")
    elif value is not None:
        yield f"{path}: {_TYPES[type(value)]}"


def configuration() -> list[str]:
    """Every key of the configuration."""
    schema = config.json_schema()
    return sorted(set(_keys(schema, schema["$defs"], "", ())))


def _keys(
    node: Any, definitions: Mapping[str, Any], path: str, above: tuple[str, ...]
) -> Iterator[str]:
    """The keys below a node of a JSON schema; `*` stands for a name that the user chooses."""
    reference = node.get("$ref", "").rpartition("/")[2]
    if reference in above:
        return
    if reference:
        yield from _keys(definitions[reference], definitions, path, (*above, reference))
    for key, held in node.get("properties", {}).items():
        below = f"{path}.{key}" if path else key
        yield below
        yield from _keys(held, definitions, below, above)
    for kind in ("anyOf", "oneOf", "allOf"):
        for held in node.get(kind, ()):
            yield from _keys(held, definitions, path, above)
    if isinstance(node.get("additionalProperties"), Mapping):
        yield from _keys(node["additionalProperties"], definitions, f"{path}.*", above)
    if isinstance(node.get("items"), Mapping):
        yield from _keys(node["items"], definitions, f"{path}[]", above)


def proto() -> list[str]:
    """Every method, field and enum value of the API, with what decides its form on the wire."""
    names = [x.name for x in pkgutil.iter_modules(v1.__path__) if x.name.endswith("_pb2")]
    files = [importlib.import_module(f"{v1.__name__}.{x}").DESCRIPTOR for x in names]
    return sorted({line for file in files for line in _of_file(file)})


def _of_file(file: FileDescriptor) -> Iterator[str]:
    for message in file.message_types_by_name.values():
        yield from _of_message(message)
    for enum in file.enum_types_by_name.values():
        yield from _of_enum(enum)
    for service in file.services_by_name.values():
        for method in service.methods:
            streams = " of a stream" if method.server_streaming else ""
            types = f"{method.input_type.full_name} -> {method.output_type.full_name}{streams}"
            yield f"{service.full_name}.{method.name}: {types}"


def _of_message(message: Descriptor) -> Iterator[str]:
    for field in message.fields:
        yield f"{field.full_name} = {field.number}: {_type(field)}"
    for nested in message.nested_types:
        yield from _of_message(nested)
    for enum in message.enum_types:
        yield from _of_enum(enum)


def _of_enum(enum: EnumDescriptor) -> Iterator[str]:
    return (f"{enum.full_name}.{x.name} = {x.number}" for x in enum.values)


def _type(field: FieldDescriptor) -> str:
    kinds = {
        number: name.removeprefix("TYPE_").lower()
        for name, number in vars(FieldDescriptor).items()
        if name.startswith("TYPE_")
    }
    of = field.message_type or field.enum_type
    repeated = "repeated " if field.is_repeated else ""
    return repeated + (of.full_name if of else kinds[field.type])


RECORDS = {
    "agent-trace.txt": agent_trace,
    "score.txt": score,
    "configuration.txt": configuration,
    "proto.txt": proto,
}


def main() -> None:
    """Record what is there now."""
    FOLDER.mkdir(exist_ok=True)
    for name, lines in RECORDS.items():
        (FOLDER / name).write_text("\n".join([*lines(), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
