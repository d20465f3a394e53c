"""`check_dialect`: what holds for every dialect, whoever wrote it, on the spans that its author has recorded."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from spanscore import dialects
from spanscore.dialects.reading import Dialect
from spanscore.errors import InputError
from spanscore.model.json import dumps, loads
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Step
from spanscore.model.trace import AgentTrace
from spanscore.otlp import decode, files, json
from spanscore.otlp.files import Telemetry
from spanscore.rebuild import rebuild_all

Recorded: TypeAlias = str | os.PathLike[str] | Telemetry | Mapping[str, Any] | Iterable[Span]
"""Files or folders of OTLP, what `spanscore.load` gives, an OTLP/JSON request, or spans."""

_ODD: tuple[Value, ...] = (
    None,
    True,
    -1,
    2**63 - 1,
    float("nan"),
    "",
    "\x00\ud800",
    "{",
    "[[[[" * 200,
    '{"role": null, "content": [null, 1, {"type": null}], "tool_calls": {"function": []}}',
    '[{"role": "user", "parts": [{"type": "tool_call", "arguments": 3}]}]',
    b"\xff\xfe",
    [],
    [None, 1, "a", {"b": []}],
    {},
    {"role": {}, "content": {"text": []}},
)
"""What an attribute may hold, whoever sent it."""

_KINDS = ("agent", "workflow", "model", "tool", "retrieval", "other")
_TEXTS = ("agent_name", "session_id", "user_id", "model", "tool_name", "call_id", "error", "input_text", "system")
_CONTENT = ("input", "output", "input_text", "output_text", "result", "system")
_MAX_PROBLEMS = 20


def check_dialect(dialect: Dialect, recorded: Recorded, expected: Sequence[Mapping[str, Any]] = ()) -> list[AgentTrace]:
    """Hold a dialect to what holds for all, on telemetry that its author recorded, as if it were installed.

    It claims spans of it; each request that holds one contains one of its prefilters; reading gives fields of `Step`,
    and raises nothing whatever an attribute holds, or where one is missing; order and repetition of spans do not
    matter; from spans without attributes no content is read; at least one agent trace comes of it. `expected` are
    facts of the agent traces, in order, as `spanscore inspect --jsonl` prints them.

    Returns the agent traces, for a test to look at. Raises AssertionError, with a line for each thing that is wrong.
    """
    telemetry = _telemetry(recorded)
    with dialects.tried(dialect):
        problems = [problem for span in telemetry.spans for problem in _of_span(dialect, span, telemetry.logs)]
        traces = [] if problems else rebuild_all(telemetry.spans, telemetry.logs)
        if not problems:
            problems += _of_traces(dialect, telemetry, traces)
            problems += _differences(traces, expected)
    if problems:
        raise AssertionError("\n".join([f"{dialect.name} is not as a dialect is:", *_listed(problems)]))
    return traces


def _listed(problems: Iterable[str]) -> list[str]:
    each = list(dict.fromkeys(problems))
    more = [f"- and {len(each) - _MAX_PROBLEMS} more"] if len(each) > _MAX_PROBLEMS else []
    return [*(f"- {x}" for x in each[:_MAX_PROBLEMS]), *more]


def _telemetry(recorded: Recorded) -> Telemetry:
    if isinstance(recorded, Telemetry):
        return recorded
    if isinstance(recorded, str | os.PathLike):
        return files.load(recorded)
    if isinstance(recorded, Mapping):
        return Telemetry(spans=list(decode.spans(json.from_object("traces", dict(recorded)))))
    spans = list(recorded)
    if not all(isinstance(x, Span) for x in spans):
        raise InputError("give a path, what spanscore.load returns, an OTLP/JSON request, or spans")
    return Telemetry(spans=spans)


def _of_traces(dialect: Dialect, telemetry: Telemetry, traces: Sequence[AgentTrace]) -> Iterator[str]:
    """What is wrong with what comes of all spans together."""
    if not any(dialect.name in x.dialects for x in traces):
        claimed = any(_steps(dialect, [x]) for x in telemetry.spans)
        yield (
            "no agent trace comes of these spans: does `kind` say which span is an agent, and which a model?"
            if claimed
            else "it claims none of these spans: look at `scopes`, `keys` and `matches`"
        )
    elif _shown(telemetry.spans[::-1] + telemetry.spans[:1], telemetry.logs) != _shown(telemetry.spans, telemetry.logs):
        yield "spans in another order, or twice, give another agent trace: let `read` look at its span alone"


def _steps(dialect: Dialect, spans: Sequence[Span], logs: Sequence[LogRecord] = ()) -> list[Step]:
    return [x for x in dialects.read(spans, logs).steps if x.dialect == dialect.name]


def _of_marks(dialect: Dialect, span: Span) -> Iterator[str]:
    """Whether a request with this span would be looked at."""
    texts = [span.scope.name, span.name, *_names_and_values(span.attributes)]
    texts += [text for event in span.events for text in (event.name, *_names_and_values(event.attributes))]
    written = "\n".join(texts).encode("utf-8", "surrogatepass")
    if not any(mark in written for mark in dialect.prefilters):
        yield f"no prefilter is in span {span.name!r}: a request with it alone would be passed over; see `prefilters`"


def _names_and_values(attributes: Attributes) -> Iterator[str]:
    for name, value in attributes.items():
        yield name
        yield value if isinstance(value, str) else dumps(value)


def _of_span(dialect: Dialect, span: Span, logs: Sequence[LogRecord]) -> Iterator[str]:
    """What is wrong with how a span is read: as it is, and with each attribute odd or missing."""
    own = [x for x in logs if x.span_id == span.span_id]
    found: dict[str, str] = {}  # each kind of problem once
    for name, changed in _variants(span):
        for problem in _of_reading(dialect, changed, own):
            found.setdefault(problem.partition(" is ")[0], f"span {span.name!r}{name}: {problem}")
    yield from found.values()
    if found:
        return
    if _steps(dialect, [span], own):
        yield from _of_marks(dialect, span)
    for step in _steps(dialect, [dataclasses.replace(span, attributes={}, events=())]):
        if content := [x for x in _CONTENT if getattr(step, x)]:
            yield f"span {span.name!r} without attributes still gives {', '.join(content)}: state what is recorded only"


def _of_reading(dialect: Dialect, span: Span, logs: Sequence[LogRecord]) -> list[str]:
    try:
        return [problem for step in _steps(dialect, [span], logs) for problem in _of_step(step)]
    except TypeError as error:
        return [f"reading raises TypeError: {error}; have the facts the names and types of the fields of `Step`?"]
    except Exception as error:  # noqa: BLE001 - what reading raises is what is looked for
        return [f"reading raises {type(error).__name__}: {error}"]


def _variants(span: Span) -> Iterator[tuple[str, Span]]:
    yield "", span
    for key in span.attributes:
        rest = {name: value for name, value in span.attributes.items() if name != key}
        yield f" without {key}", dataclasses.replace(span, attributes=rest)
        for value in _ODD:
            yield f" with {key} = {_brief(value)}", dataclasses.replace(span, attributes={**rest, key: value})


def _of_step(step: Step) -> Iterator[str]:
    if step.kind not in _KINDS:
        yield f"the kind is {_brief(step.kind)}, which is none of {', '.join(_KINDS)}"
    for name in _TEXTS:
        if not isinstance(getattr(step, name), str | None):
            yield f"{name} is {_brief(getattr(step, name))} and no text: use `text` or `identity`"
    for name in ("input_tokens", "output_tokens"):
        if not isinstance(getattr(step, name), int | None) or isinstance(getattr(step, name), bool):
            yield f"{name} is {_brief(getattr(step, name))} and no count: use `count`"
    for name in ("input", "output", "tools"):
        if not isinstance(getattr(step, name), tuple | None):
            yield f"{name} is no tuple: use `messages(…).messages`, or `tools`"


def _shown(spans: Sequence[Span], logs: Sequence[LogRecord]) -> str:
    return dumps([x.to_json() for x in rebuild_all(spans, logs)])


def _brief(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def _differences(traces: Sequence[AgentTrace], expected: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if expected and len(expected) != len(traces):
        yield f"there are {len(traces)} agent traces where {len(expected)} are expected"
    for number, (trace, facts) in enumerate(zip(traces, expected, strict=False), start=1):
        found = loads(dumps(trace.to_json()))
        for name, value in facts.items():
            if name not in found:
                yield f"an agent trace has no fact {name!r}"
            elif found[name] != loads(dumps(value)):
                yield f"agent trace {number}: {name} is {found[name]!r} where {value!r} is expected"
