"""One turn, session or test of a page."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from spanscore.judge.passages import MAX_TURNS, Numbers, Step, ordered
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, ModelCall, RequestedCall, ToolCall
from spanscore.report import rows
from spanscore.report.results import Case, Scored, Trial, as_json, join, shown
from spanscore.report.rows import Turn
from spanscore.report.texts import Texts

Segment: TypeAlias = str | dict[str, Any]
"""A part of a text: plain, or `{"t": text, "step": row, "turn": id}`, with the row of a step, the
turn, or both.
"""

Resolve: TypeAlias = Callable[[str, int], "Place | None"]
"""Finds what a number behind a word ("step", "call", "turn", "trace") stands for."""

_NUMBERS = r"\d{1,6}(?:\s?(?:,\s?and|,|and|or|&|to|through|\u2013|-)\s?\d{1,6})*"
_NAMED = re.compile(rf"\b(steps?|calls?|turns?|traces?)\s({_NUMBERS})", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_RANGE = re.compile(r"\s?(?:to|through|\u2013|-)\s?")
_MAX_RANGE = 1_000
_QUOTED = re.compile(r"\"([^\"\n]{2,400})\"|“([^”\n]{2,400})”|`([^`\n]{2,400})`")
_FIGURE = re.compile(r"(?<![\w.])[A-Za-z$€£]{0,12}[-:/.,#]?\d[\w:./,#%°-]{1,40}")
_MAX_QUOTES = 40
_SHORTEST_FIGURE = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a turn's steps, counted from 0, or the turn itself where `step` is None; `turn`
    None: this one.
    """

    step: int | None
    turn: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Without what is None."""
        own = {} if self.step is None else {"step": self.step}
        return own if self.turn is None else {**own, "turn": self.turn}


@dataclass(slots=True)
class Evidence:
    """What was found in the texts of one score: places in their order, each once, and quoted
    texts.
    """

    places: dict[Place, None] = field(default_factory=dict)
    quotes: dict[str, None] = field(default_factory=dict)


def linked(
    text: str, resolve: Resolve, evidence: Evidence, *, has_quotes: bool = True
) -> list[Segment]:
    """`text` in parts, each number of a step, call, turn or trace that is there being one; notes
    them in `evidence`.

    Not `has_quotes`: what it quotes is not noted.

    >>> found = Evidence()
    >>> linked("Steps 1 to 3 failed.", lambda _, number: Place(number - 1), found)
    [{'t': 'Steps 1', 'step': 0}, ' to ', {'t': '3', 'step': 2}, ' failed.']
    >>> [x.step for x in found.places]
    [0, 1, 2]
    """
    parts: list[Segment] = []
    end = 0
    for match in _NAMED.finditer(text):
        word = match[1].lower().removesuffix("s")
        found = list(_placed(match, word, resolve, evidence))
        if not found:
            continue
        for start, stop, place in found:
            parts += [text[end:start], {"t": text[start:stop], **place.to_json()}]
            end = stop
    parts.append(text[end:])
    if has_quotes:
        _note_quotes(text, evidence)
    return [x for x in parts if x]


def findings(
    metric: str, metadata: Mapping[str, Any], resolve: Resolve
) -> Iterator[dict[str, Any]]:
    """What a check's findings, or a judge's verdicts of single calls, say beside those calls: the
    place, the metric, whether it speaks against the call, and the text.
    """
    for name, word in (("findings", "call"), ("verdicts", "step")):
        for item in _listed(metadata.get(name)):
            call = item.get("call") if isinstance(item, Mapping) else None
            place = resolve(word, call) if isinstance(call, int) else None
            if place is not None:
                yield {
                    **place.to_json(),
                    "metric": metric,
                    "ok": item.get("verdict") == "yes",
                    "text": str(item.get("text") or item.get("reason") or ""),
                    **({"argument": str(x)} if (x := item.get("argument")) else {}),
                }


def _placed(
    match: re.Match[str], word: str, resolve: Resolve, evidence: Evidence
) -> Iterator[tuple[int, int, Place]]:
    """Start and end of each number that stands for something; the first has the word with it."""
    text, before = match.string, None
    for found in _NUMBER.finditer(text, match.start(2), match.end(2)):
        number = int(found[0])
        if before is not None and _RANGE.fullmatch(text, before[0], found.start()):
            for between in range(before[1] + 1, min(number, before[1] + _MAX_RANGE)):
                if (place := resolve(word, between)) is not None:
                    evidence.places[place] = None
        place = resolve(word, number)
        if place is not None:
            evidence.places[place] = None
            yield (match.start() if before is None else found.start()), found.end(), place
        before = found.end(), number


def _note_quotes(text: str, evidence: Evidence) -> None:
    """Texts in quotation marks, and figures such as `R-4821` or `20:00`, which a reader would look
    for in the steps.
    """
    found = [next(filter(None, x.groups())).strip(" .,;…") for x in _QUOTED.finditer(text)]
    found += [x[0].rstrip(".,:;/-") for x in _FIGURE.finditer(text)]
    for quote in found:
        if len(quote) >= _SHORTEST_FIGURE and len(evidence.quotes) < _MAX_QUOTES:
            evidence.quotes[quote] = None


def quotes_in(evidence: Evidence, texts: Sequence[str]) -> list[str]:
    """The quoted texts that are in one of `texts`, longest first; those inside another one left
    out.
    """
    found: list[str] = []
    for quote in sorted(evidence.quotes, key=len, reverse=True):
        if not any(quote in x for x in found) and any(quote in x for x in texts):
            found.append(quote)
    return found


MAX_STEPS = 4_000
"""A turn with more steps is shown with its first and last ones."""

_MAX_CHARS = 1_500_000
_MAX_TOOLS, _MAX_HISTORY, _MAX_DOCUMENTS = 500, 500, 200
_SHOWN_ELSEWHERE = {"threshold", "success"}
_TEXTS = ("args", "result", "error", "text", "reasoning")
_BARE = ("n", "kind", "name", "at", "took")
_BY = ("kind", "name", "version", "model", "embedding")
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
        of_call = {x.place: row for row, x in enumerate(steps) if x.kind == "tool"}
        return cls(steps, of_number, of_call)

    def resolve(self, word: str, number: int) -> Place | None:
        """The row of a step by the judge's number, or of a tool call by its place from 1 on."""
        row = {"step": self.of_number.get(number), "call": self.of_call.get(number - 1)}.get(word)
        return None if row is None else Place(row)


def turn_details(trace: AgentTrace, scores: Sequence[Scored], texts: Texts) -> dict[str, Any]:
    """The turn's JSON object in a report.

    Times are milliseconds, those of steps since the turn's start.
    """
    numbered = Numbered.of(trace)
    texts = texts.within(_MAX_CHARS, 2 * len(numbered.steps) + 2 * len(trace.history or ()) + 10)
    rows = [_row(trace, x, texts) for x in numbered.steps]
    ends = [texts.text(x) or "" for x in (trace.user_input, trace.final_output)]
    texts_shown = [*(row[x] for row in rows for x in _TEXTS if x in row), *ends]
    trial = trace.trial
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
        "outcome": trace.outcome,
        "error": texts.text(trace.error),
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
        "trial": None if trial is None else [trial.suite, trial.run, trial.case],
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
    facts = {name: value for name, value in metadata.items() if name not in _SHOWN_ELSEWHERE}
    evidence = Evidence()  # which the next three add to, in the order in which it is shown
    reason = linked(texts.text(str(data.get("reason") or "")) or "", resolve, evidence)
    spoken = {
        name: linked(texts.text(value) or "", resolve, evidence, has_quotes=False)
        for name, value in facts.items()
        if isinstance(value, str) and name != "user_input"
    }
    notes = list(_notes(scored.metric, metadata, resolve, texts, evidence))
    quotes = list(evidence.quotes) if texts_shown is None else quotes_in(evidence, texts_shown)
    found = {
        "metric": scored.metric,
        "source": scored.source,
        "status": scored.status,
        "passed": scored.passed,
        "value": data.get("value"),
        "scale": data.get("scale"),
        "label": data.get("label"),
        "threshold": data.get("threshold"),
        "cause": data.get("skip_cause"),
        "reason": reason,
        "spoken": spoken,
        "facts": {k: texts.value(x) for k, x in facts.items() if not isinstance(x, str)},
        "places": [place.to_json() for place in evidence.places],
        "notes": notes,
        "quotes": quotes,
        **_provenance(data, texts),
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _provenance(data: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    """Who gave a score at what cost, which revision it is, and what went wrong."""
    evaluator, revision = data.get("evaluator") or {}, data.get("revision") or 1
    return {
        "author": _line(evaluator.get("author"), texts),
        "error": (data.get("error") or {}).get("type"),
        "by": {name: evaluator[name] for name in _BY if evaluator.get(name)},
        "cost": (data.get("usage") or {}).get("cost_usd"),
        "revision": revision if revision > 1 else None,
    }


def _notes(
    metric: str, metadata: Mapping[str, Any], resolve: Any, texts: Texts, evidence: Evidence
) -> Iterator[dict[str, Any]]:
    """What a check found at places of the turn."""
    for finding in findings(metric, metadata, resolve):
        text = texts.text(finding["text"]) or ""
        linked(text, resolve, evidence)
        yield {**finding, "text": text}


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
    tokens = [call.input_tokens, call.output_tokens]
    return {
        "kind": "model",
        "name": _line(call.model, texts) or "model",
        "brief": texts.line(call.text) if call.text else _requested_tools(call.tool_calls, texts),
        "text": None if is_final else texts.text(call.text),
        "final": is_final or None,
        "reasoning": texts.text(call.reasoning),
        "asked": [_requested(x, texts) for x in call.tool_calls[:50]],
        "tokens": tokens if any(tokens) else None,
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
    bare = ({name: x[name] for name in _BARE if name in x} for x in rows[half:-half])
    return [*rows[:half], *({**x, "bare": True} for x in bare), *rows[-half:]]


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


_MAX_REASONS = 50


def session_details(
    key: str, own: Sequence[Turn], scores: Sequence[Scored], texts: Texts
) -> dict[str, Any]:
    """The session's JSON object in a report; its scores name steps by the numbers of the whole
    conversation.
    """
    resolve = _resolve(own)
    listed = [_score(x, own, resolve, texts) for x in scores]
    return {"id": texts.line(_name(key, own), 300), "scores": listed}


def case(
    found: Case, rows_of: Mapping[str, Sequence[int]], own: Mapping[int, Turn], texts: Texts
) -> dict[str, Any]:
    """The test's JSON object in a report.

    `rows_of` are the rows of turns by agent trace id and by trace id.
    """
    return {
        "name": texts.line(found.name, 300),
        "status": found.status,
        "reasons": [texts.text(x) for x in found.reasons[:_MAX_REASONS]],
        "detail": texts.text(found.detail),
        "figures": list(map(shown, found.figures)),
        "trials": [_trial(x, rows_of, own, texts) for x in found.trials],
    }


def _trial(
    trial: Trial, rows_of: Mapping[str, Sequence[int]], own: Mapping[int, Turn], texts: Texts
) -> dict[str, Any]:
    rows = rows_in(trial, rows_of)
    details = [own[x] for x in rows]
    resolve = _resolve(details)
    whole = [Scored.of(x) for x in trial.scores if as_json(x)["scope"] == "session"]
    found = {
        "status": trial.status,
        "reasons": [texts.text(x) for x in trial.reasons[:_MAX_REASONS]],
        "turns": rows,
        "scores": [_score(x, details, resolve, texts) for x in whole],
        "score": trial.score,
        "took": None if trial.latency_s is None else trial.latency_s * 1e3,
        "session": texts.line(trial.session_id, 300) if trial.session_id else None,
        "input": texts.line(trial.user_input, 300) if trial.user_input else None,
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def rows_in(trial: Trial, rows_of: Mapping[str, Sequence[int]]) -> list[int]:
    """The rows of a trial's turns, each once."""
    return list(dict.fromkeys(row for name in trial.trace_ids for row in rows_of.get(name, ())))


def _resolve(own: Sequence[Turn]) -> Resolve:
    """Finds steps by their number through all turns, and turns by theirs: from 0, as traces from
    1.
    """
    numbers = Numbers()
    steps: dict[int, Place] = {}
    for index, turn in enumerate(own):
        if turn.trace is None:
            continue
        if MAX_TURNS // 2 <= index < len(own) - MAX_TURNS // 2:
            numbers.skip(turn.trace)
            continue
        found = Numbered.of(turn.trace, numbers)
        steps |= {number: Place(row, turn.id) for number, row in found.of_number.items()}

    def resolve(word: str, number: int) -> Place | None:
        if word in {"turn", "trace"}:
            index = number if word == "turn" else number - 1
            return Place(None, own[index].id) if 0 <= index < len(own) else None
        return steps.get(number)

    return resolve


def _score(scored: Scored, own: Sequence[Turn], resolve: Resolve, texts: Texts) -> dict[str, Any]:
    """A score, with the turns that its metadata list by trace id besides those that its reason
    names.
    """
    found = score(scored, resolve, texts)
    metadata = as_json(scored.raw).get("metadata") or {}
    listed = (_listed(metadata.get(x)) for x in ("turn_trace_ids", "flagged_traces"))
    named = {str(x) for those in listed for x in those}
    for turn in own:
        place = {"turn": turn.id}
        if turn.trace and not named.isdisjoint((turn.id, *turn.trace.trace_ids)):
            known = found.setdefault("places", [])
            known += [] if place in known else [place]
    return found


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _name(key: str, own: Sequence[Turn]) -> str:
    return next((x.trace.session_id for x in own if x.trace and x.trace.session_id), key)


def trace_view(trace: AgentTrace, scores: Sequence[Evaluation]) -> dict[str, Any]:
    """The agent trace's `row`, `turn` and `metrics`; those of `scores` that are of another turn are
    left out.
    """
    texts, turn = Texts(), Turn.of(trace, join([trace], scores))
    numbers = _numbers(turn.scores)
    session = {} if trace.session_key is None else {"session": trace.session_key}
    return {
        "row": rows.row(turn, texts, numbers) | session,
        "turn": turn_details(trace, turn.scores, texts),
        "metrics": _metrics(numbers),
    }


def session_view(
    key: str, traces: Sequence[AgentTrace], scores: Sequence[Evaluation]
) -> dict[str, Any]:
    """The session's `row`, `session`, `turns` and `metrics`.

    `scores` are its own and those of its `traces`.
    """
    texts, joined = Texts(), join(traces, scores)
    own = [Turn.of(x, joined) for x in sorted(traces, key=lambda x: (x.started_ns, x.id))]
    of_session = joined.of_session[key]
    numbers = _numbers([*of_session, *(score for turn in own for score in turn.scores)])
    row = rows.session_row(key, own, of_session, texts, numbers)
    return {
        "row": {**row, "turns": list(range(len(own)))},
        "session": session_details(key, own, of_session, texts),
        "turns": [rows.row(x, texts, numbers) for x in own],
        "metrics": _metrics(numbers),
    }


def _numbers(scores: Iterable[Scored]) -> rows.Numbers:
    """The place of each metric, what others gave under its source."""
    return {name: place for place, name in enumerate(dict.fromkeys(x.name for x in scores))}


def _metrics(numbers: rows.Numbers) -> list[dict[str, Any]]:
    return [{"metric": metric, "source": source} for metric, source in numbers]
