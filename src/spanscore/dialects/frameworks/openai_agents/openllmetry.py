"""Open what OpenLLMetry records of OpenAI's Agents SDK, which makes text of results by str()."""

from dataclasses import replace

from spanscore.dialects.forms.reprs import evaluated
from spanscore.dialects.forms.values import Facts, change_messages
from spanscore.dialects.quirk import Quirk
from spanscore.model.span import Span
from spanscore.model.step import Message


def complete(_span: Span, facts: Facts) -> None:
    """Open the results in messages, and that of a tool, in place."""
    change_messages(facts, _with_results)
    if facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = evaluated(facts["result"])


def _with_results(printed: Message) -> Message:
    return replace(
        printed, results=tuple(replace(x, value=evaluated(x.value)) for x in printed.results)
    )


QUIRKS = (
    Quirk(
        name="openai_agents",
        under="openllmetry",
        scopes=("opentelemetry.instrumentation.openai_agents",),
        complete=complete,
    ),
)
