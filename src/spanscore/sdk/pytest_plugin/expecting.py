"""Holds scores against what a test expects of them, and says in a failed test's words what is
wrong.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from spanscore.errors import InputError
from spanscore.evaluation.outcomes import Measured
from spanscore.model.json import loads
from spanscore.model.score import Evaluation, Failure, Score, Skip, SkipCause, reaches
from spanscore.model.trace import AgentTrace
from spanscore.sdk.authoring import attributes as names
from spanscore.sdk.authoring.expectations import ExpectedTools, expectation
from spanscore.suites import Case, Trial

_SHOWN_CHARS = 200
_SHOWN_CALLS = 8


class NoTurnError(AssertionError):
    """A test asks for a turn, and its agent emitted none that can be read."""


class NotScoredError(AssertionError):
    """What a test expects cannot be told: there is no score."""


class NotReachedError(AssertionError):
    """A score is not what a test expects."""


for _error in (NoTurnError, NotScoredError, NotReachedError):
    # where users find them, and what stands before the message of a failed test
    _error.__module__ = "spanscore"


class Bounds(NamedTuple):
    """What a score is to be, both limits included; without any, what its metric's threshold makes a
    pass.
    """

    at_least: float | None
    at_most: float | None

    def hold(self, evaluation: Evaluation) -> bool:
        """Whether a score keeps to them. Raises InputError where nothing says what a pass is."""
        value = evaluation.value
        if value is None:
            return False
        if self.at_least is None and self.at_most is None:
            if evaluation.passed is None:
                raise InputError(f"{evaluation.metric} has no threshold; give at_least or at_most")
            return evaluation.passed
        low = self.at_least is None or reaches(value, self.at_least)
        return low and (self.at_most is None or reaches(self.at_most, value))

    def in_words(self, evaluation: Evaluation) -> str:
        """What was expected, in words."""
        least = None if self.at_least is None else f"at least {self.at_least:g}"
        most = None if self.at_most is None else f"at most {self.at_most:g}"
        bounds = " and ".join(x for x in (least, most) if x)
        if bounds or evaluation.threshold is None:
            return bounds
        return f"at least {evaluation.threshold:g}, which is its threshold"


def require(
    metric: str,
    found: Sequence[Evaluation],
    bounds: Bounds,
    turns: Sequence[AgentTrace],
    how: Callable[[SkipCause], str] = lambda _: "",
) -> Evaluation:
    """The lowest score, where all are within bounds.

    Raises NotReachedError, NotScoredError or InputError.

    `how` says what may be done where there is no score.
    """
    __tracebackhide__ = True
    scored = [x for x in found if isinstance(x.outcome, Score)]
    missed = [x for x in scored if not bounds.hold(x)]
    if missed:
        raise NotReachedError("\n".join(_fault(x, bounds, turns) for x in missed))
    unknown = [x for x in found if not isinstance(x.outcome, Score) and not _does_not_apply(x)]
    if unknown or not scored:
        raise NotScoredError(_unknown(metric, (unknown or list(found))[:1], how))
    return min(scored, key=lambda x: x.value or 0.0)


def case_of(
    answer: object,
    tools: ExpectedTools | None,
    outcomes: str | Sequence[str],
    *,
    in_order: bool | None,
) -> Case:
    """What a test expects of a turn, as a case of a suite.

    Raises InputError where it cannot be one.
    """
    stated = expectation(answer, tools, outcomes, in_order=in_order)
    calls = (
        loads(str(stated[names.EXPECTED_TOOLS])) if stated[names.EXPECTED_TOOLS] is not None else []
    )
    case = {
        "id": "test",
        "expected_answer": stated[names.EXPECTED_ANSWER],
        "expected_tools": [
            {"tool_name": x["name"], "parameters": x.get("arguments")} for x in calls
        ],
        "tool_sequence_matters": in_order is not False,
        "final_answer_uses_tools": True,  # which nothing is said about here
        "expected_outcomes": stated[names.EXPECTED_OUTCOMES] or [],
    }
    try:
        return Case.model_validate(case)
    except ValidationError as error:
        problems = "; ".join(f"{x['loc'][0]}: {x['msg']}" for x in error.errors(include_url=False))
        raise InputError(f"expect: {problems}") from None


def require_outcome(trial: Trial, turn: AgentTrace, how: str) -> None:
    """Require that a turn came to what is expected; `how` to name a judge.

    Raises NotReachedError or NotScoredError.
    """
    __tracebackhide__ = True
    reasons = "; ".join(trial.reasons)
    if trial.status == "fail":
        raise NotReachedError(
            "\n".join([f"the turn is not what is expected: {reasons}", *described(turn)])
        )
    if trial.status != "pass":
        mend = f"; {how}" if _lacks_judge([*trial.evaluations, *trial.conversation.rulings]) else ""
        raise NotScoredError(
            f"whether the turn is as expected cannot be told: {reasons.rstrip('.')}{mend}"
        )


def _lacks_judge(found: Sequence[Evaluation | Measured]) -> bool:
    return any(isinstance(x.outcome, Skip) and x.outcome.cause == "no_judge" for x in found)


def _fault(evaluation: Evaluation, bounds: Bounds, turns: Sequence[AgentTrace]) -> str:
    """A score that is out of bounds, with why it is what it is, and what it is of."""
    by = f" by {evaluation.evaluator.model}" if evaluation.evaluator.model else ""
    expected = bounds.in_words(evaluation)
    lines = [f"{evaluation.metric} is {evaluation.value:.4g}{by}; expected is {expected}"]
    lines.append(f"  reason: {evaluation.reason}")
    turn = next((x for x in turns if x.id == evaluation.subject_id), None)
    return "\n".join([*lines, *(described(turn) if turn else [])])


def described(turn: AgentTrace) -> list[str]:
    """What a turn was, in a few lines."""
    calls = [f"{x.name} (failed)" if x.error else x.name for x in turn.tool_calls or ()]
    more = f" and {len(calls) - _SHOWN_CALLS} more" if len(calls) > _SHOWN_CALLS else ""
    lines = [f"  input:  {_short(turn.user_input)}"]
    lines += [f"  tools:  {', '.join(calls[:_SHOWN_CALLS])}{more}"] if calls else []
    return [*lines, f"  answer: {_short(turn.final_output)}"]


def _unknown(metric: str, found: Sequence[Evaluation], how: Callable[[SkipCause], str]) -> str:
    """Why there is no score, and what may be done about it."""
    if not found:
        return f"{metric} was not measured"
    outcome = found[0].outcome
    if isinstance(outcome, Failure):
        return f"{metric} has no score: {outcome.type}: {outcome.message}"
    unscored = f"{metric} has no score: {found[0].reason}"
    mend = how(outcome.cause) if isinstance(outcome, Skip) else ""
    return f"{unscored.rstrip('.')}; {mend}" if mend else unscored


def _does_not_apply(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.outcome, Skip) and evaluation.outcome.cause == "not_applicable"


def _short(text: str | None) -> str:
    if text is None:
        return "(not recorded)"
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
