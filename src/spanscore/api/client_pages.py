"""The items of a list, page after page."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor

RequestT = TypeVar("RequestT")


def pages(method: Callable[[RequestT], Any], request: RequestT) -> Iterator[Any]:
    """All items that a list method gives."""
    page_request = copied(request)
    while True:
        answer = method(page_request)
        yield from getattr(answer, _items_of(answer))
        if not answer.next_page_token:
            return
        page_request.page_token = answer.next_page_token


async def pages_async(method: Callable[[RequestT], Any], request: RequestT) -> AsyncIterator[Any]:
    """The same where the method is awaited."""
    page_request = copied(request)
    while True:
        answer = await method(page_request)
        for item in getattr(answer, _items_of(answer)):
            yield item
        if not answer.next_page_token:
            return
        page_request.page_token = answer.next_page_token


def copied(request: Any) -> Any:
    """A request that may be changed without changing the caller's."""
    made = type(request)()
    made.CopyFrom(request)
    return made


def _items_of(answer: Any) -> str:
    """The name of the one field of messages that the answer of a list has."""
    return str(
        next(x.name for x in answer.DESCRIPTOR.fields if x.type == FieldDescriptor.TYPE_MESSAGE)
    )
