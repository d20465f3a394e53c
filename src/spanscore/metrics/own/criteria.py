"""Custom metrics from criteria in plain words."""

import dataclasses
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model

from spanscore.errors import InputError
from spanscore.metrics._base import Answers, Judged, JudgedSession, Model, Question, Threshold
from spanscore.metrics.own.registry import (
    MIDDLE,
    Origin,
    check_name,
    checked_facts,
    checked_scale,
    checked_threshold,
    is_finite,
    lacking,
    lacking_in_session,
    register,
)
from spanscore.metrics.rubric._criteria import NOT_APPLICABLE, NotApplicable
from spanscore.model.options import Described
from spanscore.model.score import Outcome, ScopeKind, Score, Skip
from spanscore.model.trace import AgentTrace, Session

YES_NO: Final = "yes/no"
YesNo: TypeAlias = Literal["yes/no"]

_MAX_CHARACTERS = 4000
_MAX_ANCHORS = 101
_TRUTHS = {"yes": True, "true": True, "pass": True, "no": False, "false": False, "fail": False}


@dataclass(frozen=True)
class Criterion:
    """What is asked, and on which scale it is answered.

    `anchors` say what values of the scale mean; where the scale is `yes/no`, what yes (1.0) and no
    (0.0) do. `not_applicable` says when there is nothing to judge, which the judge may then answer.
    """

    ask: str
    scale: tuple[float, float]
    is_yes_no: bool
    anchors: tuple[tuple[float, str], ...] = ()
    not_applicable: str | None = None

    @property
    def whole_numbers(self) -> bool:
        """Whether the judge answers in whole numbers: on every scale between whole numbers that is
        longer than 1.
        """
        low, high = self.scale
        return high - low > 1 and low.is_integer() and high.is_integer()

    def question(self) -> str:
        """The question, as a judge is asked."""
        return "\n".join([self.ask, self._answer(), *self._levels(), *self._exception()])

    def _answer(self) -> str:
        if self.is_yes_no:
            return "score: true for yes, false for no."
        low, high = self.scale
        kind = "a whole number" if self.whole_numbers else "a number"
        return f"score: {kind} from {low:g} to {high:g}."

    def _levels(self) -> list[str]:
        if self.is_yes_no:
            return [
                f"- {'true' if value else 'false'}: {meaning}" for value, meaning in self.anchors
            ]
        if self.anchors:
            return ["Guide:", *(f"- {value:g}: {meaning}" for value, meaning in self.anchors)]
        low, high = self.scale
        ends = f"{high:g} is a full yes without any fault, {low:g} a clear no"
        return [f"Guide: {ends}; below the middle lies what has a fault that matters."]

    def _exception(self) -> list[str]:
        if self.not_applicable is None:
            return []
        when = f"Where the following holds, it does not apply: {self.not_applicable}"
        return [f'{when}\nThe score is then "not_applicable", and the reason says why.']


def described(
    ask: str,
    scale: Sequence[float] | YesNo | None = None,
    anchors: Mapping[Any, str] | None = None,
    not_applicable: str | None = None,
) -> Criterion:
    """A criterion as `spanscore.criterion` and the configuration describe one.

    Raises InputError on what cannot be.

    >>> described("How kind is it?", anchors={0: "rude", 5: "kind"}).scale
    (0.0, 5.0)
    >>> described(
    ...     "Is it kind?", anchors={True: "kind throughout", False: "rude somewhere"}
    ... ).is_yes_no
    True
    """
    question = _text("ask", ask)
    when = None if not_applicable is None else _text("not_applicable", not_applicable)
    meanings = {key: _text(f"the anchor {key}", text) for key, text in (anchors or {}).items()}
    if len(meanings) > _MAX_ANCHORS:
        raise InputError(f"there are {len(meanings)} anchors; give at most {_MAX_ANCHORS}")
    are_truths = bool(meanings) and all(_truth(key) is not None for key in meanings)
    if scale == YES_NO or (scale is None and are_truths):
        return Criterion(
            question, (0.0, 1.0), is_yes_no=True, anchors=_of_truths(meanings), not_applicable=when
        )
    if not all(map(is_finite, meanings)):
        raise InputError(
            f"anchors: {list(meanings)} are not all numbers on the scale; give numbers, or yes"
            " and no"
        )
    ends = checked_scale(scale if scale is not None else _ends(meanings))
    for value in meanings:
        if not ends[0] <= value <= ends[1]:
            raise InputError(
                f"anchors: {value:g} is not on the scale, which is {ends[0]:g} to {ends[1]:g}"
            )
    in_order = sorted(((float(value), text) for value, text in meanings.items()), reverse=True)
    return Criterion(question, ends, is_yes_no=False, anchors=tuple(in_order), not_applicable=when)


def _ends(meanings: Mapping[float, str]) -> tuple[float, float]:
    return (min(meanings), max(meanings)) if len(meanings) > 1 else (0.0, 1.0)


def _of_truths(meanings: Mapping[Any, str]) -> tuple[tuple[float, str], ...]:
    for key in meanings:
        if _truth(key) is None:
            raise InputError(f"anchors: {key!r} is neither yes nor no")
    return tuple(
        sorted(((float(bool(_truth(key))), text) for key, text in meanings.items()), reverse=True)
    )


def _truth(key: Any) -> bool | None:
    """What a key stands for: YAML reads `yes` as true, Python's authors write True."""
    if isinstance(key, bool):
        return key
    return _TRUTHS.get(key.lower()) if isinstance(key, str) else None


def _text(what: str, given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"{what}: write a text; {given!r} is none")
    if len(given) > _MAX_CHARACTERS:
        raise InputError(
            f"{what}: longer than {_MAX_CHARACTERS} characters; a judge does better with a"
            " short one"
        )
    return given.strip()


NEEDS = ("user_input", "final_output")


class _Explained(Described):
    """A judge's answer to a criterion; the reason stands before the score, so that a model writes
    it first.
    """

    model_config = ConfigDict(frozen=True)

    reason: Annotated[str, Field(min_length=1)]
    """What decides, in one to three sentences that name the step, the value or the words it rests
    on.
    """


@functools.lru_cache(maxsize=1024)
def _answer(criterion: Criterion) -> type[BaseModel]:
    """The model of a judge's answer: a reason, then a score."""
    low, high = criterion.scale
    kind: Any
    if criterion.is_yes_no:
        kind = Annotated[bool, Field(strict=True)]
    elif criterion.whole_numbers:
        kind = Annotated[int, Field(strict=True, ge=int(low), le=int(high))]
    else:
        kind = Annotated[float, Field(strict=True, ge=low, le=high, allow_inf_nan=False)]
    if criterion.not_applicable is not None:
        kind = kind | NotApplicable
    return create_model("Verdict", __base__=_Explained, score=(kind, ...))


class _OfCriterion:
    """What criteria of traces and of sessions have in common."""

    criterion: ClassVar[Criterion]
    key: ClassVar[str]
    threshold: Any

    def threshold_for(self, embedding: str | None) -> float | None:
        """The threshold; None where scores get no label."""
        del embedding
        limit: float | None = self.threshold
        return limit

    def settle(self, subject: Any, answers: Answers) -> Outcome | None:
        """The judge's answer as a score; a Skip where the judge finds nothing to judge."""
        del subject
        answer = answers.get(self.key)
        if answer is None:
            return None
        if answer.score == NOT_APPLICABLE:
            return Skip(answer.reason, "not_applicable")
        return Score(float(answer.score), answer.reason)


@dataclass(frozen=True)
class CriterionMetric(_OfCriterion, Judged):
    """A criterion of a trace; `criterion` makes a subclass of each."""

    def unmeasurable(self, trace: AgentTrace) -> Skip | None:
        """Why `trace` cannot be judged: a fact in `needs` was not recorded, or arrived damaged."""
        return lacking(trace, self.needs)


@dataclass(frozen=True)
class SessionCriterionMetric(_OfCriterion, JudgedSession):
    """A criterion of a session; `criterion` makes a subclass of each."""

    def unmeasurable_session(self, session: Session) -> Skip | None:
        """Why `session` cannot be judged: no turn recorded a fact in `needs` whole."""
        return lacking_in_session(session, self.needs)


def criterion(
    name: str,
    ask: str,
    *,
    scale: Sequence[float] | Literal["yes/no"] | None = None,
    anchors: Mapping[Any, str] | None = None,
    needs: Iterable[str] | str = NEEDS,
    threshold: float | None = MIDDLE,
    scope: ScopeKind = "trace",
    not_applicable: str | None = None,
    model: str | None = None,
    version: str = "1",
) -> type[Judged]:
    """Make a metric of a question in plain words, which the judge answers about a trace or a
    session.

    `ask` is the question. `scale` is (low, high), by default 0 to 1, or `"yes/no"`; on a scale
    between whole numbers that is longer than 1 the judge answers in whole numbers. `anchors` say
    what values on the scale mean, such as `{0: "rude", 5: "kind"}`, or `{True: …, False: …}`, which
    makes the scale yes/no; without `scale`, its ends are the lowest and the highest anchor. `needs`
    names the facts (fields of `AgentTrace`) without which it is skipped; of a session, one turn
    must have each. `not_applicable` says when there is nothing to judge: the judge may then say so,
    and the outcome is a Skip. `threshold`, from which on the label is `pass`, is the middle of the
    scale unless given. `model` judges in place of the configured one.

    Returns the metric, which is known under its name from now on. Raises InputError on what cannot
    be asked.
    """
    origin = _origin(name, sys._getframe(1))  # noqa: SLF001 - two calls from one place are the same criterion
    made = metric_of_criterion(
        name,
        described(ask, scale, anchors, not_applicable),
        needs=needs,
        threshold=threshold,
        scope=scope,
        model=model,
        version=version,
        module=origin.module,
    )
    register(made, origin)
    return made


def metric_of_criterion(
    name: str,
    criterion: Criterion,
    *,
    needs: Iterable[str] | str = NEEDS,
    threshold: float | None = MIDDLE,
    scope: ScopeKind = "trace",
    model: str | None = None,
    version: str = "1",
    module: str = __name__,
) -> type[Judged]:
    """The metric of a criterion, which is not made known yet.

    Raises InputError on what cannot be.
    """
    check_name(name)
    if scope not in {"trace", "session"}:
        raise InputError(f"{name}: the scope {scope!r} is neither 'trace' nor 'session'")
    key = "criterion_" + name.replace(".", "__")
    text = criterion.question().replace("$", "$$")  # a question is a template
    limit = checked_threshold(name, threshold, criterion.scale)
    facts = {
        "name": name,
        "summary": " ".join(criterion.ask.split()),
        "scale": criterion.scale,
        "version": version,
        "needs": checked_facts(needs),
        "criterion": criterion,
        "key": key,
        "stages": ((Question(key, text, _answer(criterion)),),),
        "__doc__": f"A criterion in plain words: {criterion.ask}",
    }
    base = CriterionMetric if scope == "trace" else SessionCriterionMetric
    fields = [
        ("threshold", Threshold | None, dataclasses.field(default=limit)),
        ("model", Model, dataclasses.field(default=model)),
    ]
    made = dataclasses.make_dataclass(
        name.replace(".", "_"), fields, bases=(base,), namespace=facts, frozen=True
    )
    made.__module__ = module
    return made


def _origin(name: str, caller: FrameType) -> Origin:
    """Where a criterion was made: of one that a function makes, the place says so."""
    code = caller.f_code
    place = name if code.co_name == "<module>" else f"{code.co_qualname}.<locals>.{name}"
    return Origin(caller.f_globals.get("__name__", ""), code.co_filename, place)
