"""Traces and evaluations to the JSON text that the store keeps of them, and back."""

import base64
import dataclasses
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, TypeVar

import orjson

from spanscore.model.json import loads
from spanscore.model.score import (
    Annotation,
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Outcome,
    Result,
    Score,
    Skip,
    Tally,
)
from spanscore.model.trace import AgentTrace, Target, Trial

ItemT = TypeVar("ItemT")

_BYTES_KEY = "$bytes"
_MAX_DEPTH = 128
_PARSED_TOGETHER = 64
"""Records that one call of the parser reads: the checks of what it gives cost less for all than for
each.
"""

_ALWAYS = {
    "scope",
    "subject_id",
    "metric",
    "outcome",
    "threshold",
    "scale",
    "evaluator",
    "target",
    "session_id",
}
_ALWAYS |= {"evaluated_at_ns"}
_DEFAULTS_BY_NAME = {
    x.name: x.default for x in dataclasses.fields(Evaluation) if x.name not in _ALWAYS
}
_OPTIONAL, _DEFAULTS = tuple(_DEFAULTS_BY_NAME), tuple(_DEFAULTS_BY_NAME.values())
_options_of = operator.attrgetter(*_OPTIONAL)
DAMAGED = (ValueError, LookupError, TypeError, AttributeError)
"""What reading a damaged record raises."""


def encode(item: AgentTrace | Evaluation) -> str:
    """The JSON text of `item`, field by field; of an evaluation without most fields that have their
    default.

    Reading it back gives an equal object, except that a metric's metadata comes back as JSON has
    it: tuples as lists, what JSON has no form for as text, and what lies deeper than 128 levels,
    where anything does, as None.
    """
    if isinstance(item, Evaluation):
        return encode_evaluations([item])[0]
    try:
        return orjson.dumps(item, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        return _encode_slowly(item)


def encode_evaluations(items: Iterable[Evaluation]) -> list[str]:
    """As `encode`; what neighbours have in common, as those of one trace their target, is printed
    once.
    """
    target: Target | None = None
    printed = orjson.Fragment("")
    found = []
    for item in items:
        try:
            if target is not item.target:
                printed, target = _fragment(item.target), item.target
            options = zip(_OPTIONAL, _options_of(item), _DEFAULTS, strict=True)
            fields = {
                "scope": item.scope,
                "subject_id": item.subject_id,
                "metric": item.metric,
                "outcome": item.outcome,
                "threshold": item.threshold,
                "scale": item.scale,
                "evaluator": _evaluator(item.evaluator),
                "target": printed,
                "session_id": item.session_id,
                "evaluated_at_ns": item.evaluated_at_ns,
                **{
                    name: value
                    for name, value, default in options
                    if value is not default and value != default
                },
            }
            text = orjson.dumps(fields, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:
            text = _encode_slowly(item)
        found.append(text)
    return found


def _encode_slowly(item: AgentTrace | Evaluation) -> str:
    """What orjson refuses but JSON does not: integers beyond 64 bits, lone surrogates, deep
    nesting.
    """
    return json.dumps(_fields(item, 0), default=_plain, separators=(",", ":"))


def _fragment(item: Target | Mapping[str, Any]) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(item, default=_plain, option=orjson.OPT_NON_STR_KEYS))


@lru_cache(maxsize=256)  # the same few for every trace
def _evaluator(evaluator: Evaluator) -> orjson.Fragment:
    named = ((name, getattr(evaluator, name)) for name in Evaluator.__dataclass_fields__)
    return _fragment({name: value for name, value in named if value is not None or name == "kind"})


def size_bytes(text: str) -> int:
    """Bytes of a record as UTF-8, as databases keep it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def decode_trace(text: str) -> AgentTrace:
    """The trace that `encode` printed."""
    data = loads(text)
    return AgentTrace.from_json({**data, "target": _target_fields(data["target"])})


def decode_evaluations(texts: Iterable[str]) -> list[Evaluation]:
    """The evaluations that `encode` printed; neighbours of one trace share their target, as when
    they were made.
    """
    targets = _Shared(lambda fields: Target(**_target_fields(fields)))
    evaluators = _Shared(lambda fields: Evaluator(**fields))
    usages = _Shared(lambda fields: JudgeUsage(**fields))
    found = []
    for data in _parsed(texts):
        data["evaluator"] = evaluators.of(data["evaluator"])
        data["outcome"] = _outcome(
            data["outcome"], is_external=data["evaluator"].source is not None
        )
        data["scale"] = None if data["scale"] is None else tuple(data["scale"])
        data["target"] = targets.of(data["target"])
        if "usage" in data:
            data["usage"] = usages.of(data["usage"])
        if data.get("trial") is not None:
            data["trial"] = Trial(**data["trial"])
        if data.get("tally") is not None:
            data["tally"] = _tally(data["tally"])
        found.append(Evaluation(**data))
    return found


def _parsed(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What JSON objects contain, one after the other.

    Raises ValueError where any of them is damaged.
    """
    waiting = iter(texts)
    while some := list(islice(waiting, _PARSED_TOGETHER)):
        parsed = loads(f"[{','.join(some)}]")
        if len(parsed) != len(some):
            raise ValueError("a record is more than one JSON value")
        yield from parsed


def decode_evaluation(text: str) -> Evaluation:
    """The evaluation that `encode` printed."""
    return decode_evaluations([text])[0]


def undamaged(decode: Callable[[str], ItemT], text: str) -> list[ItemT]:
    """What a record contains; nothing where it is damaged."""
    try:
        return [decode(text)]
    except DAMAGED:
        return []


def undamaged_evaluations(texts: Sequence[str]) -> list[list[Evaluation]]:
    """What each of these records of evaluations contains; nothing for those that are damaged."""
    try:
        return [[x] for x in decode_evaluations(texts)]
    except DAMAGED:
        return [undamaged(decode_evaluation, text) for text in texts]


class _Shared(Generic[ItemT]):
    """Builds an item from its fields, or gives the last one again where they are the same: a third
    of the time.
    """

    def __init__(self, build: Callable[[dict[str, Any]], ItemT]) -> None:
        self._build = build
        self._last: tuple[dict[str, Any], ItemT] | None = None

    def of(self, fields: dict[str, Any]) -> ItemT:
        if self._last is None or self._last[0] != fields:
            self._last = fields, self._build(fields)
        return self._last[1]


def _outcome(data: dict[str, Any], *, is_external: bool) -> Outcome | Annotation:
    if "value" in data:
        return Annotation(**data) if is_external else Score(**data)
    return Failure(**data) if "type" in data else Skip(**data)


def _tally(data: dict[str, Any]) -> Tally:
    return Tally(**{**data, "results": tuple(Result(**x) for x in data["results"])})


def _target_fields(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "resource": {key: _value(item) for key, item in data["resource"].items()}}


def _value(item: Any) -> Any:
    """A resource attribute's value: what scores leave under must equal, byte for byte, what the
    trace came under.
    """
    if isinstance(item, dict):
        if item.keys() == {_BYTES_KEY}:
            return base64.b64decode(item[_BYTES_KEY])
        return {key: _value(x) for key, x in item.items()}
    return [_value(x) for x in item] if isinstance(item, list) else item


def _fields(item: Any, depth: int) -> Any:
    """Slotted dataclasses as dicts, as orjson prints them; what lies below `_MAX_DEPTH` is None."""
    if depth > _MAX_DEPTH:
        return None
    if dataclasses.is_dataclass(item):
        return {
            field.name: _fields(getattr(item, field.name), depth + 1)
            for field in dataclasses.fields(item)
        }
    if isinstance(item, Mapping):
        return {str(key): _fields(x, depth + 1) for key, x in item.items()}
    return [_fields(x, depth + 1) for x in item] if isinstance(item, list | tuple) else item


def _plain(item: Any) -> Any:
    if isinstance(item, bytes):
        return {_BYTES_KEY: base64.b64encode(item).decode()}
    if isinstance(item, Mapping):
        return dict(item)
    return sorted(item, key=str) if isinstance(item, set | frozenset) else str(item)
