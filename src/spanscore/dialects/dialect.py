"""Dialects and quirks, with their switches and ignored spans."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spanscore.dialects.forms.messages import MessageCache
from spanscore.dialects.forms.structure import Facts, Side, text
from spanscore.dialects.log_turns import LogTurns
from spanscore.model.span import LogRecord, Span, record
from spanscore.model.step import Message, Step


@dataclass(frozen=True, slots=True)
class ContentSwitch:
    """What to do where spans contain no content: `how` is an instruction, without a full stop.

    It is for spans whose scope's name begins with `scope`; of several that fit, the longest `scope`
    counts.
    """

    how: str
    scope: str = ""


CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LATEST = "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"

OPENTELEMETRY = (
    f"set {CAPTURE}=SPAN_ONLY with {LATEST}, or, for versions that do not know these,"
    f" {CAPTURE}=true and send log records too"
)
"""Of OpenTelemetry's own instrumentations in Python: those that write the latest conventions alone
take `true` for no content.
"""

OPENTELEMETRY_EVENTS = f"set {CAPTURE}=true and send log records too"
"""Of those that write content into log records alone."""


def switch_for(switches: Sequence[ContentSwitch], scope: str) -> str | None:
    """What to do about spans with this scope's name; None where that is not known.

    >>> switch_for([ContentSwitch("set A"), ContentSwitch("set B", "my.")], "my.instrumentation")
    'set B'
    """
    fitting = [x for x in switches if scope.startswith(x.scope)]
    return max(fitting, key=lambda x: len(x.scope)).how if fitting else None


Items: TypeAlias = list[dict[str, Any]]
"""The messages of one side of a model call, as objects, before they become messages."""


def _same_span(span: Span) -> Span:
    return span


def _as_it_is(_span: Span, _facts: Facts, _outermost: bool) -> None:
    """Change nothing."""


def _nothing_more(_span: Span, _facts: Facts) -> None:
    """Add nothing."""


def _same_items(_span: Span, items: Items) -> Items:
    return items


def _no_messages(_span: Span, _side: Side, _facts: Facts) -> tuple[Message, ...] | None:
    return None


def _name_of_span(span: Span) -> str | None:
    return text(span.name)


@dataclass(frozen=True, slots=True)
class Quirk:
    """How a framework's spans differ from what the dialect named `under` reads in general.

    It is for spans of that dialect whose scope's name is among `scopes`, that have one of the
    attributes `values` with a text in it ("" for any value), or for which `matches` is true; of
    several, the first by name. Every dialect can have quirks with these parts:

    - `prepare` gives the span that is read, perhaps with other attributes.
    - `complete` adds to the facts that were read, in place, or corrects them.
    - `refine_trace` is given all steps of a trace that the dialect read, and gives them back,
      perhaps with other facts.
    - `content` is what turns on the recording of content in such spans, each by the start of a
      scope's name.
    - `log_turns` finds the turns that it records in log records.
    - `claims_scopes`: spans of these scopes are of the dialect, also where nothing else shows it.

    Dialects that read for many frameworks use more: OpenInference all of these, OpenLLMetry `place`
    and `items`, MLflow `place` and `agent_name`.

    - `place` corrects, in place, the kind of the step and whose it is, before its content is read.
      It is given whether no span above this one is read by any dialect.
    - `items` changes flattened messages before they are read.
    - `messages` gives the messages of one side in place of the flattened ones; None where the span
      has none.
    - `agent_name` gives the name of an agent whose span states none; by default the span's name.
    - `envelope` is the key under which the framework puts what a function returned and that is no
      object.
    - `omits_empty_arguments`: a call without arguments is recorded without them.
    - `returns_state`: an object that a function returned is the framework's state, and no answer.
    """

    name: str
    under: str
    scopes: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    matches: Callable[[Span], bool] | None = None
    claims_scopes: bool = False
    content: tuple[ContentSwitch, ...] = ()
    log_turns: tuple[LogTurns, ...] = ()
    prepare: Callable[[Span], Span] = _same_span
    place: Callable[[Span, Facts, bool], None] = _as_it_is
    items: Callable[[Span, Items], Items] = _same_items
    messages: Callable[[Span, Side, Facts], tuple[Message, ...] | None] = _no_messages
    agent_name: Callable[[Span], str | None] = _name_of_span
    envelope: str | None = None
    omits_empty_arguments: bool = False
    returns_state: bool = False
    complete: Callable[[Span, Facts], None] = _nothing_more
    refine_trace: Callable[[Sequence[Step]], Sequence[Step]] | None = None


NO_QUIRK = Quirk(name="", under="")
"""The quirk of a span that is as its dialect reads it in general."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredSpans:
    """Which spans of a platform or framework are no work of an agent.

    A span is ignored where its scope's name is among `scopes`, its own name among `names`, where it
    has one of the attributes `keys`, or an attribute with the value that `values` has for it.
    """

    scopes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()


NOTHING_IGNORED = IgnoredSpans()


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
    - `matching_scopes`, `matching_names` and `matching_keys` say of which spans without log records
      `matches` may be true, so that it is not called for others: those whose scope's name, or own
      name, begins with one of them, and those that have one of the attributes; a key that ends with
      a dot is how several begin. A dialect without any of the three is asked about all spans.
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
    matching_names: tuple[str, ...] = ()
    matching_keys: tuple[str, ...] = ()
