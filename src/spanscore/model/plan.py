"""Which steps an agent announces: in a text, or in the list that it gives to a tool for plans.

A text that announces two steps or more is a plan; "OK.", "Next step." and "I look it up." are none.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from spanscore.model.json import Json, loads
from spanscore.model.plan_sentences import announces, is_definite, steps_in_sentences

LEAST_STEPS = 2
"""Fewer announced steps are no plan."""

MAX_STEPS = 50
_MAX_CHARS = 8_000
_MAX_STEP_CHARS = 500
_MAX_DEPTH = 3

_PLAN_WORD = re.compile(
    r"\b(?:plan\w*|steps?|to-?dos?|approach|checklist|schritte?|vorgehen|ablauf|étapes?|pasos|passi|passos|piano|"
    r"plano|stappen|kroki|adımlar|план\w*|шаги)\b|计划|計劃|計画|步骤|步驟|手順|계획|단계|خطة|योजना",
    re.IGNORECASE,
)
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_HAN = "一二三四五六七八九十"
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_BEFORE = (
    r"(?<![\w.,/$€£%-])[*_(\[（]{0,3}"
    r"(?:(?:step|schritt|étape|etape|paso|passo|stap|krok|adım|шаг|ステップ|단계|步骤|步驟|手順|第)\s?#?)?"
)
_AFTER = r"(?:\s?(?:[.)\]:）．：](?!\d)|、|[-–—](?=\s))|단계[:：.]?|步[:：,，]?)[*_]{0,2}"
_ENUMERATORS: tuple[tuple[re.Pattern[str], Callable[[str], int]], ...] = (
    (re.compile(rf"{_BEFORE}(\d{{1,2}}){_AFTER}", re.IGNORECASE), int),
    (re.compile(r"([\u2460-\u2473])"), lambda sign: ord(sign) - 0x245F),
    (re.compile(rf"第?([{_HAN}])(?:步[:：,，]?|[、.：:])"), lambda sign: _HAN.index(sign) + 1),
    (re.compile(r"(?<![\w.])\(?([a-h])\)", re.IGNORECASE), lambda sign: ord(sign.lower()) - 0x60),
    (
        re.compile(r"(?<![\w.])\(?([ivx]{1,4})[.)](?=\s)", re.IGNORECASE),
        lambda sign: _roman(sign.lower()),
    ),
)
"""How the items of a list are numbered, and the number that a sign stands for."""

_SECOND = ("2", "b)", "ii")
"""The numbers of second items in ASCII and lower case."""

_BULLET = re.compile(
    r"^[ \t]*(#{1,6}|[-*+•◦▪‣–—☐☑□■○●➡→]|\[[ xX]?\])[ \t]*(?:\[[ xX]?\]["
    r" \t]*)?(?![-*_=#])(\S[^\n]*)$",
    re.MULTILINE,
)
_ARROW = re.compile(r"→|⇒|->|=>")
_PAIR = re.compile(r"[*_]*[^:：]{1,40}[:：]\s*\S")
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
    """The steps that a text announces, in order, at most 50; empty where it announces fewer than
    two.

    They are the elements of a JSON list, the items of a list with numbers or bullets, also on one
    line, the parts of a chain of arrows, else the clauses of the sentences that announce them.

    >>> announced_steps("Plan: 1. find a flight 2. book it 3. send the ticket")
    ('find a flight', 'book it', 'send the ticket')
    >>> announced_steps("I'll look up the order and then refund it.")
    ("I'll look up the order", 'refund it')
    >>> announced_steps("Sure, one moment please.")
    ()
    """
    text = text[:_MAX_CHARS]
    for look in (_in_json, _numbered, _bulleted, _chained, steps_in_sentences):
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
    texts = (
        [x for x in arguments.values() if isinstance(x, str)] if isinstance(arguments, dict) else []
    )
    return next((found for found in map(announced_steps, texts) if found), ())


@lru_cache(maxsize=1024)  # an agent calls few tools, each many times
def is_for_plans(tool: str) -> bool:
    """Whether a tool, by its name, takes down a plan or a to-do list.

    >>> is_for_plans("write_todos"), is_for_plans("updatePlan"), is_for_plans("list_plants")
    (True, True, False)
    """
    return _FOR_PLANS.search(_CAMEL.sub("_", tool[:200])) is not None


def _in_json(text: str) -> Iterator[str]:
    """The elements of a list that the text is, or that stands fenced in it or after a heading."""
    fenced = _FENCED.search(text)
    body = text if fenced is None else fenced[1]
    start = min((at for at in (body.find("["), body.find("{")) if at >= 0), default=-1)
    if start < 0 or body.rstrip()[-1:] not in ("]", "}"):
        return
    try:
        value = loads(body[start:])
    except ValueError:
        return
    listed = _listed_in(value, 0)
    if isinstance(value, dict) or _are_steps(
        listed, text[:start] if fenced is None else text[: fenced.start()]
    ):
        yield from listed


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
    """What the elements of a list announce; empty where some of them are no steps."""
    found = [x if isinstance(x, str) else _text(x) for x in elements[:MAX_STEPS]]
    texts = [x for x in found if x and is_definite(x)]
    return texts if len(texts) == len(found) else []


def _text(element: Json) -> str | None:
    if not isinstance(element, dict) or not _OF_CALLS.isdisjoint(element):
        return None
    known: Mapping[str, Any] = {_plain_key(key): value for key, value in element.items()}
    return next((known[x] for x in _TEXTS if isinstance(known.get(x), str)), None)


def _plain_key(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()


def _numbered(text: str) -> Iterable[str]:
    # as most texts, which are not searched further
    if text.isascii() and not any(x in text.lower() for x in _SECOND):
        return ()
    for pattern, number in _ENUMERATORS:
        items = list(_run(text, pattern, number))
        if _are_steps(items, text):
            return items
    return ()


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


def _roman(sign: str) -> int:
    return _ROMAN.index(sign) + 1 if sign in _ROMAN else 0


def _bulleted(text: str) -> Iterable[str]:
    """The items with that bullet which most items have."""
    kinds: dict[str, list[str]] = {}
    for kind, item in _BULLET.findall(text):
        kinds.setdefault(kind, []).append(item)
    items = max(kinds.values(), key=len, default=[])
    return items if _are_steps(items, text) else ()


def _chained(text: str) -> Iterable[str]:
    """The parts of "find it → book it"; what stands before a colon in front of them is a
    heading.
    """
    line = next((x for x in text.splitlines() if _ARROW.search(x)), "")
    parts = [x.rpartition(":")[2] for x in _ARROW.split(line)[:MAX_STEPS]]
    return parts if _are_steps(parts, text) else ()


def _are_steps(items: Sequence[str], text: str) -> bool:
    """Whether the items of a list are things to do: by what is said around them, else by what they
    look like.
    """
    if len(items) < LEAST_STEPS or sum(x.rstrip().endswith(("?", "？")) for x in items) * 2 > len(
        items
    ):
        return False
    if _PLAN_WORD.search(text) or announces(text):
        return True
    long = sum(is_definite(x, least=2) and not _PAIR.match(x.strip()) for x in items)
    return long * 2 >= len(items)


def _trimmed(steps: Iterable[str]) -> tuple[str, ...]:
    """The steps on one line each, without those that name nothing to do."""
    found = (" ".join(x.split()).strip(_TRIMMED)[:_MAX_STEP_CHARS].rstrip(" .。") for x in steps)
    return tuple(x for x in found if is_definite(x))[:MAX_STEPS]
