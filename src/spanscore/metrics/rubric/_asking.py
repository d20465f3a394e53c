"""What the rubric judge is asked about a transcript, and the form of its answer: one call for all criteria."""

import functools
import re
from collections.abc import Mapping, Sequence
from string import Template
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from spanscore.judge.answer import read_parts
from spanscore.judge.fence import NOTICE
from spanscore.metrics.rubric._criterion import ACCEPTABLE, HIGHEST, Criterion, Kind

OUTCOMES = "expected_outcomes"
_MAX_CODE_CHARS = 64
_CITED = re.compile(r"\[turns? (\d{1,6})\]", re.IGNORECASE)

INSTRUCTIONS = f"""\
You assess the work of AI agents by a rubric. You are given the transcript of a session of an agent: its turns, \
numbered from 0, each with what the user said, every step the agent took with the tools it called and what they \
returned, and what it answered. After the transcript stand the criteria.

How you work:
- Judge by the transcript alone. Do not assume what it does not show, and do not credit intentions.
- Judge each criterion for itself: a fault counts where it belongs, not everywhere.
- Take the level whose text fits best. 5 is not for effort, and 0 is not for a single fault.
- "(not recorded)" means that nobody knows; hold it neither against the agent nor in its favour.
- Where the session gave no occasion for a criterion (no tool was needed and none was called), it is 5; say so.
- Cite the turns that decide, as [turn 3].
- Answer with one JSON object of the form that is asked for, and nothing else.

{NOTICE}"""
"""The system message of the rubric judge."""

_QUESTION = Template("""\
Score the session on each of the following criteria, each under its own key.

For a criterion with a score give: justification (one to three sentences that cite turns, as [turn 3]), turns (the \
indices of the turns in which the fault shows; empty where there is none), score (a whole number from 0 to 5) and \
failure_code (a short name of the main fault in snake_case, such as wrong_tool_selected, where the score is below 3; \
else null).
For a criterion to pass or fail give the same with passed (true or false) in place of the score; failure_code is null \
where it passed. The levels from 3 on are a pass.

$criteria""")
_CRITERION = Template("## $id: $name\n$description\n$levels")
_EXPECTED = Template("""\
## $key
This is what should have come of the session. For each statement, in this order, say whether it holds by the end of \
the session: justification (cite turns), then passed (true or false). What the record does not show to hold has not \
passed.
$statements""")
_EMPHASIS = Template("""\
## What matters most in this case
$text
Let this weigh in the criteria that it concerns; the levels stay as they are.""")


def question(criteria: Sequence[Criterion], outcomes: Sequence[str] = (), emphasis: str = "") -> str:
    """What stands after the transcript."""
    parts = [_QUESTION.substitute(criteria="\n\n".join(map(_told, criteria)))]
    if outcomes:
        numbered = "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(outcomes, 1))
        parts.append(_EXPECTED.substitute(key=OUTCOMES, statements=numbered))
    if emphasis:
        parts.append(_EMPHASIS.substitute(text=emphasis.strip()))
    return "\n\n".join(parts)


def _told(criterion: Criterion) -> str:
    kind = "a score" if criterion.kind == "scored" else "pass or fail"
    shown = [f"{level}: {text}" for level, text in enumerate(criterion.levels) if text][::-1]
    return _CRITERION.substitute(
        id=criterion.id,
        name=f"{criterion.display_name} ({kind})",
        description=criterion.description,
        levels="\n".join(shown),
    )


def _code(value: Any) -> Any:
    """A failure code as snake_case, whatever a model writes between its words."""
    if not isinstance(value, str):
        return value
    return "_".join(re.findall(r"[a-z0-9]+", value.lower()))[:_MAX_CODE_CHARS] or None


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("write a whole number from 0 to 5, not true or false")  # noqa: TRY004 - pydantic tells ValueErrors
    return value


class Finding(BaseModel):
    """What the judge says of one criterion."""

    model_config = ConfigDict(frozen=True)

    justification: Annotated[str, Field(min_length=1)]
    turns: list[int]
    failure_code: Annotated[str | None, BeforeValidator(_code)]

    @property
    def level(self) -> int:
        """The score, from 0 to 5."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _says_what_failed(self) -> "Finding":
        if self.level < ACCEPTABLE and self.failure_code is None:
            raise ValueError("failure_code: a fault needs a name in snake_case, such as wrong_tool_selected")
        return self


class Scored(Finding):
    """Of a criterion with a score."""

    score: Annotated[int, Field(ge=0, le=HIGHEST), BeforeValidator(_no_truth)]

    @property
    def level(self) -> int:
        """The score."""
        return self.score


class Passed(Finding):
    """Of a criterion to pass or fail."""

    passed: bool

    @property
    def level(self) -> int:
        """5 for a pass, 0 for a fail."""
        return HIGHEST if self.passed else 0


class Verdict(BaseModel):
    """What the judge says of one expected outcome."""

    model_config = ConfigDict(frozen=True)

    justification: Annotated[str, Field(min_length=1)]
    passed: bool


def answer_schema(criteria: Sequence[Criterion], turns: int, outcomes: int = 0) -> type[BaseModel]:
    """The form of the answer about a session of so many `turns`: an object with a member for each criterion's id."""
    return _schema(tuple((x.id, x.kind) for x in criteria), turns, outcomes)


class Said(NamedTuple):
    """What an answer says: of each criterion by its id, and of the expected outcomes; what is wrong with the rest."""

    findings: Mapping[str, Finding]
    verdicts: Sequence[Verdict] | None
    problems: Mapping[str, str]


def said(answer: BaseModel, criteria: Sequence[Criterion]) -> Said:
    """What a valid answer says."""
    found = {x.id: getattr(answer, _field(x.id)) for x in criteria}
    return Said(found, list(getattr(answer, _field(OUTCOMES), ())), {})


def said_in_part(text: str, criteria: Sequence[Criterion], turns: int, outcomes: int = 0) -> Said:
    """What an answer that is not valid as a whole says validly: each criterion stands by itself, as it was asked."""
    schemas = {x.id: answer_schema((x,), turns) for x in criteria}
    if outcomes:
        schemas[OUTCOMES] = answer_schema((), turns, outcomes)
    parts = read_parts(text, schemas)
    valid = {name: getattr(part, _field(name)) for name, part in parts.items() if isinstance(part, BaseModel)}
    verdicts = valid.pop(OUTCOMES, None if outcomes else [])
    return Said(valid, verdicts, {name: str(x) for name, x in parts.items() if not isinstance(x, BaseModel)})


@functools.lru_cache(maxsize=256)
def _schema(criteria: tuple[tuple[str, Kind], ...], turns: int, outcomes: int) -> type[BaseModel]:
    kinds = {"scored": _bounded(Scored, turns), "binary": _bounded(Passed, turns)}
    fields: dict[str, Any] = {_field(name): (kinds[kind], Field(alias=name)) for name, kind in criteria}
    if outcomes:
        each = Annotated[list[Verdict], Field(min_length=outcomes, max_length=outcomes)]
        fields[_field(OUTCOMES)] = (each, Field(alias=OUTCOMES))
    return create_model("Rubric", __config__=ConfigDict(frozen=True), **fields)


def _bounded(kind: type[Finding], turns: int) -> type[Finding]:
    """`kind`, which then names no turn that there is not."""

    def cited(text: str) -> str:
        beyond = [number for number in _CITED.findall(text) if int(number) >= turns]
        if beyond:
            raise ValueError(f"there is no turn {beyond[0]}; the session has the turns 0 to {turns - 1}")
        return text

    index = Annotated[int, Field(ge=0, lt=turns)]
    fields: dict[str, Any] = {
        "justification": (Annotated[str, Field(min_length=1), AfterValidator(cited)], ...),
        "turns": (list[index], ...),
    }
    return create_model(kind.__name__, __base__=kind, **fields)


def _field(name: str) -> str:
    """A name that no member of a pydantic model has."""
    return f"of_{name}"
