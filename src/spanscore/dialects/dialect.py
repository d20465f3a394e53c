"""What a dialect is: a name, the spans it claims, and what it reads from one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.forms.message_cache import MessageCache
from spanscore.dialects.forms.values import Facts
from spanscore.dialects.ignored_spans import NOTHING_IGNORED, IgnoredSpans
from spanscore.dialects.log_turns import LogTurns
from spanscore.dialects.quirk import NO_QUIRK, Quirk
from spanscore.model.record import record
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Step


@record()
class Context:
    """What a dialect is given beside a span.

    `logs` are the log records of the same trace and span id, in order of time. `outermost`: no
    dialect reads any span above it in the trace. `histories` remembers the inputs of the trace's
    model calls. `quirk` is the quirk of the span's framework.
    """

    logs: Sequence[LogRecord]
    outermost: bool
    histories: MessageCache
    quirk: Quirk = NO_QUIRK


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write an agent's work into spans.

    A span is of this dialect where its scope's name is among `scopes`, it has one of the attributes
    `keys`, or `matches` is true of the span and its log records. Nothing else counts, since one
    trace may mix dialects. `read` gives the facts of a span that was claimed, and must survive
    whatever its attributes contain.

    - `prefilters` are byte strings of which any request that contains a span of this dialect
      contains at least one.
    - `matching_scopes` and `matching_keys` say of which spans without log records `matches` may be
      true, so that it is not called for others: those whose scope's name begins with one of the
      former, and those that have one of the latter as an attribute. Where one is empty, it excludes
      none.
    - `restore` gives the span with what a collector or a distribution moved from it into its log
      records.
    - `refine_trace`, where the spans of a trace must be looked at side by side, is given all steps
      that were read by this dialect, and gives them back, perhaps with other facts.
    - `log_turns` finds the turns that the emitter records in log records, or in several traces.
    - `ignored` are spans that are no work of an agent, such as the scores of the platform's own
      evaluators.
    - `name_session` gives `session_id` and `user_id` that a span states in the emitter's own way,
      also where no dialect claims the span; no facts for other emitters' spans.
    - `content` is what turns on the recording of content, where it can be off.
    - `by_hand`: people write such spans themselves, and may set attributes of other conventions on
      them. These complete what is read.
    """

    name: str
    read: Callable[[Span, Context], Facts]
    prefilters: tuple[bytes, ...]
    scopes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    matches: Callable[[Span, Sequence[LogRecord]], bool] | None = None
    restore: Callable[[Span, Sequence[LogRecord]], Span] | None = None
    refine_trace: Callable[[Sequence[Step]], Sequence[Step]] | None = None
    log_turns: tuple[LogTurns, ...] = ()
    ignored: IgnoredSpans = NOTHING_IGNORED
    name_session: Callable[[Span], Facts] | None = None
    content: tuple[ContentSwitch, ...] = ()
    by_hand: bool = False
    matching_scopes: tuple[str, ...] = ()
    matching_keys: tuple[str, ...] = ()
