"""Expected tool calls and answers against the actual ones."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

from pydantic import AliasChoices, ConfigDict, Field, TypeAdapter, WithJsonSchema

from spanscore.errors import shortened
from spanscore.lazy_imports import np
from spanscore.metrics._base import Judged, Judgement, Question, Threshold
from spanscore.metrics.check._check import listed
from spanscore.model.json import Json, dumps
from spanscore.model.score import reaches

MAX_EXPECTED_CALLS = 100
"""Of one interaction: how many calls are compared with how many grows with its square."""
_MAX_USED_CALLS = 1_000
_MAX_DEPTH = 64
_SHOWN_CHARS = 80
_READINGS = (
    (1.0, "as expected"),
    (0.75, "minor deviations"),
    (0.5, "partly as expected"),
    (0.25, "mostly not as expected"),
)
# among pairings that are equally good by their parameters, the one with most steps right
_STEP_COUNTS = 1e-6

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A tool call that is expected.

    `parameters` None: any; `step` counts from 1, as calls are made.
    """

    tool_name: str
    parameters: Mapping[str, Json] | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class UsedCall:
    """A tool call that was made.

    `parameters` None: not recorded; `answer` numbers the model answer that asked for it.

    Calls that one model answer asked for together have the same `answer`.
    """

    tool_name: str
    parameters: Json
    answer: int


@dataclass(frozen=True)
class ToolWeights:
    """How much each of the four aspects counts; they add up to 1."""

    __pydantic_config__ = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    selection: Share = 0.25
    """Were the right tools used, and no others?"""

    parameters: Share = 0.25
    """Were the expected parameters given?"""

    sequence: Share = 0.25
    """Was each expected call made at its step?"""

    utilisation: Annotated[
        Share, Field(validation_alias=AliasChoices("utilisation", "utilization"))
    ] = 0.25
    """Did the tools' results reach the final answer? `utilization` is the same."""

    def __post_init__(self) -> None:
        total = self.selection + self.parameters + self.sequence + self.utilisation
        if abs(total - 1) > 1e-6:
            raise ValueError(
                f"the weights of the four aspects add up to {total:g}; let them add up to 1"
            )


def _both_spellings() -> dict[str, Any]:
    """The JSON schema of `ToolWeights`, of which pydantic leaves out the second name of a key."""
    schema = TypeAdapter(ToolWeights).json_schema()
    keys = schema["properties"]
    keys["utilization"] = {**keys["utilisation"], "title": "Utilization"}
    return schema


EQUAL_WEIGHTS = ToolWeights()
WeightsOption: TypeAlias = Annotated[ToolWeights, WithJsonSchema(_both_spellings())]
"""As the option of a metric, whose schema stands alone and refers to nothing."""


@dataclass(frozen=True, slots=True)
class ToolCorrectness:
    """The four aspects, each 0..1, their weighted sum, and what is wrong; `is_correct`: it reaches
    the threshold.
    """

    selection: float
    parameters: float
    sequence: float
    utilisation: float
    overall: float
    is_correct: bool
    faults: tuple[str, ...] = ()

    @property
    def reading(self) -> str:
        """What the weighted sum means in words."""
        return next(
            (text for least, text in _READINGS if reaches(self.overall, least)),
            "other tools than expected",
        )

    def to_json(self) -> dict[str, Any]:
        """As metadata shows it."""
        values = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name != "faults"
        }
        return {**values, "reading": self.reading}


def measure_tools(
    expected: Sequence[ExpectedCall],
    used: Sequence[UsedCall],
    *,
    sequence_matters: bool,
    results_used: bool,
    weights: ToolWeights,
    threshold: float,
) -> ToolCorrectness | None:
    """Hold the calls that were made against those expected; None where no tool was used or none is
    expected.
    """
    if not expected or not used:
        return None
    pairs = _pairs(expected, used[:_MAX_USED_CALLS])
    values = {
        "selection": selection({x.tool_name for x in expected}, {x.tool_name for x in used}),
        "parameters": sum(x.likeness for x in pairs) / len(pairs),
        "sequence": sum(x.in_step for x in pairs) / len(pairs) if sequence_matters else 1.0,
        "utilisation": float(results_used),
    }
    overall = sum(getattr(weights, name) * value for name, value in values.items())
    faults = tuple(
        _faults(pairs, used, sequence_matters=sequence_matters, results_used=results_used)
    )
    return ToolCorrectness(
        **values, overall=overall, is_correct=reaches(overall, threshold), faults=faults
    )


def selection(expected: set[str], used: set[str]) -> float:
    """How well the tools fit: 1 for the same ones, else the share that is there, needed, or common
    to both.

    >>> (
    ...     selection({"a", "b"}, {"a"}),
    ...     selection({"a"}, {"a", "b"}),
    ...     selection({"a", "b"}, {"b", "c"}),
    ... )
    (0.5, 0.5, 0.3333333333333333)
    """
    if used < expected:
        return len(used) / len(expected)
    if used > expected:
        return len(expected) / len(used)
    return len(expected & used) / len(expected | used)


def likeness(expected: Mapping[str, Json] | None, given: Json) -> float:
    """1 where the parameters are equal (or any will do), else the share of all keys that match in
    name and value.

    >>> likeness({"city": "Rome", "unit": "C"}, {"city": "Rome", "unit": "F"})
    0.5
    """
    if expected is None or same(dict(expected), given):
        return 1.0
    if not isinstance(given, dict):
        return 0.0
    matching = sum(key in given and same(value, given[key]) for key, value in expected.items())
    return matching / len(expected.keys() | given.keys())


def same(one: Json, other: Json, depth: int = 0) -> bool:
    """Whether two JSON values are equal: 5 and 5.0 are, 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys() or depth > _MAX_DEPTH:
            return False
        return all(same(value, other[key], depth + 1) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other) or depth > _MAX_DEPTH:
            return False
        return all(same(x, y, depth + 1) for x, y in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


class _Steps:
    """At which step each call was made, as the expectation counts.

    A list that begins with step 0 counts from 0. Where it gives two calls the same step, those that
    one model answer asked for together are one step; else each call is one.
    """

    def __init__(self, expected: Sequence[ExpectedCall], used: Sequence[UsedCall]) -> None:
        given = [x.step for x in expected if x.step is not None]
        first = 1 if min(given, default=1) else 0
        if len(set(given)) < len(given):
            rounds = {
                answer: number
                for number, answer in enumerate(dict.fromkeys(x.answer for x in used), first)
            }
            self.actual = [rounds[x.answer] for x in used]
        else:
            self.actual = list(range(first, first + len(used)))
        self.expected = [
            place if x.step is None else x.step for place, x in enumerate(expected, first)
        ]


class _Pair(NamedTuple):
    """An expected call and what it is held against: a call of that tool, or None where there is
    none left.
    """

    expected: ExpectedCall
    made: UsedCall | None
    expected_step: int
    step: int | None

    @property
    def likeness(self) -> float:
        return (
            0.0 if self.made is None else likeness(self.expected.parameters, self.made.parameters)
        )

    @property
    def in_step(self) -> bool:
        return self.step == self.expected_step


def _pairs(expected: Sequence[ExpectedCall], used: Sequence[UsedCall]) -> list[_Pair]:
    steps = _Steps(expected, used)
    wanted, made = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for place, call in enumerate(expected):
        wanted[call.tool_name].append(place)
    for place, done in enumerate(used):
        made[done.tool_name].append(place)
    paired: dict[int, int] = {}
    for name, places in wanted.items():
        worth = [
            [
                likeness(expected[x].parameters, used[y].parameters)
                + _STEP_COUNTS * (steps.expected[x] == steps.actual[y])
                for y in made[name]
            ]
            for x in places
        ]
        columns = best_pairs(worth)
        paired |= {x: made[name][y] for x, y in zip(places, columns, strict=True) if y is not None}
    found = []
    for place, call in enumerate(expected):
        at = paired.get(place)
        made_at = (None, None) if at is None else (used[at], steps.actual[at])
        found.append(_Pair(call, made_at[0], steps.expected[place], made_at[1]))
    return found


def _faults(
    pairs: Sequence[_Pair], used: Sequence[UsedCall], *, sequence_matters: bool, results_used: bool
) -> Iterator[str]:
    """What is wrong, in words."""
    expected = {x.expected.tool_name for x in pairs}
    if needless := dict.fromkeys(x.tool_name for x in used if x.tool_name not in expected):
        yield f"called, and not expected: {listed(list(needless))}"
    for pair in pairs:
        name = pair.expected.tool_name
        if pair.made is None:
            yield f"{name} was not called" + (
                " as often as expected" if name in {x.tool_name for x in used} else ""
            )
            continue
        if pair.likeness < 1:
            yield f"{name}: {_differing(pair.expected.parameters or {}, pair.made.parameters)}"
        if sequence_matters and not pair.in_step:
            yield f"{name} was called at step {pair.step}, expected at {pair.expected_step}"
    if not results_used:
        yield "nothing that the tools returned is in the answer"


def _differing(expected: Mapping[str, Json], given: Json) -> str:
    """The parameters that are not as expected, with both values."""
    if not isinstance(given, dict):
        return f"parameters {_shown(given)}, expected {_shown(dict(expected))}"
    keys = [
        x
        for x in {**expected, **given}
        if x not in given or x not in expected or not same(expected[x], given[x])
    ]
    return listed(
        [
            f"{key} is not given, expected {_shown(expected[key])}"
            if key not in given
            else f"{key} is {_shown(given[key])}, "
            + (f"expected {_shown(expected[key])}" if key in expected else "not expected")
            for key in keys
        ]
    )


def _shown(value: Json) -> str:
    try:
        text = dumps(value)
    except RecursionError:
        return "(nested too deeply to show)"
    return shortened(text, _SHOWN_CHARS)


def best_pairs(worth: Sequence[Sequence[float]]) -> list[int | None]:
    """For each row the column that it is paired with, None for one that is left without; each
    column at most once.

    The Hungarian method with potentials (Kuhn 1955, Munkres 1957): rows are paired one after the
    other, each along the cheapest path through the pairs there are. Takes O(rows^2 x columns), of
    which numpy does the columns.

    >>> best_pairs([[1.0, 0.9], [0.8, 0.0]])
    [1, 0]
    """
    rows, columns = len(worth), max(map(len, worth), default=0)
    if not columns:
        return [None] * rows
    wide = max(rows, columns)
    # column 0 is where each path starts, those after the last are nobody
    cost = np.zeros((rows, wide + 1))
    cost[:, 1 : columns + 1] = -np.asarray(worth, float)
    row_potential, column_potential = np.zeros(rows + 1), np.zeros(wide + 1)
    paired = np.zeros(wide + 1, int)
    for row in range(1, rows + 1):
        _pair(row, cost, row_potential, column_potential, paired)
    found: list[int | None] = [None] * rows
    for column in range(1, columns + 1):
        if paired[column]:
            found[paired[column] - 1] = column - 1
    return found


def _pair(
    row: int,
    cost: "np.ndarray",
    of_rows: "np.ndarray",
    of_columns: "np.ndarray",
    paired: "np.ndarray",
) -> None:
    """Pair one more row: Dijkstra from it over reduced costs, then move the pairs along the path
    that was found.
    """
    paired[0] = row
    column = 0
    distance = np.full(len(paired), np.inf)
    before = np.zeros(len(paired), int)
    seen = np.zeros(len(paired), bool)
    while paired[column]:
        seen[column] = True
        at = paired[column]
        reduced = cost[at - 1] - of_rows[at] - of_columns
        shorter = ~seen & (reduced < distance)
        distance[shorter], before[shorter] = reduced[shorter], column
        following = int(np.argmin(np.where(seen, np.inf, distance)))
        step = distance[following]
        of_rows[paired[seen]] += step
        of_columns[seen] -= step
        distance[~seen] -= step
        column = following
    while column:
        paired[column] = paired[before[column]]
        column = before[column]


_QUESTION = Question(
    "answer_correctness",
    """\
Is the agent's answer the expected one? Compare what the two say, not how: another language, other \
words, another order, another way to write a number, a date or a unit, more courtesy or further \
true detail cost nothing. What the expected answer states must be in the answer or follow from it. \
What contradicts it, names another value, leaves it open or offers several values where one is \
expected is wrong, however close the wording. The expected answer is right by definition: do not \
correct it from what you know. Where it is a refusal or a question, the answer must be one too.
Guide: 1.0 says all that is expected; 0.75 to 0.99 leaves out or blurs something minor; 0.4 to \
0.65 says a part of what matters, or a value that is not exact; 0.1 to 0.35 hardly touches it; 0 \
says something else, contradicts it, or refuses where an answer is expected.""",
    Judgement,
)


@dataclass(frozen=True)
class AnswerCorrectness(Judged):
    """How far the final output of a turn is the answer that a test expects of it; `expected` is
    that answer.
    """

    name: ClassVar[str] = "answer_correctness"
    summary: ClassVar[str] = "Is the answer the expected one?"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)

    threshold: Threshold = 0.7
    expected: str = ""
