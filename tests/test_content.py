"""Where an instrumentation records no content that is said once, with its own switch."""

import gzip
import re
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.cli.doctor_server import Probe
from spanscore.cli.main import main
from spanscore.dialects import all_dialects, recording_switch
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all
from spanscore.watches import ContentWatch, Silent

GOLDEN = Path(__file__).parent / "golden"
NO_CONTENT = GOLDEN / "spring_ai/shop-no-content/traces.pb.gz"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_STRUCTURE = re.compile(
    r"operation|kind|\.type$|_type|model|agent.name|tool.name|system$|provider|\.id$|_id$|token|finish|framework|library"
)
_CONTENT = re.compile(
    r"input|output|prompt|completion|content|message|argument|result|instruction|query|request\.|response$"
)


def request(case):
    return ExportTraceServiceRequest.FromString(
        gzip.decompress((GOLDEN / case / "traces.pb.gz").read_bytes())
    )


def is_structure(attribute):
    """Whether an instrumentation whose content is off would record an attribute."""
    key = attribute.key
    is_content = _CONTENT.search(key) and not re.search("token|model", key)
    return _STRUCTURE.search(key) and not is_content and len(attribute.value.string_value) < 80


def without_content(case):
    """The spans of a golden recording with what they say taken out."""
    found = request(case)
    for group in found.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                kept = [x for x in span.attributes if is_structure(x)]
                del span.attributes[:]
                del span.events[:]
                span.attributes.extend(kept)
    return found


@pytest.fixture
def watched(tmp_path):
    """`watched(request, …)`: what a ContentWatch knows of the agent traces in these requests."""

    def watch(*requests, tell=lambda _: None):
        for number, message in enumerate(requests):
            (tmp_path / f"{number}.pb").write_bytes(message.SerializeToString())
        telemetry = files.load([tmp_path])
        found = ContentWatch(tell)
        rebuild_all(telemetry.spans, telemetry.logs, watch=found)
        return found

    return watch


@pytest.mark.parametrize(
    ("case", "switch"),
    [
        ("agent_framework/shop", "ENABLE_SENSITIVE_DATA=true"),
        ("bedrock/shop", CAPTURE),
        ("claude_code/shop-traces", "OTEL_LOG_USER_PROMPTS"),
        ("copilot/shop", CAPTURE),
        ("gemini_cli/shop-traces", "telemetry.logPrompts"),
        ("google_adk/conventions", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"),
        ("google_genai/shop-latest", CAPTURE),
        ("langfuse/shop-langchain", "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED"),
        ("langsmith/langgraph", "LANGSMITH_HIDE_INPUTS"),
        ("langwatch/shop-openai", "dataCapture"),
        ("litellm/shop-latest", "turn_off_message_logging"),
        ("mastra/shop-otel-exporter", "hideInput"),
        ("openai_agents/desk", CAPTURE),
        ("openinference/shop-langgraph", "OPENINFERENCE_HIDE_INPUTS"),
        ("openinference/openai-agents", "trace_include_sensitive_data"),
        ("openlit/shop-langgraph", "capture_message_content=True"),
        ("openllmetry/langgraph", "TRACELOOP_TRACE_CONTENT=true"),
        ("pydantic_ai/openai", "include_content=True"),
        ("quarkus/shop", "quarkus.langchain4j.tracing"),
        (
            "semantic_kernel/shop",
            "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true",
        ),
        ("semconv/openai-java", f"{CAPTURE}=true"),
        (
            "semconv/openai-v2-latest",
            "SPAN_ONLY with OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental",
        ),
        ("sentry/shop-openai", "recordInputs"),
        ("spring_ai/shop", "spring.ai.chat.observations.log-prompt"),
        ("strands/shop-latest", "gen_ai_unredacted_attributes"),
        ("vercel_ai/generate-text", "recordInputs"),
    ],
)
def test_the_switch_is_that_of_the_instrumentation(watched, case, switch):
    (silent,) = watched(without_content(case)).silent
    assert switch in silent.how


@pytest.mark.parametrize(
    ("scope", "switch"),
    [
        ("opentelemetry.instrumentation.groq", "TRACELOOP_TRACE_CONTENT=true"),
        ("opentelemetry.instrumentation.vertexai", "TRACELOOP_TRACE_CONTENT=true"),
        ("opentelemetry.instrumentation.vertexai", f"{CAPTURE}=SPAN_ONLY"),
        ("opentelemetry.instrumentation.botocore.bedrock-runtime", f"{CAPTURE}=true and send log"),
        ("opentelemetry.instrumentation.genai.openai", f"set {CAPTURE}=SPAN_ONLY with"),
        ("azure.ai.projects", f"{CAPTURE}=true"),
        ("azure.ai.inference", "AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true"),
    ],
)
def test_a_library_that_writes_the_conventions_has_the_switch_of_its_scope(scope, switch):
    assert switch in recording_switch("semconv", scope)


@pytest.mark.parametrize(
    "case",
    ["pydantic_ai/openai", "semconv/genai-util", "openinference/langgraph", "autogen/shop-team"],
)
def test_of_what_records_content_nothing_is_said(watched, case):
    assert watched(request(case)).silent == []


def test_without_a_known_switch_it_is_said_all_the_same(watched):
    (silent,) = watched(without_content("autogen/shop-team")).silent
    assert silent.how is None
    assert "turn on the capture of message content" in str(silent)


def test_it_is_told_once_however_many_traces_there_are(watched):
    told = []
    found = watched(without_content("pydantic_ai/openai"), tell=told.append)
    assert (len(told), found.count) == (1, 4)


def test_a_trace_without_content_among_others_that_have_some_is_no_sign(watched):
    silent = without_content("pydantic_ai/openai")
    for group in silent.resource_spans:
        for scoped in group.scope_spans:
            for span in scoped.spans:
                span.trace_id = bytes(15) + span.trace_id[:1]
    assert watched(request("pydantic_ai/openai"), silent).silent == []


@pytest.mark.parametrize("command", ["eval", "inspect"])
def test_the_commands_say_it_once_on_standard_error(capsys, command):
    main([command, str(NO_CONTENT), "--jsonl"])
    told = [x for x in capsys.readouterr().err.splitlines() if "records no questions" in x]
    assert len(told) == 1
    assert "spring.ai.tools.observations.include-content" in told[0]


def test_an_explanation_says_it_too(capsys):
    main(["inspect", str(NO_CONTENT), "--explain", "--jsonl"])
    assert "records no questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    "switch", [y for x in all_dialects() for y in x.content], ids=lambda x: x.how[:40]
)
def test_a_switch_is_an_instruction_that_a_sentence_can_end_with(switch):
    assert re.match(r"(set|unset|use|call|leave) ", switch.how)
    assert not switch.how.endswith(".")


def test_an_agent_s_span_alone_is_no_sign(watched):
    probe = ExportTraceServiceRequest.FromString(Probe().request(content=False, emitted=False))
    assert watched(probe).count == 0


def test_several_scopes_are_named_together():
    assert str(Silent(("a", "b"), None)).startswith("a and b record no questions")


def test_content_that_was_uploaded_is_said_to_be_elsewhere(watched):
    (silent,) = watched(request("semconv/uploaded")).silent
    assert str(silent) == (
        "opentelemetry.instrumentation.genai.openai: questions, answers and arguments were uploaded"
        " to gs://bucket/content, and are not read from there: what rests on them is not scored."
        " Record them on the spans too"
    )
