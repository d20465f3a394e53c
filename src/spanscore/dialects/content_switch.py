"""How an instrumentation is configured to record content, where it does not do so by default."""

from collections.abc import Sequence
from dataclasses import dataclass


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
