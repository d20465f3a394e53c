"""Options, durations, sizes and moments of configurations."""

import ast
import functools
import inspect
import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from spanscore.errors import FieldError
from spanscore.syntax import tree_of

_WRAPPED = re.compile(r"(?<!\n)\n(?![\n\s*-])")


class Described(BaseModel):
    """A model whose JSON schema describes each field by the docstring below it.

    pydantic's `use_attribute_docstrings` does so too, but reads the source of each class when the
    class is made, which took a sixth of a server's start. Here it is read when a schema is made.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """See pydantic: the schema, with a description for each field that has none yet."""
        made = handler(core_schema)
        schema = handler.resolve_ref_schema(made)
        if "description" in schema:
            schema["description"] = _unwrapped(schema["description"])
        properties: dict[str, Any] = schema.get("properties", {})
        texts = field_texts(cls)
        for name, field in cls.model_fields.items():
            text, key = texts.get(name), _key(name, field)
            if text is None or key not in properties or field.description is not None:
                continue
            described = properties[key]
            if handler.resolve_ref_schema(described).get("description") != text:
                properties[key] = {**described, "description": text}
        return made


class Options(Described):
    """Options of a configuration: they do not change, and keys that are not known are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _key(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else field.alias or name


@functools.cache
def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings below the fields of a model, by the fields' names; none where its source is
    not there.
    """
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, Described):
            found |= _own_texts(kind)
    return found


def _unwrapped(text: str) -> str:
    r"""Each paragraph in one line, so that what a judge reads does not depend on how source is
    wrapped.

    >>> _unwrapped("Why, in one to\nthree sentences.\n\n- first\n- second")
    'Why, in one to three sentences.\n\n- first\n- second'
    """
    return _WRAPPED.sub(" ", text)


def _own_texts(kind: type[BaseModel]) -> dict[str, str]:
    try:
        tree = tree_of(kind)
    except (OSError, TypeError, SyntaxError):
        return {}
    [definition] = tree.body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    return {
        field.target.id: _unwrapped(inspect.cleandoc(text.value.value))
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def moment_ns(text: str, now_ns: int) -> int:
    """Unix nanoseconds of a duration before `now_ns`, such as 24h, or of a time, which is UTC where
    it names no zone.

    Raises ValueError on anything else.

    >>> moment_ns("1m", 100 * 10**9), moment_ns("1970-01-01T00:00:40", 0)
    (40000000000, 40000000000)
    """
    try:
        return now_ns - duration_ns(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r}: give a duration such as 24h, or a time such as 2026-05-01T12:00"
        ) from None
    since_epoch = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(
        1970, 1, 1, tzinfo=UTC
    )
    return (
        since_epoch.days * 86400 + since_epoch.seconds
    ) * 10**9 + since_epoch.microseconds * 1000


_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_UNIT_BYTES = {
    "": 1,
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|kB|MB|GB|)")


def duration_ns(text: Any) -> int:
    """Nanoseconds of a duration as the collector writes it. Raises ValueError on anything else.

    >>> duration_ns("1m30s")
    90000000000
    """
    if text in (0, "0"):
        return 0
    parts = _DURATION.findall(text) if isinstance(text, str) else []
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(
            f"{text!r} is no duration: write a number and a unit, such as 200ms, 10s, 5m or 24h"
        )
    return round(sum(float(number) * _UNIT_NS[unit] for number, unit in parts))


def size_bytes(text: Any) -> int:
    """Bytes of a size. Raises ValueError on anything else.

    >>> size_bytes("4MiB")
    4194304
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = _BYTES.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise ValueError(
            f"{text!r} is no size: write a number of bytes, or a number and KiB, MiB or GiB"
        )
    return round(float(match[1]) * _UNIT_BYTES[match[2]])


def duration_text(duration: int) -> str:
    """The shortest way to write `duration` (nanoseconds) that `duration_ns` reads back.

    >>> duration_text(90_000_000_000)
    '90s'
    """
    if duration == 0:
        return "0"
    unit = next(u for u in ("d", "h", "m", "s", "ms", "us", "ns") if duration % _UNIT_NS[u] == 0)
    return f"{duration // _UNIT_NS[unit]}{unit}"


def size_text(size: int) -> str:
    """The shortest way to write `size` (bytes) that `size_bytes` reads back.

    >>> size_text(4 * 2**20)
    '4MiB'
    """
    unit = next((u for u in ("GiB", "MiB", "KiB") if size and size % _UNIT_BYTES[u] == 0), "")
    return f"{size // _UNIT_BYTES[unit]}{unit}"


Duration = Annotated[
    int,
    BeforeValidator(duration_ns),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["200ms", "10s", "5m", "24h"]}),
]
"""A configuration field that is written as a duration and read as integer nanoseconds."""

ByteSize = Annotated[
    int,
    BeforeValidator(size_bytes),
    PlainSerializer(size_text, return_type=str),
    WithJsonSchema({"type": ["integer", "string"], "examples": ["4MiB", "1GiB"]}),
]
"""A configuration field that is written as a size and read as integer bytes."""


SpecT = TypeVar("SpecT", bound=BaseModel)


def read_spec(kind: type[SpecT], given: Any) -> SpecT:
    """`given`, a JSON object or its text, as a spec.

    Raises FieldError that names each field that is wrong.
    """
    try:
        return (
            kind.model_validate_json(given)
            if isinstance(given, str)
            else kind.model_validate(given)
        )
    except ValidationError as error:
        first, *others = _faults(error)
        raise FieldError(first.field, first.problem, others) from None


def _faults(error: ValidationError) -> Iterator[FieldError]:
    for fault in error.errors(include_url=False):
        yield FieldError(
            ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")
        )
