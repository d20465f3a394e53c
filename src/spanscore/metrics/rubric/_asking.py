"""What the rubric judge is asked about a transcript, and the form of its answer: one call for all
criteria.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from string import Template
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    WithJsonSchema,
    create_model,
    model_validator,
)

from spanscore.judge.answer import read_parts
from spanscore.judge.fence import NOTICE
from spanscore.metrics._questions import EVIDENCE
from spanscore.metrics.rubric._criterion import ACCEPTABLE, HIGHEST, Criterion, Kind
from spanscore.metrics.rubric._expected import NOTHING_EXPECTED, OUTCOMES, Expected

NOT_APPLICABLE = "not_applicable"
_MAX_CODE_CHARS = 64
_CITED = re.compile(r"\[turns? (\d{1,6})\]", re.IGNORECASE)

INSTRUCTIONS = f"""\
You assess the work of AI agents by a rubric. You are given the transcript of a session of an \
agent: its turns, numbered from 0, each with what the user said, every step the agent took with \
the tools it called and what they returned, and what it answered. After the transcript stand the \
criteria.

{EVIDENCE}

How you judge:
- Judge each criterion for itself, over the whole session: a fault counts where it belongs, not \
everywhere.
- Take the level whose text fits best. 5 is not for effort, and 0 is not for a single fault. \
Between two levels that fit alike, the lower is for a fault from which the user suffers.
- That a tool failed is no fault of the agent; what the agent made of it may be one. A question \
that the user had to be asked is none.
- A criterion that says when it does not apply is then answered with {NOT_APPLICABLE}: neither \
good nor bad. It does apply where only a part of the session gave occasion, where it was met \
easily, and where it is hard to judge.
- Begin each justification with the fault that decides, and cite the turns that do, as [turn 3].
- Answer with one JSON object of the form that is asked for, and nothing else.

{NOTICE}"""
"""The system message of the rubric judge."""

_QUESTION = Template("""\
Score the session on each of the following criteria, each under its own key.

For a criterion with a score give: justification (one to three sentences that cite turns, as [turn \
3]), turns (the indices of the turns in which the fault shows; empty where there is none), score \
(a whole number from 0 to 5) and failure_code (a short name of the main fault in snake_case, such \
as wrong_tool_selected, where the score is below 3; else null).
For a criterion to pass or fail give the same with passed (true or false) in place of the score; \
failure_code is null where it passed. The levels from 3 on are a pass.
Where a criterion does not apply, as it says itself, the score, or passed, is "not_applicable", \
and the justification says why.

$criteria""")
_CRITERION = Template("## $id: $name\n$description\n$levels")
_NO_OCCASION = Template(f"\n{NOT_APPLICABLE}: $when")


def question(
    criteria: Sequence[Criterion],
    expected: Expected = NOTHING_EXPECTED,
    redact: Callable[[str], str] = str,
) -> str:
    """What stands after the transcript; what is `expected` goes through `redact`."""
    questions = _QUESTION.substitute(criteria="\n\n".join(map(_question_on, criteria)))
    return "\n\n".join([questions, *expected.sections(redact)])


def _question_on(criterion: Criterion) -> str:
    kind = "a score" if criterion.kind == "scored" else "pass or fail"
    shown = [f"{level}: {text}" for level, text in enumerate(criterion.levels) if text][::-1]
    when = criterion.no_occasion
    beside = _NO_OCCASION.substitute(when=when) if when else ""
    return _CRITERION.substitute(
        id=criterion.id,
        name=f"{criterion.display_name} ({kind})",
        description=criterion.description,
        levels="\n".join(shown) + beside,
    )


def _code(value: Any) -> Any:
    """A failure code as snake_case, whatever a model writes between its words."""
    if not isinstance(value, str):
        return value
    return "_".join(re.findall(r"[a-z0-9]+", value.lower()))[:_MAX_CODE_CHARS] or None


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("write a whole number, not true or false")  # noqa: TRY004 - pydantic tells ValueErrors
    return value


_Level = Annotated[int, Field(strict=True, ge=0, le=HIGHEST), BeforeValidator(_no_truth)]
NotApplicable = Annotated[
    Literal["not_applicable"], WithJsonSchema({"type": "string", "enum": [NOT_APPLICABLE]})
]
"""As an enumeration, since not every provider that is given a schema knows `const`."""


class Finding(BaseModel):
    """What the judge says of one criterion."""

    model_config = ConfigDict(frozen=True)

    justification: Annotated[str, Field(min_length=1)]
    turns: list[int]
    failure_code: Annotated[str | None, BeforeValidator(_code)]

    @property
    def level(self) -> int | None:
        """The score, from 0 to 5; None where the criterion does not apply."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _says_what_failed(self) -> "Finding":
        if self.level is not None and self.level < ACCEPTABLE and self.failure_code is None:
            raise ValueError(
                "failure_code: a fault needs a name in snake_case, such as wrong_tool_selected"
            )
        return self


class Scored(Finding):
    """Of a criterion with a score."""

    score: _Level | NotApplicable

    @property
    def level(self) -> int | None:
        """The score."""
        return self.score if isinstance(self.score, int) else None


class Passed(Finding):
    """Of a criterion to pass or fail."""

    passed: StrictBool | NotApplicable

    @property
    def level(self) -> int | None:
        """5 for a pass, 0 for a fail."""
        return (HIGHEST if self.passed else 0) if isinstance(self.passed, bool) else None


_FORMS: Mapping[Kind, tuple[type[Finding], Mapping[str, Any]]] = {
    "scored": (Scored, {"score": (_Level, ...)}),
    "binary": (Passed, {"passed": (StrictBool, ...)}),
}
"""For each kind of criterion what is said of it, and the field that then has no
"not_applicable".
"""


class Verdict(BaseModel):
    """What the judge says of one expected outcome."""

    model_config = ConfigDict(frozen=True)

    justification: Annotated[str, Field(min_length=1)]
    passed: StrictBool


def answer_schema(criteria: Sequence[Criterion], turns: int, outcomes: int = 0) -> type[BaseModel]:
    """The form of the answer about a session of so many `turns`: an object with a member for each
    criterion's id.
    """
    return _schema(tuple((x.id, x.kind, x.no_occasion is None) for x in criteria), turns, outcomes)


class CriteriaAnswers(NamedTuple):
    """What an answer says: of each criterion by its id, and of the expected outcomes; what is wrong
    with the rest.
    """

    findings: Mapping[str, Finding]
    verdicts: Sequence[Verdict] | None
    problems: Mapping[str, str]


def outcomes_of(answer: BaseModel, criteria: Sequence[Criterion]) -> CriteriaAnswers:
    """What a valid answer says."""
    found = {x.id: getattr(answer, _field(x.id)) for x in criteria}
    return CriteriaAnswers(found, list(getattr(answer, _field(OUTCOMES), ())), {})


def valid_outcomes(
    text: str, criteria: Sequence[Criterion], turns: int, outcomes: int = 0
) -> CriteriaAnswers:
    """What an answer that is not valid as a whole says validly: each criterion stands by itself, as
    it was asked.
    """
    schemas = {x.id: answer_schema((x,), turns) for x in criteria}
    if outcomes:
        schemas[OUTCOMES] = answer_schema((), turns, outcomes)
    parts = read_parts(text, schemas)
    valid = {
        name: getattr(part, _field(name))
        for name, part in parts.items()
        if isinstance(part, BaseModel)
    }
    verdicts = valid.pop(OUTCOMES, None if outcomes else [])
    return CriteriaAnswers(
        valid, verdicts, {name: str(x) for name, x in parts.items() if not isinstance(x, BaseModel)}
    )


@functools.lru_cache(maxsize=256)
def _schema(
    criteria: tuple[tuple[str, Kind, bool], ...], turns: int, outcomes: int
) -> type[BaseModel]:
    """`criteria` are ids and kinds, and whether each applies to every session."""
    kinds = {(kind, always): _bounded(kind, turns, always=always) for _, kind, always in criteria}
    fields: dict[str, Any] = {
        _field(name): (kinds[kind, always], Field(alias=name)) for name, kind, always in criteria
    }
    if outcomes:
        each = Annotated[list[Verdict], Field(min_length=outcomes, max_length=outcomes)]
        fields[_field(OUTCOMES)] = (each, Field(alias=OUTCOMES))
    return create_model("Rubric", __config__=ConfigDict(frozen=True), **fields)


def _bounded(kind: Kind, turns: int, *, always: bool) -> type[Finding]:
    """What is said of a criterion of that kind, which names no turn that there is not; `always`: it
    has to apply.
    """

    def cited(text: str) -> str:
        beyond = [number for number in _CITED.findall(text) if int(number) >= turns]
        if beyond:
            raise ValueError(
                f"there is no turn {beyond[0]}; the session has the turns 0 to {turns - 1}"
            )
        return text

    index = Annotated[int, Field(strict=True, ge=0, lt=turns), BeforeValidator(_no_truth)]
    fields: dict[str, Any] = {
        "justification": (Annotated[str, Field(min_length=1), AfterValidator(cited)], ...),
        "turns": (list[index], ...),
    }
    base, always_given = _FORMS[kind]
    if always:
        return create_model(base.__name__, __base__=base, **fields, **always_given)
    return create_model(f"{base.__name__}IfApplicable", __base__=base, **fields)


def _field(name: str) -> str:
    """A name that no member of a pydantic model has."""
    return f"of_{name}"
