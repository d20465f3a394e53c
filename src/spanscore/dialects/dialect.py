"""What a dialect is: a name, the spans it claims, and what it reads from one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.forms.message_cache import MessageCache
from spanscore.dialects.forms.values import Facts
from spanscore.model.record import record
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Step


@record()
class Context:
    """What is known of a span besides itself.

    `logs` are the log records of the same trace and span id, in order of time. `outermost` says that no span above it
    in the trace is read by any dialect. `histories` remembers the inputs of the trace's model calls.
    """

    logs: Sequence[LogRecord]
    outermost: bool
    histories: MessageCache


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write an agent's work into spans.

    A span is of this dialect where its scope's name is among `scopes`, it has one of the attributes `keys`, or `claims`
    says so of the span and its log records. Nothing else is asked, since one trace may mix dialects. `read` gives the
    facts of a span that was claimed, and must survive whatever its attributes hold. `marks` are byte strings of which
    any request that holds a span of this dialect contains at least one. `together`, where the spans of a trace must be
    looked at side by side, is given all that were read by this dialect, and gives them back, perhaps with other facts.
    `content` says what turns on the recording of content, where it can be off. `by_hand` says that people write such
    spans themselves, and may set attributes of other conventions on them: these complete what is read.
    """

    name: str
    read: Callable[[Span, Context], Facts]
    marks: tuple[bytes, ...]
    scopes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    claims: Callable[[Span, Sequence[LogRecord]], bool] | None = None
    together: Callable[[Sequence[Step]], Sequence[Step]] | None = None
    content: tuple[ContentSwitch, ...] = ()
    by_hand: bool = False
