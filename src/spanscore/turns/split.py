"""The turns of a trace."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from spanscore.model.span import Span
from spanscore.model.step import Message, Step
from spanscore.threads import cached_property
from spanscore.turns.basis import conversation, tool_boundary
from spanscore.turns.basis.conversation import Tree, final_text
from spanscore.turns.basis.tool_boundary import ToolBoundary

_UNITS = frozenset({"agent", "workflow", "model"})


@dataclass(slots=True)
class _Unit:
    """An outermost step that may be a turn, with all that lies in it."""

    step: Step
    session: str | None = None
    steps: list[Step] = field(default_factory=list)
    answer: str | None = None


def split(steps: Sequence[Step], tree: Tree) -> list[tuple[Step | None, list[Step]]]:
    """The turns of a trace, oldest first: the step that opens each, and all its steps.

    The opening step is None for a trace of one turn. A new turn starts at an outermost agent,
    workflow or model call

    - that belongs to another session than the turn before, as long as no step above them names one
      for both;
    - whose conversation goes on from that turn's answer: it contains it and, after it, something
      new from the user;
    - that asks the same agent something else, of which nothing shows in the turn before, nor that
      turn in it, where no workflow around them records its input;
    - that repeats its question when it had answered, where no span is around both;
    - that answers in a span of its own, which has sisters of its name that do the same, as in an
      eval or a batch job, where no agent is around them and nothing quotes the answers.

    Else it is a step of the same turn, as of a pipeline. One that was given what a call of an
    earlier turn returned belongs to that one: turns may run side by side.

    A unit, an outermost step that may be a turn by itself with all that lies in it, is found first
    (`_units`), then filled (`_gathered`), then one turn or several are made of the units
    (`_turns`).
    """
    outermost, is_given = _units(steps, tree)
    if len(outermost) < 2:
        return [(None, list(steps))]
    belongs = _belongs(steps, tree, outermost)
    units = _gathered(steps, outermost, belongs, tree)
    runs = {} if is_given else _runs(units, tree)
    if runs:
        return _split_by_run(steps, units, runs, tree)
    turn_of = _turns(units, is_given=is_given)
    starts = _first_units(turn_of)
    if len(starts) == 1:
        return [(None, list(steps))]
    number_of_turn = {turn_of[start]: number for number, start in enumerate(starts)}
    numbers = {
        unit.step.span.span_id: number_of_turn[turn]
        for unit, turn in zip(units, turn_of, strict=True)
    }
    turns: list[list[Step]] = [[] for _ in starts]
    begun_ns = [units[start].step.span.start_ns for start in starts]
    around = _around([(unit.step, numbers[unit.step.span.span_id]) for unit in units], tree)
    for step in steps:
        unit_id = belongs[step.span.span_id]
        if unit_id is not None:
            turns[numbers[unit_id]].append(step)
        elif step.kind != "workflow":  # a workflow above the turns belongs to none
            number = around.get(step.span.span_id)
            if number is None:
                number = _latest_begun(begun_ns, step)
            turns[number].append(step)
    return [(units[start].step, turn) for start, turn in zip(starts, turns, strict=True)]


def _runs(units: Sequence[_Unit], tree: Tree) -> dict[str, int]:
    """The spans around runs that stand by themselves, each with the place of its first unit; none
    where the units are steps of something else.
    """
    paths = [_above(unit, tree) for unit in units]
    alike = defaultdict[tuple[str, str], set[str]](set)
    for path in paths:
        for span in path:
            alike[span.parent_span_id, span.name].add(span.span_id)
    found: dict[str, int] = {}
    sisters: set[tuple[str, str]] = set()
    answered: set[str] = set()
    for at, (unit, path) in enumerate(zip(units, paths, strict=True)):
        run = next((x for x in path if len(alike[x.parent_span_id, x.name]) > 1), None)
        if run is None or tree.place(unit.step).agent is not None:
            return {}
        sisters.add((run.parent_span_id, run.name))
        if run.span_id not in found and not _opens(unit):
            return {}
        found.setdefault(run.span_id, at)
        if unit.answer:
            answered.add(run.span_id)
    is_alike = len(sisters) == 1 and len(answered) == len(found) > 1
    return found if is_alike and not _quotes_another(units, paths, found) else {}


def _above(unit: _Unit, tree: Tree) -> list[Span]:
    """The spans above a unit, the topmost first."""
    path: list[Span] = []
    above = tree.parent(unit.step.span)
    while above is not None and len(path) < _MAX_ABOVE:
        path.append(above)
        above = tree.parent(above)
    return path[::-1]


def _opens(unit: _Unit) -> bool:
    """Whether a unit starts a conversation: its first input ends with the question."""
    given = next((x.input for x in unit.steps if x.input), ())
    return bool(given) and conversation.last_user_message(given) == len(given) - 1


def _quotes_another(
    units: Sequence[_Unit], paths: Sequence[Sequence[Span]], runs: dict[str, int]
) -> bool:
    """Whether the question of a run contains the answer of another one."""
    requests = [Requested(x.step, x.steps, x.answer) for x in units]
    of_run = [next(x.span_id for x in path if x.span_id in runs) for path in paths]
    quoting = IndependentRuns(requests).quotations
    return any(by and of_run[by] != of_run[at] for at, by in enumerate(quoting))


def _split_by_run(
    steps: Sequence[Step], units: Sequence[_Unit], runs: dict[str, int], tree: Tree
) -> list[tuple[Step | None, list[Step]]]:
    """The turns, one a run, with all steps below its span; what lies beside them is of the one that
    was the last to begin.
    """
    starts = sorted(runs.values())
    number_of = {run: starts.index(at) for run, at in runs.items()}
    begun_ns = [units[start].step.span.start_ns for start in starts]
    turns: list[list[Step]] = [[] for _ in starts]
    for step in steps:
        span: Span | None = step.span
        while span is not None and span.span_id not in number_of:
            span = tree.parent(span)
        if span is not None:
            turns[number_of[span.span_id]].append(step)
        elif step.kind != "workflow":
            turns[_latest_begun(begun_ns, step)].append(step)
    return [(units[start].step, turn) for start, turn in zip(starts, turns, strict=True)]


def _first_units(turn_of: Sequence[int]) -> list[int]:
    """The place of the first unit of each turn, in order.

    >>> _first_units([0, 0, 2, 0, 2])
    [0, 2]
    """
    first: dict[int, int] = {}
    for at, turn in enumerate(turn_of):
        first.setdefault(turn, at)
    return sorted(first.values())


def _latest_begun(begun_ns: Sequence[int], step: Step) -> int:
    """The number of the turn that was the last to begin before a step; the first turn's for what
    came before all.
    """
    return max(bisect_right(begun_ns, step.span.start_ns) - 1, 0)


def _around(units: Sequence[tuple[Step, int]], tree: Tree) -> dict[str, int | None]:
    """The turn that each span above a unit is around, by the span's id; None for those around
    several.
    """
    found: dict[str, int | None] = {}
    for unit, number in units:
        above = tree.parent(unit.span)
        while above is not None and found.get(above.span_id, -1) not in (number, None):
            found[above.span_id] = None if above.span_id in found else number
            above = tree.parent(above)
    return found


def _units(steps: Sequence[Step], tree: Tree) -> tuple[list[Step], bool]:
    """The outermost steps that may each be a turn, and whether a workflow around all of them
    records its input.

    A single workflow around everything is opened, so that the steps in it are the outermost. Where
    it records its input, that input is the question.
    """
    inside: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        place = tree.place(step)
        if step.kind not in _UNITS or step.part == "utility":
            continue
        if place.outer is not None or place.tool is None:
            inside["" if place.outer is None else place.outer.span.span_id].append(step)
    units, is_given = inside[""], False
    while (
        len(units) == 1
        and units[0].kind == "workflow"
        and (inner := inside.get(units[0].span.span_id))
    ):
        is_given = is_given or bool(units[0].input or units[0].input_text)
        units = inner
    return units, is_given


def _belongs(steps: Sequence[Step], tree: Tree, units: Sequence[Step]) -> dict[str, str | None]:
    """The unit that each step lies in, by the step's span id; None for a step in no unit."""
    found: dict[str, str | None] = {x.span.span_id: x.span.span_id for x in units}
    for step in steps:
        path: list[str] = []
        above: Step | None = step
        while above is not None and above.span.span_id not in found:
            path.append(above.span.span_id)
            place = tree.place(above)
            above = place.tool or place.outer
        owner = None if above is None else found[above.span.span_id]
        found.update(dict.fromkeys(path, owner))
    return found


def _gathered(
    steps: Sequence[Step], outermost: Sequence[Step], belongs: dict[str, str | None], tree: Tree
) -> list[_Unit]:
    """The units with their steps, the session that is nearest the root, else the first, and the
    last answer.
    """
    units = {x.span.span_id: _Unit(x, tree.place(x).session) for x in outermost}
    for step in steps:
        owner = belongs[step.span.span_id]
        if owner is not None:
            unit = units[owner]
            unit.steps.append(step)
            unit.session = unit.session or step.session_id
            if step.output:
                unit.answer = final_text(step.output) or unit.answer
    return list(units.values())


def _turns(units: Sequence[_Unit], *, is_given: bool) -> list[int]:
    """For each unit the turn that it belongs to, as the place of the unit that opens that turn."""
    runs = IndependentRuns([Requested(x.step, x.steps, x.answer) for x in units])
    starts = [0]
    session, answer = units[0].session, units[0].answer
    for at, unit in enumerate(units[1:], start=1):
        is_new = (
            (session and unit.session and session != unit.session)
            or (answer is not None and _goes_on_from(unit.steps, answer.strip()))
            or (not is_given and runs.is_independent(starts[-1], at))
        )
        if is_new:
            starts.append(at)
            session, answer = unit.session, unit.answer
        else:
            session, answer = session or unit.session, unit.answer or answer
    turn_of = [starts[bisect_right(starts, at) - 1] for at in range(len(units))]
    return turn_of if len(starts) == 1 else _with_interleaved(units, starts, turn_of)


def _with_interleaved(
    units: Sequence[_Unit], starts: Sequence[int], turn_of: list[int]
) -> list[int]:
    """Move what seems to start a turn, but continues calls of an earlier turn, to that turn."""
    pending: dict[str, list[tuple[ToolBoundary, int]]] = {}
    moved: dict[int, int] = {}
    begins = set(starts)
    for at, unit in enumerate(units):
        models = [x for x in unit.steps if x.kind == "model"]
        boundary = tool_boundary.resumed_by(models[0]) if models and at in begins else None
        if boundary is not None:
            alike = (pending[key] for key in tool_boundary.keys(boundary) if key in pending)
            met = {turn for one, turn in next(alike, ()) if tool_boundary.may_meet(one, boundary)}
            if len(met) == 1:
                moved[at] = met.pop()
        turn_of[at] = moved.get(turn_of[at], turn_of[at])
        ends = tool_boundary.pending_after(models[-1]) if models else None
        if ends is not None:
            for key in tool_boundary.keys(ends):
                pending[key] = [*pending.get(key, ())[-1:], (ends, turn_of[at])]
    return turn_of


def _goes_on_from(steps: Sequence[Step], answer: str) -> bool:
    """Whether the conversation that a unit was given contains `answer`, and a message of the user
    after it.
    """
    # the first of each kind
    openings = {x.kind: x.input for x in reversed(steps) if x.input is not None}
    return any(_goes_on(given, answer) for given in openings.values())


def _goes_on(given: tuple[Message, ...], answer: str) -> bool:
    user_follows = False
    for message in reversed(given):
        if message.role == "user" and message.text is not None:
            user_follows = True
        elif (
            message.role == "assistant"
            and not message.calls
            and (message.text or "").strip() == answer
        ):
            return user_follows
    return False


_MAX_ABOVE = 64
"""Spans above a unit that are looked at."""

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
        self._last_quoted = max([self._last_quoted, *self.quotations[self._end : at]])
        self._end = at
        return self._last_quoted

    @cached_property
    def quotations(self) -> list[int]:
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
