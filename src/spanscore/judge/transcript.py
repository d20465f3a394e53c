"""What a judge reads of an agent trace or a session: numbered steps, within a token budget, redacted and fenced."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spanscore.judge import redact, steps
from spanscore.judge.fence import fence
from spanscore.judge.fitting import fit
from spanscore.model.trace import AgentTrace, Session

BYTES_PER_TOKEN = 3
"""UTF-8 bytes to a token, on the safe side: English prose has about 4, JSON about 3, Chinese text 3 to 4."""

_FENCE_BYTES = 100


@dataclass(frozen=True, slots=True)
class Transcript:
    """`text` is fenced and, unless told otherwise, redacted; `tokens` its estimated length.

    `elided`: parts were left out for length. `redacted`: how many times each kind of value was replaced.
    """

    text: str
    elided: bool
    tokens: int
    redacted: Mapping[str, int]


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` is, more often too many than too few, without any model's tokenizer.

    >>> estimate_tokens("Book me a flight to Lisbon.")
    9
    """
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def render(
    subject: AgentTrace | Session, *, max_tokens: int, rules: Sequence[redact.Rule] = redact.RULES
) -> Transcript:
    """A trace, or all turns of a session, for reading, in at most `max_tokens` estimated tokens; a pure function.

    What does not fit is left out in this order: the middle of long tool results, documents and reasoning; the older
    messages of the history; the steps in the middle; the middle of whatever is still too long. `rules` are what is
    redacted, before anything is cut; () for nothing. A long trace takes milliseconds: call it in a thread.
    """
    redactor = redact.Redactor(rules)
    found = steps.turns_passages(subject) if isinstance(subject, Session) else steps.passages(subject)
    passages = [replace(passage, text=redactor.redact(passage.text)) for passage in found]
    text, shortened = fit(passages, max_tokens * BYTES_PER_TOKEN - _FENCE_BYTES)
    fenced = fence(text)
    elided = shortened or (isinstance(subject, Session) and len(subject.traces) > steps.MAX_TURNS)
    return Transcript(fenced, elided, estimate_tokens(fenced), dict(redactor.counts))
