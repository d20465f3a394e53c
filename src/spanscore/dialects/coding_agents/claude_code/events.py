"""Claude Code's log records, by prompt and call."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from spanscore.dialects.forms.structure import (
    count,
    first_identity,
    first_text,
    identity,
    objects,
    structure,
    text,
)
from spanscore.dialects.log_turns import (
    Calls,
    LogTurns,
    Part,
    Unit,
    around,
    in_order,
    name_of,
    span_of,
    under,
)
from spanscore.model.span import Attributes, LogRecord, Span, Value

SCOPE = "com.anthropic.claude_code.events"

PROMPT = "user_prompt"
REQUEST = "api_request_body"
RESPONSE = "api_response_body"
ANSWER = "assistant_response"
CALLED, FAILED = "api_request", "api_error"
DECIDED, RETURNED = "tool_decision", "tool_result"
DEFINING = frozenset({"system_prompt", "tool"})
"""Records of instructions and of a tool's definition, which calls name by a hash; one a process, by
the first call.
"""

INTERACTION, MODEL, TOOL = "claude_code.interaction", "claude_code.llm_request", "claude_code.tool"

_OF_MODEL = frozenset({REQUEST, RESPONSE, ANSWER, CALLED, FAILED})
_OF_TOOL = frozenset({DECIDED, RETURNED})
_READ = _OF_MODEL | _OF_TOOL | DEFINING | {PROMPT}
_AT_START = DEFINING | {REQUEST}
_ALL = ("", "")
MCP_TOOL = "mcp_tool"  # stands for the name of any MCP server's tool
# and what follows these; any other source serves no turn
_ANSWERING = ("repl_main_thread", "sdk", "agent:", "agent.")


def is_aside(attributes: Attributes) -> bool:
    """Whether a model call serves no turn: it finds a title or a suggestion, or checks the
    quota.
    """
    source = first_text(attributes, ("query_source", "query_source_safe"))
    other = source is not None and not source.startswith(_ANSWERING)
    return other or attributes.get("llm_request.context") == "standalone"


def _unit(attributes: Attributes, trace_id: str) -> Unit | None:
    """Records without a trace are grouped by their prompt; where that has no id, by their
    session.
    """
    session = identity(attributes.get("session.id"))
    if trace_id or session is None or text(attributes.get("event.name")) not in _READ:
        return None
    prompt = identity(attributes.get("prompt.id"))
    return Unit(("claude_code", session, prompt or ""), goes_on=prompt is None)


def _parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
    """The turns that are only in records, each by itself; and the spans, with the records that are
    about them.
    """
    own = [x for x in logs if x.scope.name == SCOPE]
    received = {x.span_id for x in spans}
    placed = [x for x in logs if x.scope.name != SCOPE]
    for prompt, records in _prompts(in_order(own)):
        if any(x.span_id in received for x in records) or _is_silent_about(records, spans):
            placed += _placed(records, spans)
        else:
            yield _from_records(unit, prompt, records)
    if spans:
        yield list(spans), placed


def _is_silent_about(logs: Sequence[LogRecord], spans: Iterable[Span]) -> bool:
    """Whether records name no span though they are about some: those of a prompt of their session
    at their time.
    """
    first, last = logs[0], logs[-1]
    session = first.attributes.get("session.id")
    return not any(x.span_id for x in logs) and any(
        x.name == INTERACTION
        and x.attributes.get("session.id") == session
        and x.start_ns < last.time_ns
        and first.time_ns < x.end_ns
        for x in spans
    )


def _prompts(logs: Sequence[LogRecord]) -> Iterator[tuple[str, list[LogRecord]]]:
    """The records of each prompt: by its id, where there is none from one prompt to the next."""
    found: defaultdict[str, list[LogRecord]] = defaultdict(list)
    begun = ""
    for log in logs:
        if name_of(log) not in _READ or is_aside(log.attributes):
            continue
        if name_of(log) == PROMPT:
            begun = str(log.time_ns)
        found[identity(log.attributes.get("prompt.id")) or begun].append(log)
    yield from found.items()


def _from_records(unit: str, prompt: str, logs: Sequence[LogRecord]) -> Part:
    """The spans that Claude Code would have written for these records, had it been configured to
    send traces.
    """
    opening = next((x for x in logs if name_of(x) == PROMPT), logs[0])
    root = around(span_of(unit, INTERACTION, opening, identity=prompt), (x.time_ns for x in logs))
    agents: dict[str, Span] = {}
    models: list[Span] = []
    tools: dict[str, Span] = {}
    for log in logs:
        if name_of(log) in {CALLED, FAILED}:
            parent, agent = root, _agent(log.attributes)
            if agent:
                parent = agents.setdefault(
                    agent, span_of(unit, INTERACTION, log, identity=agent, parent=root)
                )
            models.append(span_of(unit, MODEL, log, identity=_number(log), parent=parent))
    # a result records more of a tool than a decision
    for log in sorted(logs, key=lambda x: name_of(x) != RETURNED):
        if name_of(log) in _OF_TOOL and (call := _call(log.attributes)):
            parent = agents.get(_agent(log.attributes), root)
            tools.setdefault(call, span_of(unit, TOOL, log, identity=call, parent=parent))
    spans = [root, *agents.values(), *models, *tools.values()]
    return spans, [under(root, opening), *_placed(logs, spans)]


def _agent(attributes: Attributes) -> str:
    """The sub-agent that a record is about, by its id, before it had one by the source of its
    calls; "" for none.
    """
    source = str(attributes.get("query_source"))
    return identity(attributes.get("agent_id")) or (source if source.startswith("agent:") else "")


def _placed(logs: Iterable[LogRecord], spans: Sequence[Span]) -> Iterator[LogRecord]:
    """The records, each under the call that it is about; those about no call stay where they
    are.
    """
    logs = list(logs)
    tools = _by_call(logs, [x for x in spans if x.name == TOOL])
    calls = [x for x in spans if x.name == MODEL and not is_aside(x.attributes)]
    models, naming = _by_key(calls), _by_hash(calls)
    for log in logs:
        name, about = name_of(log), None
        if name in _OF_TOOL:
            about = tools.get(_call(log.attributes))
        elif name in _OF_MODEL or name in DEFINING:
            near = next(models[x] for x in _keys(log.attributes) if x in models)
            about = naming.get(_hash(log.attributes)) or near.nearest(
                log.time_ns, by_end=name not in _AT_START
            )
        yield log if about is None else under(about, log)


def _by_call(logs: Iterable[LogRecord], tools: Iterable[Span]) -> dict[str, Span]:
    """The tool calls by their ids; of spans without, by the names and the order of the records that
    contain the id.
    """
    found: dict[str, Span] = {}
    unnamed: defaultdict[str | None, list[Span]] = defaultdict(list)
    for tool in sorted({x.span_id: x for x in tools}.values(), key=lambda x: (x.end_ns, x.span_id)):
        call = _call(tool.attributes)
        if call:
            found[call] = tool
        else:
            unnamed[text(tool.attributes.get("tool_name"))].append(tool)
    recorded_ids: defaultdict[str | None, dict[str, None]] = defaultdict(dict)
    for log in logs if unnamed else ():
        call = _call(log.attributes)
        if name_of(log) == RETURNED and call and call not in found:
            shown = text(log.attributes.get("tool_name"))
            recorded_ids[known_as(shown, log.attributes.get("tool_parameters"))][call] = None
    for name, calls in recorded_ids.items():
        if len(calls) == len(unnamed[name]):  # else one is missing, and it is not known which
            found.update(zip(calls, unnamed[name], strict=True))
    return found


def known_as(name: str | None, details: Value) -> str | None:
    """A tool's name; of an MCP server's tool, whose name the records hide, the one in the model's
    list of tools.
    """
    opened = structure(details).value if name in {None, MCP_TOOL} else None
    if isinstance(opened, dict) and text(opened.get("mcp_tool_name")):
        return f"mcp__{opened.get('mcp_server_name')}__{opened['mcp_tool_name']}"
    return name


def _by_key(models: Iterable[Span]) -> dict[tuple[str, str], Calls]:
    """The model calls by their request id and by their source, and all of them."""
    found: defaultdict[tuple[str, str], list[Span]] = defaultdict(list)
    found[_ALL] = []
    for model in models:
        for key in _keys(model.attributes):
            found[key].append(model)
    return {key: Calls(spans) for key, spans in found.items()}


def _by_hash(models: Iterable[Span]) -> dict[str, Span]:
    """The first model call that names an instruction or a tool, by its hash."""
    found: dict[str, Span] = {}
    for model in sorted(models, key=lambda x: (x.start_ns, x.span_id)):
        named = [x.get("hash") for x in objects(structure(model.attributes.get("tools")).value)]
        for digest in (model.attributes.get("system_prompt_hash"), *named):
            if isinstance(digest, str) and digest:
                found.setdefault(digest, model)
    return found


def _hash(attributes: Attributes) -> str:
    return first_text(attributes, ("system_prompt_hash", "tool_hash")) or ""


def _keys(attributes: Attributes) -> Iterator[tuple[str, str]]:
    """What distinguishes model calls, the best first: of those without the id of a sub-agent, that
    they have none.
    """
    yield from (
        (key, value)
        for key in ("request_id", "query_source")
        if (value := text(attributes.get(key)))
    )
    yield "agent_id", identity(attributes.get("agent_id")) or ""
    yield _ALL


def _call(attributes: Attributes) -> str:
    return first_identity(attributes, ("tool_use_id", "gen_ai.tool.call.id")) or ""


def _number(log: LogRecord) -> str:
    number = count(log.attributes.get("event.sequence"))
    return "" if number is None else f"{log.time_ns} {number}"


LOG_TURNS = (LogTurns(SCOPE, _unit, _parts),)
