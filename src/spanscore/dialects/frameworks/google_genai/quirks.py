"""Open what OpenInference and MLflow record of Google's Gen AI SDK: the objects around what its
tools return.
"""

from spanscore.dialects.forms import gemini_calls
from spanscore.dialects.forms.structure import opened
from spanscore.dialects.forms.values import Facts
from spanscore.dialects.keys.gen_ai import GEN_AI_PROVIDER_NAME
from spanscore.dialects.quirk import Quirk
from spanscore.model.span import Span

_TYPE = "mlflow.spanType"


def logged_by_mlflow(span: Span) -> bool:
    """Whether MLflow wrote a model call of this SDK, in its own attributes or in the semantic
    conventions.
    """
    attributes = span.attributes
    if _TYPE in attributes:
        return opened(attributes.get("mlflow.message.format")) == "gemini"
    return attributes.get(GEN_AI_PROVIDER_NAME) == "gemini"


def complete(_span: Span, facts: Facts) -> None:
    """Open the results in a model call's messages, in place."""
    if facts["kind"] == "model":
        gemini_calls.without_envelopes(facts, objects=True)


def complete_openinference(span: Span, facts: Facts) -> None:
    """The same; early versions write results as the user's text."""
    if facts["kind"] == "model" and (given := facts.get("input")):
        facts["input"] = tuple(gemini_calls.with_results(given))
    complete(span, facts)


QUIRKS = (
    Quirk(
        name="google_genai",
        under="openinference",
        scopes=("openinference.instrumentation.google_genai",),
        omits_empty_arguments=True,
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(name="google_genai", under="mlflow", matches=logged_by_mlflow, complete=complete),
)
