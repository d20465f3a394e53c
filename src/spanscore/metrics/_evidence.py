"""What the rules judge looks at, read off a trace once and shared by all metrics that judge it."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar

from spanscore.metrics._plans import plan_steps
from spanscore.metrics._words import MAX_TEXT_CHARS, STOP_WORDS, content_words, plain
from spanscore.model.json import Json, dumps
from spanscore.model.trace import AgentTrace, Tool, ToolCall

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SHOWN_CHARS = 500
_EDGE_CHARS = 200
_READING_VERBS = (
    "analyze browse calculate check compute count describe fetch find get inspect list load lookup query read retrieve "
    "search show view"
)
MAX_CALLS = 1_000
"""No more of a trace's tool calls are looked at."""
MAX_CALLS_CHARS = 500_000
"""Nor more of all that they hold, arguments and results: about what fits into the context of the agent's model."""
_MAX_NAME_WORDS = 20

READING_VERBS = frozenset(_READING_VERBS.split())
"""Verbs by which the name of a tool says that it only looks something up."""

_FactT = TypeVar("_FactT")


class _kept(Generic[_FactT]):  # noqa: N801 - it is used as a decorator
    """A property that is computed once: functools.cached_property, without the lock it takes before Python 3.12."""

    def __init__(self, compute: Callable[[Any], _FactT]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> _FactT:
        fact = instance.__dict__[self._name] = self._compute(instance)
        return fact


class Evidence:
    """Facts derived from one agent trace, each computed when first asked for and kept.

    Texts are as `plain` gives them; indices are places in `calls`.
    """

    def __init__(self, trace: AgentTrace) -> None:
        self.trace = trace

    @_kept
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that are looked at: the first ones, as many as the bounds allow."""
        return (self.trace.tool_calls or ())[: len(self._texts)]

    @_kept
    def unseen(self) -> tuple[ToolCall, ...]:
        """The calls after those, of which only names and errors are looked at."""
        return (self.trace.tool_calls or ())[len(self._texts) :]

    @_kept
    def called(self) -> list[str]:
        """The names of all tools that were called, each once."""
        return list(dict.fromkeys(call.name for call in self.trace.tool_calls or ()))

    @property
    def limits(self) -> str:
        """What a reason adds where not all calls were looked at; else ""."""
        if not self.unseen:
            return ""
        return f" Only the first {len(self.calls)} of {len(self.trace.tool_calls or ())} calls were looked at."

    @property
    def task(self) -> str:
        """The user's input, at most 500 characters of it: all that the rules know of the task."""
        return (self.trace.user_input or "")[:_SHOWN_CHARS]

    @property
    def offered(self) -> tuple[Tool, ...] | None:
        """The tools on offer; None where the trace did not say, or what it said arrived cut or redacted."""
        return None if "available_tools" in self.trace.damaged else self.trace.available_tools

    @_kept
    def request(self) -> str:
        """The user's input."""
        return plain(self.trace.user_input or "")

    @_kept
    def request_words(self) -> list[str]:
        """The content words of the user's input."""
        return content_words(self.request)

    @_kept
    def answer(self) -> str:
        """The final output."""
        return plain(self.trace.final_output or "")

    @_kept
    def opening(self) -> str:
        """The first 200 characters of the final output."""
        output = self.trace.final_output or ""
        return self.answer if len(output) <= _EDGE_CHARS else plain(output[:_EDGE_CHARS])

    @_kept
    def raw_results(self) -> list[str]:
        """What each call returned, or the error it ended with, as text; "" where that was not recorded, or null."""
        return [result for _, result in self._texts]

    @_kept
    def results(self) -> list[str]:
        """What each call returned, or the error it ended with."""
        return [plain(text) for text in self.raw_results]

    @_kept
    def arguments(self) -> list[str]:
        """The arguments of each call."""
        return [plain(text) for text in self._raw_arguments]

    @_kept
    def deeds(self) -> str:
        """The names and arguments of all calls."""
        return "".join([*(plain_name(call.name) for call in self.calls), *self.arguments])

    @_kept
    def _raw_arguments(self) -> list[str]:
        return [arguments for arguments, _ in self._texts]

    @_kept
    def _texts(self) -> list[tuple[str, str]]:
        """The arguments and the result, as text, of each call that is looked at; of the first one always."""
        found: list[tuple[str, str]] = []
        chars = 0
        for call in (self.trace.tool_calls or ())[:MAX_CALLS]:
            arguments, result = _text(call.arguments), _text(call.error if call.result is None else call.result)
            chars += len(arguments) + len(result)
            if found and chars > MAX_CALLS_CHARS:
                break
            found.append((arguments, result))
        return found

    @_kept
    def written(self) -> str:
        """The final output and what the models wrote, each text once, within the bound of the calls' texts."""
        texts = {self.answer: None}
        chars = 0
        for call in self.trace.model_calls:
            if call.text and chars < MAX_CALLS_CHARS:
                chars += len(call.text)
                texts[plain(call.text)] = None
        return "\n".join(texts)  # no phrase holds the line break between two texts

    @_kept
    def raw_given(self) -> tuple[str, str]:
        """What the agent was told before it acted: the conversation; its instructions and what was retrieved."""
        trace = self.trace
        conversation = [trace.user_input or "", *(x.text or "" for x in trace.history)]
        documents = [_text(document) for retrieval in trace.retrieved for document in retrieval.documents]
        background = [trace.system_instructions or "", *documents]
        return "\n".join(conversation)[:MAX_TEXT_CHARS], "\n".join(background)[:MAX_TEXT_CHARS]

    @_kept
    def given(self) -> tuple[str, str]:
        """As `raw_given`."""
        conversation, background = self.raw_given
        return (plain(conversation) if self.trace.history else self.request), _plain_background(background)

    @_kept
    def plan(self) -> list[str]:
        """The steps of the plan that the agent stated; empty where it stated none."""
        return plan_steps(self.trace)

    @_kept
    def plan_words(self) -> list[list[str]]:
        """The content words of each step of `plan`."""
        return [content_words(plain(step)) for step in self.plan]

    @_kept
    def repeats(self) -> dict[int, int]:
        """Each call that has the name and arguments of an earlier one, with the latest such."""
        seen: dict[tuple[str, str], int] = {}
        found: dict[int, int] = {}
        for index, (call, arguments) in enumerate(zip(self.calls, self._raw_arguments, strict=True)):
            signature = (call.name, arguments)
            if signature in seen and call.arguments is not None:
                found[index] = seen[signature]
            seen[signature] = index
        return found

    @_kept
    def duplicates(self) -> list[int]:
        """Repeats of a call that had succeeded, and that brought nothing new: asking twice was needless."""
        return [
            index
            for index, before in self.repeats.items()
            if self.calls[before].error is None and self.calls[index].result == self.calls[before].result
        ]

    @_kept
    def blind_retries(self) -> list[int]:
        """Repeats of a call that had failed, unchanged, and that failed again."""
        return [i for i, before in self.repeats.items() if self.calls[before].error and self.calls[i].error]

    @_kept
    def unrecovered(self) -> list[int]:
        """Failed calls after which the same tool never succeeded."""
        found: list[int] = []
        recovered = {call.name for call in self.unseen if call.error is None}
        for index in range(len(self.calls) - 1, -1, -1):
            call = self.calls[index]
            if call.error is None:
                recovered.add(call.name)
            elif call.name not in recovered:
                found.append(index)
        return found[::-1]

    @_kept
    def unused(self) -> list[int]:
        """Calls that only read, and of whose result nothing new reached the final output or a later call.

        New is a word of four letters or more, or a number of two digits or more, that the input does not hold. Empty
        where some calls were not looked at, since those may have used it.
        """
        found: list[int] = []
        if self.unseen:
            return found
        reached = set(self.answer.split())
        known = set(self.request.split())
        for index in range(len(self.calls) - 1, -1, -1):
            call = self.calls[index]
            if call.error is None and reads(call.name):
                words = set(self.results[index].split()) - known
                if not any(map(_tells, words & reached)) and any(map(_tells, words)):
                    found.append(index)
            reached.update(self.arguments[index].split())
        return found[::-1]


@lru_cache(maxsize=1024)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a tool's name, in lower case.

    >>> name_words("searchFlights_v2"), name_words("get-HTTP-status")
    (('search', 'flights', 'v', '2'), ('get', 'http', 'status'))
    """
    return tuple(word.lower() for word in _NAME_PART.findall(name[:200])[-_MAX_NAME_WORDS:])


@lru_cache(maxsize=1024)
def plain_name(name: str) -> str:
    """The telling words of a tool's name, as `plain` gives a text.

    >>> plain_name("get_weather")
    ' weather '
    """
    return f" {' '.join(x for x in name_words(name) if x not in STOP_WORDS)} "


@lru_cache(maxsize=1024)
def reads(name: str) -> bool:
    """Whether a tool, by its name, only looks something up."""
    words = name_words(name)
    return bool(words) and words[0] in READING_VERBS


@lru_cache(maxsize=64)
def _plain_background(text: str) -> str:
    """An agent's instructions are the same in all of its traces."""
    return plain(text)


def _tells(word: str) -> bool:
    return len(word) > 3 or (len(word) > 1 and word.isdigit())


def _text(value: Json) -> str:
    if value is None:
        return ""
    return (value if isinstance(value, str) else dumps(value))[:MAX_TEXT_CHARS]
