"""Transcripts: numbered steps, redacted, fenced, within a budget."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spanscore.judge import passages as steps, redaction
from spanscore.judge.marks import (
    PENDING,
    defused,
    fence,
    is_shortened,
    section,
    tag_of,
    values_in,
    with_provenance,
    word_for,
)
from spanscore.judge.omission import Weighing, fit
from spanscore.judge.passages import Kind, Part, Passage
from spanscore.judge.redaction import Rule
from spanscore.model.trace import AgentTrace, Session

BYTES_PER_TOKEN = 3
"""UTF-8 bytes to a token, on the safe side: English prose has about 4, JSON about 3, Chinese text 3
to 4.
"""

PICTURE_TOKENS = 1100
"""What a picture is counted as: about what providers charge for one of a screen's size."""

_FENCE_BYTES = 100


@dataclass(frozen=True, slots=True)
class Transcript:
    """`text` is fenced and, unless told otherwise, redacted; `tokens` its estimated length.

    `elided`: parts were left out for length; `left_out` is how many steps, messages, turns and
    characters. `redacted`: how many times each kind of value was replaced. `call_numbers` is, for
    each tool call by its place (over all turns of a session), the number of its step, by which it
    is to be named everywhere; 0 in a turn that is not shown. `pictures` are the addresses of those
    that are sent with it, which `tokens` counts. `shown_calls` are the places of the
    calls whose arguments are there whole. `redact` redacts what else is sent with this transcript,
    so that one value has the same mark in both. `again` fits the same subject to another length or
    focus, for a small part of what rendering it took.
    """

    text: str
    elided: bool
    tokens: int
    redacted: Mapping[str, int]
    left_out: Mapping[str, int] = field(default_factory=dict)
    call_numbers: tuple[int, ...] = ()
    shown_calls: frozenset[int] = frozenset()
    pictures: tuple[str, ...] = ()
    redact: Callable[[str], str] = field(default=str, compare=False, repr=False)
    again: "Refit | None" = field(default=None, compare=False, repr=False)

    @property
    def metadata(self) -> dict[str, Any]:
        """What a score that rests on this transcript adds to its metadata; nothing where the
        transcript is whole.
        """
        left_out = {"transcript_elided": True, "transcript_left_out": dict(self.left_out)}
        return left_out if self.elided else {}


class Refit(Protocol):
    """Makes a transcript of the same subject, as long as before unless a length is given, with
    another focus.
    """

    def __call__(
        self, *, max_tokens: int = ..., focus: Collection[int] | None = None
    ) -> Transcript:
        """See `render`."""
        ...


class Renderer(Protocol):
    """`render` with the length, unless another is given, and the redaction that a configuration
    asks for.
    """

    def __call__(
        self,
        subject: AgentTrace | Session,
        *,
        max_tokens: int = ...,
        earlier: Sequence[AgentTrace] = (),
        focus: Collection[int] | None = None,
    ) -> Transcript:
        """See `render`."""
        ...


def estimate_tokens(text: str, pictures: int = 0) -> int:
    """About how many tokens `text` and so many pictures are, more often too many than too few,
    without any model's tokenizer.

    >>> estimate_tokens("Book me a flight to Lisbon.")
    9
    """
    size_bytes = len(text.encode("utf-8", "replace"))
    return math.ceil(size_bytes / BYTES_PER_TOKEN) + pictures * PICTURE_TOKENS


def render(
    subject: AgentTrace | Session,
    *,
    max_tokens: int,
    rules: Sequence[Rule] = redaction.RULES,
    earlier: Sequence[AgentTrace] = (),
    focus: Collection[int] | None = None,
    pictures: bool = False,
) -> Transcript:
    """A trace, or all turns of a session, for reading, in at most `max_tokens` estimated tokens; a
    pure function.

    `earlier` are the session's turns before a trace, oldest first, marked as such. `focus` are the
    places of the tool calls that must be shown as whole as possible. `rules` are what is redacted,
    before anything is cut; () for nothing. `pictures`: those of the user's input go with it, as far
    as half of the tokens suffices. What does not fit is left out as `fitting.fit` says. A
    long trace takes milliseconds: call it in a thread.
    """
    numbers, unshown_turns = steps.Numbers(), 0
    if isinstance(subject, Session):
        found = steps.turns_passages(subject, numbers)
        unshown_turns = max(len(subject.traces) - steps.MAX_TURNS, 0)
    else:
        found = steps.passages(subject, numbers=numbers, earlier=earlier)
    marked = _Marked(list(found), rules)
    redacted = dict(marked.redactor.counts)
    uris = redaction.unaffected(_pictures(subject), rules) if pictures else ()

    def fitted(*, max_tokens: int, focus: Collection[int] | None = None) -> Transcript:
        shown = uris[: max_tokens // 2 // PICTURE_TOKENS]
        beside = estimate_tokens("", len(shown))
        found = marked.fitted(max_tokens - beside, focus or ())
        turns = {"turns": unshown_turns} if unshown_turns else {}
        left_out = {**turns, **found.left_out}
        return replace(
            found,
            elided=bool(left_out),
            tokens=found.tokens + beside,
            left_out=left_out,
            pictures=shown,
            redacted=redacted,
            call_numbers=tuple(numbers.of_calls),
            again=functools.partial(fitted, max_tokens=max_tokens),
        )

    return fitted(max_tokens=max_tokens, focus=focus)


def _pictures(subject: AgentTrace | Session) -> Iterator[str]:
    """The addresses of the pictures in the user's inputs."""
    for trace in subject.traces if isinstance(subject, Session) else [subject]:
        for attached in trace.attachments:
            uri = attached.uri or ""
            if attached.kind == "image" and uri.startswith(("http://", "https://")):
                yield uri


class _Marked:
    """Passages redacted, with genuine marks that carry their word."""

    def __init__(self, passages: Sequence[Passage], rules: Sequence[Rule]) -> None:
        self.redactor = redaction.Redactor(rules, tag=PENDING)
        redacted = list(
            _with_provenance(replace(x, text=self.redactor.redact(x.text)) for x in passages)
        )
        self._word = word_for(x.text for x in redacted)
        self._tag = tag_of(self._word)
        self.redactor.use(self._tag)
        self._passages = [replace(x, text=x.text.replace(PENDING, self._tag)) for x in redacted]
        self._weighing: Weighing | None = None
        self._unread = self.redactor.characters_left_out

    def fitted(self, max_tokens: int, focus: Collection[int] = ()) -> Transcript:
        """The passages, fenced, in at most `max_tokens` estimated tokens."""
        room = max_tokens * BYTES_PER_TOKEN - _FENCE_BYTES
        found = fit(self._passages, room, focus, tag=self._tag, weighing=self._weighed)
        fenced = fence(found.text, self._word)
        left_out = dict(Counter(found.left_out) + Counter(characters=self._unread))
        return Transcript(
            text=fenced,
            elided=bool(left_out),
            tokens=estimate_tokens(fenced),
            redacted=dict(self.redactor.counts),
            left_out=left_out,
            shown_calls=found.shown_calls,
            redact=self._redact,
        )

    def _redact(self, text: str) -> str:
        return self.redactor.redact(defused(text, self._tag))

    def _weighed(self) -> Weighing:
        if self._weighing is None:
            self._weighing = Weighing(self._passages)
        return self._weighing


_GIVEN_KINDS: Collection[Kind] = ("input", "instructions", "result", "error")
_GIVEN_PARTS: Collection[Part] = ("tool", "history", "document")


def _with_provenance(passages: Iterable[Passage]) -> Iterator[Passage]:
    """The redacted passages, with whether the agent had been given what is withheld in arguments.

    What the agent wrote itself becomes history in the next turn.
    """
    seen, written = set[str](), set[str]()
    all_known, turn = True, None
    for passage in passages:
        if passage.turn != turn:
            seen |= written
            written, turn = set(), passage.turn
        found = values_in(passage.text)
        if passage.kind in _GIVEN_KINDS or passage.part in _GIVEN_PARTS:
            seen |= found
        else:
            written |= found
        all_known = all_known and not is_shortened(passage.text)
        text = passage.text
        if passage.kind == "arguments":
            text = with_provenance(text, seen, all_known=all_known)
        yield replace(passage, text=text)


def excerpt(
    texts: Mapping[str, str | None], *, max_tokens: int, rules: Sequence[Rule] = redaction.RULES
) -> Transcript:
    """`texts` by what they are, in at most `max_tokens` estimated tokens, redacted and fenced; a
    pure function.

    What is redacted has the same marker in all of them, so that two texts can still be compared. Of
    texts that are too long the middle is left out.
    """
    passages = [Passage(section(title, text)) for title, text in texts.items()]
    return _Marked(passages, rules).fitted(max_tokens)
