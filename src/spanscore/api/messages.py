"""Records and specs as messages, and messages as these: field by field, by their names.

A field of a message has the value of the attribute of its name. Beside that there are these forms:

- `x_json` is the attribute `x` as JSON, and `x_s` a duration `x` (ns) in seconds;
- a word such as "trace" is the value of an enum that ends so (`SCOPE_TRACE`);
- a message whose one field is a list is a list that may be missing.

What is None or missing is left out. Text can always be sent: lone surrogates become "?".
"""

import types
import typing
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_args, get_origin

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from spanscore.errors import FieldError
from spanscore.model.json import dumps, loads
from spanscore.otlp.codec import is_repeated
from spanscore.rpc import text_of

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

EncoderT = TypeVar("EncoderT", bound=Callable[[Any], Any])
MessageT = TypeVar("MessageT", bound=Message)
RecordT = TypeVar("RecordT")
SpecT = TypeVar("SpecT", bound="BaseModel")

_INT64_MAX: Final = 2**63 - 1
_UINT32_MAX: Final = 2**32 - 1
_DAY_S: Final = 86_400
_SECOND: Final = 10**9
_SECONDS, _JSON = "_s", "_json"


@cache
def words(enum: Any) -> Mapping[str, int]:
    """The values of an enum by their words, without the first, which says that there is none.

    >>> from spanscore.api.v1.score_pb2 import Scope
    >>> dict(words(Scope.DESCRIPTOR))
    {'trace': 1, 'session': 2}
    """
    first, *others = enum.values
    prefix = first.name.removesuffix("UNSPECIFIED")
    return {x.name.removeprefix(prefix).lower(): x.number for x in others}


@cache
def words_by_number(enum: Any) -> Mapping[int, Any]:
    """The words of an enum by their values."""
    return {number: word for word, number in words(enum).items()}


def word_of(enum: Any, number: int, field: str) -> str:
    """The word of an enum's value. Raises FieldError where there is no such value."""
    found: str | None = words_by_number(enum).get(number)
    if found is not None:
        return found
    names = ", ".join(x.name for x in enum.values[1:])
    raise FieldError(field, f"{number} is none of its values; there are {names}")


def encode(kind: type[MessageT], source: Any, **more: Any) -> MessageT:
    """A message with what `source` has, an object with attributes, and `more` fields beside."""
    message = kind()
    fill(message, source, more)
    steps = _steps(message.DESCRIPTOR)
    for name, value in more.items():
        if value is not None:
            steps[name].put(message, value)
    return message


def set_field(message: Message, name: str, value: Any) -> None:
    """Set one field; an `x_json` to a value of JSON."""
    _, of_attribute, put = _steps(message.DESCRIPTOR)[name]
    put(message, of_attribute(value) if of_attribute and name.endswith(_JSON) else value)


def fill(message: Message, source: Any, but: Container[str] = ()) -> None:
    """Set the fields of a message that `source` has, `but` these."""
    for name, (attribute, of_attribute, put) in _steps(message.DESCRIPTOR).items():
        if name in but:
            continue
        value = getattr(source, attribute, None)
        if value is not None:
            put(message, value if of_attribute is None else of_attribute(value))
        elif attribute != name and (value := getattr(source, name, None)) is not None:
            put(message, value)


class _Step(NamedTuple):
    """The attribute that a field is made of, what makes it of that, and what sets it."""

    attribute: str
    of_attribute: Callable[[Any], Any] | None
    put: Callable[[Any, Any], None]


@cache
def _steps(descriptor: Any) -> Mapping[str, _Step]:
    return {x.name: _Step(*_source(x), _setter(x)) for x in descriptor.fields}


def _source(field: Any) -> tuple[str, Callable[[Any], Any] | None]:
    if field.name.endswith(_JSON):
        of = _texts_of if is_repeated(field) else dumps
        return field.name.removesuffix(_JSON), of
    if field.type == FieldDescriptor.TYPE_DOUBLE and field.name.endswith(_SECONDS):
        return field.name.removesuffix(_SECONDS), _seconds_of
    return field.name, None


def _texts_of(values: Any) -> list[str]:
    return [dumps(x) for x in values]


def _seconds_of(duration_ns: int) -> float:
    return duration_ns / _SECOND


def _setter(field: Any) -> Callable[[Any, Any], None]:
    name, kind = field.name, field.message_type
    if kind is None and is_repeated(field):
        scalar = _scalar_of(field)
        return lambda message, values: getattr(message, name).extend(map(scalar, values))
    if kind is None:
        scalar = _scalar_of(field)
        return lambda message, value: setattr(message, name, scalar(value))
    if kind.GetOptions().map_entry:
        is_struct = kind.fields_by_name["value"].message_type is not None
        put_in: Callable[[Any, Any], None] = _put_structs if is_struct else _put_values
    elif is_repeated(field):
        put_in = _put_all
    else:
        put_in = _put_one
    return lambda message, value: put_in(getattr(message, name), value)


def _put_structs(target: Any, values: Mapping[str, Mapping[str, Any]]) -> None:
    for key, value in values.items():
        target[key].update(value)


def _put_values(target: Any, values: Mapping[str, Any]) -> None:
    target.update(values)


def _put_all(target: Any, values: Iterable[Any]) -> None:
    for value in values:
        _put_one(target.add(), value)


def _put_one(target: Any, value: Any) -> None:
    encoder = _ENCODERS.get(type(value))
    made = value if encoder is None else encoder(value)
    if isinstance(made, Message):
        target.CopyFrom(made)
        return
    target.SetInParent()
    if isinstance(made, tuple) and not hasattr(made, "_fields"):
        first, *others = target.DESCRIPTOR.fields
        if not others:
            _put_all(getattr(target, first.name), made)
        for field, one in zip([first, *others], made, strict=False) if others else ():
            setattr(target, field.name, one)
    else:
        fill(target, made)


_ENCODERS: Final[dict[type, Callable[[Any], Any]]] = {}


def encoder(kind: type) -> Callable[[EncoderT], EncoderT]:
    """Have records of a `kind` that are in others be made messages by the decorated function."""

    def declared(function: EncoderT) -> EncoderT:
        _ENCODERS[kind] = function
        return function

    return declared


def _scalar_of(field: Any) -> Callable[[Any], Any]:
    """What gives of a value what a field can hold; None: nothing."""
    if field.enum_type is not None:
        numbers = words(field.enum_type)
        return lambda word: numbers.get(word.lower(), 0) if isinstance(word, str) else word
    if field.type == FieldDescriptor.TYPE_STRING:
        return text_of
    if field.type == FieldDescriptor.TYPE_INT64:
        return lambda number: max(-_INT64_MAX, min(number, _INT64_MAX))
    if field.type == FieldDescriptor.TYPE_UINT32:
        return lambda number: number if number <= _UINT32_MAX else None
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def decode(kind: type[RecordT], message: Message, **more: Any) -> RecordT:
    """The record that a message was made of, with `more` fields beside; `kind` is a dataclass.

    Raises ValueError where an `x_json` is no JSON.
    """
    hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    given: dict[str, Any] = more
    for field in message.DESCRIPTOR.fields:
        attribute, _ = _source(field)
        name = attribute if attribute in hints else field.name
        if name in hints and name not in more:
            given[name] = _decoded(message, field, hints[name], name != field.name)
    return kind(**{name: x for name, x in given.items() if x is not _MISSING})


_MISSING: Final = object()


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields that a record is made of."""
    return {x.name: x.type for x in kind.__dataclass_fields__.values() if x.init}


def _beside_none(hint: Any) -> Any:
    if get_origin(hint) in {types.UnionType, typing.Union}:
        return next(x for x in get_args(hint) if x is not type(None))
    return hint


def _decoded(message: Message, field: Any, hint: Any, is_json: bool) -> Any:
    value = getattr(message, field.name)
    if is_repeated(field):
        kind = next(iter(get_args(_beside_none(hint))), None)
        return tuple(_one(x, field, kind, is_json) for x in value)
    if field.has_presence and not message.HasField(field.name):
        return None if field.message_type is None or _is_optional(field) else _MISSING
    return _one(value, field, hint, is_json)


def _is_optional(field: Any) -> bool:
    return field.containing_oneof is not None


def _one(value: Any, field: Any, hint: Any, is_json: bool) -> Any:
    if is_json:
        return loads(value)
    if field.enum_type is not None:
        word = words_by_number(field.enum_type).get(value)
        unknown = None if type(None) in get_args(hint) else _MISSING
        return next((x for x in get_args(_beside_none(hint)) if x.lower() == word), unknown)
    if field.message_type is None:
        return value
    [inner, *others] = field.message_type.fields
    if not others and is_repeated(inner):
        return _decoded(value, inner, hint, is_json=False)
    return decode(_beside_none(hint), value)


def read(kind: type[SpecT], message: Message, path: str) -> SpecT:
    """The spec that a message asks for; what is not set, or has its default, is as the spec has it.

    Raises FieldError with the path of what is wrong in the request, where the message is at `path`.
    """
    from spanscore.model.options import read_spec  # noqa: PLC0415 - pydantic, which a client needs not

    wrong: list[FieldError] = []
    given = _given(kind, message, path, wrong)
    try:
        found = read_spec(kind, given)
    except FieldError as error:
        named = _in_message(error, message.DESCRIPTOR).within(path)
        wrong += [named, *named.others]
    if wrong:
        first, *others = wrong
        raise FieldError(first.field, first.problem, others)
    return found


def _in_message(error: FieldError, descriptor: Any) -> FieldError:
    others = [_in_message(x, descriptor) for x in error.others]
    return FieldError(_path(error.field, descriptor), error.problem, others)


def _path(field: str, descriptor: Any) -> str:
    """The path of a spec's field in the message."""
    name, dot, rest = field.partition(".")
    fields = {} if descriptor is None else descriptor.fields_by_name
    if name not in fields and f"{name}{_SECONDS}" in fields:
        name += _SECONDS
    inner = fields[name].message_type if name in fields else None
    return f"{name}{dot}{_path(rest, inner)}" if dot else name


def _given(kind: Any, message: Message, path: str, wrong: list[FieldError]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        is_duration = field.name not in kind.model_fields
        name = field.name.removesuffix(_SECONDS) if is_duration else field.name
        of = kind.model_fields.get(name)
        if of is None:
            continue  # what the server sets
        where = f"{path}.{field.name}"
        try:
            found[name] = (
                _duration(value, of, where)
                if is_duration
                else _plain(value, field, of, where, wrong)
            )
        except FieldError as error:
            wrong.append(error)
    return found


def _plain(value: Any, field: Any, of: "FieldInfo", where: str, wrong: list[FieldError]) -> Any:
    if field.enum_type is not None:
        return word_of(field.enum_type, value, where)
    if field.message_type is None:
        return list(value) if is_repeated(field) else value
    if field.message_type.GetOptions().map_entry:
        return {key: _object(x) if isinstance(x, Message) else x for key, x in value.items()}
    return _given(_beside_none(of.annotation), value, where, wrong)


def _duration(seconds: float, of: "FieldInfo", where: str) -> str:
    """Seconds as a configuration writes them. Raises FieldError."""
    bounds = {type(x).__name__: x for x in of.metadata}
    least_s = bounds["Ge"].ge / _SECOND
    most_s = bounds["Le"].le / _SECOND
    if not least_s <= seconds <= most_s:
        most = f"{most_s:.15g} ({most_s / _DAY_S:g} d)"
        raise FieldError(where, f"{seconds:g} is no number of seconds from {least_s:g} to {most}")
    return f"{round(seconds * _SECOND)}ns"


def _object(options: Message) -> dict[str, Any]:
    """A Struct as plain values; numbers without a fraction are integers."""
    found: dict[str, Any] = MessageToDict(options)
    return {
        name: int(x) if isinstance(x, float) and x.is_integer() else x for name, x in found.items()
    }
