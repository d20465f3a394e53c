"""Components of a configuration whose type is the first part of their name, as in the collector."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import (
    GetJsonSchemaHandler,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


def name_the_types(components: Any, what: str, kinds: Sequence[str]) -> Any:
    """Take a component's type from its name, as in the collector: `otlp_grpc`, or `otlp_grpc/NAME`
    for a further one.

    Raises ValueError for a type that is not among `kinds`; `what` is the word for a component in
    its message.

    >>> name_the_types({"otlp_grpc/b": {"timeout": "5s"}}, "exporter", ["otlp_grpc"])
    {'otlp_grpc/b': {'timeout': '5s', 'type': 'otlp_grpc'}}
    """
    if not isinstance(components, Mapping):
        return components
    typed = {}
    for name, settings in components.items():
        kind = str(name).partition("/")[0]
        if kind not in kinds:
            raise ValueError(
                f"{name}: unknown {what}; known are {', '.join(kinds)}, each also as TYPE/NAME"
            )
        given = {} if settings is None else settings
        typed[name] = {**given, "type": kind} if isinstance(given, Mapping) else given
    return typed


class NamedByType:
    """The JSON schema to go with `name_the_types`: which settings there are depends on the
    exporter's name.
    """

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        union = handler(schema)["additionalProperties"]
        patterns = {
            f"^{kind}(/.+)?$": {"$ref": ref}
            for kind, ref in union["discriminator"]["mapping"].items()
        }
        return {"type": "object", "patternProperties": patterns, "additionalProperties": False}
