"""Write the fields of runs and monitors into their protos: resources.py PROTOS.

The specs are the one place where such a field is defined: its type, its bounds, and its docstring,
which is the comment in the proto. What only the server sets stands in the proto alone. Numbers and
declarations that a proto has stay as they are; a new field gets the next number.
"""

import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from spanscore import monitoring, specs
from spanscore.api.monitors import AskedTimes
from spanscore.model.options import Duration, field_texts

FILES: Final[Mapping[str, Mapping[str, type[BaseModel]]]] = {
    "run_service.proto": {
        "Run": specs.RunSpec,
        "RunTarget": specs.TargetSpec,
        "TraceFilter": specs.TraceFilter,
        "RunSampling": specs.Sampling,
        "RunMeasure": specs.MeasureSpec,
        "RunBudget": specs.RunBudget,
    },
    "monitor_service.proto": {
        "Monitor": specs.MonitorSpec,
        "MonitorWatch": monitoring.Watch,
        "MonitorReference": monitoring.Reference,
        "MonitorSchedule": AskedTimes,
        "MonitorRun": specs.MonitorRun,
    },
}
"""The messages whose fields are those of a spec."""

_FIELD: Final = re.compile(r"  (?P<type>[\w.<>, ]+?) (?P<name>\w+) = (?P<number>\d+);\n")
_WIDTH: Final = 118


def written(proto: str, models: Mapping[str, type[BaseModel]]) -> str:
    """The text of a proto with the fields that the models have."""
    for message, model in models.items():
        start = proto.index(f"message {message} {{\n") + len(f"message {message} {{\n")
        end = proto.index("\n}\n", start) + 1
        proto = proto[:start] + _body(proto[start:end], model) + proto[end:]
    return proto


def _body(body: str, model: type[BaseModel]) -> str:
    entries = list(_entries(body))
    known = {x["name"]: x for _, x in entries}
    fields = {_name(x, model, known): x for x in model.model_fields}
    found = []
    for lines, field in entries:
        own = fields.pop(field["name"], None)
        found.append(lines if own is None else _entry(_comment(model, own), *field.groups()))
    number = max((int(x["number"]) for _, x in entries), default=0)
    for name, own in fields.items():
        number += 1
        declared = _declared(model.model_fields[own])
        found.append(_entry(_comment(model, own), declared, name, number))
    return "".join(found)


def _entries(body: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The fields of a message, each with the lines before it that belong to it."""
    start = 0
    for field in _FIELD.finditer(body):
        yield body[start : field.end()], field
        start = field.end()


def _name(own: str, model: type[BaseModel], known: Mapping[str, Any]) -> str:
    """The name of a field in the proto: durations are numbers of seconds there."""
    is_duration = own not in known and _is_duration(model.model_fields[own])
    return f"{own}_s" if is_duration else own


def _is_duration(field: FieldInfo) -> bool:
    [_, validator, *_] = typing.get_args(Duration)
    inner = (x for kind in typing.get_args(field.annotation) for x in typing.get_args(kind))
    return validator in [*field.metadata, *inner]


def _comment(model: type[BaseModel], own: str) -> str:
    """The docstring of a field with what it can be, and what it is where it is not set."""
    field = model.model_fields[own]
    unit = 10**9 if _is_duration(field) else 1
    said = [
        f"{word} {bound / unit:.15g}"
        for name, word in _BOUNDS.items()
        for bound in (getattr(x, name, None) for x in field.metadata)
        if bound is not None and bound < _LARGE
    ]
    words = [field_texts(model)[own], "In seconds." if unit > 1 else ""]
    words.append(f"{', '.join(said).capitalize()}." if said else "")
    if isinstance(field.default, str | int | float) and field.default:
        default = str(field.default) if unit == 1 else f"{field.default / unit:g}"
        words.append(f"Not set: {default}.")
    return " ".join(" ".join(words).split())


_LARGE: Final = 2**62
_BOUNDS: Final = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def _entry(text: str, declared: str, name: str, number: Any) -> str:
    comment = textwrap.fill(text, _WIDTH, initial_indent="  // ", subsequent_indent="  // ")
    return f"{comment}\n  {declared} {name} = {number};\n"


_SCALARS: Final = {str: "string", bool: "bool", int: "int64", float: "double"}


def _declared(field: FieldInfo) -> str:
    """How a new field is declared."""
    kinds = [x for x in typing.get_args(field.annotation) if x is not types.NoneType]
    is_optional = types.NoneType in typing.get_args(field.annotation)
    kind = kinds[0] if is_optional else field.annotation
    has_presence = "optional " if is_optional or field.default else ""
    if _is_duration(field):
        return f"{has_presence}double"
    if typing.get_origin(kind) is tuple:
        return f"repeated {_SCALARS[typing.get_args(kind)[0]]}"
    if kind not in _SCALARS:
        raise SystemExit(f"{field}: declare a field of this type in the proto first")
    return f"{has_presence}{_SCALARS[kind]}"


def constraints(protos: Path) -> dict[str, dict[str, Any]]:
    """By message, and by field in JSON, what the specs permit, as JSON schema has it."""
    found: dict[str, dict[str, Any]] = {}
    for file, models in FILES.items():
        text = (protos / file).read_text(encoding="utf-8")
        for message, model in models.items():
            start = text.index(f"message {message} {{\n")
            entries = _entries(text[start : text.index("\n}\n", start) + 1])
            known = {x["name"]: x["type"] for _, x in entries}
            schemas = model.model_json_schema()["properties"]
            found[message] = {_in_camel_case(x): {"readOnly": True} for x in known} | {
                _in_camel_case(name): _constraint(
                    model.model_fields[own], schemas[own], known[name]
                )
                for own, name in ((x, _name(x, model, known)) for x in model.model_fields)
            }
            for identity in ("name", "etag"):
                found[message].pop(identity, None)
    return found


def _constraint(field: FieldInfo, schema: Mapping[str, Any], declared: str) -> dict[str, Any]:
    if _is_duration(field):
        bounds = [
            (x, getattr(y, of)) for x, of in _LIMITS for y in field.metadata if hasattr(y, of)
        ]
        return {x: bound // 10**9 for x, bound in bounds}
    [schema, *_] = [x for x in schema.get("anyOf", [schema]) if x.get("type") != "null"]
    kept = {x: y for x, y in schema.items() if x in _KEPT and y < _LARGE}
    if declared == "string" and not field.is_required():
        kept.pop("minLength", None)
    if declared == "string" and "enum" in schema:
        kept["enum"] = ["", *schema["enum"], None]
    for name in ("items", "propertyNames", "additionalProperties"):
        inner = schema.get(name)
        if isinstance(inner, dict) and (of := {x: y for x, y in inner.items() if x in _KEPT}):
            kept[name] = of
    return kept


_LIMITS: Final = (("minimum", "ge"), ("maximum", "le"))
_KEPT: Final = {
    *("minLength", "maxLength", "minItems", "maxItems", "maxProperties"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}


def _in_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(x.capitalize() for x in others)


if __name__ == "__main__":
    for file, models in FILES.items():
        path = Path(sys.argv[1]) / file
        path.write_text(written(path.read_text(encoding="utf-8"), models), encoding="utf-8")
