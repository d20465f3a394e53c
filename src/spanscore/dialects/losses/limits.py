"""At which length an SDK cuts values, which leaves no marker: the longest values that it sent give
it away.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from spanscore.dialects.forms.truncation import mended
from spanscore.model.span import Attributes, LogRecord, Span, Value

Limits: TypeAlias = Mapping[tuple[str | None, str], int]
"""Characters, by service and by where values stand: "attribute", "event" or "log"."""

_MIN_CHARS = 12
_ROUND = (50, 32)  # limits are such numbers, or multiples of them
_USUAL = frozenset(2**x for x in range(6, 21))
_MANY = 3  # different texts of one length that is no such number
_MAX_BYTES = 4  # of a character
_NESTED = frozenset((list, dict))
_LAST = frozenset(
    ".!?\u2026\u3002\uff01\uff1f\"'`)]}>"
)  # how a text or JSON ends that is whole; of those that are cut, few end so
# ids, hashes, names and addresses: many have one length, and are whole
_ID = re.compile(r"[\w.:/@+=-]*", re.ASCII)


class _Longest:
    """The longest texts of one service at one kind of place."""

    __slots__ = ("chars", "texts")

    def __init__(self) -> None:
        self.chars = _MIN_CHARS
        self.texts: list[str] = []

    def take(self, holders: Iterable[Attributes]) -> None:
        """Look at all values. Every attribute of every trace passes through here."""
        chars, texts = self.chars, self.texts
        for attributes in holders:
            for value in attributes.values():
                if value.__class__ is str and len(value) >= chars:
                    if len(value) > chars:
                        chars, texts = len(value), []
                    texts.append(value)
        self.chars, self.texts = chars, texts

    def take_nested(self, attributes: Attributes) -> None:
        """Look at all texts of a log record: its messages are arrays and maps, of which SDKs cut
        each text.
        """
        self.take((attributes,))
        if not _NESTED.isdisjoint(map(type, attributes.values())):
            self.take({"": x} for x in strings(dict(attributes)))

    @property
    def limit(self) -> int | None:
        """The greatest length, in characters or in bytes, if it is one at which values are cut."""
        if self._is_limit(self.chars):
            return self.chars
        wide = [x.rstrip("\ufffd") for x in self.texts if x[-1] not in _LAST and not x.isascii()]
        sizes = [len(x.encode("utf-8", "surrogatepass")) for x in wide[:_MANY]]
        in_bytes = [x for size in sizes for x in range(size, size + _MAX_BYTES) if x in _USUAL]
        return next(filter(self._is_limit, in_bytes), None)

    def _is_limit(self, size: int) -> bool:
        """Whether values are cut at the length that the longest have.

        That is so where a value of it is JSON that just ends, or where texts have it that do not
        end as texts do: one is enough if it is a power of two, as most limits are, two if it is
        another round number, else three.
        """
        # then a closer look is worth it where the cut may have come after a bracket
        is_usual = size in _USUAL
        if any(
            x[0] in "{[" and (is_usual or x[-1] not in "}]") and mended(x) is not None
            for x in self.texts
        ):
            return True
        unfinished = {x for x in self.texts if x[-1] not in _LAST}
        if not unfinished:  # as mostly
            return False
        many = 1 if is_usual else _MANY if all(size % x for x in _ROUND) else 2
        return len(unfinished) >= many and sum(not _ID.fullmatch(x) for x in unfinished) >= many


def strings(value: Value) -> Iterator[str]:
    """All texts in an array or map; it is no deeper than `otlp.decode.MAX_DEPTH`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for element in value.values() if isinstance(value, dict) else value:
            yield from strings(element)


def is_of_length(text: str, chars: int | None) -> bool:
    """Whether a text may have been cut at a limit, in characters, or in what else emitters count:
    bytes, UTF-16 units.

    What counts bytes cuts before a character or through it, of which U+FFFD is left.

    >>> is_of_length("Zürich", 6), is_of_length("Zürich", 7), is_of_length("Zurich", 7)
    (True, True, False)
    """
    if chars is None or len(text) > chars:
        return False
    if len(text) == chars or text.isascii():
        return len(text) == chars
    whole = text.rstrip("\ufffd")
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return units == chars or 0 <= chars - len(whole.encode("utf-8", "surrogatepass")) < _MAX_BYTES


def limits(spans: Sequence[Span], logs: Mapping[str, Sequence[LogRecord]]) -> Limits:
    """The lengths at which values were cut; nothing for a service and a place where none shows.

    Where a limit shows at one place, it counts at another one too if the longest value has that
    length there.
    """
    found: dict[tuple[str | None, str], _Longest] = {}
    for sharing in _by_resource(spans):
        service = sharing[0].resource.service_name
        found.setdefault((service, "attribute"), _Longest()).take([x.attributes for x in sharing])
        events = [event.attributes for x in sharing if x.events for event in x.events]
        if events:
            found.setdefault((service, "event"), _Longest()).take(events)
    for records in logs.values():
        for record in records:
            found.setdefault((record.resource.service_name, "log"), _Longest()).take_nested(
                record.attributes
            )
    shown = {(key[0], size) for key, x in found.items() if (size := x.limit) is not None}
    if not shown:
        return {}
    return {
        key: size
        for key, x in found.items()
        for size in (x.limit, x.chars)
        if size and (key[0], size) in shown
    }


def _by_resource(spans: Sequence[Span]) -> Iterable[Sequence[Span]]:
    """The spans of each resource, mostly all of a trace: asking each span for its service would
    take longer.
    """
    if len({id(x.resource) for x in spans}) == 1:
        return (spans,)
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(id(span.resource), []).append(span)
    return found.values()
