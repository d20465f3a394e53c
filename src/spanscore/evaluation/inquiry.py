"""One subject before a judge: transcripts and questions."""

import asyncio
import functools
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from spanscore.evaluation.outcomes import Attempt, named
from spanscore.evaluation.questions import (
    Call,
    Item,
    Questions,
    Reading,
    dealt,
    distinct,
    prompt_hash,
)
from spanscore.judge import Config, Estimate, estimate
from spanscore.judge.port import Judge, Prompt, RemembersAnswers
from spanscore.judge.redaction import redacted
from spanscore.judge.transcript import BYTES_PER_TOKEN, Refit, Renderer, Transcript
from spanscore.metrics import Judged, OfCalls, Question
from spanscore.model.score import Evaluator, JudgeUsage, Outcome, Score
from spanscore.model.trace import AgentTrace, Session


class Case:
    """One judged metric on one subject.

    Of a question about tool calls one by one at most `max_calls` calls are put to the judge: a
    sample that is drawn by the subject's id, so that another run, or another replica, draws the
    same.
    """

    def __init__(
        self, metric: Judged, subject: AgentTrace | Session, *, max_calls: int | None = None
    ) -> None:
        self.metric = metric
        self.subject = subject
        self.answers: dict[str, Any] = {}
        self.outcome: Outcome | None = None
        self.usage = JudgeUsage()
        self._calls = len(subject.tool_calls or ()) if isinstance(subject, AgentTrace) else 0
        self._drawn = drawn(self._calls, max_calls, subject.id)
        self._of_calls: dict[Question, dict[int, Any]] = {}
        self._planned: list[Questions] = []
        self._answering: dict[str, None] = {}
        self._sees_pictures = False

    @property
    def models(self) -> tuple[str, ...]:
        """The models to ask, as `Judge.ask` takes them."""
        return (self.metric.model,) if self.metric.model else ()

    @property
    def answering(self) -> tuple[str, ...]:
        """The models that gave the answers, in the order in which they first did."""
        return tuple(self._answering)

    @property
    def model(self) -> str | None:
        """The models that gave the answers, as a score names them; before there is one, the
        metric's own.
        """
        return named(self._answering) if self._answering else self.metric.model

    @property
    def evaluator(self) -> Evaluator:
        """Who judged: a model, or nobody where the metric needed no answer."""
        if not self._planned:
            return Evaluator("CODE", self.metric.name, self.metric.version)
        hashed = prompt_hash(tuple(self._planned), self.model, pictures=self._sees_pictures)
        return Evaluator("LLM", "judge", self.metric.version, model=self.model, prompt_hash=hashed)

    @property
    def unanswered(self) -> list[Question]:
        """The questions that have no answer."""
        return [x for stage in self.metric.stages for x in stage if x.key not in self.answers]

    def has_question(self, question: Question) -> bool:
        """Whether this metric asks `question`."""
        return any(question.key == x.key for stage in self.metric.stages for x in stage)

    def items(self, question: Question) -> list[Item]:
        """What is to be answered of `question`: it, or it about every call that was drawn."""
        return [Item(question, x) for x in self._drawn] if question.of_calls else [Item(question)]

    def planned(self, questions: Questions) -> None:
        """Record, for the provenance, that `questions` are asked together, unless they were planned
        before.
        """
        if not {x for before in self._planned for x in before}.issuperset(questions):
            self._planned.append(questions)

    def shown(self, transcript: Transcript) -> None:
        """Record, for the provenance, what is asked about."""
        self._sees_pictures = self._sees_pictures or bool(transcript.pictures)

    def answered_by(self, models: Iterable[str]) -> None:
        """Record, for the provenance, that these models gave answers."""
        self._answering |= dict.fromkeys(models)

    def answered_first_by(self, models: Iterable[str]) -> None:
        """As `answered_by`, of models that were asked before."""
        self._answering = dict.fromkeys(models) | self._answering

    def take(self, answers: Mapping[Item, Any], models: Iterable[str] = ()) -> None:
        """Take in answers of these models, None for a call that cannot be shown, and settle if they
        allow it.
        """
        self.answered_by(models)
        for item, answer in answers.items():
            if item.place is None:
                self.answers[item.question.key] = answer
            else:
                self._of_calls.setdefault(item.question, {})[item.place] = answer
        for question, by_place in self._of_calls.items():
            if len(by_place) == len(self._drawn):
                given = {x: by_place[x] for x in self._drawn if by_place[x] is not None}
                self.answers[question.key] = OfCalls(given, self._calls, len(self._drawn))
        with Attempt(self.metric.name) as attempt:
            attempt.outcome = self.metric.settle(self.subject, self.answers)
        self.outcome = attempt.outcome

    def note(self, facts: Mapping[str, Any]) -> None:
        """Put `facts` on the score, if there is one."""
        if facts and isinstance(self.outcome, Score):
            score = self.outcome
            self.outcome = Score(
                score.value, score.reason, {**score.metadata, **facts}, score.label
            )


def in_stages(cases: Sequence[Case]) -> list[Questions]:
    """The unanswered questions of `cases`, each with its first chance: its needs are answered, or
    in a stage before.

    Raises ConfigError where two metrics ask different questions under one key.
    """
    answered = {key for case in cases for key in case.answers}
    left = distinct(question for case in cases for question in case.unanswered)
    stages = []
    while ready := tuple(x for x in left if answered.issuperset(x.needs)):
        stages.append(ready)
        answered |= {x.key for x in ready}
        left = tuple(x for x in left if x.key not in answered)
    return stages


def at_once(cases: Sequence[Case], stages: Sequence[Questions], most: int) -> list[Questions]:
    """The questions of all `stages` together, if an answer of `most` tokens can hold all of them;
    else stage by stage.
    """
    asked = together(stages)
    return [asked] if len(dealt(items_of(cases, asked), most)) == 1 else [*stages]


def together(stages: Sequence[Questions]) -> Questions:
    """The questions of all stages, in their order."""
    return tuple(question for stage in stages for question in stage)


def items_of(cases: Sequence[Case], questions: Questions) -> list[Item]:
    """What is to be answered of `questions`, each of which one of `cases` asks, or several that
    draw the same calls.
    """
    return [
        item
        for x in questions
        for item in next(case for case in cases if case.has_question(x)).items(x)
    ]


def drawn(count: int, most: int | None, seed: str) -> Sequence[int]:
    """The places of at most `most` of `count` calls, in order: each set is as likely, and `seed`
    decides which.

    >>> drawn(3, 5, "a trace's id")
    range(0, 3)
    """
    if most is None or count <= most:
        return range(count)
    return sorted(random.Random(seed).sample(range(count), most))  # noqa: S311 - no secret: the same sample each time


LEAST_TOKENS = 1000
"""No transcript is made shorter than that for a judge that could not read a longer one."""

_LATER = "(what the judge answers before)"


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that a judge would get.

    `models` are the metric's own, () for the judge's configured ones. `placeholders`: how many
    times, at most, the prompt quotes one and the same answer that is not there yet; unless it is 0
    the call may turn out not to be needed.
    """

    metrics: tuple[str, ...]
    stage: int
    prompt: Prompt
    schema: type[BaseModel]
    models: tuple[str, ...]
    placeholders: int


class Inquiry:
    """A judge, and the subject that it is asked about: whole, or with some tool calls shown in
    full, and shorter once it was found too long.
    """

    def __init__(
        self,
        judge: Judge,
        subject: AgentTrace | Session,
        render: Renderer,
        max_output_tokens: int,
        *,
        earlier: Sequence[AgentTrace] = (),
        sample: int = 0,
        is_reused: bool = False,
    ) -> None:
        """`max_output_tokens` is the longest answer; `earlier` are the turns of the session before.

        `sample`: which of several answers to the same questions this is; `is_reused`: that several
        calls will read the same transcript.
        """
        self.max_output_tokens = max_output_tokens
        self._judge = judge
        self._subject = subject
        self._render: Refit = functools.partial(render, subject, earlier=earlier)
        self._sample = sample
        self._is_reused = is_reused
        self._max_tokens: int | None = None
        self._whole: Transcript | None = None

    async def transcript(self, focus: Collection[int] = ()) -> Transcript:
        """`showing`, in a thread."""
        return await asyncio.to_thread(self.showing, focus)

    def showing(self, focus: Collection[int] = ()) -> Transcript:
        """The subject, with the tool calls at the places `focus` as whole as there is room for.

        It takes milliseconds.
        """
        if self._whole is None:
            self._whole = self._rendered(())
        return self._whole if self._whole.shown_calls.issuperset(focus) else self._rendered(focus)

    def shorten(self, transcript: Transcript) -> bool:
        """Take it that `transcript` was too long: those to come are half as long.

        False: they cannot be shorter.
        """
        longest = transcript.tokens // 2
        if longest < LEAST_TOKENS:
            return False
        if self._max_tokens is None or longest < self._max_tokens:
            self._max_tokens, self._whole = longest, None
        return True

    def call(self, items: Sequence[Item], transcript: Transcript) -> Call:
        """The call that asks for `items` about `transcript`."""
        calls = (self._subject.tool_calls if isinstance(self._subject, AgentTrace) else None) or ()
        places = [item.place for item in items if item.place is not None]
        return Call(tuple(items), {x: (transcript.call_numbers[x], calls[x].name) for x in places})

    async def ask(
        self,
        call: Call,
        transcript: Transcript,
        quotes: Mapping[str, str],
        objection: str,
        models: Sequence[str],
    ) -> tuple[Reading, str, JudgeUsage]:
        """What the judge answers, which model did, and what that cost. Raises JudgeError."""
        redacted = {name: transcript.redact(text) for name, text in quotes.items()}

        def prompt(part: Call) -> Prompt:
            made = part.prompt(transcript.text, redacted, objection)
            return replace(
                made,
                sample=self._sample,
                tenant=self._subject.tenant,
                pictures=transcript.pictures,
                is_reused=self._is_reused,
            )

        if len(call.questions) > 1 and not objection and isinstance(self._judge, RemembersAnswers):
            return await self._ask_for_the_rest(self._judge, call, prompt, models)
        answer = await self._judge.ask(prompt(call), call.schema, models=models)
        return call.read(answer.value), answer.model, answer.usage

    async def _ask_for_the_rest(
        self,
        memory: RemembersAnswers,
        call: Call,
        prompt: Callable[[Call], Prompt],
        models: Sequence[str],
    ) -> tuple[Reading, str, JudgeUsage]:
        """As `ask`, of several questions: those that were answered before, with whatever others,
        are not asked.
        """
        parts = call.by_question
        asked = [(prompt(x), x.schema) for x in (call, *parts)]
        whole, *kept = await memory.recall(asked, models=models)
        if whole is not None:
            return call.read(whole.value), whole.model, whole.usage
        known: dict[Item, Any] = {}
        models_of: dict[Item, str] = {}
        for part, found in zip(parts, kept, strict=True):
            if found is not None:
                answers = part.read(found.value).answers
                known |= answers
                models_of |= dict.fromkeys(answers, found.model)
        # what rests on a known answer is asked when that can be quoted
        met = {item.question.key for item in known}
        left = [x for x in call.items if x not in known and met.isdisjoint(x.question.needs)]
        usage = JudgeUsage(cached=1 if known else 0)
        if not left:
            return Reading(known, {}, models_of), next(iter(models_of.values())), usage
        rest = Call(tuple(left), call.steps)
        answer = await self._judge.ask(prompt(rest), rest.schema, models=models)
        reading = rest.read(answer.value)
        if not answer.usage.cached:
            values = [(part, part.answered(reading.answers)) for part in parts]
            made = [(prompt(part), value) for part, value in values if value is not None]
            await memory.remember(made, answer.model)
        found_by_now = Reading({**known, **reading.answers}, reading.problems, models_of)
        return found_by_now, answer.model, answer.usage + usage

    def planned(
        self, cases: Sequence[Case], stage: int, questions: Questions
    ) -> Iterator[PlannedCall]:
        """The calls for these questions of cases that ask the same models.

        Repairs, second askings and the calls of a judge that cannot read or write as much are left
        out.
        """
        for batch in dealt(items_of(cases, questions), self.max_output_tokens):
            transcript = self.showing(batch.places)
            call = self.call(batch.items, transcript)
            asking = [case for case in cases if any(map(case.has_question, call.questions))]
            own = {x.key for x in call.questions}
            needed = Counter(x for asked in call.questions for x in asked.needs if x not in own)
            quotes = dict.fromkeys(needed, _LATER)
            for case in asking if needed else ():
                given = case.metric.quotes(case.subject, {})
                quotes |= {name: text or _LATER for name, text in given.items()}
            prompt = call.prompt(transcript.text, quotes)
            yield PlannedCall(
                tuple(case.metric.name for case in asking),
                stage,
                replace(prompt, pictures=transcript.pictures),
                call.schema,
                asking[0].models,
                placeholders=max(needed.values(), default=0),
            )

    def _rendered(self, focus: Collection[int]) -> Transcript:
        shown = focus or None
        found = (
            self._render(focus=shown)
            if self._max_tokens is None
            else self._render(focus=shown, max_tokens=self._max_tokens)
        )
        self._render = found.again or self._render
        return found


@dataclass(frozen=True, slots=True)
class CostedCall:
    """A planned call with the model that would get it, its prompt as it is sent, and an upper bound
    of its size.
    """

    planned: PlannedCall
    model: str
    prompt: Prompt
    estimate: Estimate


def costed(calls: Sequence[PlannedCall], config: Config) -> Iterator[CostedCall]:
    """The calls for one subject; with a cache those that are the same are one, and without a model
    there are none.
    """
    for planned in _distinct(calls) if config.cache.enabled else calls:
        models = planned.models or config.models
        if not models:
            continue
        prompt = redacted(planned.prompt, config.redact.rules)  # as the judge sends it
        yield CostedCall(planned, models[0], prompt, _bound(planned, prompt, models[0], config))


def _distinct(planned: Sequence[PlannedCall]) -> list[PlannedCall]:
    """The calls, with those that are the same put into one for all of their metrics: the cache
    answers the others.
    """
    found: dict[object, PlannedCall] = {}
    for place, call in enumerate(planned):
        same = place if call.placeholders else (call.models, call.prompt, call.schema)
        found[same] = (
            replace(call, metrics=(*found[same].metrics, *call.metrics)) if same in found else call
        )
    return list(found.values())


def _bound(planned: PlannedCall, prompt: Prompt, model: str, config: Config) -> Estimate:
    """The call's size, with room for the longest answers there can be, as often as they are
    quoted.
    """
    quoted = (planned.stage - 1) * planned.placeholders
    room = "x" * (quoted * config.max_output_tokens * BYTES_PER_TOKEN)
    return estimate(replace(prompt, question=prompt.question + room), planned.schema, model, config)
