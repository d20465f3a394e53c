"""`spanscore inspect`: agent traces in files, as rebuilt."""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spanscore import config, dialects, sources
from spanscore.cli import terminal, trace_files
from spanscore.cli.options import add_config, argument
from spanscore.cli.terminal import branch, counted, cut, on_one_line, printable, say, shown, utc
from spanscore.config import Settings
from spanscore.dialects import Key, Unread
from spanscore.evaluation import Config as Evaluations
from spanscore.evaluation.rules import Decision, Rules
from spanscore.model import external
from spanscore.model.json import Json, dumps
from spanscore.model.plan import announced_steps
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, ToolCall
from spanscore.offline.recordings import external_notices
from spanscore.otlp.files import Telemetry
from spanscore.rebuild import explain_all, unread_all
from spanscore.received_scores import read_external
from spanscore.turns import Explained, Explanation, Join, Origin

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.tree import Tree


_Explained: TypeAlias = Sequence[tuple[AgentTrace, Explanation | None]]
_Scores: TypeAlias = Mapping[str, Sequence[Evaluation]]

_STATED = (
    *("user_input", "final_output", "system_instructions", "available_tools"),
    *("tool_calls", "history", "session_id"),
)
"""The facts that metrics rest on, and whose absence is shown."""

TAKES = ("json",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "path PATH", trace_files.PLACE_HELP, type=sources.place, nargs="+")
    add_config(parser, "a configuration: say which of its rules takes each trace")
    choice = parser.add_mutually_exclusive_group()
    argument(choice, "--explain", "say which span and attribute each fact came from, and what lost")
    argument(choice, "--unread", "list what no dialect reads, without values")


def run(args: argparse.Namespace) -> int:
    """Print every agent trace. Returns the exit code."""
    telemetry = trace_files.loaded(args.path)
    if args.unread:
        print_unread(unread_all(telemetry.spans, telemetry.logs), as_json=args.json)
        return 0
    settings = config.load(args.config) if args.config else None
    dialects.configure(settings.span_names if settings else dialects.SpanNames())
    configured = settings.evaluation if settings else Evaluations()
    traces = _read(args, telemetry, settings)
    rules = Rules(configured.rules, configured.sampling) if args.config else None
    scores = _external_scores(telemetry, [x for x, _ in traces])
    show = _print_json_lines if args.json else _print_trees
    show(traces, scores, rules)
    return 0


def _print_json_lines(traces: _Explained, scores: _Scores, rules: Rules | None) -> None:
    for trace, explanation in traces:
        added = {} if explanation is None else {"explain": explanation.to_json()}
        own = [x.to_json() for x in scores.get(trace.id, ())]
        given = {"external_scores": own} if own else {}
        decided = {} if rules is None else {"decision": _decision_as_json(rules.decide(trace))}
        terminal.print_json({**trace.to_json(), **given, **decided, **added})


def _print_trees(traces: _Explained, scores: _Scores, rules: Rules | None) -> None:
    output = terminal.console()
    for number, (trace, explanation) in enumerate(traces):
        if number:
            output.print()
        tree = _tree(trace)
        if rules is not None:
            tree.add(_line("rule", _decision(rules.decide(trace))))
        _add_scores(tree, scores.get(trace.id, ()))
        if explanation is not None:
            add_sources(tree, explanation)
        output.print(tree)


def _decision(decision: Decision) -> str:
    """Which rule takes a trace, and what chance it gives."""
    named = on_one_line(decision.rule or "none takes it", 80)
    return f"{named}, {f'share {decision.share:g}' if decision.measures else 'nothing is measured'}"


def _decision_as_json(decision: Decision) -> dict[str, Any]:
    return {"rule": decision.rule, "share": decision.share, "measures": decision.measures}


def _external_scores(
    telemetry: Telemetry, traces: Sequence[AgentTrace]
) -> dict[str, list[Evaluation]]:
    """What others gave, by agent trace; what is of a session is with each of its traces."""
    found: defaultdict[str, list[Evaluation]] = defaultdict(list)
    given = external.join(read_external(telemetry.spans, telemetry.logs), traces)
    for score in given.scores:
        found[score.subject_id].append(score)
    for notice in external_notices(given.of_no_turn):
        say(notice)
    return {x.id: [*found[x.id], *(found[x.session_key] if x.session_key else ())] for x in traces}


def _add_scores(tree: "Tree", scores: Sequence[Evaluation]) -> None:
    for score in scores:
        by = f"by {score.evaluator.author or score.evaluator.source}"
        of_session = ", of the session" if score.scope == "session" else ""
        reason = f": {on_one_line(score.reason, 200)}" if score.reason else ""
        line = f"{on_one_line(_result(score), 120)}  ({on_one_line(by, 80)}{of_session}){reason}"
        tree.add(branch(terminal.styled("score  ", "bold"), line))


def _result(score: Evaluation) -> str:
    if score.status == "failed":
        return f"{score.metric} failed"
    value = "" if score.value is None else f" = {score.value:g}"
    label = f" ({score.shown_label})" if score.shown_label else ""
    return f"{score.metric}{value}{label}"


def _read(args: argparse.Namespace, telemetry: Telemetry, settings: Settings | None) -> _Explained:
    """The agent traces, with `--explain` each with where its facts came from."""
    found: _Explained
    if args.explain:
        found = trace_files.explained(telemetry, args.path, settings, explain_all)
    else:
        found = [(x, None) for x in trace_files.rebuilt(telemetry, args.path, settings)]
    trace_files.print_unread([x for x, _ in found], telemetry)
    return found


def _tree(trace: AgentTrace) -> "Tree":
    from rich.tree import Tree  # noqa: PLC0415 - likewise

    more = f" (and {len(trace.trace_ids) - 1} more)" if len(trace.trace_ids) > 1 else ""
    title = terminal.assembled(("trace ", "bold"), (trace.trace_ids[0], "bold cyan"), more)
    root = Tree(title, guide_style="dim")
    facts = {"when": _when(trace), "who": _who(trace), "test": _test(trace)}
    for name, text in {**facts, "expects": _expected(trace)}.items():
        if text:
            root.add(_line(name, text))
    root.add(_line("input", _cut(trace.user_input)))
    root.add(_line("plan", _plan(trace.plan)))
    calls = root.add(_line("calls", _count_of_calls(trace)))
    for number, call in enumerate(trace.tool_calls or (), start=1):
        _add_call(calls, number, call, by_other=call.agent not in {None, trace.agent_name})
    for retrieval in trace.retrieved:
        query = on_one_line(retrieval.query or "?", 200)
        root.add(_line("search", f"{len(retrieval.documents)} documents for {query}"))
    root.add(_line("output", _cut(trace.final_output)))
    root.add(_line("ended", _how(trace)))
    root.add(_line("models", _models(trace)))
    missing = ", ".join(_missing(trace))
    shown_missing = terminal.styled(missing or "nothing", "yellow" if missing else "green")
    root.add(branch(terminal.styled("missing", "bold"), shown_missing))
    return root


def _plan(plan: str | None) -> str:
    if plan is None:
        return "none announced"
    steps = len(announced_steps(plan))
    return f"{steps} steps: {_cut(plan)}" if steps else _cut(plan)


def _add_call(calls: "Tree", number: int, call: ToolCall, *, by_other: bool) -> None:
    name = terminal.assembled(f"{number} ", (on_one_line(call.name, 120), "cyan"))
    by = (f"  (by {on_one_line(call.agent or '', 60)})", "dim") if by_other else ""
    made = calls.add(branch(name, terminal.assembled(_value(call.arguments), by)))
    if call.error is not None:
        inferred = " (recognised in the result)" if call.error_inferred else ""
        made.add(branch(terminal.styled("error", "red"), f"{cut(call.error)}{inferred}"))
    if call.error is None or call.result not in (None, call.error):
        result = "null" if call.returned and call.result is None else _value(call.result)
        made.add(branch(terminal.styled("result", "dim"), result))


def _line(name: str, text: str) -> "RenderableType":
    return branch(terminal.styled(f"{name:<7}", "bold"), text)


def _how(trace: AgentTrace) -> str:
    return trace.outcome if trace.error is None else f"failed: {on_one_line(trace.error, 200)}"


def _when(trace: AgentTrace) -> str:
    took_s = (trace.ended_ns - trace.started_ns) / 1e9
    return f"{utc(trace.started_ns):%Y-%m-%d %H:%M:%S} UTC, {took_s:.2f} s, {trace.completeness}"


def _who(trace: AgentTrace) -> str:
    facts = {
        "agent": trace.agent_name,
        "session": trace.session_id,
        "user": trace.user_id,
        "service": trace.service_name,
        "read as": ", ".join(trace.dialects),
    }
    return _listed(facts) or "not recorded"


def _test(trace: AgentTrace) -> str:
    """The test that it was recorded for; nothing where it was not, as mostly."""
    if (trial := trace.trial) is None:
        return ""
    facts = {"suite": trial.suite, "run": trial.run, "case": trial.case, "result": trial.status}
    return _listed(facts)


def _expected(trace: AgentTrace) -> str:
    """What the trace states that the turn should come to; nothing where it states nothing, as
    mostly.
    """
    stated = trace.expected
    if stated is None:
        return ""
    tools = None if stated.tools is None else ", ".join(x.name for x in stated.tools) or "no tool"
    outcomes = "; ".join(stated.outcomes)
    return _listed({"answer": stated.answer, "tools": tools, "outcomes": outcomes})


def _listed(facts: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {on_one_line(value, 100)}" for name, value in facts.items() if value)


def _count_of_calls(trace: AgentTrace) -> str:
    if trace.tool_calls is None:
        return "not recorded"
    made = f"{len(trace.tool_calls) or 'none'} made"
    if trace.available_tools is None:
        return made
    return f"{made}, of {counted(len(trace.available_tools), 'tool')} on offer"


def _models(trace: AgentTrace) -> str:
    names = sorted({on_one_line(call.model, 80) for call in trace.model_calls if call.model})
    of = f" of {', '.join(names)}" if names else ""
    tokens_in, tokens_out = map(_number, (trace.usage.input_tokens, trace.usage.output_tokens))
    calls = counted(len(trace.model_calls), "call")
    return f"{calls}{of}, {tokens_in} tokens in, {tokens_out} out"


def _missing(trace: AgentTrace) -> Iterator[str]:
    yield from (name for name in _STATED if getattr(trace, name) is None)
    for number, call in enumerate(trace.tool_calls or (), start=1):
        if call.arguments is None:
            yield f"arguments of call {number}"
        if not call.returned and call.error is None:
            yield f"result of call {number}"
    yield from (f"{printable(name)} (cut or redacted)" for name in trace.damaged)
    if trace.unread_spans:
        yield f"{trace.unread_spans} spans that no dialect reads (--unread lists them)"


def _number(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _value(value: Json) -> str:
    return "not recorded" if value is None else shown(value)


def _cut(text: str | None) -> str:
    return "not recorded" if text is None else cut(text)


_VALUE_CHARS = 60
_SINCE_CHARS = 400
_SHOWN_AGREEING = 1
"""Of places that say the same: a framework may tell everything several times."""
_ID_CHARS = 8


def add_sources(tree: "Tree", explanation: Explanation) -> None:
    """Add a branch that says, for each fact, which attribute of which span it came from, why, and
    what lost.
    """
    _add_joins(tree, explanation.joins)
    facts = tree.add(terminal.styled("sources", "bold"))
    _add_facts(facts, explanation.facts)
    for number, call in enumerate(explanation.tool_calls, start=1):
        _add_facts(facts.add(terminal.assembled(("call ", "bold"), f"{number}")), call)
    _add_counts(facts, "tools on offer", Counter(_place(x) for x in explanation.tools.values()))
    _add_counts(facts, "tokens", Counter(_place(x) for x in explanation.tokens))


def _add_joins(tree: "Tree", joins: Sequence[Join]) -> None:
    """Say which traces were joined to which, by which reason, and why."""
    if joins:
        found = tree.add(terminal.styled("joins", "bold"))
        for join in joins:
            pair = f"trace {join.trace_id} was joined to trace {join.to}"
            why = f"{pair}, since {on_one_line(join.since, _SINCE_CHARS)}"
            found.add(branch(terminal.styled(join.reason, "cyan"), why))


def _add_facts(tree: "Tree", facts: Mapping[str, Explained]) -> None:
    for name, explained in facts.items():
        if explained.origin is None:
            continue
        origin = explained.origin
        damaged = (", cut or redacted", "yellow") if origin.damaged else ""
        where = terminal.assembled(_place(origin), damaged, (f": {origin.source}", "dim"))
        found = tree.add(branch(terminal.styled(name, "cyan"), where))
        if same := [_place(x) for x in explained.lost if x.value == origin.value]:
            agreeing = terminal.first_of(same, _SHOWN_AGREEING)
            found.add(branch(terminal.styled("lost, has the same value", "dim"), agreeing))
        for other in (x for x in explained.lost if x.value != origin.value):
            text = f"{_place(other)}, says {_source_value(other.value)}"
            found.add(branch(terminal.styled("lost", "yellow"), text))
    silent = [name for name, explained in facts.items() if explained.origin is None]
    if silent:
        tree.add(
            branch(terminal.styled("no source", "dim"), terminal.styled(", ".join(silent), "cyan"))
        )


def _add_counts(tree: "Tree", name: str, places: Counter[str]) -> None:
    if places:
        found = tree.add(terminal.styled(name, "cyan"))
        for place, count in places.items():
            found.add(terminal.assembled(f"{count} from " if count > 1 else "", place))


def _place(origin: Origin) -> str:
    """The attributes and the span that hold a value."""
    span = origin.step.span
    where = f"{on_one_line(span.name, 50)} ({span.span_id[:_ID_CHARS]})"
    keys = ", ".join(on_one_line(x, 80) for x in origin.attributes)
    return f"{keys} of {where}" if keys else where


def _source_value(value: Any) -> str:
    if value is None:
        return "nothing"
    return on_one_line(value if isinstance(value, str) else dumps(value), _VALUE_CHARS)


_NEXT = (
    "How to have them read: docs/add-a-dialect.md. What is listed here holds no values, and may be"
    " shown to others."
)
_SHOWN_KEYS = 40


def print_unread(groups: Sequence[Unread], *, as_json: bool) -> None:
    """Print the groups of spans and log records that no dialect reads."""
    if as_json:
        for group in groups:
            terminal.print_json(group.to_json())
        return
    from rich.tree import Tree  # noqa: PLC0415 - likewise

    output = terminal.console()
    for group in groups:
        names = (group.scope or "(no scope)", group.version)
        scope = " ".join(on_one_line(x, 100) for x in names if x)
        name = terminal.styled(on_one_line(group.name or "(no name)", 100), "bold cyan")
        what = f"{group.signal}{'s' if group.count > 1 else ''} "
        title = terminal.assembled((f"{group.count} ", "bold"), what, name, f"  {scope}")
        tree = Tree(title, guide_style="dim")
        for key, held in sorted(group.keys.items())[:_SHOWN_KEYS]:
            tree.add(branch(terminal.styled(on_one_line(key, 120), "cyan"), _described(held)))
        if len(group.keys) > _SHOWN_KEYS:
            more = f"and {len(group.keys) - _SHOWN_KEYS} more keys, which --jsonl shows"
            tree.add(terminal.styled(more, "dim"))
        if not group.keys:
            tree.add(terminal.styled("no key that looks like content", "dim"))
        if others := sorted(group.other_keys - group.keys.keys()):
            listed = terminal.first_of([on_one_line(x, 120) for x in others], _SHOWN_KEYS)
            tree.add(branch(terminal.styled("other keys", "dim"), terminal.styled(listed, "dim")))
        output.print(tree)
    output.print(_NEXT if groups else "Every span and log record is read by a dialect.")


def _described(key: Key) -> str:
    size = f", up to {key.longest_chars:,} characters" if key.longest_chars else ""
    return f"{' or '.join(sorted(key.kinds))}{size}"
