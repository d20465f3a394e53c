"""Validated answers from a model's words."""

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

from spanscore.judge.port import AnswerT
from spanscore.model.json import dumps

_MAX_PROBLEMS = 10
_MAX_PROBLEM_CHARACTERS = 2000
_MAX_STARTS = 50


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a part of an answer is of no use; `cut_off`: the answer ended before the part did."""

    problem: str
    cut_off: bool = False


class Parts(BaseModel):
    """An answer of which each part stands by itself; `parts_of` makes the schemas.

    A part that is not valid is an `Invalid`, and so is each element of one of the `lists` that is
    not.
    """

    model_config = ConfigDict(frozen=True)

    lists: ClassVar[Mapping[str, Any]] = {}
    _cut_off: bool = PrivateAttr(default=False)
    _text: str = PrivateAttr(default="")


PartsT = TypeVar("PartsT", bound=Parts)


def parts_of(fields: Mapping[str, Any], lists: Collection[str] = ()) -> type[Parts]:
    """The schema of an answer with a part for each of `fields`, in order; those that `lists` names
    are lists of such elements.
    """
    shown: dict[str, Any] = {
        name: (list[kind] if name in lists else kind, ...)  # type: ignore[valid-type] # made here
        for name, kind in fields.items()
    }
    made = create_model("Answers", __base__=Parts, **shown)
    made.lists = {name: fields[name] for name in fields if name in lists}
    return made


def was_cut_off(answer: Parts) -> bool:
    """Whether `answer` ended before all of its parts did."""
    return answer._cut_off  # noqa: SLF001 - a public name could be that of a part


def kept_text(answer: BaseModel) -> str:
    """The JSON by which `answer` can be read again."""
    written = answer._text if isinstance(answer, Parts) else ""  # noqa: SLF001 - likewise
    return written or answer.model_dump_json(by_alias=True)


def _cut_short(text: str, schema: type[PartsT]) -> PartsT | None:
    """What is valid of a JSON object that `text` breaks off in; None where nothing is.

    The last part may have lost its end and is not taken; of one of the `lists`, all but the last
    element is.
    """
    start = -1
    for _ in range(_MAX_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            data = from_json(text[start:], allow_partial=True)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and not data.keys().isdisjoint(schema.model_fields):
            return _constructed(_without_end(data, schema), schema, text[start:], cut_off=True)
    return None


def problem_of(error: ValidationError) -> str:
    """What is wrong with an answer, to the model that gave it."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    found = [
        f"{'.'.join(map(str, x['loc'])) or 'the object'}: {x['msg']}"
        for x in problems[:_MAX_PROBLEMS]
    ]
    return "; ".join(found)[:_MAX_PROBLEM_CHARACTERS]


def _without_end(data: Mapping[str, Any], schema: type[Parts]) -> dict[str, Any]:
    *whole, last = data
    kept = {name: data[name] for name in whole}
    if last in schema.lists and isinstance(data[last], list):
        kept[last] = data[last][:-1]
    return kept


def _constructed(
    data: Any, schema: type[PartsT], text: str, *, cut_off: bool = False
) -> PartsT | None:
    if not isinstance(data, dict):
        return None
    problem = "The answer ended before it." if cut_off else "It is missing."
    values: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        if name not in data:
            values[name] = Invalid(problem, cut_off)
        elif name in schema.lists:
            values[name] = _elements(data[name], schema.lists[name])
        else:
            values[name] = _valid(data[name], field.annotation)
    found = [x for y in values.values() for x in (y if isinstance(y, list) else [y])]
    if all(isinstance(x, Invalid) for x in found):
        return None
    answer = schema.model_construct(**values)
    answer._cut_off, answer._text = cut_off, text  # noqa: SLF001 - see was_cut_off
    return answer


def _elements(data: Any, kind: Any) -> Any:
    return [_valid(x, kind) for x in data] if isinstance(data, list) else Invalid("It is no list.")


def _valid(data: Any, kind: Any) -> Any:
    try:
        return _adapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        return Invalid(problem_of(error))


@functools.lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


_MAX_OBJECTS = 50
_MAX_LENIENT_CHARS = 20_000
"""So much of an answer is read as JSON5, which takes 10 µs a character."""
_DECODER = json.JSONDecoder(strict=False)  # line breaks may stand in strings
_SEVERAL = "The answer holds several JSON objects that fit the schema and differ; give one."
_VALIDATED_HERE = re.compile(
    "title|default|examples|minimum|maximum|exclusiveM(in|ax)imum|multipleOf|m(in|ax)(Length|Items)|uniqueItems|pattern"
    "|format"
)


_OF_NAMES = frozenset({"properties", "$defs"})


class UnusableAnswerError(Exception):
    """The text holds no valid answer; the message says why, to the model that wrote it."""


def read(text: str, schema: type[AnswerT]) -> AnswerT:
    """The answer in `text`, which may have prose, a code fence or a model's thoughts around it.

    Types are taken strictly: neither "0.8" nor true is a number. JSON is not: what JSON5 allows
    (trailing commas, comments, single quotes), line breaks in strings, an object that stands in a
    JSON string or under one key of another object. An object that is cut off is none. Where none
    fits an answer of `Parts`, one with a valid part does, then one that breaks off. Raises
    UnusableAnswerError, also where several objects fit and differ: one of them is a quotation or a
    draft, and nothing says which.
    """
    answer = text.rpartition("</think>")[2]
    problem = "The answer holds no JSON object."
    found, valid = list(_objects(answer)), []
    for each in found:
        try:
            valid.append(_validated(each, schema))
        except ValidationError as error:
            problem = f"The JSON does not fit the schema: {problem_of(error)}"
    if valid:
        return _agreed(valid)
    if issubclass(schema, Parts) and (part := _in_part(answer, found, schema)) is not None:
        return part
    raise UnusableAnswerError(problem)


def _validated(found: str, schema: type[AnswerT]) -> AnswerT:
    """A JSON object, or the one that it wraps, as an answer. Raises ValidationError."""
    try:
        return schema.model_validate_json(found, strict=True)
    except ValidationError:
        inner = _unwrapped(found)
        if inner is None:
            raise
        return schema.model_validate_json(inner, strict=True)


def _in_part(answer: str, found: Sequence[str], schema: type[PartsT]) -> PartsT | None:
    """What is valid of these JSON objects, or of those that they wrap; else of one that the answer
    breaks off in.
    """
    valid: list[PartsT] = []
    for each in found:
        texts = (x for x in (each, _unwrapped(each)) if x is not None)
        parts = (_constructed(json.loads(x), schema, x) for x in texts)
        valid += [x for x in parts if x is not None][:1]
    return _agreed(valid) if valid else _cut_short(answer, schema)


def _agreed(valid: Sequence[AnswerT]) -> AnswerT:
    """What all of them say. Raises UnusableAnswerError where they differ."""
    last = valid[-1]
    if any(_differing(x.__dict__, last.__dict__) for x in valid):
        raise UnusableAnswerError(_SEVERAL)
    return last


def read_parts(
    text: str, schemas: Mapping[str, type[BaseModel]]
) -> dict[str, BaseModel | UnusableAnswerError]:
    """Of an answer that is not valid as a whole each part, by a schema of its own, or what is wrong
    with it.

    All are from one JSON object: the last one that has a valid part. A part that is valid in
    another one too, and differs, is not taken. Empty where none has a valid part.
    """
    found = [_each_part(x, schemas) for x in _objects(text.rpartition("</think>")[2])]
    valid = [x for x in found if any(isinstance(part, BaseModel) for part in x.values())]
    if not valid:
        return {}
    disputed = {name for x in valid for name in _differing(x, valid[-1])}
    return valid[-1] | {name: UnusableAnswerError(_SEVERAL) for name in disputed}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of what is valid in both and not the same."""
    unusable = (Invalid, UnusableAnswerError)
    names = [x for x in one if not isinstance(one[x], unusable)]
    return [x for x in names if not isinstance(other[x], unusable) and one[x] != other[x]]


def _each_part(
    found: str, schemas: Mapping[str, type[BaseModel]]
) -> dict[str, BaseModel | UnusableAnswerError]:
    parts: dict[str, BaseModel | UnusableAnswerError] = {}
    for name, schema in schemas.items():
        try:
            parts[name] = _validated(found, schema)
        except ValidationError as error:
            parts[name] = UnusableAnswerError(problem_of(error))
    return parts


@functools.lru_cache(maxsize=256)
def schema_of(answer: type[BaseModel]) -> Mapping[str, Any]:
    """The JSON schema of an answer, as it is told to a model in text.

    Do not change what is returned.
    """
    shown: Mapping[str, Any] = _untitled(answer.model_json_schema())
    return shown


def _untitled(schema: Any) -> Any:
    """`schema` without the titles, which repeat its keys."""
    if isinstance(schema, list):
        return [_untitled(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    shown = {key: x for key, x in schema.items() if key != "title" or not isinstance(x, str)}
    return {key: _untitled(x) for key, x in shown.items()}


def schema_text(schema: Mapping[str, Any]) -> str:
    """The request for JSON that stands at the end of a prompt for a model that cannot be held to a
    schema.
    """
    return (
        "Answer with one JSON object and nothing else. It must fit this JSON"
        f" schema:\n{dumps(schema)}"
    )


@functools.lru_cache(maxsize=256)
def response_format(answer: type[BaseModel]) -> Mapping[str, Any]:
    """`response_format` of an OpenAI-style request, in the subset that providers enforce strictly.

    There, every object names all its properties as required and allows no other; bounds and
    defaults are left to our own validation. A schema with free-form objects cannot be strict and is
    sent as a guide, without bounds too: some providers refuse those that they cannot enforce.
    """
    schema = schema_of(answer)
    strict = all(
        set(x) & {"properties", "$ref"} for x in _nested(schema) if x.get("type") == "object"
    )
    shown = _without_bounds(schema, is_closed=strict)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", answer.__name__)[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": shown, "strict": strict}}


def _objects(text: str) -> Iterator[str]:
    """The outermost JSON objects in `text`, as strict JSON: at most `_MAX_OBJECTS` of the first
    that look like one.
    """
    start, spare = 0, _MAX_LENIENT_CHARS
    for _ in range(_MAX_OBJECTS):
        start = text.find("{", start)
        if start < 0:
            return
        found = _strict(text, start) or _in_string(text, start)
        if found is None and spare > 0 and not _breaks_off(text, start):
            found, spare = _lenient(text, start, spare)
        if found is None:
            start += 1
        else:
            written, start = found
            yield written


_Found: TypeAlias = tuple[str, int] | None
"""An object in strict JSON, and where it ends in the text."""


def _strict(text: str, start: int) -> _Found:
    try:
        data, end = _DECODER.raw_decode(text, start)
        return json.dumps(data), end
    except (ValueError, RecursionError):
        return None


def _in_string(text: str, start: int) -> _Found:
    """The object that is all of the JSON string that begins before `start`."""
    if text[start - 1 : start] != '"':
        return None
    try:
        inner, end = _DECODER.raw_decode(text, start - 1)
        data = json.loads(inner, strict=False)
    except (ValueError, RecursionError):
        return None
    return (json.dumps(data), end) if isinstance(data, dict) else None


def _lenient(text: str, start: int, most: int) -> tuple[_Found, int]:
    """An object in JSON5, of at most so many characters, and how many are left."""
    import json5  # noqa: PLC0415 - few answers need it

    shown = text[: start + most]
    try:
        data, problem, end = json5.parse(shown, start=start, strict=False, consume_trailing=False)
        return None if problem else (json.dumps(data), end), most - max(end - start, 1)
    except (ValueError, RecursionError):
        return None, 0


def _breaks_off(text: str, start: int) -> bool:
    """Whether an object that begins as strict JSON lacks its end: no other form of JSON has it."""
    try:
        _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        return True
    return False


def _unwrapped(found: str) -> str | None:
    """The one member of a JSON object, where that is an object itself, or a string with one."""
    data = json.loads(found)
    if len(data) != 1:
        return None
    (only,) = data.values()
    if isinstance(only, str) and only.lstrip().startswith("{"):
        return next(_objects(only), None)
    return json.dumps(only) if isinstance(only, dict) else None


def _nested(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every schema within `schema`, itself included."""
    if isinstance(schema, Mapping):
        yield schema
        schema = list(schema.values())
    for child in schema if isinstance(schema, list) else ():
        yield from _nested(child)


def _without_bounds(schema: Any, *, is_closed: bool, is_schema: bool = True) -> Any:
    """`schema` without what is validated here; the keys of `properties` and `$defs` are names and
    stay.

    `is_closed`: as the strict subset has it, every object requires all its properties and allows no
    other.
    """
    if isinstance(schema, list):
        return [_without_bounds(x, is_closed=is_closed) for x in schema]
    if not isinstance(schema, Mapping):
        return schema
    if not is_schema:
        return {name: _without_bounds(x, is_closed=is_closed) for name, x in schema.items()}
    kept = {
        key: _without_bounds(x, is_closed=is_closed, is_schema=key not in _OF_NAMES)
        for key, x in schema.items()
        if not _VALIDATED_HERE.fullmatch(key)
    }
    if is_closed and "properties" in kept:
        kept |= {"required": list(kept["properties"]), "additionalProperties": False}
    return kept
