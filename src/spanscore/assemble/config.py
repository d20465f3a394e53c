"""Configuration of when traces and sessions are complete."""

import difflib
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from spanscore import discovery
from spanscore.model.options import ByteSize, Duration, Options, duration_ns
from spanscore.model.trace import DEFAULT_SCOPE

REASONS = tuple(discovery.names("spanscore.turns.stitch.reasons"))
"""The names of the reasons by which traces are joined into one turn."""


class Reason(Options):
    """One reason to join traces."""

    enabled: bool = True
    """Whether traces are joined by this reason. False: what only this reason would join stays
    apart, each trace with turns of its own.
    """

    @model_validator(mode="before")
    @classmethod
    def _has_keys(cls, given: object) -> object:
        if isinstance(given, bool):
            raise ValueError(f"write `enabled: {str(given).lower()}` on a line under it")  # noqa: TRY004 - pydantic's
        return given


def _known(reasons: dict[str, Reason]) -> dict[str, Reason]:
    for name in reasons:
        if name not in REASONS:
            near = difflib.get_close_matches(name, REASONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(REASONS)}"
            raise ValueError(f"{name}: no reason to join traces; {hint}")
    return reasons


class Config(Options):
    """When a trace, and a session, counts as complete, and how much is kept until then."""

    enabled: bool = True
    """False: requests are acknowledged and journalled, but no trace is rebuilt from them."""

    complete_after: Duration = duration_ns("10s")
    """How long a trace with its root and all parents must be quiet.

    SDKs send every 5s, logs apart from spans.
    """

    whole_after: Duration = duration_ns("2s")
    """How long such a trace must be quiet that shows that nothing is missing: it has a question, an
    answer and an outcome of each tool call, and nothing suggests that other traces are of its turn.
    What comes later all the same gives the next revision. As long as `complete_after`, or longer:
    no trace is scored earlier than others.
    """

    idle_after: Duration = duration_ns("30s")
    """How long a trace without a root, or with a parent still missing, must be quiet; its
    completeness is `idle`.
    """

    max_age: Duration = duration_ns("1h")
    """A trace that has been growing for so long is cut as it is; its completeness is
    `truncated`.
    """

    late_window: Duration = duration_ns("5m")
    """How long after a trace was cut a late span re-opens it.

    What starts later in the same trace, as where a trace id lives as long as a chat, is turns of
    their own.
    """

    stitch_window: Duration = duration_ns("30s")
    """How long a trace that ends in the middle of a turn, or begins there, waits for the turn's
    other traces.

    Each that comes starts the wait anew. A turn that is whole waits `complete_after` for
    stragglers. What comes later, within `late_window`, gives the turn's next revision. A trace that
    contains a whole turn never waits, but for one whose outermost span links to another
    trace, and a gateway's, which waits `complete_after` for an application's.
    """

    stitch: Annotated[
        dict[str, Reason],
        AfterValidator(_known),
        Field(json_schema_extra={"propertyNames": {"enum": list(REASONS)}}),
    ] = {}
    """The reasons by which traces are joined into one turn, by name, as [this
    table](agent-trace.md#one-turn-several-traces) has them. All are on;
    `delegation: {enabled: false}` switches one off."""

    max_parts: int = Field(default=10_000, ge=1)
    """Traces of unfinished turns kept in mind; above it the one that was heard of longest ago waits
    no more.
    """

    session_scope: tuple[str, ...] = DEFAULT_SCOPE
    """Resource attributes within which a session id is valid: traces with the same id are one
    session only where these agree. Add `service.name` where services that share a namespace count
    their sessions each by itself; `[]` joins by the id alone. Headers that the configuration keeps
    for its exporters (`from_context`) always keep sessions apart, and where there are tenants,
    these do.
    """

    session_keys: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Further attributes of spans that contain a session id, the first that has one counts:
    `[chat.ref]`. They count on any span, also on one that no dialect reads, as if they were a
    convention's; where a convention's own attribute on the same span names a session, that one
    counts.
    """

    utility_spans: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Names of spans, or patterns such as `guard*`, whose model calls, and those of all spans
    inside, are beside the agent's loop, whatever they look like: a guard, a title, a memory. They
    give neither question nor answer. `*`, `?` and `[...]` are as in a shell; upper and lower case
    differ.
    """

    agent_spans: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Names of spans, or patterns, whose model calls, and those of all spans inside, are of the
    agent's loop, whatever they look like. The nearest span that is named here, or in
    `utility_spans`, decides; a name that is in both is the agent's.
    """

    session_idle_after: Duration = duration_ns("5m")
    """How long a session must be quiet before it is evaluated; when it goes on, it is evaluated
    again.
    """

    max_spans: int = Field(default=10_000, ge=1)
    """Spans and log records of one trace; at this number it is cut as `truncated`."""

    max_trace_bytes: ByteSize = 64 * 2**20
    """Bytes of one trace; at this size it is cut as `truncated`."""

    max_open_traces: int = Field(default=50_000, ge=1)
    """Traces waited for at once; above it the one that has been quiet longest is cut as
    `truncated`.
    """

    max_open_spans: int = Field(default=2_000_000, ge=1)
    """Spans and log records of all of them; above it the trace that has been quiet longest is cut
    as `truncated`.
    """

    max_open_sessions: int = Field(default=50_000, ge=1)
    """Sessions waited for at once; above it the one that has been quiet longest is evaluated."""

    max_closed_traces: int = Field(default=200_000, ge=1)
    """Traces remembered after they were cut, so that a late span is known as late."""

    @property
    def stitch_off(self) -> tuple[str, ...]:
        """The names of the reasons that are switched off."""
        return tuple(name for name, reason in self.stitch.items() if not reason.enabled)
