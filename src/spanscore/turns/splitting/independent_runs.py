"""Distinguish questions that stand by themselves from the steps of a pipeline, in which text of an
earlier step occurs.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from spanscore.model.step import Step
from spanscore.turns.basis import conversation

_MAX_CHARS = 20_000
"""Of a question or an answer that are compared."""

_QUOTED_WORDS = 4
"""Words in a row, at the beginning of an answer, by which it is found in later questions."""

_WORD = re.compile(r"\w+")


class Requested:
    """One outermost `step` of a trace, with all `steps` in it: its agent, its question and its
    answer.
    """

    def __init__(self, step: Step, steps: Sequence[Step], answer: str | None) -> None:
        self._steps = steps
        self.is_agent = step.kind == "agent"
        self.root_of = "" if step.span.parent_span_id else step.span.trace_id
        self.is_answered = answer is not None
        self.start_ns = min(x.span.start_ns for x in steps)
        self.end_ns = max(x.span.end_ns for x in steps)
        self._answer = answer or ""

    @cached_property
    def words(self) -> str:
        """The user's message, as words between spaces; "" where it is not recorded."""
        given = (conversation.opening(x.input).text for x in self._steps if x.input)
        return _words(next((x for x in given if x), ""))

    @cached_property
    def answer(self) -> str:
        """The answer in the same form."""
        return _words(self._answer)

    @cached_property
    def agent(self) -> tuple[str | None, str | None]:
        """The name of the agent and its instructions."""
        name = next((x.agent_name for x in self._steps if x.agent_name), None)
        systems = (
            x.system or conversation.system_text(x.input or ())
            for x in self._steps
            if x.kind == "model"
        )
        return name, next(systems, None)

    @cached_property
    def ends_with_question(self) -> bool:
        """Whether no message followed the question when it was first given."""
        given = next((x.input for x in self._steps if x.input), ())
        return bool(given) and conversation.last_user_message(given) == len(given) - 1

    @cached_property
    def model(self) -> str | None:
        """The first model that is named."""
        return next((x.model for x in self._steps if x.model), None)


class IndependentRuns:
    """The outermost steps of a trace, by time: which of them stand by themselves.

    Where there are agents, the model calls beside them, as those that find titles, do not.
    """

    def __init__(self, requests: Sequence[Requested]) -> None:
        self._all = requests
        agents = [place for place, request in enumerate(requests) if request.is_agent]
        self._main = agents or list(range(len(requests)))
        self._start = self._end = 0
        self._last_quoted = 0

    def is_independent(self, start: int, at: int) -> bool:
        """Whether the run `at` has a question of its own, and is no step of the turn that `start`
        opens.

        It asks the same agent something else: the question and answer of the turn so far do not
        occur in its question, and neither it nor a later run quotes that turn's answers. Runs at
        the same time count as separate only where the agent is known by name or instructions. A run
        is also independent where it repeats the question and no span is around both. Call this with
        `start` and `at` rising.
        """
        begin, end = bisect_left(self._main, start), bisect_left(self._main, at)
        if begin == end or self._main[end : end + 1] != [at]:
            return False
        first, before, request = (
            self._all[x] for x in (self._main[begin], self._main[end - 1], at)
        )
        if not _may_be_one(first.agent, request.agent) or not first.words or not request.words:
            return False
        is_after = before.is_answered and max(first.end_ns, before.end_ns) <= request.start_ns
        if not is_after and not any(first.agent):
            return False
        shows = any(
            _shows(x, request) and not _repeats_question(x, request) for x in (first, before)
        )
        return not shows and self._quoted_at(start, at) < at

    def _quoted_at(self, start: int, at: int) -> int:
        """The place of the last run that quotes an answer of the runs from `start` up to `at`."""
        if start != self._start:
            self._start, self._end, self._last_quoted = start, start, 0
        self._last_quoted = max([self._last_quoted, *self._quotations[self._end : at]])
        self._end = at
        return self._last_quoted

    @cached_property
    def _quotations(self) -> list[int]:
        """For each run the place of the last one that quotes its answer; 0 where none does."""
        begun: dict[tuple[str, ...], int] = {}
        found = [0] * len(self._all)
        for place, request in enumerate(self._all):
            words = request.words.split()
            for window in zip(*(words[x:] for x in range(_QUOTED_WORDS)), strict=False):
                if window in begun:
                    found[begun[window]] = place
            opening = tuple(request.answer.split()[:_QUOTED_WORDS])
            if len(opening) == _QUOTED_WORDS:
                begun[opening] = place
        return found


def _may_be_one(one: tuple[str | None, str | None], other: tuple[str | None, str | None]) -> bool:
    """Whether two runs may be of one agent, each given by its name and instructions.

    Different instructions or names make them different; so does, without instructions, a name that
    only one of them has.
    """
    (name, instructions), (other_name, other_instructions) = one, other
    if instructions != other_instructions or (name and other_name and name != other_name):
        return False
    return bool(instructions) or bool(name) == bool(other_name)


def _shows(earlier: Requested, later: Requested) -> bool:
    """Whether a question or its answer occurs in a later question, or the later question in the
    earlier one.
    """
    return (
        earlier.words in later.words
        or later.words in earlier.words
        or (bool(earlier.answer) and earlier.answer in later.words)
    )


def _repeats_question(earlier: Requested, later: Requested) -> bool:
    """Whether a root of a trace has, word for word, the question that an earlier root had already
    answered.

    Inside a common span it would be another try at the same question, as for a vote.
    """
    is_after = earlier.is_answered and earlier.end_ns <= later.start_ns and later.ends_with_question
    are_alike = (
        earlier.words == later.words
        and earlier.is_agent == later.is_agent
        and earlier.model == later.model
    )
    return is_after and are_alike and later.root_of != "" and earlier.root_of == later.root_of


def _words(text: str) -> str:
    found = _WORD.findall(text[:_MAX_CHARS].casefold())
    return f" {' '.join(found)} " if found else ""
