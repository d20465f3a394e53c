"""`check_dialect`: laws that every dialect obeys."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from spanscore import dialects
from spanscore.dialects.reading import Dialect, Quirk
from spanscore.dialects.registry import registry
from spanscore.errors import InputError, shortened
from spanscore.model.json import dumps, loads
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Step
from spanscore.model.trace import AgentTrace
from spanscore.otlp import codec, files
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
_TEXTS = (
    "agent_name",
    "session_id",
    "user_id",
    "model",
    "tool_name",
    "call_id",
    "error",
    "input_text",
    "system",
)
_CONTENT = ("input", "output", "input_text", "output_text", "result", "system")
_MAX_PROBLEMS = 20
_MAX_LOG_VARIANTS = 100  # of each event: with it all records of its session are read again

_Item = TypeVar("_Item", Span, LogRecord)


def check_dialect(
    dialect: Dialect | Quirk, recorded: Recorded, expected: Sequence[Mapping[str, Any]] = ()
) -> list[AgentTrace]:
    """Hold a dialect or a quirk to what holds for all, on telemetry that its author recorded, as if
    it were installed.

    A dialect claims spans, or has turns in log records; each request that contains one of these
    contains one of its prefilters. Reading gives fields of `Step`, and raises nothing whatever an
    attribute contains, or where one is missing, in a span or in a log record of `log_turns`. Order
    and repetition do not matter; from spans without attributes no content is read; at least one
    agent trace comes of it. `expected` are facts of the agent traces, in order, as `spanscore
    inspect --jsonl` prints them.

    Returns the agent traces, for a test to look at. Raises AssertionError, with a line for each
    thing that is wrong.
    """
    telemetry = _telemetry(recorded)
    with dialects.tried(dialect):
        own = _dialect(dialect, telemetry)
        problems = [x for span in telemetry.spans for x in _of_span(own, span, telemetry.logs)]
        problems += _of_logs(own, telemetry)
        traces = [] if problems else rebuild_all(telemetry.spans, telemetry.logs)
        if not problems:
            problems += _of_traces(own, telemetry, traces)
            problems += _differences(traces, expected)
    if problems:
        kind = "quirk" if isinstance(dialect, Quirk) else "dialect"
        heading = f"{dialect.name} is not as a {kind} is:"
        raise AssertionError("\n".join([heading, *_listed(problems)]))
    return traces


def _listed(problems: Iterable[str]) -> list[str]:
    each = list(dict.fromkeys(problems))
    more = [f"- and {len(each) - _MAX_PROBLEMS} more"] if len(each) > _MAX_PROBLEMS else []
    return [*(f"- {x}" for x in each[:_MAX_PROBLEMS]), *more]


def _dialect(item: Dialect | Quirk, telemetry: Telemetry) -> Dialect:
    """The dialect that reads the spans: the one given, or that of a quirk, which has to be the
    quirk of some.
    """
    if isinstance(item, Dialect):
        return item
    known = {x.name: x for x in dialects.all_dialects()}
    if item.under not in known:
        raise AssertionError(f"there is no dialect {item.under!r} that {item.name} could be under")
    own = known[item.under]
    spans = [x.span for x in _steps(own, telemetry.spans, telemetry.logs)]
    if not any(registry().quirk_of(own, x) is item for x in spans):
        raise AssertionError(
            f"{item.name} is used for none of these spans, of which {len(spans)} are read as"
            f" {item.under}: look at `under`, `scopes` and `matches`"
        )
    return own


def _telemetry(recorded: Recorded) -> Telemetry:
    if isinstance(recorded, Telemetry):
        return recorded
    if isinstance(recorded, str | os.PathLike):
        return files.load(recorded)
    if isinstance(recorded, Mapping):
        return _from_object(dict(recorded))
    spans = list(recorded)
    if not all(isinstance(x, Span) for x in spans):
        raise InputError("give a path, what spanscore.load returns, an OTLP/JSON request, or spans")
    return Telemetry(spans=spans)


def _from_object(recorded: dict[str, Any]) -> Telemetry:
    found = Telemetry()
    if "resourceSpans" in recorded:
        found.spans += codec.spans(codec.from_object("traces", recorded))
    if "resourceLogs" in recorded:
        found.logs += codec.log_records(codec.from_object("logs", recorded))
    return found


def _of_traces(
    dialect: Dialect, telemetry: Telemetry, traces: Sequence[AgentTrace]
) -> Iterator[str]:
    """What is wrong with what comes of all spans and log records together."""
    spans, logs = telemetry.spans, telemetry.logs
    if not any(dialect.name in x.dialects for x in traces):
        if any(_steps(dialect, [x]) for x in spans) or any(_own_logs(dialect, logs)):
            yield (
                "no agent trace comes of this telemetry: does `kind` state which span is an agent,"
                " and which a model?"
            )
        else:
            yield (
                "it claims none of these spans: look at `scopes`, `keys` and `matches`, for log"
                " records at `log_turns`"
            )
    elif _shown(spans[::-1] + spans[:1], logs) != _shown(spans, logs):
        yield (
            "spans in another order, or twice, give another agent trace: let `read` look at its"
            " span alone"
        )
    elif _shown(spans, logs[::-1] + logs[:1]) != _shown(spans, logs):
        yield (
            "log records in another order, or twice, give another agent trace: put them `in_order`"
            " in `log_turns`"
        )


def _own_logs(dialect: Dialect, logs: Iterable[LogRecord]) -> list[LogRecord]:
    """The log records in which the dialect has turns."""
    scopes = tuple(x.scope for x in dialect.log_turns)
    return [x for x in logs if x.scope.name.startswith(scopes)]


def _of_logs(dialect: Dialect, telemetry: Telemetry) -> Iterator[str]:
    """What is wrong with how log records are read: each event as it is, and with each attribute odd
    or missing.
    """
    events = {x.event_name: x for x in _own_logs(dialect, telemetry.logs)}
    found: dict[str, str] = {}  # each kind of problem once
    for log in events.values():
        unit = _unit(log)
        spans = [x for x in telemetry.spans if x.trace_id == unit]
        others = [x for x in telemetry.logs if x is not log and _unit(x) == unit]
        what = f"log record {log.event_name!r}"
        for name, changed in _log_variants(log):
            for problem in _of_log_reading(dialect, spans, [changed, *others]):
                found.setdefault(problem.partition(" is ")[0], f"{what}{name}: {problem}")
        if not found:
            yield from _of_prefilters(dialect, what, _texts_of_log(log))
    yield from found.values()


def _log_variants(log: LogRecord) -> Iterator[tuple[str, LogRecord]]:
    """A log record as it is, and a bounded number of its variants, spread over its attributes and
    odd values.
    """
    variants = list(_variants(log))
    yield from variants[:: 1 + len(variants) // _MAX_LOG_VARIANTS]
    yield " without a body", dataclasses.replace(log, body=None)
    yield " with an odd body", dataclasses.replace(log, body={"role": {}, "content": {"text": []}})


def _unit(log: LogRecord) -> str:
    return dialects.unit_of(log.scope.name, log.trace_id, lambda: log.attributes, of_log=True)


def _of_log_reading(
    dialect: Dialect, spans: Sequence[Span], logs: Sequence[LogRecord]
) -> list[str]:
    def steps() -> Iterator[Step]:
        _unit(logs[0])
        for part in dialects.split_units(spans, logs):
            yield from _steps(dialect, *part)

    return _of_reading(steps)


def _texts_of_log(log: LogRecord) -> list[str]:
    body = log.body if isinstance(log.body, str) else dumps(log.body)
    return [log.scope.name, log.event_name, body, *_names_and_values(log.attributes)]


def _steps(dialect: Dialect, spans: Sequence[Span], logs: Sequence[LogRecord] = ()) -> list[Step]:
    return [x for x in dialects.read(spans, logs).steps if x.dialect == dialect.name]


def _of_prefilters(dialect: Dialect, name: str, texts: Iterable[str]) -> Iterator[str]:
    """Whether a request with this span or log record would be looked at."""
    written = "\n".join(texts).encode("utf-8", "surrogatepass")
    if not any(x in written for x in dialect.prefilters):
        yield (
            f"no prefilter is in {name}: a request with it alone would be passed over; see"
            " `prefilters`"
        )


def _texts_of_span(span: Span) -> list[str]:
    texts = [span.scope.name, span.name, *_names_and_values(span.attributes)]
    for event in span.events:
        texts += [event.name, *_names_and_values(event.attributes)]
    return texts


def _names_and_values(attributes: Attributes) -> Iterator[str]:
    for name, value in attributes.items():
        yield name
        yield value if isinstance(value, str) else dumps(value)


def _of_span(dialect: Dialect, span: Span, logs: Sequence[LogRecord]) -> Iterator[str]:
    """What is wrong with how a span is read: as it is, and with each attribute odd or missing."""
    own = [x for x in logs if x.span_id == span.span_id]
    found: dict[str, str] = {}  # each kind of problem once
    for name, changed in _variants(span):
        for problem in _of_reading(lambda changed=changed: _steps(dialect, [changed], own)):  # type: ignore[misc] # a default binds it now
            found.setdefault(problem.partition(" is ")[0], f"span {span.name!r}{name}: {problem}")
    yield from found.values()
    if found:
        return
    if _steps(dialect, [span], own):
        yield from _of_prefilters(dialect, f"span {span.name!r}", _texts_of_span(span))
    for step in _steps(dialect, [dataclasses.replace(span, attributes={}, events=())]):
        if content := [x for x in _CONTENT if getattr(step, x)]:
            yield (
                f"span {span.name!r} without attributes still gives {', '.join(content)}: state"
                " what is recorded only"
            )


def _of_reading(steps: Callable[[], Iterable[Step]]) -> list[str]:
    try:
        return [problem for step in steps() for problem in _of_step(step)]
    except TypeError as error:
        hint = "have the facts the names and types of the fields of `Step`?"
        return [f"reading raises TypeError: {error}; {hint}"]
    except Exception as error:  # noqa: BLE001 - what reading raises is what is looked for
        return [f"reading raises {type(error).__name__}: {error}"]


def _variants(item: _Item) -> Iterator[tuple[str, _Item]]:
    yield "", item
    for key in item.attributes:
        rest = {name: value for name, value in item.attributes.items() if name != key}
        yield f" without {key}", dataclasses.replace(item, attributes=rest)
        for value in _ODD:
            changed = dataclasses.replace(item, attributes={**rest, key: value})
            yield f" with {key} = {_brief(value)}", changed


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
    return shortened(repr(value), 40)


def _differences(
    traces: Sequence[AgentTrace], expected: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if expected and len(expected) != len(traces):
        yield f"there are {len(traces)} agent traces where {len(expected)} are expected"
    for number, (trace, facts) in enumerate(zip(traces, expected, strict=False), start=1):
        found = loads(dumps(trace.to_json()))
        for name, value in facts.items():
            if name not in found:
                yield f"an agent trace has no fact {name!r}"
            elif found[name] != loads(dumps(value)):
                yield f"agent trace {number}: {name} is {found[name]!r} where {value!r} is expected"
