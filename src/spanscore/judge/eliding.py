"""Shorten one text: its beginning and end stay, and what stands around the places that matter."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from spanscore.judge.marks import left_out, whole_marks

Span: TypeAlias = tuple[int, int]

_WINDOW_CHARACTERS = (160, 50)
_MARK_BYTES = 60
_LEAST_GAP_CHARACTERS = 8  # at most 32 bytes
_MAX_WINDOWS = 40


class Place(NamedTuple):
    """Characters of a text that something else refers to, and how much they matter."""

    start: int
    end: int
    weight: float


def elide(text: str, max_bytes: int, tag: str = "", places: Sequence[Place] = ()) -> str:
    """`text` in at most `max_bytes` of UTF-8 (but never less than one mark): beginning, end and
    around `places`.

    In the place of what went stands a mark that ends in `tag`. No genuine mark is cut in two.

    >>> elide("x" * 1000, 90)
    'xxxxxxxxxxxxxxxxxxxx [... 970 characters left out ...] xxxxxxxxxx'
    >>> elide("x" * 1000 + " TP1 " + "x" * 1000, 240, places=[Place(1001, 1004, 1.0)]).count("TP1")
    1
    """
    if len(text.encode("utf-8", "replace")) <= max_bytes:
        return text
    kept = _kept(text, max_bytes, places) if places else None
    return _with_marks(text, kept or _ends(text, max_bytes - _MARK_BYTES, (2, 1)), tag)


def _kept(text: str, max_bytes: int, places: Sequence[Place]) -> list[Span] | None:
    """The characters to keep, in order; None where there is no room for any of `places`."""
    room = max_bytes - _MARK_BYTES
    spans = _ends(text, room // 3, (2, 1))
    found = False
    for place in sorted(places, key=lambda x: (-x.weight, x.start))[:_MAX_WINDOWS]:
        for width in _WINDOW_CHARACTERS:
            more = _united([*spans, _window(text, place, width)])
            if _bytes(text, more) + _MARK_BYTES * (len(more) - 2) <= room:
                spans = more
                found = True
                break
    if not found:
        return None
    return _grown(text, spans, room)


def _grown(text: str, spans: list[Span], room: int) -> list[Span]:
    """`spans` with what room is left given to the beginning."""
    spare = room - _bytes(text, spans) - _MARK_BYTES * (len(spans) - 2)
    if spare <= 0:
        return spans
    start = spans[0][1]
    more = text[start : start + spare].encode("utf-8", "replace")[:spare].decode(errors="ignore")
    return _united([(0, start + len(more)), *spans])


def _ends(text: str, room: int, shares: tuple[int, int]) -> list[Span]:
    """The first and the last characters of `text`, in `room` bytes shared between the two."""
    head_share, tail_share = shares
    tail_bytes = max(room, 0) * tail_share // (head_share + tail_share)
    head_bytes = max(room, 0) - tail_bytes
    data = text.encode("utf-8", "replace")
    head = len(data[:head_bytes].decode(errors="ignore"))
    tail = len(data[len(data) - tail_bytes :].decode(errors="ignore")) if tail_bytes else 0
    return [(0, head), (len(text) - tail, len(text))]


def _window(text: str, place: Place, width: int) -> Span:
    """A place with the object, line or sentence around it, as far as that is within `width`, else
    half of that.
    """
    start, end = max(place.start - width, 0), min(place.end + width, len(text))
    before, after = text[start : place.start], text[place.end : end]
    opened = max(before.rfind("{"), before.rfind("\n"), before.rfind(". "))
    closed = min(
        (x for x in (after.find("}"), after.find("\n"), after.find(". ")) if x >= 0), default=-1
    )
    left = start + opened if opened >= 0 else max(place.start - width // 2, 0)
    right = place.end + closed + 1 if closed >= 0 else min(place.end + width // 2, len(text))
    return left, right


def _united(spans: Sequence[Span]) -> list[Span]:
    """Spans in order; those with less between them than a mark would take are one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + _LEAST_GAP_CHARACTERS:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _bytes(text: str, spans: Sequence[Span]) -> int:
    return sum(len(text[start:end].encode("utf-8", "replace")) for start, end in spans)


def _with_marks(text: str, spans: Sequence[Span], tag: str) -> str:
    """What is in `spans`, with a mark between them; on one line, so that nothing passes for a line
    of its own.
    """
    genuine = whole_marks(text, tag)
    trimmed = [_trimmed(span, genuine) for span in spans]
    trimmed = [(start, end) for start, end in trimmed if start < end]
    pieces: list[str] = []
    at = 0
    for start, end in trimmed:
        if start > at:
            pieces.append(left_out(f"{start - at} characters", tag))
        pieces.append(text[start:end])
        at = end
    if at < len(text):
        pieces.append(left_out(f"{len(text) - at} characters", tag))
    return " ".join(pieces)


def _trimmed(span: Span, genuine: Sequence[Span]) -> Span:
    """`span` without parts of marks at its edges; `genuine` are the marks, in order."""
    start, end = span
    for edge_is_start in (True, False):
        edge = start if edge_is_start else end
        place = bisect_left(genuine, (edge, 0)) - 1
        if place >= 0 and genuine[place][0] < edge < genuine[place][1]:
            if edge_is_start:
                start = genuine[place][1]
            else:
                end = genuine[place][0]
    return start, end
