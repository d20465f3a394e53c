"""The suite file."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from spanscore.config import explain
from spanscore.errors import InputError
from spanscore.evaluation import Overrides
from spanscore.evaluation.rubric import NAME as RUBRIC, Config as RubricConfig, require_on_scale
from spanscore.metrics.expected import MAX_EXPECTED_CALLS, ExpectedCall
from spanscore.metrics.session.agentic import Agentic
from spanscore.model.json import Json

_STRICT = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
TO_FILL_IN = "TODO: what should the agent have answered?"
"""The expected answer of a case that was drafted from a trace: until it is replaced, or left out
beside expected tools, the case fails.
"""

_MAX_CASES, _MAX_TURNS, _MAX_TRIALS = 10_000, 200, 1_000
_MAX_TEXT = 100_000

_Names = TypeVar("_Names", bound=Iterable[str])


def _text(value: Any) -> Any:
    """YAML reads `20`, `yes` or a date as something else than the text that a person meant."""
    if isinstance(value, bool | date):
        raise ValueError(f"{str(value).lower()} is no text here; put it in quotes")  # noqa: TRY004 - pydantic tells it
    if isinstance(value, list | dict):
        raise ValueError(f"is a {'list' if isinstance(value, list) else 'mapping'}; write a text")  # noqa: TRY004 - likewise
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    return str(value) if isinstance(value, int | float) else value


def _several(value: Any) -> Any:
    """A text as a list of one, and each of a list once."""
    listed = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return tuple(dict.fromkeys(map(_text, listed)))


Text = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=_MAX_TEXT)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Sessions = Annotated[
    tuple[str, ...],
    BeforeValidator(_several, json_schema_input_type=str | list[str] | None),
    Field(max_length=_MAX_TRIALS),
]
K = Annotated[int, Field(strict=True, ge=1, le=_MAX_TRIALS)]
YesOrNo = Annotated[bool, Field(strict=True)]


def _known(names: _Names) -> _Names:
    """The same names, each of a metric."""
    try:
        Overrides(metrics=tuple(names)).applied(())
    except InputError as error:
        raise ValueError(str(error)) from None
    return names


def _on_scale(thresholds: dict[str, float]) -> dict[str, float]:
    """Each is of one score, and can be reached."""
    _known(thresholds)
    for name, least in thresholds.items():
        if name == Agentic.name:
            raise ValueError("agentic decides by itself; set agentic.threshold for its answers")
        if name == RUBRIC:
            raise ValueError("rubric is many scores; name one, such as rubric.overall")
        try:
            require_on_scale("", least, [name])
        except InputError as error:
            raise ValueError(str(error)) from None
    return thresholds


Thresholds = Annotated[dict[str, Annotated[float, Field(strict=True)]], AfterValidator(_on_scale)]


def _json(parameters: dict[str, Any]) -> dict[str, Any]:
    """The same, if they are JSON: what YAML reads as something else, such as a date, no call can
    ever have.
    """
    left: list[Any] = [parameters]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
            if other := [key for key in value if not isinstance(key, str)]:
                raise ValueError(f"the key {other[0]} is no text; put it in quotes")
        elif isinstance(value, list):
            left += value
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no number that JSON has")
        elif not isinstance(value, str | int | float | None):
            raise ValueError(
                f"{value} is a {type(value).__name__}, which JSON has not; put it in quotes"
            )
    return parameters


class ExpectedTool(BaseModel):
    """A tool call that is expected."""

    model_config = _STRICT

    tool_name: Text
    """The tool's name, as the trace has it."""

    parameters: Annotated[dict[str, Any], AfterValidator(_json)] | None = None
    """The arguments, all of them; null: any."""

    step: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Which of the interaction's calls it is, counted from 1 (or from 0, where one is 0); null: its
    place in the list. Where two have the same step, the calls that one model answer asks for
    together are one step.
    """

    def call(self) -> ExpectedCall:
        """As the metric takes it."""
        parameters: dict[str, Json] | None = self.parameters
        return ExpectedCall(self.tool_name, parameters, self.step)


class Expectation(BaseModel):
    """What is expected of an interaction: of one turn, or of a whole conversation."""

    model_config = _STRICT

    expected_answer: Text | None = None
    """What the agent's answer should say."""

    expected_tools: (
        Annotated[tuple[ExpectedTool, ...], Field(max_length=MAX_EXPECTED_CALLS)] | None
    ) = None
    """The tool calls that should be made; null or empty: nothing is expected of them."""

    tool_sequence_matters: YesOrNo = True
    """Whether each call should be made at its step."""

    final_answer_uses_tools: YesOrNo | None = None
    """Whether the answer makes use of what the tools returned, where you know; null: it is looked
    for in the trace.
    """

    @property
    def is_empty(self) -> bool:
        """Whether nothing is expected."""
        return self.expected_answer is None and not self.expected_tools


class Turn(Expectation):
    """One turn of a conversation: what the user says, and what is expected then."""

    input: Text | None = None
    """What the user says; null: whatever it is."""


class Case(Expectation):
    """One test: how its recordings are found, and what is expected of them."""

    id: Text
    """Its name, as `test.case.id` has it."""

    description: str | None = None
    """For people."""

    turns: Annotated[tuple[Turn, ...], Field(max_length=_MAX_TURNS)] = ()
    """The conversation, turn by turn. A case without turns is one interaction, however long the
    conversation: its expected answer is that of the last turn, its expected tools are those of all
    turns.
    """

    input: Text | None = None
    """What the user says, for a case of one turn: short for `turns` with that one."""

    session_id: Sessions = ()
    """The session in which it was recorded, or a list of sessions, each of them a trial."""

    attributes: Annotated[dict[str, str | bool | int | float], Field(max_length=20)] = {}
    """Attributes of a span or its resource, all of which the case's traces have."""

    expected_outcomes: Annotated[tuple[Text, ...], Field(max_length=50)] = ()
    """Statements that should be true of the conversation in the end; a judge answers each."""

    evaluation_criteria_override: Text | None = None
    """What the rubric judge should pay attention to in this case, in your words."""

    rubric: RubricConfig | None = None
    """The criteria of the rubric and their weights in this case; null: as the suite says."""

    trials: K | None = None
    """How many trials must be there at least; null: as many as the suite says."""

    k: K | None = None
    """The attempts of pass@k and pass^k; null: as the suite says."""

    required_pass_rate: Share | None = None
    """The share of its trials that must pass; null: as the suite says."""

    thresholds: Thresholds = {}
    """The least score of a metric in each trial, by the metric's name, on top of the suite's."""

    @model_validator(mode="after")
    def _expects_at_one_level(self) -> Self:
        if self.turns and not (self.is_empty and self.input is None):
            raise ValueError(
                "input, expected_answer and expected_tools stand in the turns of a case that has"
                " turns"
            )
        return self

    @property
    def conversation(self) -> tuple[Turn, ...]:
        """Its turns, where it says which they are."""
        if self.turns or self.input is None:
            return self.turns
        return (Turn.model_validate({x: getattr(self, x) for x in Turn.model_fields}),)

    @property
    def first_input(self) -> str | None:
        """What the user says first."""
        return self.conversation[0].input if self.conversation else None

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Those of its turns; of a case without turns its own."""
        return self.conversation or (self,)

    @property
    def calls(self) -> tuple[ExpectedCall, ...]:
        """The tool calls that it expects, turn by turn."""
        return tuple(tool.call() for x in self.expectations for tool in x.expected_tools or ())

    @property
    def calls_are_ordered(self) -> bool:
        """Whether their order matters throughout."""
        return all(x.tool_sequence_matters for x in self.expectations if x.expected_tools)

    def tool_names(self) -> Iterator[str]:
        """The tools that it expects."""
        yield from (tool.tool_name for x in self.expectations for tool in x.expected_tools or ())


class Suite(BaseModel):
    """A test suite for an agent."""

    model_config = _STRICT

    name: Text
    """Its name, as `test.suite.name` has it."""

    description: str | None = None
    """For people."""

    tools: tuple[Text, ...] = ()
    """Tools that cases may expect though no recording shows them."""

    metrics: Annotated[tuple[str, ...], AfterValidator(_known)] = ()
    """Metrics that are measured besides, without deciding anything; `spanscore metrics` lists
    them.
    """

    thresholds: Thresholds = {}
    """The least score of a metric in each trial, by the metric's name.

    It is measured and decides.
    """

    rubric: RubricConfig | None = None
    """The criteria of the rubric, their weights and its threshold, as under `evaluation.rubric` of
    a configuration; null: as configured. It runs where a case needs it, or `metrics` name it.
    """

    agentic: Agentic = Agentic()
    """How expected answers and tools are compared, and pass@k and pass^k estimated."""

    trials: K = 1
    """How many trials of each case must be there at least."""

    k: K | None = None
    """The attempts of pass@k and pass^k; null: agentic.k, else as many as `trials`."""

    required_pass_rate: Share = 1.0
    """The share of a case's trials that must pass for the case to pass."""

    cases: Annotated[tuple[Case, ...], Field(max_length=_MAX_CASES)]
    """The tests."""

    @field_validator("cases")
    @classmethod
    def _distinct(cls, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        if not cases:
            raise ValueError("there are none; a suite has at least one")
        twice = [name for name, count in Counter(x.id for x in cases).items() if count > 1]
        if twice:
            raise ValueError(f"two cases have the id {twice[0]!r}; give each an id of its own")
        return cases

    def measured(self) -> tuple[str, ...]:
        """The metrics that are measured besides agentic, which always is, and what the rubric says
        of outcomes.
        """
        of_cases = (name for case in self.cases for name in case.thresholds)
        named = dict.fromkeys((*self.metrics, *self.thresholds, *of_cases))
        return tuple(x for x in named if x != Agentic.name)

    def attempts(self, case: Case) -> int:
        """The k of a case."""
        return case.k or self.k or self.agentic.k or self.trials_of(case)

    def trials_of(self, case: Case) -> int:
        """How many trials a case needs."""
        return case.trials or self.trials

    def required_of(self, case: Case) -> float:
        """The share of a case's trials that must pass."""
        own = case.required_pass_rate
        return self.required_pass_rate if own is None else own

    def rubric_of(self, case: Case) -> RubricConfig | None:
        """What the rubric scores in a case; None: what is configured."""
        return case.rubric or self.rubric

    def thresholds_of(self, case: Case) -> dict[str, float]:
        """The least score by metric that decides in a case."""
        return {**self.thresholds, **case.thresholds}


_MAX_FILE_BYTES = 16 * 2**20
_MAX_VALUES = 2_000_000
_MAX_PROBLEMS = 20
_WHOLE = "the suite"


def load(path: Path) -> Suite:
    """Read a suite file. Raises InputError."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {_MAX_FILE_BYTES} bytes; this is no suite")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; name a suite file that can be read"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error
    return parse(text, str(path))


def parse(text: str, name: str = "suite") -> Suite:
    """Read the text of a suite; `name` stands in front of error messages. Raises InputError."""
    root, data = _read(text, name)
    if data is None:
        raise InputError(f"{name}: empty; a suite has a name and cases")
    if not isinstance(data, dict):
        raise InputError(
            f"{name}: expected keys such as `cases:` at the top, found a {type(data).__name__}"
        )
    try:
        return Suite.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        lines = [
            f"{name}{_line(root, x['loc'])}: {explain(x, Suite, _WHOLE)}"
            for x in problems[:_MAX_PROBLEMS]
        ]
        if len(problems) > _MAX_PROBLEMS:
            lines.append(f"{name}: and {len(problems) - _MAX_PROBLEMS} more")
        raise InputError("\n".join(lines)) from error


def _read(text: str, name: str) -> tuple[yaml.Node | None, Any]:
    """The text as YAML's nodes, which know their lines, and as values. Raises InputError."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        if root is not None:
            _refuse_traps(root, name)
        return root, yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{name}{_line_of(error)}: not YAML: {_yaml_problem(error)}") from error
    except RecursionError as error:
        raise InputError(f"{name}: nested too deeply; this is no suite") from error
    except ValueError as error:  # such as a date that there is not
        raise InputError(f"{name}: not YAML: {error}") from error


def json_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a suite file, for editors and CI."""
    return {
        **Suite.model_json_schema(),
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "spanscore test suite",
    }


def _refuse_traps(root: yaml.Node, name: str) -> None:
    """Refuse what would fill the memory once read, and what YAML would read in silence as something
    else.
    """
    if _count(root, {}, name) > _MAX_VALUES:
        raise InputError(
            f"{name}: its anchors stand for more than {_MAX_VALUES:,} values; this is no suite"
        )


def _line_of(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f":{mark.line + 1}"


def _yaml_problem(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None)
    text = " ".join(f"{context + ', ' if context else ''}{problem}".split())
    return f"{text}; indent with spaces, not with tabs" if "'\\t'" in text else text


def _line(node: yaml.Node | None, location: Sequence[str | int]) -> str:
    """`:12` for what stands on line 12 at `location`, or for the nearest that holds it."""
    line = None
    for part in location:
        found = next(_children(node, part), None)
        if found is None:
            continue  # pydantic names more than the file has, such as the kind of a value
        line, node = found
    return "" if line is None else f":{line + 1}"


def _children(node: yaml.Node | None, part: str | int) -> Iterator[tuple[int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                yield key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        yield node.value[part].start_mark.line, node.value[part]


def _count(node: yaml.Node, known: dict[int, int], name: str) -> int:
    """How many values a node stands for once its aliases are written out; each node is looked at
    once.
    """
    if id(node) not in known:
        if isinstance(node, yaml.MappingNode):
            _require_distinct([x for x, _ in node.value if isinstance(x, yaml.ScalarNode)], name)
        known[id(node)] = 1  # what holds itself is refused by the reader
        known[id(node)] += sum(_count(x, known, name) for x in _nested(node))
    return known[id(node)]


def _require_distinct(keys: Sequence[yaml.ScalarNode], name: str) -> None:
    """Refuse a key that stands in a mapping once more, of which YAML would silently take the
    last.
    """
    counts: Counter[str] = Counter()
    for key in keys:
        counts[key.value] += 1
        if counts[key.value] > 1:
            raise InputError(
                f"{name}:{key.start_mark.line + 1}: the key {key.value!r} is there twice; keep one"
            )


def _nested(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        yield from (x for pair in node.value for x in pair)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
