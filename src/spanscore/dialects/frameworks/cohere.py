"""Cohere's missing texts in OpenLLMetry's spans."""

from spanscore.dialects.dialect import Items, Quirk
from spanscore.model.span import Span

_NO_TEXT = "[]"


def without_filler(_span: Span, items: Items) -> Items:
    """Flattened messages without what stands for a text that is missing."""
    return [{**x, "content": None} if x.get("content") == _NO_TEXT else x for x in items]


QUIRKS = (
    Quirk(
        name="cohere",
        under="openllmetry",
        scopes=("opentelemetry.instrumentation.cohere",),
        items=without_filler,
    ),
)
