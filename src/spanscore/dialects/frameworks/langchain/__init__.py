"""LangChain and LangGraph inside the spans of OpenInference and OpenLLMetry."""

from spanscore.dialects.frameworks.langchain import openinference, openllmetry, traceloop_js

QUIRKS = (*openinference.QUIRKS, *openllmetry.QUIRKS, *traceloop_js.QUIRKS)
