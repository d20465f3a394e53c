"""A model that gives a valid answer to whatever schema it is shown, so that every judged metric
gets one.
"""

import json
import re
from typing import Any

from scripted_server import Reply, answer

SAID: dict[str, Any] = {
    "score": 0.8,
    "verdict": "yes",
    "passed": True,
    "failure_code": "a_fault",
    "plan": ["look it up", "report it"],
}
_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_IN_TEXT = "It must fit this JSON schema:\n"
_LISTED_CALL = re.compile(r"^step (\d+): ", re.MULTILINE)


class ObligingModel:
    """Answers a request by the JSON schema in it, given as `response_format` or in the text.

    A property named in `said` has that value, or what that gives when called with the request,
    where its schema allows that; any other has the first value that its schema allows, and a text
    says which property it is. There is a verdict for each listed call.
    """

    def __init__(self, *, input_tokens: int = 100, output_tokens: int = 20, **said: Any) -> None:
        self._said = {**SAID, **said}
        self._tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens}

    def __call__(self, request: dict[str, Any]) -> Reply:
        """The completion for a request's body."""
        schema = schema_of(request)
        return answer(self._value("", schema, schema.get("$defs", {}), request), **self._tokens)

    def _value(
        self, name: str, schema: dict[str, Any], defs: dict[str, Any], request: dict[str, Any]
    ) -> Any:
        if name in self._said and _fits(self._said[name], schema):
            value = self._said[name]
            return value(request) if callable(value) else value
        if "$ref" in schema:
            return self._value(name, defs[schema["$ref"].rpartition("/")[2]], defs, request)
        if "anyOf" in schema:
            return self._value(name, _not_null(schema["anyOf"]), defs, request)
        return schema["enum"][0] if "enum" in schema else self._made(name, schema, defs, request)

    def _made(
        self, name: str, schema: dict[str, Any], defs: dict[str, Any], request: dict[str, Any]
    ) -> Any:
        match schema["type"]:
            case "object":
                return {
                    key: self._value(key, inner, defs, request)
                    for key, inner in schema["properties"].items()
                }
            case "array":
                one = self._value("", schema["items"], defs, request)
                if isinstance(one, dict) and "call" in one:
                    return [{**one, "call": number} for number in listed_calls(request)]
                return [one] * schema.get("minItems", 0)
            case "integer" | "number":
                return schema.get("minimum", 0)
            case "boolean":
                return True
            case "string":
                return f"what the model says of {name}"
        raise NotImplementedError(schema)


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is of a type that a schema allows: the rubric's scores are whole numbers."""
    types = {x["type"] for x in schema.get("anyOf", [schema]) if "type" in x}
    return callable(value) or not types or any(isinstance(value, _TYPES[x]) for x in types)


def _not_null(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """The first of the schemas that a value may fit, but for null."""
    return next(x for x in choices if x.get("type") != "null")


def schema_of(request: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema that the answer to a request must fit."""
    if "response_format" in request:
        return request["response_format"]["json_schema"]["schema"]
    return json.loads(question_of(request).rpartition(_IN_TEXT)[2])


def question_of(request: dict[str, Any]) -> str:
    """The user's message: transcript and question."""
    return request["messages"][1]["content"]


def asked_for(request: dict[str, Any]) -> frozenset[str]:
    """The names of what a request asks for."""
    return frozenset(schema_of(request)["properties"])


def listed_calls(request: dict[str, Any]) -> list[int]:
    """The numbers of the tool calls that the question lists for verdicts."""
    return [
        int(number)
        for number in _LISTED_CALL.findall(question_of(request).rpartition("</untrusted-data")[0])
    ]
