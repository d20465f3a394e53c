"""Traces and evaluations as JSON text."""

import base64
import dataclasses
import json
import logging
import operator
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import orjson

from spanscore.filters import And, Comparison, Node, Or
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

_log = logging.getLogger(__name__)

ItemT = TypeVar("ItemT")

_BYTES_KEY = "$bytes"
_NO_JUDGE = '"cause":"no_judge"'
_MAX_DEPTH = 128
_OWN = ("metric", "outcome", "threshold", "scale", "evaluator")
"""What differs between the scores of one subject, and is always printed."""

_COMMON = ("scope", "subject_id", "target", "session_id", "evaluated_at_ns")
"""What these have in common, and is always printed."""

_DEFAULTS_BY_NAME = {
    x.name: x.default for x in dataclasses.fields(Evaluation) if x.name not in {*_OWN, *_COMMON}
}
_OWN_OPTIONS = ("usage", "supersedes", "label_before", "rank", "tally")
_COMMON_OPTIONS = tuple(x for x in _DEFAULTS_BY_NAME if x not in _OWN_OPTIONS)
_own_options_of = operator.attrgetter(*_OWN_OPTIONS)
_NO_OWN_OPTIONS = tuple(_DEFAULTS_BY_NAME[x] for x in _OWN_OPTIONS)
_common_of = operator.attrgetter(*_COMMON, *_COMMON_OPTIONS)
_FIRST_OWN = f'"{_OWN[0]}":'
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
        return _printed(item)
    except TypeError:
        return _encode_slowly(item)


def encode_evaluations(items: Iterable[Evaluation]) -> list[str]:
    """As `encode`, each sealed; what neighbours have in common, as those of one trace, is printed
    once, and comes first.
    """
    target: Target | None = None
    common: tuple[Any, ...] = ()
    head, of_head = "", 0
    known: dict[tuple[Any, ...], tuple[str, str, Evaluator]] = {}
    found = []
    for item in items:
        try:
            now = _common_of(item)
            # equal targets may be printed otherwise: 1 and True are equal
            if target is not item.target or common != now:
                head, common, target = _head(now), now, item.target
                of_head = zlib.adler32(head.encode())
            outcome, by = item.outcome, item.evaluator
            made = item.metric, item.threshold, item.scale, id(by)
            start, end, _ = known.get(made) or known.setdefault(made, (*_around_outcome(item), by))
            printed = _printed_skip(outcome) if isinstance(outcome, Skip) else _printed(outcome)
            options = _own_options_of(item)
            if options != _NO_OWN_OPTIONS:
                end = f"{end[:-1]},{_printed(_given(_OWN_OPTIONS, options))[1:]}"
            own = f"{start}{printed}{end}"
            text = f"{head}{own}{zlib.adler32(own.encode(), of_head)}"
        except TypeError:
            text = seal(_encode_slowly(item))
        found.append(text)
    return found


def seal(text: str) -> str:
    """A record with its checksum behind it: Adler-32, in half the time of CRC-32."""
    return f"{text}{zlib.adler32(text.encode('utf-8', 'surrogatepass'))}"


def is_whole(record: object) -> bool:
    """Whether a record is the one that was written, by its checksum; damage may make it NULL or
    bytes.
    """
    if not isinstance(record, str):
        return False
    return record in ((found := record[: record.rfind("}") + 1]), seal(found))


def _unsealed(text: str) -> str:
    """A record without its checksum. Raises ValueError where that is of another text."""
    if not is_whole(text):
        raise ValueError("its checksum differs")
    return text[: text.rfind("}") + 1]


def _head(common: Sequence[Any]) -> str:
    """The beginning of a record: what the scores of a subject have in common."""
    always = dict(zip(_COMMON, common, strict=False))
    options = _given(_COMMON_OPTIONS, common[len(_COMMON) :])
    return f"{_printed(always | options)[:-1]},"


def _around_outcome(item: Evaluation) -> tuple[str, str]:
    """What a record has before and after the outcome, of what is a score's own."""
    by = ((name, getattr(item.evaluator, name)) for name in Evaluator.__dataclass_fields__)
    evaluator = {name: x for name, x in by if x is not None or name == "kind"}
    after = {"threshold": item.threshold, "scale": item.scale, "evaluator": evaluator}
    return f'{_FIRST_OWN}{_printed(item.metric)},"outcome":', f",{_printed(after)[1:]}"


def _given(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Those of these fields that do not have their default."""
    return {
        name: value
        for name, value in zip(names, values, strict=True)
        if value is not (default := _DEFAULTS_BY_NAME[name]) and value != default
    }


def _printed(item: Any) -> str:
    return orjson.dumps(item, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()


_printed_skip = lru_cache(maxsize=512)(_printed)
"""Where there is no judge, the same few for every trace."""


def _encode_slowly(item: AgentTrace | Evaluation) -> str:
    """What orjson refuses but JSON does not: integers beyond 64 bits, lone surrogates, deep
    nesting.
    """
    return json.dumps(_fields(item, 0), default=_plain, separators=(",", ":"))


def size_bytes(text: str) -> int:
    """Bytes of a record as UTF-8, as databases keep it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def decode_trace(text: str) -> AgentTrace:
    """The trace that `encode` printed."""
    data = loads(_unsealed(text))
    return AgentTrace.from_json({**data, "target": _target_fields(data["target"])})


def decode_evaluations(texts: Iterable[str]) -> list[Evaluation]:
    """The evaluations that `encode` printed; neighbours of one trace share their target, as when
    they were made.
    """
    head, common = "", dict[str, Any]()
    found = []
    for text in map(_unsealed, texts):
        if not head or not text.startswith(head):
            head, common = _beginning(text)
        rest = text[len(head) :]
        # where there is no judge, the same few for every trace
        own = _known_rest(rest) if _NO_JUDGE in rest else _rest(rest)
        found.append(Evaluation(**common, **own))
    return found


def _beginning(text: str) -> tuple[str, dict[str, Any]]:
    """The part of a record before its metric, with what it contains; "" where it is not found
    there.
    """
    place = text.find(_FIRST_OWN)
    try:
        fields = loads(text[: place - 1] + "}")
    except ValueError:  # a resource has an attribute of that name
        return "", {}
    return text[:place], _fields_of(fields)


def _rest(text: str) -> dict[str, Any]:
    """What a record, or the part of it after its beginning, contains."""
    fields = loads(text if text.startswith("{") else "{" + text)
    return _fields_of(fields)


_known_rest = lru_cache(maxsize=512)(_rest)


def _fields_of(data: dict[str, Any]) -> dict[str, Any]:
    """These fields of an evaluation, in place of JSON's values."""
    if "outcome" in data:
        by = data["evaluator"] = Evaluator(**data["evaluator"])
        data["outcome"] = _outcome(data["outcome"], is_external=by.source is not None)
        data["scale"] = None if data["scale"] is None else tuple(data["scale"])
    if "target" in data:
        data["target"] = Target(**_target_fields(data["target"]))
    if "usage" in data:
        data["usage"] = JudgeUsage(**data["usage"])
    if data.get("trial") is not None:
        data["trial"] = Trial(**data["trial"])
    if data.get("tally") is not None:
        data["tally"] = _tally(data["tally"])
    return data


def decode_evaluation(text: str) -> Evaluation:
    """The evaluation that `encode` printed."""
    return decode_evaluations([text])[0]


def undamaged(decode: Callable[[str], ItemT], text: str) -> list[ItemT]:
    """What a record contains; nothing where it is damaged, which is logged once for each."""
    try:
        return [decode(text)]
    except DAMAGED:
        damaged.note(text)
        return []


def made_of(what: str, make: Callable[..., ItemT], fields: Any) -> list[ItemT]:
    """What `make` gives of a row's fields, of which `or_text` reads those of JSON columns; nothing
    where they are damaged, which is logged once for each as a damaged `what`.
    """
    try:
        return [make(**fields)]
    except DAMAGED:
        damaged.note(str(fields), what)
        return []


def or_text(text: str) -> Any:
    """What JSON contains; the text itself where it is damaged."""
    try:
        return loads(text)
    except ValueError:
        return text


def undamaged_evaluations(texts: Sequence[str]) -> list[list[Evaluation]]:
    """What each of these records of evaluations contains; nothing for those that are damaged."""
    try:
        return [[x] for x in decode_evaluations(texts)]
    except DAMAGED:
        return [undamaged(decode_evaluation, text) for text in texts]


_IDS: Final = re.compile(r'"(trace_id|session_id|metric)s?":\[?"([\w.:-]{1,128})"')
_MAX_DAMAGED: Final = 10_000


class Damaged:
    """The damaged records that this process has met, up to 10,000 of them."""

    def __init__(self) -> None:
        self._met: set[int] = set()

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self._met)

    def note(self, text: str, name: str | None = None) -> None:
        """Log a record, by its `name_of` where it has no other name, unless it was met before."""
        found = hash(text)
        if found not in self._met and len(self._met) < _MAX_DAMAGED:
            self._met.add(found)
            _log.error(
                "the store has a damaged record, which is left out: %s", name or name_of(text)
            )


damaged: Final = Damaged()


def name_of(record: object) -> str:
    """What a damaged record is about, as far as its ids can be read.

    >>> name_of('{"scope":"trace","target":{"trace_id":"0a"},"session_id":"7","metric":"plan"')
    'score (trace_id 0a, session_id 7, metric plan)'
    """
    text = record if isinstance(record, str) else ""
    ids = dict(reversed(_IDS.findall(text)))
    is_trace = '"trace_ids":' in text
    names = ("trace_id", "session_id") if is_trace else ("trace_id", "session_id", "metric")
    shown = ", ".join(f"{x} {ids[x]}" for x in names if x in ids)
    return f"{'agent trace' if is_trace else 'score'} ({shown or 'its ids cannot be read'})"


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


_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')
"""Characters for which JSON has another form."""


def test_of(node: Node | None, fields: Collection[str]) -> Callable[[str], bool] | None:
    """Whether a record may meet a checked filter: False only where it cannot.

    None: its text shows nothing.

    `fields` are texts that a record contains as they are.
    """
    found = [] if node is None else _needed(node, fields)
    if not found:
        return None

    def may_meet(record: str) -> bool:
        folded = record.casefold()
        # what is escaped is not looked for
        return "\\u" in record or all(any(text in folded for text in some) for some in found)

    return may_meet


def _needed(node: Node, fields: Collection[str]) -> list[tuple[str, ...]]:
    """Texts in folded case: of each group a record that meets a filter contains one."""
    match node:
        case Comparison():
            text = _plain_part(node) if node.field in fields else ""
            return [(text,)] if text else []
        case And(parts):
            return [some for part in parts for some in _needed(part, fields)]
        case Or(parts):
            every = [_needed(part, fields) for part in parts]
            return [tuple(text for groups in every for text in groups[0])] if all(every) else []
    return []


def _plain_part(comparison: Comparison) -> str:
    """The longest part of what is looked for which JSON writes as it is; "" where there is none."""
    value = comparison.value
    if comparison.operator not in (":", "=") or (comparison.operator == ":" and value == "*"):
        return ""
    parts = _ESCAPED.split(value if comparison.operator == ":" else value.strip("*"))
    return max(parts, key=len).casefold()
