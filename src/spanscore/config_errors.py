"""What is wrong with a file of settings, in words: the key in the file, and what to write there."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from spanscore.evaluation.rules import NAME_PATTERN

_SHOWN_CHARS = 40


def explain(
    problem: Mapping[str, Any], root: type[BaseModel], whole: str = "the configuration"
) -> str:
    """One of pydantic's errors about a file that `root` describes, by its key, with the nearest
    right one.

    `whole` is what the file is called where the error is about none of its keys.
    """
    parts, known = _walk(problem["loc"], root)
    key = ".".join(parts) or whole
    if problem["type"] not in {"extra_forbidden", "unexpected_keyword_argument"} or not known:
        return f"{key}: {_in_words(problem)}"
    near = difflib.get_close_matches(parts[-1], known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
    return f"{key}: unknown key; {hint}"


_PATTERNS = {
    "^https?://.": "write a URL that begins with http:// or https://",
    "^/[^?#]*$": "write a path, such as /healthz, without ? and #",
    NAME_PATTERN: (
        "write a name of letters, digits, dots, dashes and underscores, such as failed-turns"
    ),
    "^[a-z][a-z0-9_]{0,63}$": "write a name in snake_case, such as brand_voice",
}


def _in_words(problem: Mapping[str, Any]) -> str:
    """What pydantic says is wrong, where it says it in words for programmers: what is allowed
    instead.
    """
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "string_pattern_mismatch":
        return f"{problem['input']!r}: {_PATTERNS.get(problem['ctx']['pattern'], message)}"
    if problem["type"] == "string_too_short":
        return "must not be empty; is its environment variable set?"
    return {
        "missing": "is missing",
        "model_type": "holds keys of its own, each on a line under it",
        "float_parsing": f"{_shown(problem)} is no number; write one such as 0.8, without quotes",
        "float_type": f"{_shown(problem)} is no number; write one such as 0.8, without quotes",
        "int_type": f"{_shown(problem)} is no whole number; write one such as 3, without quotes",
        "finite_number": f"{_shown(problem)} is no number that can be used; write one such as 0.8",
        "bool_type": (
            f"{_shown(problem)} is neither true nor false; write one of the two, without quotes"
        ),
        "tuple_type": "is a list, each item on a line under it that begins with `- `",
    }.get(problem["type"], message)


def _shown(problem: Mapping[str, Any]) -> str:
    """What is there as YAML has it, text in quotes; of what is long the beginning."""
    value = problem["input"]
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _walk(
    location: Sequence[str | int], root: type[BaseModel]
) -> tuple[list[str], Mapping[str, Any]]:
    """The keys of pydantic's `location` as the file has them, and those that may stand beside the
    last, with types.
    """
    kind: Any = root
    known: Mapping[str, Any] = {}
    keys: list[str] = []
    for part in location:
        kind = _bare(kind)
        if get_origin(kind) in {Union, UnionType}:  # here pydantic names the member, not a key
            kind = next((x for x in get_args(kind) if _default(x, "type") == part), None)
            continue
        keys.append(str(part))
        if of_kind := _keys_of(kind):
            known, kind = of_kind, of_kind.get(str(part))
        else:
            # what a mapping or a list holds
            kind = next((x for x in reversed(get_args(kind)) if x is not ...), None)
    return keys, known


def _keys_of(kind: Any) -> Mapping[str, Any]:
    """The keys of a model or dataclass, with their types; none for any other kind of value."""
    if dataclasses.is_dataclass(kind):
        return {x.name: x.type for x in dataclasses.fields(kind) if x.init}
    return {x.alias or name: x.annotation for name, x in getattr(kind, "model_fields", {}).items()}


def _bare(kind: Any) -> Any:
    """An annotation without the metadata beside it, and without `| None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    members = [x for x in get_args(kind) if x is not type(None)]
    is_union = get_origin(kind) in {Union, UnionType}
    return _bare(members[0]) if is_union and len(members) == 1 else kind


def _default(kind: Any, field: str) -> Any:
    fields = getattr(kind, "model_fields", {})
    return fields[field].default if field in fields else None
