"""Answers of several parts: what is valid in one is taken, whatever the rest is, even if the answer
was cut off.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr, TypeAdapter, ValidationError, create_model
from pydantic_core import from_json

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


def parts_of(fields: Mapping[str, Any], lists: Mapping[str, Any]) -> type[Parts]:
    """The schema of an answer with a part for each of `fields`, and for each of `lists` a list of
    such elements.
    """
    shown: dict[str, Any] = {name: (kind, ...) for name, kind in fields.items()}
    shown |= {name: (list[kind], ...) for name, kind in lists.items()}  # type: ignore[valid-type] # made here
    made = create_model("Answers", __base__=Parts, **shown)
    made.lists = dict(lists)
    return made


def was_cut_off(answer: Parts) -> bool:
    """Whether `answer` ended before all of its parts did."""
    return answer._cut_off  # noqa: SLF001 - a public name could be that of a part


def kept_text(answer: BaseModel) -> str:
    """The JSON by which `answer` can be read again."""
    written = answer._text if isinstance(answer, Parts) else ""  # noqa: SLF001 - likewise
    return written or answer.model_dump_json(by_alias=True)


def in_part(found: str, schema: type[PartsT]) -> PartsT | None:
    """What is valid of the JSON object `found`; None where nothing is."""
    return _constructed(json.loads(found), schema, found)


def cut_short(text: str, schema: type[PartsT]) -> PartsT | None:
    """What is valid of a JSON object that `text` breaks off in; None where nothing is.

    The last part, or the last element of its list, may have lost its end, and is not taken.
    """
    start = -1
    for _ in range(_MAX_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            break
        data = _begun(text[start:])
        if not data.keys().isdisjoint(schema.model_fields):
            return _constructed(_without_end(data), schema, text[start:], cut_off=True)
    return None


def problem_of(error: ValidationError) -> str:
    """What is wrong with an answer, to the model that gave it."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    found = [
        f"{'.'.join(map(str, x['loc'])) or 'the object'}: {x['msg']}"
        for x in problems[:_MAX_PROBLEMS]
    ]
    return "; ".join(found)[:_MAX_PROBLEM_CHARACTERS]


def _begun(text: str) -> dict[str, Any]:
    try:
        data = from_json(text, allow_partial=True)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _without_end(data: Mapping[str, Any]) -> dict[str, Any]:
    *whole, last = data
    kept = {name: data[name] for name in whole}
    if isinstance(data[last], list):
        kept[last] = data[last][:-1]
    return kept


def _constructed(
    data: Any, schema: type[PartsT], text: str, *, cut_off: bool = False
) -> PartsT | None:
    if not isinstance(data, dict):
        return None
    missing = (
        Invalid("The answer ended before it.", cut_off=True)
        if cut_off
        else Invalid("It is missing.")
    )
    values: dict[str, Any] = {}
    for name, field in schema.model_fields.items():
        if name not in data:
            values[name] = missing
        elif name in schema.lists:
            values[name] = _elements(data[name], schema.lists[name])
        else:
            values[name] = _valid(data[name], field.annotation)
    if not any(_holds_anything(x) for x in values.values()):
        return None
    answer = schema.model_construct(**values)
    answer._cut_off, answer._text = cut_off, text  # noqa: SLF001 - see was_cut_off
    return answer


def _holds_anything(value: Any) -> bool:
    return any(not isinstance(x, Invalid) for x in (value if isinstance(value, list) else [value]))


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
