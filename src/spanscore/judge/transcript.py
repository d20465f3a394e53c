"""What a judge reads of an agent trace or a session: numbered steps, within a token budget, redacted and fenced."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spanscore.judge import redact, steps
from spanscore.judge.fence import fence
from spanscore.judge.fitting import fit
from spanscore.judge.marks import PENDING, defused, tag_of, word_for
from spanscore.judge.passage import Passage
from spanscore.model.trace import AgentTrace, Session

BYTES_PER_TOKEN = 3
"""UTF-8 bytes to a token, on the safe side: English prose has about 4, JSON about 3, Chinese text 3 to 4."""

_FENCE_BYTES = 100


@dataclass(frozen=True, slots=True)
class Transcript:
    """`text` is fenced and, unless told otherwise, redacted; `tokens` its estimated length.

    `elided`: parts were left out for length; `left_out` is how many steps, messages, turns and characters. `redacted`:
    how many times each kind of value was replaced. `call_numbers` is, for each tool call by its place (over all turns
    of a session), the number of its step, by which it is to be named everywhere; 0 in a turn that is not shown.
    `shown_calls` are the places of the calls whose arguments are there whole. `redact` redacts what else is sent with
    this transcript, so that one value has the same marker in both.
    """

    text: str
    elided: bool
    tokens: int
    redacted: Mapping[str, int]
    left_out: Mapping[str, int] = field(default_factory=dict)
    call_numbers: tuple[int, ...] = ()
    shown_calls: frozenset[int] = frozenset()
    redact: Callable[[str], str] = field(default=str, compare=False, repr=False)

    @property
    def metadata(self) -> dict[str, Any]:
        """What a score that rests on this transcript adds to its metadata; nothing where the transcript is whole."""
        return {"transcript_elided": True, "transcript_left_out": dict(self.left_out)} if self.elided else {}


class Renderer(Protocol):
    """`render` with the length, unless another is given, and the redaction that a configuration asks for."""

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


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` is, more often too many than too few, without any model's tokenizer.

    >>> estimate_tokens("Book me a flight to Lisbon.")
    9
    """
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def render(
    subject: AgentTrace | Session,
    *,
    max_tokens: int,
    rules: Sequence[redact.Rule] = redact.RULES,
    earlier: Sequence[AgentTrace] = (),
    focus: Collection[int] | None = None,
) -> Transcript:
    """A trace, or all turns of a session, for reading, in at most `max_tokens` estimated tokens; a pure function.

    `earlier` are the session's turns before a trace, oldest first, shown in short and marked as such. `focus` are the
    places of the tool calls that must be shown as whole as possible.

    What does not fit is left out in this order: the middle of long tool results, documents and reasoning; the older
    messages of the history; the steps in the middle; the middle of whatever is still too long. `rules` are what is
    redacted, before anything is cut; () for nothing. A long trace takes milliseconds: call it in a thread.
    """
    numbers = steps.Numbers()
    if isinstance(subject, Session):
        found = steps.turns_passages(subject, numbers)
        unshown = max(len(subject.traces) - steps.MAX_TURNS, 0)
    else:
        found = steps.passages(subject, numbers=numbers, earlier=earlier)
        unshown = 0
    passages, redactor, word = marked(list(found), rules)
    fitted = fit(passages, max_tokens * BYTES_PER_TOKEN - _FENCE_BYTES, focus or (), tag=tag_of(word))
    fenced = fence(fitted.text, word)
    left_out = {**({"turns": unshown} if unshown else {}), **fitted.left_out}
    return Transcript(
        text=fenced,
        elided=bool(left_out),
        tokens=estimate_tokens(fenced),
        redacted=dict(redactor.counts),
        left_out=left_out,
        call_numbers=tuple(numbers.of_calls),
        shown_calls=fitted.shown_calls,
        redact=lambda text: redactor.redact(defused(text, tag_of(word))),
    )


def marked(passages: Sequence[Passage], rules: Sequence[redact.Rule]) -> tuple[list[Passage], redact.Redactor, str]:
    """`passages` redacted, with genuine marks that carry their word; the redactor for further texts; and the word."""
    redactor = redact.Redactor(rules, tag=PENDING)
    redacted = [replace(x, text=redactor.redact(x.text)) for x in passages]
    word = word_for(x.text for x in redacted)
    redactor.use(tag_of(word))
    return [replace(x, text=x.text.replace(PENDING, tag_of(word))) for x in redacted], redactor, word
