"""The steps of a plan.

Sentences are not read: "First I look it up, then I book it." is no plan.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from spanscore.model.json import Json, loads

LEAST_STEPS = 2
"""Fewer steps are no plan."""

MAX_STEPS = 50
_MAX_CHARS = 8_000
_MAX_STEP_CHARS = 500
_MAX_DEPTH = 3

_HEADING = re.compile(
    r"^[#*_> \t]{0,8}(?:[\w'\u2019]+ ){0,4}(?:plan|steps?|to-?dos?|checklist)"
    r"(?: [\w'\u2019]+){0,5}[*_ \t]{0,4}(?:[:：]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_HAN = "一二三四五六七八九十"
_ENUMERATORS: tuple[tuple[re.Pattern[str], Callable[[str], int]], ...] = (
    (
        re.compile(
            r"(?<![\w.,/$€£%-])[*_(\[（]{0,3}(?:step\s?#?)?"
            r"(\d{1,2})\s?(?:[.)\]:）．：](?!\d)|、|[-–—](?=\s))[*_]{0,2}",
            re.IGNORECASE,
        ),
        int,
    ),
    (re.compile(r"([\u2460-\u2473])"), lambda sign: ord(sign) - 0x245F),
    (re.compile(rf"第?([{_HAN}])(?:步[:：,，]?|[、.：:])"), lambda sign: _HAN.index(sign) + 1),
    (re.compile(r"(?<![\w.])\(?([a-h])\)", re.IGNORECASE), lambda sign: ord(sign.lower()) - 0x60),
)
"""How the items of a list are numbered, and the number that a sign stands for."""

_BULLET = re.compile(
    r"^[ \t]*(#{1,6}|[-*+•◦▪‣–—☐☑□■○●➡→]|\[[ xX]?\])[ \t]*(?:\[[ xX]?\]["
    r" \t]*)?(?![-*_=#])(\S[^\n]*)$",
    re.MULTILINE,
)
_MAY_LIST = re.compile(r"[\n\[{)]|1.*2")
"""What a text has that lists steps in ASCII."""
_PAIR = re.compile(r"[*_]*[^:：]{1,40}[:：]\s*\S")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff"
_TWO_WORDS = re.compile(rf"[^\W\d_][\W\d_]+[^\W\d_]|[{_UNSPACED}]{{4}}")
_WORD = re.compile(rf"[^\W\d_]{{2}}|[{_UNSPACED}]")
_TRIMMED = " \t\r\n*_`#;,，；-–—→"

_LISTS = ("steps", "plan", "todos", "todo", "tasks", "items", "checklist", "subtasks", "actions")
"""What the list of steps is called in JSON, without its signs and in lower case."""
_TEXTS = (
    "content",
    "step",
    "title",
    "task",
    "description",
    "subject",
    "text",
    "action",
    "goal",
    "name",
    "activeform",
)
_OF_CALLS = frozenset({"arguments", "args", "parameters", "input", "tool_call_id", "function"})
_FOR_PLANS = re.compile(
    r"to-?_?dos?(?![a-z])|plan(?:s|ning)?(?![a-z])|task_?list|checklist", re.IGNORECASE
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def announced_steps(text: str) -> tuple[str, ...]:
    """The steps that a text lists, in order, at most 50; empty where it lists fewer than two.

    They are the elements of a JSON list, or the items of a list with numbers, also on one line, or
    with bullets.

    >>> announced_steps("Plan: 1. find a flight 2. book it 3. send the ticket")
    ('find a flight', 'book it', 'send the ticket')
    >>> announced_steps("I'll look up the order and then refund it.")
    ()
    """
    text = text[:_MAX_CHARS]
    if text.isascii() and not _MAY_LIST.search(text):
        return ()
    for look in (_in_json, _numbered, _bulleted):
        steps = _trimmed(look(text))
        if len(steps) >= LEAST_STEPS:
            return steps
    return ()


def set_down_steps(tool: str, arguments: Json) -> tuple[str, ...]:
    """The steps that a call of a tool for plans or to-do lists sets down; empty where it sets down
    fewer than two.

    >>> set_down_steps(
    ...     "TodoWrite", {"todos": [{"content": "Find a flight"}, {"content": "Book it"}]}
    ... )
    ('Find a flight', 'Book it')
    """
    if not is_for_plans(tool):
        return ()
    steps = _trimmed(_listed_in(arguments, 0))
    if len(steps) >= LEAST_STEPS:
        return steps
    values = arguments.values() if isinstance(arguments, dict) else ()
    found = (announced_steps(x) for x in values if isinstance(x, str))
    return next(filter(None, found), ())


@lru_cache(maxsize=1024)  # an agent calls few tools, each many times
def is_for_plans(tool: str) -> bool:
    """Whether a tool, by its name, takes down a plan or a to-do list.

    >>> is_for_plans("write_todos"), is_for_plans("updatePlan"), is_for_plans("list_plants")
    (True, True, False)
    """
    return _FOR_PLANS.search(_CAMEL.sub("_", tool[:200])) is not None


def _in_json(text: str) -> Sequence[str]:
    """The elements of a list that the text is, or that stands fenced in it or after a heading."""
    fenced = _FENCED.search(text)
    body = text if fenced is None else fenced[1]
    start = min((at for at in (body.find("["), body.find("{")) if at >= 0), default=-1)
    if start < 0 or body.rstrip()[-1:] not in ("]", "}"):
        return ()
    try:
        value = loads(body[start:])
    except ValueError:
        return ()
    listed = _listed_in(value, 0)
    return listed if isinstance(value, dict) or _are_steps(listed, text) else ()


def _listed_in(value: Json, depth: int) -> list[str]:
    """The texts of the list of steps that a JSON value is, or holds under a key for that."""
    if isinstance(value, list):
        return _texts(value)
    if not isinstance(value, dict) or depth == _MAX_DEPTH:
        return []
    for key, inner in value.items():
        if _plain_key(key) in _LISTS or _FOR_PLANS.search(_CAMEL.sub("_", key[:200])):
            found = _listed_in(inner, depth + 1)
            if found:
                return found
    return []


def _texts(elements: Sequence[Json]) -> list[str]:
    """What the elements of a list name; empty where some of them are no steps."""
    found = [x if isinstance(x, str) else _text(x) for x in elements[:MAX_STEPS]]
    texts = [x for x in found if x and _WORD.search(x)]
    return texts if len(texts) == len(found) else []


def _text(element: Json) -> str | None:
    if not isinstance(element, dict) or not _OF_CALLS.isdisjoint(element):
        return None
    known: Mapping[str, Any] = {_plain_key(key): value for key, value in element.items()}
    return next((known[x] for x in _TEXTS if isinstance(known.get(x), str)), None)


def _plain_key(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _numbered(text: str) -> Sequence[str]:
    found = (list(_run(text, pattern, number)) for pattern, number in _ENUMERATORS)
    return next((items for items in found if _are_steps(items, text)), ())


def _run(text: str, pattern: re.Pattern[str], number: Callable[[str], int]) -> Iterator[str]:
    """What stands behind the numbers 1, 2, 3 and so on; what follows the last one's line is left
    out.
    """
    places: list[re.Match[str]] = []
    for found in pattern.finditer(text):
        at = number(found[1])
        if at == len(places) + 1:
            places.append(found)
        elif at == 1 and len(places) == 1:
            places = [found]
    ends = [x.start() for x in places[1:]]
    for place, end in zip(places, ends, strict=False):
        yield text[place.end() : end]
    if ends:
        yield text[places[-1].end() :].strip().partition("\n")[0]


def _bulleted(text: str) -> Sequence[str]:
    """The items with that bullet which most items have."""
    kinds: dict[str, list[str]] = {}
    for kind, item in _BULLET.findall(text):
        kinds.setdefault(kind, []).append(item)
    items = max(kinds.values(), key=len, default=[])
    return items if _are_steps(items, text) else ()


def _are_steps(items: Sequence[str], text: str) -> bool:
    """Whether the items of a list are things to do: by a heading, else by what they look like."""
    if len(items) < LEAST_STEPS:
        return False
    return _HEADING.search(text) is not None or sum(map(_is_step, items)) * 2 >= len(items)


def _is_step(item: str) -> bool:
    """Whether an item has several words and is neither a question nor a name with its value."""
    item = item.strip()
    is_other = item.endswith(("?", "？")) or _PAIR.match(item) is not None
    return not is_other and _TWO_WORDS.search(item) is not None


def _trimmed(steps: Iterable[str]) -> tuple[str, ...]:
    """The steps on one line each, without those that hold no word."""
    found = (" ".join(x.split()).strip(_TRIMMED)[:_MAX_STEP_CHARS].rstrip(" .。") for x in steps)
    return tuple(x for x in found if _WORD.search(x))[:MAX_STEPS]
