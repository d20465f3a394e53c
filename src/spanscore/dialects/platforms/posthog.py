"""PostHog's names for a user and a session."""

from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.structure import Facts, identity
from spanscore.model.span import Span

_USER = "ai.telemetry.metadata.posthog_distinct_id"
_SESSION = "ai.telemetry.metadata.$ai_session_id"


def matches(span: Span) -> bool:
    """Whether a span has one of PostHog's names."""
    return _USER in span.attributes or _SESSION in span.attributes


def complete(span: Span, facts: Facts) -> None:
    """Add the user and the session, where nothing else states them."""
    facts["user_id"] = facts.get("user_id") or identity(span.attributes.get(_USER))
    facts["session_id"] = facts.get("session_id") or identity(span.attributes.get(_SESSION))


QUIRKS = (Quirk(name="posthog", under="vercel_ai", matches=matches, complete=complete),)
