"""Which facts of a trace a metric of one's own may need, and what it gives where they are
missing.
"""

from collections.abc import Iterable

from spanscore.errors import InputError
from spanscore.model.score import Skip
from spanscore.model.trace import AgentTrace, Session
from spanscore.naming import nearest

FACTS = (
    "user_input",
    "final_output",
    "tool_calls",
    "available_tools",
    "system_instructions",
    "model_calls",
    "history",
    "retrieved",
    "plan",
    "session_id",
    "user_id",
    "agent_name",
)
"""The fields of `AgentTrace` that a metric may need."""

_NEVER_NONE = ("model_calls", "retrieved")
"""An empty one of these says that the trace recorded none."""


def checked_facts(needs: Iterable[str] | str) -> tuple[str, ...]:
    """The names of facts, each once; a text is one name.

    Raises InputError on a fact that there is not.
    """
    names = [needs] if isinstance(needs, str) else list(needs)
    for name in names:
        if name not in FACTS:
            raise InputError(f"needs: a trace has no fact {name!r}; {nearest(str(name), FACTS)}")
    return tuple(dict.fromkeys(names))


def lacking(trace: AgentTrace, needs: Iterable[str]) -> Skip | None:
    """Why `trace` cannot be measured by what `needs` these facts; None where it can."""
    for fact in needs:
        if fact in trace.damaged:
            return Skip(f"The trace's {fact} arrived cut or redacted.", "damaged")
        if _is_missing(trace, fact):
            return Skip(f"The trace did not record {fact}.", "not_recorded")
    return None


def lacking_in_session(session: Session, needs: Iterable[str]) -> Skip | None:
    """Why `session` cannot be measured: no turn recorded one of the facts whole; None where it
    can.
    """
    for fact in needs:
        found = [lacking(trace, (fact,)) for trace in session.traces]
        if all(found):
            is_damaged = any(x is not None and x.cause == "damaged" for x in found)
            whole = " whole" if is_damaged else ""
            return Skip(
                f"No turn of the session recorded {fact}{whole}.",
                "damaged" if is_damaged else "not_recorded",
            )
    return None


def _is_missing(trace: AgentTrace, fact: str) -> bool:
    value = getattr(trace, fact)
    return value is None or (fact in _NEVER_NONE and not value)
