"""Finish the OpenAPI document that protoc-gen-connect-openapi made: finish.py MADE OUT.

Adds what no proto says (title, server, tokens) and the streams, which are no operations of OpenAPI:
they stand under `x-connect-streams`. Mends two things: fields of a `oneof` stand under `oneOf`
beside `additionalProperties: false`, so that no request with one of them, or with none, would be
valid; and the error lacks the list of its details.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

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


def main(made: Path, out: Path) -> None:
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
