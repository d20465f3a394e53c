"""One subject before a judge: its transcripts, as long as the judge can read, and what is asked about them."""

import asyncio
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from spanscore.evaluation.asking import Call, Item, Reading, listed
from spanscore.judge.port import Judge
from spanscore.judge.transcript import Refit, Renderer, Transcript
from spanscore.model.score import JudgeUsage
from spanscore.model.trace import AgentTrace, Session

LEAST_TOKENS = 1000
"""No transcript is made shorter than that for a judge that could not read a longer one."""


class Transcripts:
    """`subject` for reading: whole, or with some tool calls shown in full, and shorter once it was found too long.

    `earlier` are the turns of its session before it. Rendering takes milliseconds: call it in a thread.
    """

    def __init__(self, subject: AgentTrace | Session, render: Renderer, earlier: Sequence[AgentTrace] = ()) -> None:
        self._subject = subject
        self._render = render
        self._earlier = earlier
        self._max_tokens: int | None = None
        self._whole: Transcript | None = None
        self._again: Refit | None = None

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
        """Take it that `transcript` was too long: those to come are half as long. False: they cannot be shorter."""
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
        return Call(tuple(items), {x: listed(calls[x].name, transcript.call_numbers[x]) for x in places})

    def _rendered(self, focus: Collection[int]) -> Transcript:
        render = self._again or functools.partial(self._render, self._subject, earlier=self._earlier)
        if self._max_tokens is None:
            found = render(focus=focus or None)
        else:
            found = render(focus=focus or None, max_tokens=self._max_tokens)
        self._again = found.again
        return found


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A judge, what it is asked about, and the longest answer in tokens that it may give.

    `sample` says which of several answers to the same questions this is.
    """

    judge: Judge
    transcripts: Transcripts
    max_output_tokens: int
    sample: int = 0

    async def transcript(self, focus: Collection[int] = ()) -> Transcript:
        """See `Transcripts.showing`."""
        return await asyncio.to_thread(self.transcripts.showing, focus)

    async def ask(
        self, call: Call, transcript: Transcript, quotes: Mapping[str, str], objection: str, models: Sequence[str]
    ) -> tuple[Reading, str, JudgeUsage]:
        """What the judge answers, which model did, and what that cost. Raises JudgeError."""
        redacted = {name: transcript.redact(text) for name, text in quotes.items()}
        asked = call.prompt(transcript.text, redacted, objection)
        prompt = replace(asked, sample=self.sample, tenant=self.transcripts.tenant)
        answer = await self.judge.ask(prompt, call.schema, models=models)
        return call.read(answer.value), answer.model, answer.usage
