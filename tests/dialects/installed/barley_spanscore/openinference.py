"""Barley in OpenInference's spans: an agent's span is called after a method, and results are in an
envelope.
"""

from spanscore.dialects.reading import Facts, Quirk, Span, text


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    result = facts.get("result")
    if facts["kind"] == "agent":
        facts["agent_name"] = text(span.attributes.get("barley.agent"))
    elif facts["kind"] == "tool" and isinstance(result, dict) and result.keys() == {"barley"}:
        facts["result"] = result["barley"]


QUIRK = Quirk(
    name="barley",
    under="openinference",
    scopes=("openinference.instrumentation.barley",),
    complete=complete,
)
