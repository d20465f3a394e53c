"""A session graded by the rubric."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from pydantic import BaseModel

from spanscore.errors import InputError, JudgeAnswerError, JudgeTooLongError
from spanscore.evaluation.inquiry import LEAST_TOKENS, PlannedCall
from spanscore.evaluation.measurement import cascade_of, combined
from spanscore.evaluation.outcomes import (
    Attempt,
    Graded,
    Measured,
    given,
    named,
    no_judge,
    shares,
    spent_on,
)
from spanscore.evaluation.questions import digest
from spanscore.evaluation.rubric import OVERALL, Findings, Rubric, overall
from spanscore.judge.config import Config
from spanscore.judge.port import Answer, Judge, Prompt
from spanscore.judge.transcript import Renderer, Transcript, estimate_tokens
from spanscore.metrics import Criterion, rubric as criterial
from spanscore.metrics.rubric import NOTHING_EXPECTED, Expected
from spanscore.metrics.rubric.built_in import Overall
from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome, Score, Skip, reaches
from spanscore.model.trace import Session

_NO_FINDINGS = criterial.CriteriaAnswers({}, None, {})


class Grading:
    """Scores sessions by the rubric. No more than `slots` allow wait for the judge at once."""

    def __init__(
        self, judge: Judge | None, render: Renderer, slots: asyncio.Semaphore, config: Config
    ) -> None:
        """`judge` None: all scores are skipped.

        Of `config` it uses how long a transcript a judge is shown, how often it is asked (each
        score is the mean of what it gave), and which cheaper model is asked first.
        """
        self._judge = judge
        self._render = render
        self._longest = config.max_transcript_tokens
        self._slots = slots
        self._samples = config.samples
        self._cascade = config.cascade

    async def graded(self, rubric: Rubric, session: Session, expected: Expected) -> list[Graded]:
        """The scores that `rubric` gives for `session`; where anything raises, that is the outcome
        of all of them.
        """
        with Attempt("the rubric") as attempt:
            if self._judge is None:
                return _alike(rubric, no_judge("the rubric"))
            judged = partial(self._averaged, session=session, expected=expected, judge=self._judge)
            cascade = cascade_of(self._cascade, rubric)
            if cascade is None:
                return await judged(rubric)
            first = await judged(cascade.first)
            if not cascade.is_in_doubt(first):
                return cascade.kept(first)
            return cascade.escalated(first, await judged(rubric))
        return _alike(rubric, given(attempt.outcome))

    async def _averaged(
        self, rubric: Rubric, session: Session, expected: Expected, judge: Judge
    ) -> list[Graded]:
        show = partial(_rendered, session, self._render, expected)

        async def sampled(sample: int) -> list[Graded]:
            async with self._slots:
                return await _by_judge(
                    rubric, session, judge, show, self._longest, expected, sample
                )

        return averaged(rubric, await asyncio.gather(*map(sampled, range(self._samples))))

    def planned(self, rubric: Rubric, session: Session) -> list[PlannedCall]:
        """The call that the judge would get, once for each sample, and of a cascade as if it left
        the first model in doubt.

        There is none without a judge, or where no criterion can be scored.
        """
        if self._judge is None:
            return []
        criteria, _ = _measurable(rubric, session)
        if not criteria:
            return []
        prompt, schema = _call(criteria, session, NOTHING_EXPECTED, self._render(session))
        names = tuple(x.metric for x in criteria)
        cascade = cascade_of(self._cascade, rubric)
        asked = [rubric] if cascade is None else [cascade.first, rubric]
        return [
            PlannedCall(names, 1, replace(prompt, sample=sample), schema, x.models, placeholders=0)
            for sample in range(self._samples)
            for x in asked
        ]


def _measurable(
    rubric: Rubric, session: Session
) -> tuple[tuple[Criterion, ...], dict[str, Outcome]]:
    """The criteria on which `session` can be scored, and by id why it cannot on the others."""
    found = {x.id: x.unmeasurable(session) for x in rubric.criteria}
    skips: dict[str, Outcome] = {name: skip for name, skip in found.items() if skip is not None}
    return tuple(x for x in rubric.criteria if x.id not in skips), skips


async def _by_judge(
    rubric: Rubric,
    session: Session,
    judge: Judge,
    show: Callable[[int], Transcript],
    longest: int,
    expected: Expected,
    sample: int,
) -> list[Graded]:
    """Score `session` by one call of `judge` about what `show` gives for a length in tokens:
    `longest`, or less.

    Where that is longer than the judge can read, it is asked about half as much, and so on.
    `sample`: which of several answers to the same question is wanted.
    """
    criteria, outcomes = _measurable(rubric, session)
    if not criteria:
        return _graded(rubric, session, expected, Findings(outcomes, None, _nobody()))
    model = rubric.model
    findings, has_pictures = _NO_FINDINGS, False
    with Attempt("asking for the rubric") as attempt:
        call = partial(_call, criteria, session, expected, sample=sample)
        answer, transcript = await _answers_of(call, judge, show, longest, rubric.models, attempt)
        has_pictures = bool(transcript.pictures)
        if isinstance(answer, JudgeAnswerError):
            findings = criterial.valid_outcomes(
                answer.answer, criteria, len(session.traces), len(expected.outcomes)
            )
            if not findings.findings:
                raise answer
            model = answer.model
            attempt.usage += spent_on(answer)
        else:
            findings, model = criterial.outcomes_of(answer.value, criteria), answer.model
            attempt.usage += answer.usage
        outcomes |= {x.id: _scored(x, findings, transcript.metadata) for x in criteria}
    if attempt.outcome is not None:
        outcomes |= dict.fromkeys((x.id for x in criteria), attempt.outcome)
    hashed = prompt_hash(criteria, expected.kinds, model, pictures=has_pictures)
    evaluator = Evaluator("LLM", "judge", Overall.version, model=model, prompt_hash=hashed)
    name = criterial.OUTCOMES
    unanswered = _invalid(findings, name) if name in findings.problems else None
    found = Findings(outcomes, findings.verdicts, evaluator, attempt.usage, unanswered)
    return _graded(rubric, session, expected, found)


async def _answers_of(
    call: Callable[[Transcript], tuple[Prompt, type[BaseModel]]],
    judge: Judge,
    show: Callable[[int], Transcript],
    longest: int,
    models: Sequence[str],
    attempt: Attempt,
) -> tuple[Answer[BaseModel] | JudgeAnswerError, Transcript]:
    """The answer, or the error of one that is not valid as a whole, and the transcript that it is
    about.

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


def _rendered(session: Session, render: Renderer, expected: Expected, longest: int) -> Transcript:
    """`session` for reading, in as many of the `longest` tokens as what is `expected` leaves.

    Raises InputError where that takes more than half of them: of what was recorded too little would
    be left.
    """
    beside = sum(map(estimate_tokens, expected.sections()))
    if 2 * beside > longest:
        raise InputError(
            f"what the case expects is about {beside:,} tokens long, and may take half of the"
            f" {longest:,} that a judge is shown; shorten it, or raise judge.max_transcript_tokens"
        )
    return render(session, max_tokens=longest - beside)


def _alike(rubric: Rubric, outcome: Outcome) -> list[Graded]:
    """One outcome for all scores of the run, where nothing could be scored."""
    names = [
        (x.metric, criterial.RubricMetric.scale, float(criterial.ACCEPTABLE))
        for x in rubric.criteria
    ]
    names.append((OVERALL, Overall.scale, rubric.pass_threshold))
    return [Graded(*x, Measured(outcome, _nobody())) for x in names if rubric.gives(x[0])]


@lru_cache(maxsize=256)  # the same few for every session
def prompt_hash(
    criteria: tuple[Criterion, ...], kinds: Expected, model: str | None, *, pictures: bool
) -> str:
    """16 hex digits over all that decides how `criteria` are judged; of what a test case adds, only
    which kinds, and of pictures, only whether there are any.
    """
    question = criterial.question(criteria, kinds)
    schema = criterial.answer_schema(criteria, 1, len(kinds.outcomes)).model_json_schema()
    added = ["pictures"] if pictures else []
    return digest([criterial.INSTRUCTIONS, question, schema, model, *added])


def _call(
    criteria: Sequence[Criterion],
    session: Session,
    expected: Expected,
    transcript: Transcript,
    sample: int = 0,
) -> tuple[Prompt, type[BaseModel]]:
    question = criterial.question(criteria, expected, transcript.redact)
    schema = criterial.answer_schema(criteria, len(session.traces), len(expected.outcomes))
    texts = criterial.INSTRUCTIONS, transcript.text, question
    return Prompt(*texts, sample, session.tenant, transcript.pictures), schema


def _scored(
    criterion: Criterion, answer: criterial.CriteriaAnswers, of_transcript: Mapping[str, Any]
) -> Outcome:
    if criterion.id in answer.problems:
        return _invalid(answer, criterion.id)
    finding = answer.findings[criterion.id]
    if finding.level is None:
        return Skip(f"Not applicable: {finding.justification}", cause="not_applicable")
    failed = finding.level < criterial.ACCEPTABLE
    facts = {
        "turns": sorted(set(finding.turns)),
        "failure_code": finding.failure_code if failed else None,
        **of_transcript,
        **({"answer_in_part": True} if answer.problems else {}),
    }
    return Score(float(finding.level), finding.justification, facts, criterion.label(finding.level))


def _invalid(answer: criterial.CriteriaAnswers, name: str) -> Failure:
    """The failure of a part of an answer of which other parts are valid."""
    problem = (
        f"The judge gave no valid answer on {name}, not even after one repair:"
        f" {answer.problems[name]}"
    )
    return Failure(JudgeAnswerError.__name__, problem)


def _nobody() -> Evaluator:
    return Evaluator("CODE", Overall.name, Overall.version)


def _graded(
    rubric: Rubric, session: Session, expected: Expected, findings: Findings
) -> list[Graded]:
    """The scores that the run gives: each criterion's, then the overall one."""
    outcomes, usage, evaluator = findings.outcomes, findings.usage, findings.evaluator
    answered = [
        x.id for x in rubric.criteria if not isinstance(outcomes[x.id], Skip) or usage.calls
    ]
    costs = dict(zip(answered, shares(usage, len(answered)), strict=True)) if answered else {}
    threshold = float(criterial.ACCEPTABLE) if rubric.threshold is None else rubric.threshold
    found = []
    for criterion, weight in ((x.criterion, x.weight) for x in rubric.weighted):
        outcome = _described(outcomes[criterion.id], criterion, weight, session)
        measured = Measured(outcome, evaluator, costs.get(criterion.id, JudgeUsage()))
        found.append(Graded(criterion.metric, criterial.RubricMetric.scale, threshold, measured))
    if rubric.gives(OVERALL):
        least = rubric.pass_threshold if rubric.threshold is None else rubric.threshold
        whole = overall(rubric, expected, findings, least)
        found.append(Graded(OVERALL, Overall.scale, least, Measured(whole, evaluator)))
    return [x for x in found if rubric.gives(x.metric)]


def _described(outcome: Outcome, criterion: Criterion, weight: float, session: Session) -> Outcome:
    if not isinstance(outcome, Score):
        return outcome
    turns = outcome.metadata["turns"]
    facts = {
        "display_name": criterion.display_name,
        "tier": criterion.tier,
        "weight": weight,
        "type": criterion.kind,
        **outcome.metadata,
        "turn_trace_ids": [session.traces[index].trace_ids[0] for index in turns],
    }
    if criterion.kind == "binary":
        facts["passed"] = outcome.label == "pass"
    return replace(outcome, metadata=facts)


def averaged(rubric: Rubric, runs: Sequence[list[Graded]]) -> list[Graded]:
    """One score for each metric, in the order of the first run; every run gave the same metrics.

    A criterion's label is that of the level nearest to the mean. The rubric as a whole passes by
    its mean, or, where expected outcomes decide, if most of its runs did.
    """
    if len(runs) == 1:
        return runs[0]
    return [_averaged(rubric, samples) for samples in zip(*runs, strict=True)]


def _averaged(rubric: Rubric, samples: Sequence[Graded]) -> Graded:
    first = samples[0]
    outcomes = [x.measured.outcome for x in samples]
    outcome = combined(outcomes, first.scale)
    if isinstance(outcome, Score):
        scored = [x for x in outcomes if isinstance(x, Score)]
        is_whole = first.metric == OVERALL
        found = _of_whole(outcome, scored, first) if is_whole else _of_one(outcome, rubric, first)
        label, facts = found
        outcome = replace(outcome, label=label, metadata={**outcome.metadata, **facts})
    usage = sum((x.measured.usage for x in samples), JudgeUsage())
    return first._replace(measured=Measured(outcome, _evaluator(samples), usage))


def _evaluator(samples: Sequence[Graded]) -> Evaluator:
    """That of the first, with the models of all whose scores are averaged."""
    scored = [x.measured.evaluator for x in samples if isinstance(x.measured.outcome, Score)]
    models = dict.fromkeys(x.model for x in scored if x.model is not None)
    first = samples[0].measured.evaluator
    if not models:
        return first
    hashes = dict.fromkeys(x.prompt_hash for x in scored if x.prompt_hash is not None)
    prompt_hash = next(iter(hashes)) if len(hashes) == 1 else digest(list(hashes))
    return replace(first, model=named(models), prompt_hash=prompt_hash)


def _of_one(mean: Score, rubric: Rubric, graded: Graded) -> tuple[str | None, dict[str, Any]]:
    """The label of a criterion's mean, and what it changes in the metadata."""
    criterion = next(x for x in rubric.criteria if x.metric == graded.metric)
    label = criterion.label(round(mean.value))
    return label, {"passed": label == "pass"} if "passed" in mean.metadata else {}


def _of_whole(
    mean: Score, samples: Sequence[Score], graded: Graded
) -> tuple[str | None, dict[str, Any]]:
    """The same of the whole rubric's."""
    if mean.metadata["decided_by"] == "threshold":
        passed = graded.threshold is not None and reaches(mean.value, graded.threshold)
    else:
        passed = 2 * sum(x.label == "pass" for x in samples) > len(samples)
    return "pass" if passed else "fail", {"passed": passed}
