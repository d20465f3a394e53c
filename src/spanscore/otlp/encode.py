"""The model's values to OTLP messages, for whoever writes attributes."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from spanscore.model.span import Value
from spanscore.otlp.decode import MAX_DEPTH
from spanscore.otlp.text import well_formed

_INT64 = range(-(2**63), 2**63)


def fill(pairs: Any, attributes: Mapping[str, Value]) -> None:
    """Append `attributes` to a repeated KeyValue field."""
    for key, item in attributes.items():
        put(pairs.add(key=well_formed(key)).value, item)


def put(message: Any, item: Value, depth: int = 0) -> None:
    """Write `item` into the AnyValue `message`.

    An integer beyond 64 bits is written as text, which loses nothing; lone surrogates, which UTF-8
    has no form for, as U+FFFD; what lies deeper than `decode.MAX_DEPTH` is left out.
    """
    if isinstance(item, str):
        message.string_value = well_formed(item)
    elif isinstance(item, bool):
        message.bool_value = item
    elif isinstance(item, int):
        if item in _INT64:
            message.int_value = item
        else:
            message.string_value = str(item)
    elif isinstance(item, float):
        message.double_value = item
    elif isinstance(item, bytes):
        message.bytes_value = item
    elif item is not None and depth < MAX_DEPTH:
        _put_many(message, item, depth + 1)


def value(item: Value) -> AnyValue:
    """`item` as an AnyValue of its own."""
    message = AnyValue()
    put(message, item)
    return message


def _put_many(message: Any, items: list[Value] | dict[str, Value], depth: int) -> None:
    if isinstance(items, dict):
        message.kvlist_value.SetInParent()
        for key, item in items.items():
            put(message.kvlist_value.values.add(key=well_formed(key)).value, item, depth)
    else:
        message.array_value.SetInParent()
        for item in items:
            put(message.array_value.values.add(), item, depth)
