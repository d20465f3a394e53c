"""One turn as a page shows it: its texts, its steps with their times, and its scores with what they
rest on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.judge.passages import Numbers, Step, ordered
from spanscore.model.trace import AgentTrace, ModelCall, RequestedCall, ToolCall
from spanscore.report.evidence import Evidence, Place, finding_places, linked, quotes_in
from spanscore.report.scored import Scored, as_json
from spanscore.report.texts import Texts

MAX_STEPS = 4_000
"""A turn with more steps is shown with its first and last ones."""

_MAX_CHARS = 1_500_000
_MAX_TOOLS, _MAX_HISTORY, _MAX_DOCUMENTS = 500, 500, 200
_SHOWN_ELSEWHERE = {"threshold", "success"}
_MS = 1e6


@dataclass(frozen=True, slots=True)
class Numbered:
    """The steps of a turn in reading order, and the rows that numbers stand for."""

    steps: tuple[Step, ...]
    of_number: Mapping[int, int]
    of_call: Mapping[int, int]

    @classmethod
    def of(cls, trace: AgentTrace, numbers: Numbers | None = None) -> "Numbered":
        """Those of a turn, numbered from 1, or on from where `numbers` are, as in the transcript of
        a session.
        """
        steps = tuple(ordered(trace, numbers or Numbers()))
        of_number = {x.number: row for row, x in enumerate(steps) if x.number}
        return cls(
            steps, of_number, {x.place: row for row, x in enumerate(steps) if x.kind == "tool"}
        )

    def resolve(self, word: str, number: int) -> Place | None:
        """The row of a step by the judge's number, or of a tool call by its place from 1 on."""
        row = {"step": self.of_number.get(number), "call": self.of_call.get(number - 1)}.get(word)
        return None if row is None else Place(row)


def turn(trace: AgentTrace, scores: Sequence[Scored], texts: Texts) -> dict[str, Any]:
    """The turn's JSON object in a report.

    Times are milliseconds, those of steps since the turn's start.
    """
    numbered = Numbered.of(trace)
    texts = texts.within(_MAX_CHARS, 2 * len(numbered.steps) + 2 * len(trace.history or ()) + 10)
    rows = [_row(trace, x, texts) for x in numbered.steps]
    texts_shown = [
        *_texts_of(rows),
        texts.text(trace.user_input) or "",
        texts.text(trace.final_output) or "",
    ]
    found = {
        "id": trace.id,
        "traces": list(trace.trace_ids),
        "span": trace.target.span_id,
        "session": _line(trace.session_id, texts),
        "user": _line(trace.user_id, texts),
        "agent": _line(trace.agent_name, texts),
        "service": _line(trace.service_name, texts),
        "start": trace.started_ns / _MS,
        "took": max(0, trace.ended_ns - trace.started_ns) / _MS,
        "completeness": trace.completeness,
        "input": texts.text(trace.user_input),
        "output": texts.text(trace.final_output),
        "plan": texts.text(trace.plan),
        "instructions": texts.text(trace.system_instructions),
        "tools": _tools(trace, texts),
        "history": _history(trace, texts),
        "retrieved": list(_retrieved(trace, texts)),
        "tokens": [trace.usage.input_tokens, trace.usage.output_tokens],
        "damaged": list(trace.damaged),
        "dialects": list(trace.dialects),
        "unread": trace.unread_spans,
        "calls": None if trace.tool_calls is None else len(trace.tool_calls),
        "trial": None
        if trace.trial is None
        else [trace.trial.suite, trace.trial.run, trace.trial.case],
        "steps": _shortened(rows),
        "scores": [score(x, numbered.resolve, texts, texts_shown) for x in scores],
    }
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def score(
    scored: Scored, resolve: Any, texts: Texts, texts_shown: Sequence[str] | None = None
) -> dict[str, Any]:
    """A score's JSON object in a report: its reason in parts, the places it names, and the texts
    that it quotes, with `texts_shown` only those that are in them.
    """
    data = as_json(scored.raw)
    metadata = data.get("metadata") or {}
    evaluator = data.get("evaluator") or {}
    facts = {name: value for name, value in metadata.items() if name not in _SHOWN_ELSEWHERE}
    evidence = Evidence()  # which the next three add to, in the order in which it is shown
    reason = linked(texts.text(str(data.get("reason") or "")) or "", resolve, evidence)
    spoken = _prose(facts, resolve, texts, evidence)
    notes = _notes(scored.metric, metadata, resolve, texts, evidence)
    found = {
        "metric": scored.metric,
        "source": scored.source,
        "author": _line(evaluator.get("author"), texts),
        "status": scored.status,
        "passed": scored.passed,
        "value": data.get("value"),
        "scale": data.get("scale"),
        "label": data.get("label"),
        "threshold": data.get("threshold"),
        "cause": data.get("skip_cause"),
        "error": (data.get("error") or {}).get("type"),
        "reason": reason,
        "spoken": spoken,
        "facts": {
            name: texts.value(value) for name, value in facts.items() if not isinstance(value, str)
        },
        "places": [place.to_json() for place in evidence.places],
        "notes": notes,
        "quotes": _quotes(evidence, texts_shown),
        "by": _by(evaluator),
        "cost": (data.get("usage") or {}).get("cost_usd"),
        "revision": _revision(data),
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _prose(
    facts: Mapping[str, Any], resolve: Any, texts: Texts, evidence: Evidence
) -> dict[str, Any]:
    """The texts among a score's facts, in parts."""
    return {
        name: linked(texts.text(value) or "", resolve, evidence, has_quotes=False)
        for name, value in facts.items()
        if isinstance(value, str) and name != "user_input"
    }


def _notes(
    metric: str, metadata: Mapping[str, Any], resolve: Any, texts: Texts, evidence: Evidence
) -> list[dict[str, Any]]:
    """What a check found at places of the turn."""
    notes: list[dict[str, Any]] = []
    for place, finding in finding_places(metric, metadata, resolve):
        note = {**place.to_json(), **finding}
        note["text"] = texts.text(note["text"])
        linked(note["text"], resolve, evidence)
        notes.append(note)
    return notes


def _quotes(evidence: Evidence, texts_shown: Sequence[str] | None) -> list[Any]:
    if texts_shown is None:
        return list(evidence.quotes)
    return quotes_in(evidence, texts_shown)


def _by(evaluator: Mapping[str, Any]) -> dict[str, Any]:
    """What gave a score."""
    names = ("kind", "name", "version", "model", "embedding")
    return {name: evaluator[name] for name in names if evaluator.get(name)}


def _revision(data: Mapping[str, Any]) -> int | None:
    """The revision of a score, if it is not the first."""
    revision = data.get("revision") or 1
    return revision if revision > 1 else None


def _row(trace: AgentTrace, step: Step, texts: Texts) -> dict[str, Any]:
    if step.kind == "tool":
        row = _called((trace.tool_calls or ())[step.place], trace.agent_name, texts)
    else:
        row = _answered(trace.model_calls[step.place], trace, texts)
    start, end = row.pop("times")
    return {
        "n": step.number,
        **({} if start is None else {"at": (start - trace.started_ns) / _MS}),
        **({} if start is None or end is None else {"took": max(0, end - start) / _MS}),
        **{name: value for name, value in row.items() if value not in (None, "", [])},
    }


def _called(call: ToolCall, agent: str | None, texts: Texts) -> dict[str, Any]:
    return {
        "kind": "tool",
        "name": texts.line(call.name),
        "brief": texts.brief(call.arguments),
        "args": texts.value(call.arguments),
        "result": "null" if call.returned and call.result is None else texts.value(call.result),
        "returned": call.returned,
        "error": texts.text(call.error),
        "inferred": call.error_inferred or None,
        "agent": _line(call.agent, texts) if call.agent != agent else None,
        "span": call.span_id,
        "id": call.call_id,
        "times": (call.started_ns, call.ended_ns),
    }


def _answered(call: ModelCall, trace: AgentTrace, texts: Texts) -> dict[str, Any]:
    is_final = call.text is not None and call.text == trace.final_output
    return {
        "kind": "model",
        "name": _line(call.model, texts) or "model",
        "brief": texts.line(call.text) if call.text else _requested_tools(call.tool_calls, texts),
        "text": None if is_final else texts.text(call.text),
        "final": is_final or None,
        "reasoning": texts.text(call.reasoning),
        "asked": [_requested(x, texts) for x in call.tool_calls[:50]],
        "tokens": [call.input_tokens, call.output_tokens]
        if call.input_tokens or call.output_tokens
        else None,
        "span": call.span_id,
        "times": (call.started_ns, call.ended_ns),
    }


def _requested_tools(calls: Sequence[RequestedCall], texts: Texts) -> str:
    names = ", ".join(texts.line(x.name, 60) for x in calls[:5])
    return f"asks for {names}{'…' if len(calls) > 5 else ''}" if calls else ""


def _requested(call: RequestedCall, texts: Texts) -> dict[str, Any]:
    return {"name": texts.line(call.name), "brief": texts.brief(call.arguments)}


def _shortened(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows; of too many those in the middle without their texts, so that each keeps its
    place.
    """
    half = MAX_STEPS // 2
    if len(rows) <= MAX_STEPS:
        return rows
    bare = [
        {name: x[name] for name in ("n", "kind", "name", "at", "took") if name in x}
        for x in rows[half:-half]
    ]
    return [*rows[:half], *({**x, "bare": True} for x in bare), *rows[-half:]]


def _texts_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield from (
            row[name] for name in ("args", "result", "error", "text", "reasoning") if name in row
        )


def _tools(trace: AgentTrace, texts: Texts) -> list[dict[str, Any]] | None:
    if trace.available_tools is None:
        return None
    return [
        {
            "name": texts.line(x.name),
            "description": texts.text(x.description),
            "parameters": texts.value(x.parameters),
        }
        for x in trace.available_tools[:_MAX_TOOLS]
    ]


def _history(trace: AgentTrace, texts: Texts) -> list[dict[str, Any]] | None:
    if trace.history is None:
        return None
    return [
        {
            "role": texts.line(x.role),
            "text": texts.text(x.text),
            "asked": [_requested(y, texts) for y in x.tool_calls],
        }
        for x in trace.history[-_MAX_HISTORY:]
    ]


def _retrieved(trace: AgentTrace, texts: Texts) -> Iterator[dict[str, Any]]:
    for retrieval in trace.retrieved[:_MAX_DOCUMENTS]:
        documents = [texts.value(document) for document in retrieval.documents[:_MAX_DOCUMENTS]]
        yield {"query": texts.text(retrieval.query), "documents": documents}


def _line(text: str | None, texts: Texts) -> str | None:
    return None if text is None else texts.line(text, 300)
