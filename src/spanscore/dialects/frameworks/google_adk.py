"""Google's Agent Development Kit: the semantic conventions, and before them requests and responses
of Gemini's API.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spanscore.dialects.conventions import openinference, semconv
from spanscore.dialects.dialect import (
    CAPTURE,
    LATEST,
    NO_QUIRK,
    ContentSwitch,
    Context,
    Dialect,
    Items,
    Quirk,
)
from spanscore.dialects.forms.arguments import (
    arguments,
    call_id,
    response_content,
    tools,
    without_envelopes,
)
from spanscore.dialects.forms.messages import messages, system_text
from spanscore.dialects.forms.provider_bodies import configured_tools, system_of
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    NOT_RECORDED,
    Facts,
    Side,
    add_damaged,
    add_missing,
    as_object,
    count,
    identity,
    indexed,
    is_redacted,
    object_at,
    opened,
    structure,
)
from spanscore.dialects.log_turns import LogTurns, Part, Unit, in_order, span_of, under
from spanscore.model.json import Json, printed
from spanscore.model.span import STATUS_ERROR, Attributes, LogRecord, Span, changed
from spanscore.model.step import Message, Step, StepFact
from spanscore.model.trace import RequestedCall

_SCOPE = "gcp.vertex.agent"
_AGENT_SPAN, _GENERATION = "invoke_agent ", "generate_content"
_OF_AGENT = frozenset({"gen_ai.agent.name", "gen_ai.conversation.id", "session.id", "user.id"})
"""What an agent's span has of its own where model calls wrote into it."""

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

_OPENINFERENCE = "openinference.span.kind"

_OPENINFERENCE_SCOPE = "openinference.instrumentation.google_adk"
_FLAT = "llm.input_messages."
_RETOLD = ("For context:\n", "For context: below is a transcript of what another agent did")
# what a tool that waits for it seems to return
_UNCONFIRMED = "This tool call requires confirmation"
_CONTENT_KEYS = frozenset({"contents", "tool_calls"})
_RESULT_KEYS = frozenset({"content", "name", "tool_call_id"})
_RUN_SIDES: Final[tuple[tuple[Side, str, str, str], ...]] = (
    ("input", "input.value", "new_message", "user"),
    ("output", "output.value", "content", "assistant"),
)
"""Of each side of a run: the attribute, the member of the object in it that is a message, and its
role.
"""

_RESPONSE_KEYS = frozenset({"id", "name", "response", "parts", "scheduling", "will_continue"})


def by_its_author(message: Message) -> Message:
    """A message in the user's name that repeats what another agent wrote or did, as an agent's."""
    repeated = (
        message.role == "user" and message.text is not None and message.text.startswith(_RETOLD)
    )
    return changed(message, role="assistant") if repeated else message


def waits(result: Json) -> bool:
    """Whether a result is only the notice that the call waits for a person to confirm it."""
    error = result.get("error") if isinstance(result, dict) and len(result) == 1 else None
    return isinstance(error, str) and error.startswith(_UNCONFIRMED)


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenInference's spans, in place."""
    if facts["kind"] in {"agent", "workflow"}:
        _complete_run(span, facts)
    elif facts["kind"] == "tool":
        _complete_tool(span, facts)
    elif facts["kind"] == "model":
        _complete_model(span, facts)


def _complete_run(span: Span, facts: Facts) -> None:
    """A run's new message and its last event, which are the question and the answer."""
    for fact, key, member, role in _RUN_SIDES:
        recorded = structure(span.attributes.get(key))
        inside = as_object(recorded.value).get(member)
        if isinstance(inside, dict):
            facts[fact] = messages([inside], role).messages
        elif recorded.damaged:
            add_damaged(facts, fact)


def _complete_tool(span: Span, facts: Facts) -> None:
    """Open the response around a result; arguments are left out where there are none."""
    result = facts.get("result")
    if isinstance(result, dict) and "name" in result and result.keys() <= _RESPONSE_KEYS:
        facts["has_result"] = "response" in result
        facts["result"] = response_content(result.get("response"))
    if waits(facts.get("result")):
        facts["result"], facts["has_result"] = None, False
    if (
        "input.value" not in span.attributes
        and "tool.name" in span.attributes
        and not span.dropped_attributes_count
    ):
        facts["arguments"] = {}


def without_overlaps(_span: Span, items: Items) -> Items:
    """Flattened messages; without results where the second of several lies upon the message after
    them.
    """
    if not any(map(_overlaps, items)):
        return items
    with_content = [
        x for x in items if x.get("role") == "system" or not _CONTENT_KEYS.isdisjoint(x)
    ]
    return [
        {key: x for key, x in item.items() if key not in _RESULT_KEYS} if _overlaps(item) else item
        for item in with_content
    ]


def _overlaps(item: Mapping[str, Any]) -> bool:
    """Whether a message contains a result's keys beside text or calls, which are under keys of
    their own.
    """
    return not _CONTENT_KEYS.isdisjoint(item) and not _RESULT_KEYS.isdisjoint(item)


def _complete_model(span: Span, facts: Facts) -> None:
    """The messages of the whole request and response, since flattened ones overlap."""
    given = object_at(span.attributes, "input.value")
    returned = object_at(span.attributes, "output.value")
    if isinstance(given.get("contents"), list):
        facts["input"], facts["system"] = messages(given["contents"]).messages, system_of(given)
        facts["tools"] = facts.get("tools") or configured_tools(given)
    elif any(
        isinstance(x.get("message"), dict) and _overlaps(x["message"])
        for x in indexed(span.attributes, _FLAT)
    ):
        add_damaged(facts, "input")
    if isinstance(returned.get("content"), dict):
        facts["output"] = messages([returned["content"]], "assistant").messages
    without_envelopes(facts)
    if given_messages := facts.get("input"):
        facts["input"] = tuple(map(by_its_author, given_messages))


OPENINFERENCE = Quirk(
    "google_adk",
    "openinference",
    (_OPENINFERENCE_SCOPE,),
    items=without_overlaps,
    complete=complete_openinference,
    returns_state=True,
)


_DAMAGEABLE: Final[tuple[StepFact, ...]] = ("input", "output", "arguments", "result")


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; of one that OpenInference completed, those of its attributes
    as well.
    """
    if _OPENINFERENCE not in span.attributes:
        return _read(span, context)
    shown = {key: x for key, x in span.attributes.items() if key not in _CONTENT or x != _HIDDEN}
    return _completed(
        _read(changed(span, attributes=shown), context), _read_openinference(span, context)
    )


def _read_openinference(span: Span, context: Context) -> Facts:
    quirk = OPENINFERENCE if span.scope.name in OPENINFERENCE.scopes else NO_QUIRK
    facts = openinference.read(span, changed(context, quirk=quirk))
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
        without_envelopes(facts)
        if given := facts.get("input"):
            facts["input"] = tuple(map(by_its_author, given))
            if given[-1].results and _is_overwritten(span):
                add_damaged(facts, "tokens")  # those of the calls before it
    return facts


def is_merged_tools(span: Span) -> bool:
    """Whether a span is the one around the answers to parallel calls, in whichever scope."""
    return span.attributes.get("gen_ai.tool.name") == _MERGED_TOOLS


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
    if "gen_ai.operation.name" not in attributes and any(
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
        facts["result"] = response_content(facts["result"])


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
    return [changed(x, result=_listed(x.result)) if x.kind == "tool" else x for x in steps]


def _is_java(step: Step) -> bool:
    return step.span.resource.attributes.get("telemetry.sdk.language") == "java"


def _without_stand_ins(step: Step) -> Step:
    attributes = step.span.attributes
    if _GIVEN in attributes and "gen_ai.tool.call.arguments" not in attributes:
        step = changed(step, arguments=None)
    if _RETURNED in attributes and "gen_ai.tool.call.result" not in attributes:
        step = changed(step, result=None, has_result=False)
    return step


def _listed(result: Json) -> Json:
    results = result.get("results") if isinstance(result, dict) and len(result) == 1 else None
    return results if isinstance(results, list) else result


QUIRKS = (
    OPENINFERENCE,
    Quirk(
        "google_adk",
        "semconv",
        OPENINFERENCE.scopes,
        values=(("gen_ai.tool.name", _MERGED_TOOLS),),
        complete=leave_merged_tools,
    ),
)


def _unit(_attributes: Attributes, _trace_id: str) -> Unit | None:
    """Its trace, as for spans."""
    return None


def _parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
    """All of the trace, with a span for each model call that a later one overwrote in the span of
    their agent: each has a record of its own under that span.
    """
    written: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for log in in_order(logs):
        if log.event_name == semconv.DETAILS and log.scope.name == _SCOPE:
            written[log.span_id].append(log)
    overwritten = {
        x.span_id: x for x in spans if _is_overwritten(x) and len(written.get(x.span_id, ())) > 1
    }
    calls = {
        (about.span_id, log.time_ns): _call(unit, about, log)
        for about in overwritten.values()
        for log in written[about.span_id]
    }
    about = [_of_agent(x, written[x.span_id][0]) if x.span_id in overwritten else x for x in spans]
    moved = (
        (log, calls.get((log.span_id, log.time_ns)) if log.event_name == semconv.DETAILS else None)
        for log in logs
    )
    yield (
        [*about, *calls.values()],
        [log if call is None else under(call, log) for log, call in moved],
    )


def _is_overwritten(span: Span) -> bool:
    """Whether an agent's span has the attributes of its model calls, the last of which are left."""
    operation = span.attributes.get("gen_ai.operation.name")
    return span.name.startswith(_AGENT_SPAN) and operation == _GENERATION


def _of_agent(span: Span, log: LogRecord) -> Span:
    """The span without what model calls wrote into it; the user is in their records alone."""
    recorded = {**log.attributes, **span.attributes}
    own = {key: x for key, x in recorded.items() if key in _OF_AGENT}
    return changed(span, attributes={**own, "gen_ai.operation.name": "invoke_agent"})


def _call(unit: str, about: Span, log: LogRecord) -> Span:
    call = span_of(unit, log.event_name, log, identity=f"{about.span_id} {log.time_ns}")
    model = about.attributes.get("gen_ai.request.model")
    named = {"gen_ai.operation.name": _GENERATION, "gen_ai.request.model": model}
    return changed(call, parent_span_id=about.span_id, attributes=named)


DIALECT = Dialect(
    "google_adk",
    read,
    scopes=(_SCOPE,),
    log_turns=(LogTurns(_SCOPE, _unit, _parts),),
    keys=(_REQUEST, _GIVEN),
    prefilters=(b"gcp.vertex.agent", b"gen_ai."),
    refine_trace=refine_trace,
    content=(
        ContentSwitch(
            f"set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true, and {CAPTURE}=SPAN_ONLY with {LATEST}"
        ),
    ),
)


_TYPE = "gen_ai.tool.type"
_STILL_RUNNING = "LongRunningFunctionTool"
_MOVES_ON: Final = frozenset({"transfer_to_agent", "exit_loop"})
"""Tools that end an agent's run and return nothing to the user."""

_ASKED: Final = frozenset({"model", "agent"})
_MAX_DEPTH = 50


def with_skipped_summaries(steps: Sequence[Step]) -> list[Step]:
    """The steps; an agent's answer is what its tool returned, where the last thing that its model
    did was to request this one call, and the run did not fail.

    After any other result the framework asks the model again.
    """
    if not any(x.kind == "agent" for x in steps):
        return list(steps)
    by_id = {x.span.span_id: x for x in steps}
    inside: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        agent = _agent_around(step, by_id)
        if agent is not None:
            inside[agent.span.span_id].append(step)
    return [
        _answering(x, inside[x.span.span_id]) if x.kind == "agent" and _is_open(x) else x
        for x in steps
    ]


def _agent_around(step: Step, by_id: Mapping[str, Step]) -> Step | None:
    place = by_id.get(step.span.parent_span_id)
    for _ in range(_MAX_DEPTH):
        if place is None or place.kind == "agent":
            return place
        place = by_id.get(place.span.parent_span_id)
    return None


def _is_open(agent: Step) -> bool:
    """Whether a run has no answer so far, and did not fail."""
    has_answer = agent.output or agent.output_text is not None or agent.damaged
    return not has_answer and agent.span.status_code != STATUS_ERROR


def _answering(agent: Step, steps: Sequence[Step]) -> Step:
    models = [x for x in steps if x.kind == "model" and x.output]
    tool = _only_tool(max(models, key=_began), steps) if models else None
    if tool is None or not _is_shown(tool):
        return agent
    # what came after the result would have been given it
    later = [x for x in steps if x.kind in _ASKED and _began(x) >= tool.span.end_ns]
    return agent if later else changed(agent, output_text=printed(tool.result))


def _began(step: Step) -> int:
    return step.span.start_ns


def _only_tool(model: Step, steps: Sequence[Step]) -> Step | None:
    """The tool that ran for the only call that a model requested."""
    calls = [call for message in model.output or () for call in message.calls]
    if len(calls) != 1:
        return None
    ran = [x for x in steps if x.kind == "tool" and _is_of(x, calls[0])]
    return max((x for x in ran if _began(x) >= _began(model)), key=_began, default=None)


def _is_of(tool: Step, call: RequestedCall) -> bool:
    if tool.call_id and call.call_id:
        return tool.call_id == call.call_id
    return tool.tool_name == call.name


def _is_shown(tool: Step) -> bool:
    """Whether a tool returned something that a user can be shown."""
    attributes = tool.span.attributes
    is_done = tool.has_result and tool.result not in (None, "", {}, []) and not tool.error
    return (
        is_done
        and attributes.get(_TYPE) != _STILL_RUNNING
        and attributes.get("gen_ai.tool.name") not in _MOVES_ON
    )
