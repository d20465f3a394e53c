"""A session scored by the rubric: one call of a judge, and the overall score of what came of it."""

import asyncio
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import BaseModel

from spanscore.errors import InputError, JudgeAnswerError, JudgeTooLongError
from spanscore.evaluate.attempt import Attempt
from spanscore.evaluate.inquiry import LEAST_TOKENS
from spanscore.evaluate.planning import PlannedCall
from spanscore.evaluate.rubric import OVERALL, Rubric
from spanscore.evaluate.usage import shares, spent_on
from spanscore.judge.port import Answer, Judge, Prompt
from spanscore.judge.transcript import Renderer, Transcript, estimate_tokens
from spanscore.metrics import Criterion
from spanscore.metrics import rubric as criterial
from spanscore.metrics.rubric import Expected
from spanscore.metrics.rubric.overall import Overall
from spanscore.model.json import dumps
from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome, Score, Skip, reaches
from spanscore.model.trace import Session

_LEAST_COVERAGE = 0.5
_NOTHING_SPENT = JudgeUsage()
_NOTHING_SAID = criterial.Said({}, None, {})


class Graded(NamedTuple):
    """One score of the rubric, or why there is none."""

    metric: str
    scale: tuple[float, float]
    threshold: float
    outcome: Outcome
    evaluator: Evaluator
    usage: JudgeUsage


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of the criteria, by id; of the expected outcomes, None where nobody looked; who judged.

    `unanswered` says why the judge said nothing of the expected outcomes though it was asked.
    """

    outcomes: Mapping[str, Outcome]
    verdicts: Sequence[criterial.Verdict] | None
    evaluator: Evaluator
    usage: JudgeUsage = _NOTHING_SPENT
    unanswered: Failure | None = None


def measurable(rubric: Rubric, session: Session) -> tuple[tuple[Criterion, ...], dict[str, Outcome]]:
    """The criteria on which `session` can be scored, and by id why it cannot on the others."""
    skips: dict[str, Outcome] = {}
    for criterion in rubric.criteria:
        if (skip := criterion.unmeasurable(session)) is not None:
            skips[criterion.id] = skip
    return tuple(x for x in rubric.criteria if x.id not in skips), skips


async def by_judge(
    rubric: Rubric, session: Session, judge: Judge, show: Callable[[int], Transcript], longest: int, expected: Expected
) -> list[Graded]:
    """Score `session` by one call of `judge` about what `show` gives for a length in tokens: `longest`, or less.

    Where that is longer than the judge can read, it is asked about half as much, and so on.
    """
    criteria, outcomes = measurable(rubric, session)
    if not criteria:
        return _graded(rubric, session, expected, Findings(outcomes, None, _nobody()))
    model = rubric.model
    said = _NOTHING_SAID
    with Attempt("asking for the rubric") as attempt:
        models = (model,) if model else ()
        call = functools.partial(_call, criteria, session, expected)
        answer, transcript = await _asked(call, judge, show, longest, models, attempt)
        if isinstance(answer, JudgeAnswerError):
            said = criterial.said_in_part(answer.said, criteria, len(session.traces), len(expected.outcomes))
            if not said.findings:
                raise answer
            model = answer.model
            attempt.usage += spent_on(answer)
        else:
            said, model = criterial.said(answer.value, criteria), answer.model
            attempt.usage += answer.usage
        outcomes |= {x.id: _scored(x, said, transcript.metadata) for x in criteria}
    if attempt.outcome is not None:
        outcomes |= dict.fromkeys((x.id for x in criteria), attempt.outcome)
    digest = prompt_hash(criteria, expected.kinds, model)
    evaluator = Evaluator("LLM", "judge", Overall.version, model=model, prompt_hash=digest)
    unanswered = _invalid(said, criterial.OUTCOMES) if criterial.OUTCOMES in said.problems else None
    return _graded(rubric, session, expected, Findings(outcomes, said.verdicts, evaluator, attempt.usage, unanswered))


async def _asked(
    call: Callable[[Transcript], tuple[Prompt, type[BaseModel]]],
    judge: Judge,
    show: Callable[[int], Transcript],
    longest: int,
    models: Sequence[str],
    attempt: Attempt,
) -> tuple[Answer[BaseModel] | JudgeAnswerError, Transcript]:
    """The answer, or the error of one that is not valid as a whole, and the transcript that it is about.

    `attempt` is given what was spent on transcripts that were too long. Raises JudgeError.
    """
    while True:
        transcript = await asyncio.to_thread(show, longest)
        try:
            return await judge.ask(*call(transcript), models=models), transcript
        except JudgeAnswerError as error:
            return error, transcript
        except JudgeTooLongError as error:
            longest = transcript.tokens // 2
            if longest < LEAST_TOKENS:
                raise
            attempt.usage += spent_on(error)


def rendered(session: Session, render: Renderer, longest: int, expected: Expected) -> Transcript:
    """`session` for reading, in as many of the `longest` tokens as what is `expected` leaves.

    Raises InputError where that takes more than half of them: of what was recorded too little would be left.
    """
    beside = sum(map(estimate_tokens, expected.sections()))
    if 2 * beside > longest:
        raise InputError(
            f"what the case expects is about {beside:,} tokens long, and may take half of the {longest:,} that a judge "
            "is shown; shorten it, or raise judge.max_transcript_tokens"
        )
    return render(session, max_tokens=longest - beside)


def alike(rubric: Rubric, outcome: Outcome) -> list[Graded]:
    """One outcome for all scores of the run, where nothing could be scored."""
    names = [(x.metric, criterial.RubricMetric.scale, float(criterial.ACCEPTABLE)) for x in rubric.criteria]
    names.append((OVERALL, Overall.scale, rubric.pass_threshold))
    return [Graded(*x, outcome, _nobody(), _NOTHING_SPENT) for x in names if rubric.gives(x[0])]


def planned(rubric: Rubric, session: Session, transcript: Transcript, expected: Expected) -> list[PlannedCall]:
    """The one call of `by_judge`, without making it; none where no criterion can be scored."""
    criteria, _ = measurable(rubric, session)
    if not criteria:
        return []
    prompt, schema = _call(criteria, session, expected, transcript)
    models = (rubric.model,) if rubric.model else ()
    return [PlannedCall(tuple(x.metric for x in criteria), 1, prompt, schema, models, placeholders=0)]


@functools.lru_cache(maxsize=256)  # the same few for every session
def prompt_hash(criteria: tuple[Criterion, ...], kinds: Expected, model: str | None) -> str:
    """16 hex digits over all that decides how `criteria` are judged; of what a test case adds, only which kinds."""
    asked = criterial.question(criteria, kinds)
    schema = criterial.answer_schema(criteria, 1, len(kinds.outcomes)).model_json_schema()
    return hashlib.sha256(dumps([criterial.INSTRUCTIONS, asked, schema, model]).encode()).hexdigest()[:16]


def _call(
    criteria: Sequence[Criterion], session: Session, expected: Expected, transcript: Transcript
) -> tuple[Prompt, type[BaseModel]]:
    question = criterial.question(criteria, expected, transcript.redact)
    schema = criterial.answer_schema(criteria, len(session.traces), len(expected.outcomes))
    return Prompt(criterial.INSTRUCTIONS, transcript.text, question), schema


def _scored(criterion: Criterion, said: criterial.Said, of_transcript: Mapping[str, Any]) -> Outcome:
    if criterion.id in said.problems:
        return _invalid(said, criterion.id)
    finding = said.findings[criterion.id]
    if finding.level is None:
        return Skip(f"Not applicable: {finding.justification}", cause="not_applicable")
    failed = finding.level < criterial.ACCEPTABLE
    facts = {
        "turns": sorted(set(finding.turns)),
        "failure_code": finding.failure_code if failed else None,
        **of_transcript,
        **({"answer_in_part": True} if said.problems else {}),
    }
    return Score(float(finding.level), finding.justification, facts, criterion.label(finding.level))


def _invalid(said: criterial.Said, name: str) -> Failure:
    """The failure of a part of an answer of which other parts are valid."""
    problem = f"The judge gave no valid answer on {name}, not even after one repair: {said.problems[name]}"
    return Failure(JudgeAnswerError.__name__, problem)


def _nobody() -> Evaluator:
    return Evaluator("CODE", Overall.name, Overall.version)


def _graded(rubric: Rubric, session: Session, expected: Expected, findings: Findings) -> list[Graded]:
    """The scores that the run gives: each criterion's, then the overall one."""
    asked = [x.id for x in rubric.criteria if not isinstance(findings.outcomes[x.id], Skip) or findings.usage.calls]
    costs = dict(zip(asked, shares(findings.usage, len(asked)), strict=True)) if asked else {}
    threshold = float(criterial.ACCEPTABLE) if rubric.threshold is None else rubric.threshold
    found = [
        Graded(
            x.criterion.metric,
            criterial.RubricMetric.scale,
            threshold,
            _described(findings.outcomes[x.criterion.id], x.criterion, x.weight, session),
            findings.evaluator,
            costs.get(x.criterion.id, _NOTHING_SPENT),
        )
        for x in rubric.weighted
    ]
    if rubric.gives(OVERALL):
        least = rubric.pass_threshold if rubric.threshold is None else rubric.threshold
        whole = _overall(rubric, expected, findings, least)
        found.append(Graded(OVERALL, Overall.scale, least, whole, findings.evaluator, _NOTHING_SPENT))
    return [x for x in found if rubric.gives(x.metric)]


def _described(outcome: Outcome, criterion: Criterion, weight: float, session: Session) -> Outcome:
    if not isinstance(outcome, Score):
        return outcome
    facts = {
        "display_name": criterion.display_name,
        "tier": criterion.tier,
        "weight": weight,
        "type": criterion.kind,
        **outcome.metadata,
        "turn_trace_ids": [session.traces[index].trace_ids[0] for index in outcome.metadata["turns"]],
    }
    if criterion.kind == "binary":
        facts["passed"] = outcome.label == "pass"
    return replace(outcome, metadata=facts)


def _overall(rubric: Rubric, expected: Expected, findings: Findings, threshold: float) -> Outcome:
    """The overall score; `threshold` decides where no expected outcomes do."""
    failed = [x for x in (*findings.outcomes.values(), findings.unanswered) if isinstance(x, Failure)]
    if failed:
        return failed[0]
    scores = {name: x for name, x in findings.outcomes.items() if isinstance(x, Score)}
    idle, skipped = _without_score(findings.outcomes)
    weights = {x.criterion.id: x.weight for x in rubric.weighted}
    total = sum(weight for name, weight in weights.items() if name not in idle)
    covered = sum(weights[name] for name in scores)
    if idle and not scores and not skipped:
        return Skip(f"No criterion applies: {', '.join(idle)}.", cause="not_applicable")
    if expected.outcomes and findings.verdicts is None and scores:
        return Skip("Whether the expected outcomes hold needs a model.")
    if not covered or not reaches(covered / total, _LEAST_COVERAGE):
        share = covered / total if total else 0.0
        first = next(iter(skipped.values()), "They have no weight.")
        return Skip(f"Only {share:.0%} of the criteria's weight could be scored; not {', '.join(skipped)}. {first}")
    value = criterial.weighed((weights[name], score.value) for name, score in scores.items())
    verdicts = list(zip(expected.outcomes, findings.verdicts or (), strict=True))
    passed = all(x.passed for _, x in verdicts) if verdicts else reaches(value, threshold)
    facts = {
        "criteria": {
            name: {"score": int(x.value), "label": x.label, "weight": weights[name] / covered}
            for name, x in scores.items()
        },
        "coverage": covered / total,
        "skipped": skipped,
        "not_applicable": idle,
        "passed": passed,
        "decided_by": "expected_outcomes" if verdicts else "threshold",
        "expected_outcomes": [
            {"statement": statement, "passed": x.passed, "justification": x.justification} for statement, x in verdicts
        ],
        **({"evaluation_criteria_override": expected.emphasis} if expected.emphasis else {}),
        **({"transcript_elided": True} if any("transcript_elided" in x.metadata for x in scores.values()) else {}),
    }
    reason = " ".join([*_told(scores, verdicts, skipped, covered / total), *_beside(idle)])
    return Score(value, reason, facts, "pass" if passed else "fail")


def _without_score(outcomes: Mapping[str, Outcome]) -> tuple[dict[str, str], dict[str, str]]:
    """Why criteria have no score, by id: those that do not apply, whose weight goes to the others, and the skipped."""
    skips = {name: x for name, x in outcomes.items() if isinstance(x, Skip)}
    idle = {name: x.reason for name, x in skips.items() if x.cause == "not_applicable"}
    return idle, {name: x.reason for name, x in skips.items() if name not in idle}


def _beside(idle: Iterable[str]) -> list[str]:
    """What the reason of the overall score adds about criteria that do not apply."""
    return [f"Not applicable: {', '.join(idle)}."] if idle else []


def _worst_first(scores: Mapping[str, Score]) -> Iterator[str]:
    """Each criterion's score; those that are not acceptable first, with what the judge says of them."""
    ordered = sorted(scores.items(), key=lambda x: x[1].value)
    given = {name: f"{name} {score.value:.0f} ({score.label})" for name, score in ordered}
    bad = [name for name, score in ordered if score.value < criterial.ACCEPTABLE]
    yield from (f"{given[name]}: {scores[name].reason}" for name in bad)
    if fine := [text for name, text in given.items() if name not in bad]:
        yield f"{', '.join(fine)}."


def _told(
    scores: Mapping[str, Score],
    verdicts: Sequence[tuple[str, criterial.Verdict]],
    skipped: Mapping[str, str],
    coverage: float,
) -> Iterator[str]:
    """What the overall score rests on, in sentences."""
    if verdicts:
        unmet = [f"{statement} ({x.justification})" for statement, x in verdicts if not x.passed]
        yield f"{len(verdicts) - len(unmet)} of {len(verdicts)} expected outcomes hold."
        yield from (f"Not: {text}" for text in unmet)
    yield from _worst_first(scores)
    if skipped:
        yield f"Not scored: {', '.join(skipped)}; {coverage:.0%} of the weight was."
