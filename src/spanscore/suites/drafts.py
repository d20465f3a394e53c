"""Cases of a suite, and their recordings, drafted from traces that failed."""

import hashlib
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spanscore import local_files
from spanscore.errors import InputError, line_of
from spanscore.judge import redaction
from spanscore.metrics.expected import MAX_EXPECTED_CALLS
from spanscore.model.json import Json, dumps, loads
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, ToolCall
from spanscore.suites.suite import TO_FILL_IN, Suite, load, parse

_MAX_REASONS, _MAX_REASON_CHARS = 3, 300
_MARK = re.compile(r"\[REDACTED:([a-z0-9_]+)(?::(\d+|\?))?(?: at [^\]]*)?\]")
_ITEM = re.compile(r"^( *)- ", re.MULTILINE)
_ERROR = 2


@dataclass(frozen=True, slots=True)
class Draft:
    """A case as a suite has it, and its recording as one line of OTLP JSON."""

    case: dict[str, Any]
    recording: str


class _Redacting:
    """Replaces secrets and personal data of one case; a value has the same stand-in throughout.

    Stand-ins are no marks of withheld text: the recording counts as whole.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._redactor = redaction.Redactor(redaction.rules(patterns))

    def text(self, text: str) -> str:
        redacted = self._redactor.redact(text)
        return _MARK.sub(lambda mark: f"redacted-{mark[1]}-{mark[2] or 1}", redacted)

    def maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def value(self, value: Json) -> Json:
        """A JSON value; a text where it is none once it is redacted."""
        text = self.text(dumps(value))
        try:
            found: Json = loads(text)
        except ValueError:
            return text
        return found


def draft(
    trace: AgentTrace, scores: Iterable[Evaluation], patterns: Mapping[str, str], suite: str
) -> Draft:
    """The case of a suite for one trace: its input and its tools, with what is expected to be
    filled in where the trace does not state it.

    `patterns` are further kinds that are redacted, as under `judge.redact` of a configuration.
    """
    redacting = _Redacting(patterns)
    case: dict[str, Any] = {"id": f"failed-{trace.id[:12]}"}
    failing = [x for x in scores if x.is_failing][:_MAX_REASONS]
    if failing:
        case["description"] = "; ".join(_reason(x, redacting) for x in failing)
    if trace.user_input and trace.user_input.strip():
        case["input"] = redacting.text(trace.user_input)
    case |= _expected(trace, redacting)
    return Draft(case, dumps(_request(trace, redacting, suite, case["id"])))


def add(path: Path, drafts: Sequence[Draft], name: str) -> int:
    """Add the cases to a suite file, and their recordings to the file of JSON Lines beside it; how
    many were not there.

    Both files are made where they are not there, and only their owner can read them. Raises
    InputError where the file is no suite, or its cases do not stand last.
    """
    is_there = path.exists()
    known = {x.id for x in load(path).cases} if is_there else set()
    new = [x for x in drafts if x.case["id"] not in known]
    if not new:
        return 0
    text = path.read_text(encoding="utf-8") if is_there else f"{_head(name)}\n"
    indents = _ITEM.findall(text[text.find("\ncases:") + 1 :]) if is_there else ["  "]
    added = f"{text.rstrip()}\n{_items(new, indents[0] if indents else '')}"
    _require_added(path, added, known | {x.case["id"] for x in new})
    beside = recording_of(path)
    before = beside.read_text(encoding="utf-8") if beside.exists() else ""
    recorded = "".join(f"{x.recording}\n" for x in new)
    local_files.write(beside, f"{before}{recorded}".encode(errors="replace"))
    local_files.write(path, added.encode(errors="replace"))
    return len(new)


def recording_of(path: Path) -> Path:
    """The file with the recordings of a suite file's drafts."""
    return path.with_suffix(".jsonl")


def _head(name: str) -> str:
    return f"{yaml.safe_dump({'name': name}, allow_unicode=True)}cases:"


def _items(drafts: Sequence[Draft], indent: str) -> str:
    cases = [x.case for x in drafts]
    text = yaml.safe_dump(cases, allow_unicode=True, sort_keys=False, width=100)
    return textwrap.indent(text, indent)


def _require_added(path: Path, text: str, ids: set[str]) -> None:
    try:
        suite: Suite | None = parse(text, str(path))
    except InputError:
        suite = None
    if suite is None or {x.id for x in suite.cases} != ids:
        raise InputError(
            f"{path}: cases cannot be added at its end; let `cases` be its last key, one case an"
            " item on lines of its own, or name another file"
        )


def _reason(score: Evaluation, redacting: _Redacting) -> str:
    value = "was not measured" if score.value is None else f"{score.value:.2f}"
    return f"{score.metric} {value}: {line_of(redacting.text(score.reason), _MAX_REASON_CHARS)}"


def _expected(trace: AgentTrace, redacting: _Redacting) -> dict[str, Any]:
    """What the trace states, else the tools that were called and an answer to be filled in."""
    stated = trace.expected
    if stated is None:
        called = [(x.name, x.arguments) for x in trace.tool_calls or ()]
        return {"expected_answer": TO_FILL_IN, **_tools(called, redacting)}
    found: dict[str, Any] = _tools([(x.name, x.arguments) for x in stated.tools or ()], redacting)
    if stated.in_order is not None:
        found["tool_sequence_matters"] = stated.in_order
    if stated.outcomes:
        found["expected_outcomes"] = [redacting.text(x) for x in stated.outcomes]
    if stated.answer is not None:
        found["expected_answer"] = redacting.text(stated.answer)
    return found


def _tools(calls: Sequence[tuple[str, Json]], redacting: _Redacting) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for name, arguments in calls[:MAX_EXPECTED_CALLS]:
        given = redacting.value(arguments)
        parameters = {"parameters": given} if isinstance(given, dict) else {}
        found.append({"tool_name": name, **parameters})
    return {"expected_tools": found} if found else {}


def _request(trace: AgentTrace, redacting: _Redacting, suite: str, case_id: str) -> dict[str, Any]:
    """The turn as spans of the GenAI conventions: the agent, and below it each tool call."""
    before = [(x.role, x.text or None) for x in trace.history or ()]
    agent: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": trace.agent_name,
        "gen_ai.input.messages": _messages([*before, ("user", trace.user_input)], redacting),
        "gen_ai.output.messages": _messages([("assistant", trace.final_output)], redacting),
        "test.suite.name": suite,
        "test.case.id": case_id,
    }
    if trace.system_instructions:
        instructions = redacting.text(trace.system_instructions)
        agent["gen_ai.system_instructions"] = dumps([{"type": "text", "content": instructions}])
    if trace.outcome in {"failed", "cancelled"}:
        agent["error.type"] = trace.outcome
    times = trace.started_ns, trace.ended_ns
    root = _span(trace, 0, "invoke_agent", agent, redacting.maybe(trace.error), times)
    calls = [_call(trace, x, n, redacting) for n, x in enumerate(trace.tool_calls or (), start=1)]
    resource = _attributes({"service.name": trace.service_name})
    scope = {"scope": {"name": "spanscore.drafts"}, "spans": [root, *calls]}
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]}


def _call(trace: AgentTrace, call: ToolCall, number: int, redacting: _Redacting) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.call_id,
    }
    if call.arguments is not None:
        attributes["gen_ai.tool.call.arguments"] = dumps(redacting.value(call.arguments))
    if call.returned:
        attributes["gen_ai.tool.call.result"] = dumps(redacting.value(call.result))
    started_ns = call.started_ns or trace.started_ns
    times = started_ns, max(call.ended_ns or 0, started_ns)
    return _span(trace, number, "execute_tool", attributes, redacting.maybe(call.error), times)


def _span(
    trace: AgentTrace,
    number: int,
    name: str,
    attributes: Mapping[str, str | None],
    error: str | None,
    times: tuple[int, int],
) -> dict[str, Any]:
    return {
        "traceId": trace.id,  # one OTel trace may have several turns
        "spanId": _span_id(trace, number),
        **({"parentSpanId": _span_id(trace, 0)} if number else {}),
        "name": name,
        "kind": 1,
        "attributes": _attributes(attributes),
        "status": {} if error is None else {"code": _ERROR, "message": error},
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(times[1]),
    }


def _span_id(trace: AgentTrace, number: int) -> str:
    return hashlib.sha256(f"{trace.id}\n{number}".encode()).hexdigest()[:16]


def _attributes(given: Mapping[str, str | None]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": x}} for key, x in given.items() if x is not None]


def _messages(given: Iterable[tuple[str, str | None]], redacting: _Redacting) -> str | None:
    """Messages of a role and a text each; those without a text are left out."""
    found = [
        {"role": role, "parts": [{"type": "text", "content": redacting.text(text)}]}
        for role, text in given
        if text is not None
    ]
    return dumps(found) if found else None
