"""The arguments of a tool's span by name, where the span records values without names."""

from typing import Any

from spanscore.model.json import Json, printed
from spanscore.model.step import Step


def named_arguments(step: Step, schemas: dict[str, Any]) -> Json:
    """A span's arguments; values recorded without names get those of the tool's schema, in its
    order.

    Without a schema they stay as they are: the value, or a list of them.
    """
    if not step.positional:
        return step.arguments
    given = step.arguments if isinstance(step.arguments, dict) else {}
    values: list[Json] = [value for value in step.positional if value is not None]
    properties = _properties(schemas.get(step.tool_name or ""))
    names = [name for name in properties if name not in given]
    if len(values) == 1 and isinstance(values[0], dict) and len(names) != 1 and not given:
        return values[0]
    if len(names) < len(values):
        return given or (values[0] if len(values) == 1 else values)
    named = {
        name: _as_requested(value, properties[name])
        for name, value in zip(names, values, strict=False)
    }
    return {**named, **given}


def _properties(schema: Any) -> dict[str, Any]:
    """What the JSON schema of a tool's arguments has for each by its name."""
    described = schema.get("properties") if isinstance(schema, dict) else None
    return described if isinstance(described, dict) else {}


def _as_requested(value: Json, schema: Any) -> Json:
    """A value; of what the schema calls text, the text, which may look like a number where it was
    recorded alone.
    """
    is_text = (
        isinstance(schema, dict)
        and schema.get("type") == "string"
        and isinstance(value, bool | int | float)
    )
    return printed(value) if is_text else value
