"""Finish the OpenAPI document that protoc-gen-connect-openapi made: finish.py MADE DESCRIPTORS OUT.

Adds what no proto says (title, server, tokens) and the streams, which are no operations of OpenAPI:
they stand under `x-connect-streams`. Adds what the server takes and refuses of each field: null
where a single value is left out, the range of integers, and `constraints.py`. Mends two things:
fields of a `oneof` stand under `oneOf` beside `additionalProperties: false`, so that no request
with one of them, or with none, would be valid; and the error lacks the list of its details.

DESCRIPTORS is the set of the protos' descriptors.
"""

import json
import re
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from constraints import ALONE, FIELDS, ONE_OF, REQUIRED, positives
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet

sys.path.insert(0, str(Path(__file__).parents[1]))
from resources import constraints

INFO = {
    "title": "spanscore",
    "version": "v1",
    "description": (
        "The API of a running spanscore: the methods of its gRPC services as JSON over HTTP, by the"
        " Connect protocol. Each method is a POST of its request as JSON. Numbers of 64 bits are"
        " texts in answers, and fields that have their default (0, false, an empty text or list)"
        " are left out. Methods that stream their responses are under x-connect-streams: POST the"
        " request as application/connect+json, with 5 bytes before it (0, then its length in 4"
        " bytes, the highest first). The responses come in the same form; the last has 2 as its"
        " first byte and contains {}, or the error under `error`."
    ),
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
DETAILS = {
    "type": "array",
    "description": (
        "google.rpc.ErrorInfo always, BadRequest where a field is wrong, RetryInfo where it may"
        " pass."
    ),
    "items": {
        "type": "object",
        "properties": {
            "type": {"type": "string", "description": "The full name of the message."},
            "value": {
                "type": "string",
                "description": "The message in protobuf, as base64 without padding.",
            },
            "debug": {"type": "object", "description": "The message as JSON."},
        },
    },
}


PACKAGE = "spanscore.v1."
MAX_64 = 2**63 - 1
INTEGERS = {
    FieldDescriptorProto.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptorProto.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptorProto.TYPE_INT64: (-MAX_64 - 1, MAX_64),
    FieldDescriptorProto.TYPE_UINT64: (0, MAX_64),
    FieldDescriptorProto.TYPE_FIXED64: (0, MAX_64),
}
"""The least and the greatest that the server takes."""


def main(made: Path, descriptors: Path, out: Path) -> None:
    """Write the finished document."""
    document = json.loads(made.read_text(encoding="utf-8"))
    document["info"] = INFO
    document["servers"] = [
        {"url": "http://127.0.0.1:4330", "description": "as `api.http` is by default"}
    ]
    document["security"] = [{"token": []}, {}]
    document["components"]["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Where `api.auth` asks for one.",
        }
    }
    streams = [path for path, x in document["paths"].items() if not x]
    document["paths"] = {path: x for path, x in document["paths"].items() if x}
    document["x-connect-streams"] = {path: _stream(path) for path in streams}
    for methods in document["paths"].values():
        for method in methods.values():
            _leave_headers_out(method)
    for name, schema in document["components"]["schemas"].items():
        if name == "connect.error":
            schema["properties"].pop("detail", None)
            schema["properties"]["details"] = DETAILS
        _mend(schema)
    _constrain(
        document["components"]["schemas"], FileDescriptorSet.FromString(descriptors.read_bytes())
    )
    out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _stream(path: str) -> dict[str, Any]:
    """A method that streams its responses. Its messages are found by their names in the proto."""
    service, _, name = path.strip("/").rpartition("/")
    found = re.compile(rf"// ([^\n]*)\n\s*rpc {name}\((\w+)\) returns \(stream (\w+)\)")
    protos = (
        x.read_text(encoding="utf-8")
        for x in sorted((Path(__file__).parents[1] / "spanscore/v1").glob("*.proto"))
    )
    summary, request, response = next(
        match.groups() for text in protos if (match := found.search(text))
    )
    package = service.rpartition(".")[0]
    return {
        "description": summary,
        "contentType": "application/connect+json",
        "request": {"$ref": f"#/components/schemas/{package}.{request}"},
        "response": {"$ref": f"#/components/schemas/{package}.{response}"},
    }


def _leave_headers_out(method: Any) -> None:
    """Headers that Connect's own clients send need no mention: curl goes without."""
    if isinstance(method, dict):
        method.pop("parameters", None)


def _mend(schema: dict[str, Any]) -> None:
    groups = [schema.pop("oneOf")] if "oneOf" in schema and schema.get("type") == "object" else []
    groups += [x["oneOf"] for x in schema.pop("allOf", []) if "oneOf" in x]
    for group in groups:
        fields = {
            name: field for choice in group for name, field in choice.get("properties", {}).items()
        }
        schema.setdefault("properties", {}).update(fields)
        rule = f"At most one of {', '.join(fields)} is set."
        schema["description"] = " ".join(x for x in (schema.get("description"), rule) if x)
    for field in schema.get("properties", {}).values():
        field.pop("nullable", None)  # not of OpenAPI 3.1: what is not set is left out


def _constrain(schemas: dict[str, Any], protos: FileDescriptorSet) -> None:
    """Add what the server takes of each field of a request, and what it refuses."""
    messages = {
        f"{PACKAGE}{x.name}": x
        for file in protos.file
        for x in file.message_type
        if f"{file.package}." == PACKAGE
    }
    specs = constraints(Path(__file__).parents[1] / "spanscore/v1")
    requests = [x for x in messages if x.endswith("Request") and x in schemas]
    for name in _reachable(requests, messages):
        short = name.removeprefix(PACKAGE)
        required = REQUIRED.get(short, [])
        schema, choices = schemas[name], ONE_OF.get(short, [])
        for field in messages[name].field:
            own = schema["properties"][field.json_name]
            _type_of(field, own)
            _add(own, specs.get(short, {}).get(field.json_name, {}))
            _add(own, FIELDS.get(short, {}).get(field.json_name, {}))
            is_left_out = field.json_name not in {*required, *choices}
            if is_left_out and field.label != FieldDescriptorProto.LABEL_REPEATED:
                _permit_null(own)
        if required:
            schema["required"] = required
        if choices:
            schema["oneOf"] = [{"required": [x]} for x in choices]
        elif alone := list(_oneofs(messages[name])):
            schema["allOf"] = [
                {"not": _with_all(x)} for fields in alone for x in combinations(fields, 2)
            ]


def _reachable(names: list[str], messages: dict[str, DescriptorProto]) -> Iterator[str]:
    """These messages and all that are in them, each once."""
    waiting, seen = list(names), set(names)
    while waiting:
        name = waiting.pop()
        yield name
        nested = {f".{name}.{x.name}": x for x in messages[name].nested_type}
        fields = [*messages[name].field, *(y for x in nested.values() for y in x.field)]
        for one in fields:
            inner = one.type_name.removeprefix(".")
            if inner in messages and inner not in seen:
                seen.add(inner)
                waiting.append(inner)


def _oneofs(message: DescriptorProto) -> Iterator[list[str]]:
    """The fields of each `oneof`, and others of which a request has one at most."""
    if message.name in ALONE:
        yield ALONE[message.name]
    for number in range(len(message.oneof_decl)):
        fields = [
            x.json_name
            for x in message.field
            if x.HasField("oneof_index") and x.oneof_index == number and not x.proto3_optional
        ]
        if len(fields) > 1:
            yield fields


def _with_all(fields: tuple[str, ...]) -> dict[str, Any]:
    """That all of these fields are there, and have a value."""
    has_value = {"not": {"type": "null"}}
    return {"required": list(fields), "properties": dict.fromkeys(fields, has_value)}


def _type_of(field: FieldDescriptorProto, schema: dict[str, Any]) -> None:
    if field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        one = schema.get("items", schema)
        one |= {"minimum": low, "maximum": high}
        if high == MAX_64:
            negatives = f"|-({positives(-low)})" if low else ""
            one["pattern"] = f"^(0|{positives(high)}{negatives})$"


def _add(schema: dict[str, Any], more: dict[str, Any]) -> None:
    """Add to a schema, and to what is under it what is under it in `more`."""
    for name, value in more.items():
        if isinstance(value, dict):
            _add(schema.setdefault(name, {}), value)
        else:
            schema[name] = value


def _permit_null(schema: dict[str, Any]) -> None:
    """Permit null, beside what all else in the schema is about."""
    described = {x: schema.pop(x) for x in ("title", "description", "readOnly") if x in schema}
    if "type" in schema and "format" not in schema:
        kinds = schema["type"]
        schema["type"] = [*([kinds] if isinstance(kinds, str) else kinds), "null"]
    else:
        value = dict(schema)
        schema.clear()
        schema["anyOf"] = [value, {"type": "null"}]
    schema |= described


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
