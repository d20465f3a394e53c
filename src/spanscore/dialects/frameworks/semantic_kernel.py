"""Semantic Kernel: the semantic conventions, and the loop around an agent's model and tool
calls.
"""

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms.structure import Facts, evaluated
from spanscore.model.span import Span

_LOOP = "sk.available_functions"
_AGENTS = "semantic_kernel.utils.telemetry.agent_diagnostics.decorators"
_FUNCTIONS = "semantic_kernel.functions.kernel_function"
# hands messages on among agents: by its links their traces are one turn
_RUNTIME = "agent_runtime InProcessRuntime"
_SENSITIVE = "set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true"


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    An agent that is only given its thread records an empty list of messages.

    A function's result is recorded as str() prints it.
    """
    if _LOOP in span.attributes or span.scope.name == _RUNTIME:
        return {"kind": "other"}
    facts = semconv.read(span, context)
    if facts.get("input") == ():
        facts["input"] = None
    if facts["kind"] == "tool":
        facts["result"] = evaluated(facts.get("result"))
    return facts


DIALECT = Dialect(
    "semantic_kernel",
    read,
    scopes=(_AGENTS, _FUNCTIONS, _RUNTIME),
    keys=(_LOOP,),
    prefilters=(b"semantic_kernel", b"sk.", b"agent_runtime"),
    content=(ContentSwitch(_SENSITIVE),),
)
QUIRKS = (
    # its model calls are in the conventions' own spans
    Quirk(
        name="semantic_kernel",
        under="semconv",
        content=(ContentSwitch(_SENSITIVE, "semantic_kernel."),),
    ),
)
