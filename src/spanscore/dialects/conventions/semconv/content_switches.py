"""How libraries that write these conventions are configured to record content.

A framework or platform that has a module of its own states it there, as part of a quirk.
"""

from spanscore.dialects.content_switch import (
    CAPTURE,
    LATEST,
    OPENTELEMETRY,
    OPENTELEMETRY_EVENTS,
    ContentSwitch,
)

_TRACELOOP = "set TRACELOOP_TRACE_CONTENT=true"
_EITHER = (
    f"{_TRACELOOP} where it is Traceloop's, {CAPTURE}=SPAN_ONLY with {LATEST} where it is"
    " OpenTelemetry's"
)
_AZURE = (
    f"set {CAPTURE}=true, for older versions AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true"
)
_DOTNET = f"set EnableSensitiveData in UseOpenTelemetry, or {CAPTURE}=true"

SWITCHES = (
    ContentSwitch(_EITHER, "opentelemetry.instrumentation."),
    ContentSwitch(_TRACELOOP, "opentelemetry.instrumentation.openai.v"),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.openai_v2"),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.genai."),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.google_genai"),
    ContentSwitch(OPENTELEMETRY_EVENTS, "opentelemetry.instrumentation.botocore"),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.util.genai"),
    ContentSwitch(f"set {CAPTURE}=true", "io.opentelemetry."),
    ContentSwitch(
        "set captureMessageContent of its configuration to true",
        "@opentelemetry/instrumentation-",
    ),
    ContentSwitch(_TRACELOOP, "@traceloop/"),
    ContentSwitch(_AZURE, "azure."),
    ContentSwitch(_DOTNET, "Experimental.Microsoft."),
)
