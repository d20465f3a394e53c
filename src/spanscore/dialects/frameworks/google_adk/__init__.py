"""Google's Agent Development Kit: the semantic conventions, and before them requests and responses
of Gemini's API.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from spanscore.dialects.content_switch import CAPTURE, LATEST, ContentSwitch
from spanscore.dialects.conventions import openinference, semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import gemini_calls
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.messages import messages, system_text
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import is_redacted, opened, structure
from spanscore.dialects.forms.values import NOT_RECORDED, Facts, add_damaged, add_missing, count
from spanscore.dialects.frameworks.google_adk import objects
from spanscore.dialects.frameworks.google_adk.objects import by_its_author, waits
from spanscore.dialects.frameworks.google_adk.skipped_summaries import with_skipped_summaries
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_OPERATION_NAME,
    GEN_AI_TOOL_CALL_ARGUMENTS,
    GEN_AI_TOOL_CALL_RESULT,
    GEN_AI_TOOL_NAME,
)
from spanscore.dialects.keys.openinference import OPENINFERENCE_SPAN_KIND
from spanscore.dialects.quirk import NO_QUIRK, Quirk
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Step, StepFact

_REQUEST, _RESPONSE = "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"
_GIVEN, _RETURNED = "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"
_CONTENT = (_REQUEST, _RESPONSE, _GIVEN, _RETURNED)
_CALL_ID = "gen_ai.tool_call.id"  # Java's; Python's has the conventions' own
_HIDDEN = "{}"  # stands for each of them where recording content is switched off
_NO_RESPONSE = {"result": "<not specified>"}  # of a tool that raised, or is still running
# the name of the tool in the span around the answers to parallel calls
_MERGED_TOOLS = "(merged tools)"
# an agent's span before version 1.16, which has no attributes
_RUN = re.compile(r"agent_run \[(.+)\]")
# a tool's before version 1.2; later one that raised
_CALL = re.compile(r"tool_call \[(.+)\]|execute_tool ([^(].*)")
_TYPESCRIPT = '"usageMetadata":'
"""How the SDKs for TypeScript and Java spell what a response contains; in a text the quotes would
have backslashes.
"""

_OPENINFERENCE = OPENINFERENCE_SPAN_KIND
_DAMAGEABLE: Final[tuple[StepFact, ...]] = ("input", "output", "arguments", "result")


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; of one that OpenInference completed, those of its attributes
    as well.
    """
    if _OPENINFERENCE not in span.attributes:
        return _read(span, context)
    shown = {key: x for key, x in span.attributes.items() if key not in _CONTENT or x != _HIDDEN}
    return _completed(
        _read(replace(span, attributes=shown), context), _read_openinference(span, context)
    )


def _read_openinference(span: Span, context: Context) -> Facts:
    quirk = objects.OPENINFERENCE if span.scope.name in objects.OPENINFERENCE.scopes else NO_QUIRK
    facts = openinference.read(span, replace(context, quirk=quirk))
    quirk.complete(span, facts)
    return facts


def _completed(facts: Facts, beside: Facts) -> Facts:
    """`facts` with those of `beside` that they lack; what either records whole is not damaged."""
    if facts.get("has_result"):
        beside.pop("result", None)
    whole = {x for x in _DAMAGEABLE if _is_whole(facts, x) or _is_whole(beside, x)}
    add_missing(facts, beside, missing=NOT_RECORDED)
    facts["damaged"] = facts.get("damaged", frozenset()) - whole
    return facts


def _is_whole(facts: Facts, fact: StepFact) -> bool:
    return facts.get(fact) is not None and fact not in facts.get("damaged", ())


def _read(span: Span, context: Context) -> Facts:
    """The facts of an agent, `call_llm`, `generate_content` or tool call."""
    facts = semconv.read(span, context)
    attributes = span.attributes
    leave_merged_tools(span, facts)
    facts["session_id"] = facts.get("session_id") or identity(
        attributes.get("gcp.vertex.agent.session_id")
    )
    if facts["kind"] == "other":
        _read_name(span, facts)
    if facts["kind"] == "tool":
        _read_tool(attributes, facts)
    elif facts["kind"] == "model":
        _read_request(attributes, facts)
        _read_response(attributes, facts)
        gemini_calls.without_envelopes(facts)
        if given := facts.get("input"):
            facts["input"] = tuple(map(by_its_author, given))
    return facts


def is_merged_tools(span: Span) -> bool:
    """Whether a span is the one around the answers to parallel calls, in whichever scope."""
    return span.attributes.get(GEN_AI_TOOL_NAME) == _MERGED_TOOLS


def leave_merged_tools(span: Span, facts: Facts) -> None:
    """Take a span around the answers to parallel calls for no call: each has a span of its own."""
    if facts["kind"] == "tool" and is_merged_tools(span):
        facts["kind"], facts["tool_name"], facts["call_id"] = "other", None, None


def _read_name(span: Span, facts: Facts) -> None:
    """Which kind a span is that has no operation's name: by its content, else, in old versions, by
    its own name.
    """
    run, call = _RUN.fullmatch(span.name), _CALL.fullmatch(span.name)
    attributes = span.attributes
    if GEN_AI_OPERATION_NAME not in attributes and any(
        _contains(attributes, x) for x in (_REQUEST, _RESPONSE)
    ):
        facts["kind"] = "model"
    elif run is not None:
        facts["kind"], facts["agent_name"] = "agent", run[1]
    elif call is not None:
        facts |= {"kind": "tool", "tool_name": call[1] or call[2], "error": status_error(span)}


def _contains(attributes: Attributes, key: str) -> bool:
    return attributes.get(key) not in (None, "", _HIDDEN)


def _read_tool(attributes: Attributes, facts: Facts) -> None:
    given, returned = attributes.get(_GIVEN), attributes.get(_RETURNED)
    facts["call_id"] = facts.get("call_id") or call_id(attributes.get(_CALL_ID))
    if facts.get("arguments") is None and given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    if not facts.get("has_result") and returned is not None and not is_redacted(returned):
        result = opened(returned)
        if result != _NO_RESPONSE:
            facts["result"], facts["has_result"] = result, True
    if waits(facts.get("result")):
        facts["result"], facts["has_result"] = None, False
    if facts.get("has_result"):
        facts["result"] = gemini_calls.content(facts["result"])


def _read_request(attributes: Attributes, facts: Facts) -> None:
    """What the model was given; `{}` where recording content is switched off."""
    request, damaged = structure(attributes.get(_REQUEST))
    if damaged:
        add_damaged(facts, "input")
    if not isinstance(request, dict):
        return
    if facts.get("input") is None and isinstance(request.get("contents"), list):
        facts["input"] = messages(request["contents"]).messages
    config = request.get("config")
    if not isinstance(config, dict):
        return
    instruction = config.get("system_instruction", config.get("systemInstruction"))
    if facts.get("system") is None and instruction is not None:
        facts["system"] = (
            instruction if isinstance(instruction, str) else system_text(instruction)[0]
        )
    if facts.get("tools") is None and isinstance(config.get("tools"), list):
        facts["tools"] = tools(config["tools"])


def _read_response(attributes: Attributes, facts: Facts) -> None:
    response, damaged = structure(attributes.get(_RESPONSE))
    if damaged:
        add_damaged(facts, "output")
    if not isinstance(response, dict):
        return
    content = response.get("content")
    if facts.get("output") is None and isinstance(content, dict):
        facts["output"] = messages([content], "assistant").messages
    elif facts.get("output") is None and response.get("candidates"):  # Gemini's own
        facts["output"] = messages(response, "assistant").messages
    usage = response.get("usage_metadata")  # in TypeScript there are attributes for it
    if isinstance(usage, dict):
        produced = [count(usage.get(x)) for x in ("candidates_token_count", "thoughts_token_count")]
        if facts.get("input_tokens") is None:
            facts["input_tokens"] = count(usage.get("prompt_token_count"))
        if facts.get("output_tokens") is None and produced[0] is not None:
            facts["output_tokens"] = sum(x for x in produced if x is not None)


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps with what the other spans of the trace show of them: tools' results, and answers
    that are one.
    """
    return with_skipped_summaries(_with_results(steps))


def _with_results(steps: Sequence[Step]) -> list[Step]:
    """The steps, of which those of tools are what the other spans of the trace show them to be.

    Lists that they returned are out of the object that only the SDK for TypeScript puts around
    them. Where no span shows content, an empty object stands for what was hidden; else it is the
    tool's own.
    """
    if all(x.span.attributes.get(key, _HIDDEN) == _HIDDEN for x in steps for key in _CONTENT):
        return [
            _without_stand_ins(step)
            if step.kind == "tool" and _OPENINFERENCE not in step.span.attributes
            else step
            for step in steps
        ]
    if not any(
        _TYPESCRIPT in str(x.span.attributes.get(_RESPONSE)) and not _is_java(x) for x in steps
    ):
        return list(steps)
    return [replace(x, result=_listed(x.result)) if x.kind == "tool" else x for x in steps]


def _is_java(step: Step) -> bool:
    return step.span.resource.attributes.get("telemetry.sdk.language") == "java"


def _without_stand_ins(step: Step) -> Step:
    attributes = step.span.attributes
    if _GIVEN in attributes and GEN_AI_TOOL_CALL_ARGUMENTS not in attributes:
        step = replace(step, arguments=None)
    if _RETURNED in attributes and GEN_AI_TOOL_CALL_RESULT not in attributes:
        step = replace(step, result=None, has_result=False)
    return step


def _listed(result: Json) -> Json:
    results = result.get("results") if isinstance(result, dict) and len(result) == 1 else None
    return results if isinstance(results, list) else result


QUIRKS = (
    objects.OPENINFERENCE,
    Quirk(
        name="google_adk",
        under="semconv",
        scopes=objects.OPENINFERENCE.scopes,
        matches=is_merged_tools,
        complete=leave_merged_tools,
    ),
)

DIALECT = Dialect(
    "google_adk",
    read,
    scopes=("gcp.vertex.agent",),
    keys=(_REQUEST, _GIVEN),
    prefilters=(b"gcp.vertex.agent", b"gen_ai."),
    refine_trace=refine_trace,
    content=(
        ContentSwitch(
            f"set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true, and {CAPTURE}=SPAN_ONLY with {LATEST}"
        ),
    ),
)
