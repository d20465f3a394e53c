"""One subject before a judge: its transcripts, as long as the judge can read, and what is asked
about them.
"""

import asyncio
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from spanscore.evaluation.asking import Call, Item, Reading, listed
from spanscore.judge.port import Judge, Prompt, RemembersAnswers
from spanscore.judge.transcript import Refit, Renderer, Transcript
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import AgentTrace, Session


class _RememberingJudge(Judge, RemembersAnswers, Protocol):
    """A judge that can be asked, and that remembers its answers."""


LEAST_TOKENS = 1000
"""No transcript is made shorter than that for a judge that could not read a longer one."""


class Transcripts:
    """`subject` for reading: whole, or with some tool calls shown in full, and shorter once it was
    found too long.

    `earlier` are the turns of its session before it. Rendering takes milliseconds: call it in a
    thread.
    """

    def __init__(
        self, subject: AgentTrace | Session, render: Renderer, earlier: Sequence[AgentTrace] = ()
    ) -> None:
        self._subject = subject
        self._render = render
        self._earlier = earlier
        self._max_tokens: int | None = None
        self._whole: Transcript | None = None
        self._refit: Refit | None = None

    @property
    def tenant(self) -> str:
        """Whose the subject is."""
        return self._subject.tenant

    def showing(self, focus: Collection[int] = ()) -> Transcript:
        """The subject, with the tool calls at the places `focus` as whole as there is room for."""
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
        return Call(
            tuple(items), {x: listed(calls[x].name, transcript.call_numbers[x]) for x in places}
        )

    def _rendered(self, focus: Collection[int]) -> Transcript:
        render = self._refit or functools.partial(
            self._render, self._subject, earlier=self._earlier
        )
        if self._max_tokens is None:
            found = render(focus=focus or None)
        else:
            found = render(focus=focus or None, max_tokens=self._max_tokens)
        self._refit = found.again
        return found


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A judge, what it is asked about, and the longest answer in tokens that it may give.

    `sample`: which of several answers to the same questions this is; `is_reused`: that several
    calls will read the same transcript.
    """

    judge: Judge
    transcripts: Transcripts
    max_output_tokens: int
    sample: int = 0
    is_reused: bool = False

    async def transcript(self, focus: Collection[int] = ()) -> Transcript:
        """See `Transcripts.showing`."""
        return await asyncio.to_thread(self.transcripts.showing, focus)

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
                made, sample=self.sample, tenant=self.transcripts.tenant, is_reused=self.is_reused
            )

        if len(call.questions) > 1 and not objection and isinstance(self.judge, RemembersAnswers):
            return await _ask_for_the_rest(self.judge, call, prompt, models)
        answer = await self.judge.ask(prompt(call), call.schema, models=models)
        return call.read(answer.value), answer.model, answer.usage


async def _ask_for_the_rest(
    judge: _RememberingJudge, call: Call, prompt: Callable[[Call], Prompt], models: Sequence[str]
) -> tuple[Reading, str, JudgeUsage]:
    """As `Inquiry.ask`, of several questions: those that were answered before, with whatever
    others, are not asked.
    """
    parts = call.by_question
    whole, *kept = await judge.recall(
        [(prompt(x), x.schema) for x in (call, *parts)], models=models
    )
    if whole is not None:
        return call.read(whole.value), whole.model, whole.usage
    known: dict[Item, Any] = {}
    models_of: dict[Item, str] = {}
    for part, found in zip(parts, kept, strict=True):
        if found is not None:
            answers = part.read(found.value).answers
            known |= answers
            models_of |= dict.fromkeys(answers, found.model)
    rest = Call(tuple(item for item in call.items if item not in known), call.listed)
    usage = JudgeUsage(cached=1 if known else 0)
    if not rest.items:
        return Reading(known, {}, models_of), next(iter(models_of.values())), usage
    answer = await judge.ask(prompt(rest), rest.schema, models=models)
    reading = rest.read(answer.value)
    if not answer.usage.cached:
        made = [
            (prompt(part), value)
            for part in parts
            if (value := part.answered(reading.answers)) is not None
        ]
        await judge.remember(made, answer.model)
    return (
        Reading({**known, **reading.answers}, reading.problems, models_of),
        answer.model,
        answer.usage + usage,
    )
