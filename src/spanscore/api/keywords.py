"""Requests made from keywords, and lists read page by page, for both clients."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import quote

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from spanscore.api.messages import set_field, words
from spanscore.errors import nearest

MessageT = TypeVar("MessageT", bound=Message)
RequestT = TypeVar("RequestT")

PLACES: Final[dict[str, Mapping[str, str]]] = {}
"""By message the path of the field that each keyword is for."""

_USUAL: Final = {"CreateScoreRequest": {"score.evaluator.source": "human"}}
"""By request the fields that have a value where none is given."""


def request(
    kind: type[MessageT], fields: Mapping[str, Any], given: Mapping[str, Any] = MappingProxyType({})
) -> MessageT:
    """A request with `fields`, by keywords of its own, and with what is `given` by paths; what is
    None is left out, of a change it is cleared.

    Raises TypeError for a keyword that there is not, ValueError for a value that it cannot have.
    """
    message = kind()
    for path, value in {**_USUAL.get(message.DESCRIPTOR.name, {}), **given}.items():
        _set(message, path, value)
    paths = _put(message, fields)
    if (mask := message.DESCRIPTOR.fields_by_name.get("update_mask")) is not None:
        resource = next(x.name for x in message.DESCRIPTOR.fields if x.name != mask.name)
        changed = (x.removeprefix(f"{resource}.") for x in paths if x.startswith(f"{resource}."))
        getattr(message, mask.name).paths.extend(sorted(x for x in changed if x != "etag"))
    return message


def _put(message: Message, fields: Mapping[str, Any], before: str = "") -> list[str]:
    """Set the fields of a message. Returns their paths."""
    name = message.DESCRIPTOR.name
    known = PLACES.get(name, {x.name: x.name for x in message.DESCRIPTOR.fields})
    paths: list[str] = []
    for keyword, value in fields.items():
        if keyword not in known:
            what = name.removesuffix("Request")
            raise TypeError(f"{what} has no {keyword!r}; {nearest(keyword, sorted(known))}")
        path = known[keyword]
        if isinstance(value, Mapping) and (inner := _message_at(message, path)) is not None:
            paths += _put(inner, value, f"{before}{path}.")
            continue
        if value is not None:
            _set(message, path, value)
        paths.append(f"{before}{path}")
    return paths


def _message_at(message: Any, path: str) -> Any:
    """The message at a path, made where it is not there; None where there are other values."""
    for name in path.split("."):
        field = message.DESCRIPTOR.fields_by_name[name]
        kind = field.message_type
        if kind is None or kind.GetOptions().map_entry or kind.full_name.startswith("google."):
            return None
        message = getattr(message, name)
        if not isinstance(message, Message):
            return None
        message.SetInParent()
    return message


def _set(message: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        message = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name[last]
    if field.enum_type is not None:
        for one in [value] if isinstance(value, str) else value:
            _require_word(last, one, field.enum_type)
    elif last == "run" and field.message_type is None:
        value = named("runs", value)
    set_field(message, last, value)


def _require_word(keyword: str, given: Any, enum: Any) -> None:
    known = list(words(enum))
    if given not in known:
        *others, last = map(repr, known)
        raise ValueError(f"{keyword}={given!r}: give {', '.join(others)} or {last}")


def named(collection: str, item: str) -> str:
    """The name of a resource that is given by its name or its id.

    >>> named("monitors", "a1"), named("monitors", "monitors/a1")
    ('monitors/a1', 'monitors/a1')
    """
    return item if item.startswith(f"{collection}/") else f"{collection}/{quote(item, safe='')}"


def pages(method: Callable[[RequestT], Any], asked: RequestT) -> Iterator[Any]:
    """All items that a list method gives."""
    page_request = copied(asked)
    while True:
        answer = method(page_request)
        yield from getattr(answer, _items_of(answer))
        if not answer.next_page_token:
            return
        page_request.page_token = answer.next_page_token


async def pages_async(method: Callable[[RequestT], Any], asked: RequestT) -> AsyncIterator[Any]:
    """The same where the method is awaited."""
    page_request = copied(asked)
    while True:
        answer = await method(page_request)
        for item in getattr(answer, _items_of(answer)):
            yield item
        if not answer.next_page_token:
            return
        page_request.page_token = answer.next_page_token


def copied(asked: Any) -> Any:
    """A request that may be changed without changing the caller's."""
    made = type(asked)()
    made.CopyFrom(asked)
    return made


def _items_of(answer: Any) -> str:
    """The name of the one field of messages that the answer of a list has."""
    return str(
        next(x.name for x in answer.DESCRIPTOR.fields if x.type == FieldDescriptor.TYPE_MESSAGE)
    )
