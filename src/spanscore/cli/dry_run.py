"""`spanscore eval --dry-run`: what a judge would be asked and what that may cost, with nothing
sent.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spanscore.cli import recorded
from spanscore.cli.terminal import console, on_one_line, print_json, printable, progress
from spanscore.config import Settings
from spanscore.evaluation import Engine, Overrides, PlannedCall
from spanscore.evaluation.inquiry import costed
from spanscore.judge import Config, Estimate, Prompt
from spanscore.model.json import dumps
from spanscore.model.trace import AgentTrace

if TYPE_CHECKING:
    from rich.console import Console


_MAX_ROWS = 60
"""With more calls than that, a row stands for all that ask the same about different traces."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A planned call with the model that would get it and its size; tokens and cost are upper
    bounds.

    `session_id` is set where a whole session is judged; `trace_id` is then that of its last trace.
    """

    trace_id: str
    session_id: str | None
    rule: str | None
    planned: PlannedCall
    model: str
    prompt: Prompt
    estimate: Estimate

    @property
    def subject(self) -> str:
        """What is judged, in few letters."""
        return self.trace_id[:8] if self.session_id is None else on_one_line(self.session_id, 24)

    def to_json(self, *, with_prompt: bool) -> dict[str, Any]:
        prompt = _sent(self.prompt)
        schema = self.planned.schema.model_json_schema()
        return {
            "trace_id": self.trace_id,
            "session_id": self.session_id,
            "rule": self.rule,
            "metrics": list(self.planned.metrics),
            "stage": self.planned.stage,
            "model": self.model,
            "placeholders": bool(self.planned.placeholders),
            "max_input_tokens": self.estimate.input_tokens,
            "max_output_tokens": self.estimate.max_output_tokens,
            "max_cost_usd": self.estimate.cost_usd,
            **({"prompt": prompt, "schema": schema} if with_prompt else {}),
        }


def run(
    engine: Engine,
    settings: Settings,
    overrides: Overrides,
    traces: Sequence[AgentTrace],
    *,
    jsonl: bool,
    verbose: bool,
) -> int:
    """Print the calls that a judge would get. Returns the exit code."""
    calls = _planned(engine, settings, overrides, traces)
    if jsonl:
        for call in calls:
            print_json(call.to_json(with_prompt=verbose))
        return 0
    output = console()
    if verbose:
        for number, call in enumerate(calls, start=1):
            _print_prompt(output, number, call)
    if calls:
        _print_calls(output, calls)
    if settings.evaluation.rules:
        _print_rules(output, engine, settings, traces)
    output.print(_summary(calls) if calls else _nothing(settings))
    if settings.embedding.chosen == "litellm":
        output.print(
            "An embedding provider would be sent inputs and outputs besides; see embedding.model."
        )
    return 0


def _print_rules(
    output: "Console", engine: Engine, settings: Settings, traces: Sequence[AgentTrace]
) -> None:
    """Which rule takes how many traces."""
    taken = Counter(engine.decide(trace).rule for trace in traces)
    names = [*(x.name for x in settings.evaluation.rules), None]
    shown = ", ".join(f"{'no rule' if x is None else x} {taken[x]:,}" for x in names)
    output.print(f"Traces by the rule that takes them: {shown}.")


def _planned(
    engine: Engine, settings: Settings, overrides: Overrides, traces: Sequence[AgentTrace]
) -> list[_Call]:
    """The calls for each trace, then those for each session."""
    found: list[_Call] = []
    judges: dict[str | None, Config] = {
        x.name: settings.judge_of(x) for x in settings.evaluation.rules
    }
    judges[None] = settings.judge
    before = recorded.turns_before(traces)
    with progress("planning", len(traces)) as done:
        for trace in traces:
            by_itself = engine.plan_rubric(trace, overrides) if trace.session_id is None else []
            planned = engine.plan(trace, overrides, earlier=before.get(trace.id, ()))
            rule = engine.decide(trace).rule
            found += _calls([*planned, *by_itself], judges[rule], trace, rule)
            done()
    for session in recorded.sessions(traces):
        rule = engine.decide_session(session).rule
        planned = engine.plan_session(session, overrides)
        found += _calls(planned, judges[rule], session.traces[-1], rule, session.session_id)
    return found


def _calls(
    calls: Sequence[PlannedCall],
    config: Config,
    trace: AgentTrace,
    rule: str | None,
    session_id: str | None = None,
) -> Iterator[_Call]:
    for call in costed(calls, config):
        yield _Call(
            trace.trace_ids[0],
            session_id,
            rule,
            call.planned,
            call.model,
            call.prompt,
            call.estimate,
        )


def _sent(prompt: Prompt) -> dict[str, str]:
    """The parts of a prompt that are sent, by name."""
    return {name: getattr(prompt, name) for name in ("instructions", "transcript", "question")}


def _print_prompt(output: "Console", number: int, call: _Call) -> None:
    output.print(
        f"Call {number}: {', '.join(call.planned.metrics)}, stage {call.planned.stage}",
        style="bold",
    )
    parts = {name: printable(text) for name, text in _sent(call.prompt).items()}
    parts["schema of the answer"] = dumps(call.planned.schema.model_json_schema())
    for name, text in parts.items():
        output.print(f"[{name}]", style="dim")
        output.print(text, end="\n\n", soft_wrap=True)


def _print_calls(output: "Console", calls: Sequence[_Call]) -> None:
    models = dict.fromkeys(call.model for call in calls)
    for model in models:
        if len(models) > 1:
            output.print(on_one_line(model, 80), style="bold")
        own = [call for call in calls if call.model == model]
        if len(calls) <= _MAX_ROWS:
            _print_table(output, "trace", [(call.subject, [call]) for call in own])
        else:
            _print_table(output, "calls", _alike(own))
        output.print()


def _print_table(
    output: "Console", first: str, rows: Iterable[tuple[str, Sequence[_Call]]]
) -> None:
    """Print calls of one model; each row has what stands under the heading `first`, and the calls
    it adds up.
    """
    from rich.table import Table  # noqa: PLC0415 - --jsonl needs no rich

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in (first, "stage", "metrics", "tokens in", "out", "USD"):
        words = heading in {"trace", "metrics"}
        table.add_column(
            heading, no_wrap=heading != "metrics", justify="left" if words else "right"
        )
    for which, group in rows:
        cost = _cost(group)
        at_most = "<" if group[0].planned.placeholders else ""
        table.add_row(
            which,
            str(group[0].planned.stage),
            ", ".join(group[0].planned.metrics),
            f"{at_most}{sum(call.estimate.input_tokens for call in group):,}",
            f"<{sum(call.estimate.max_output_tokens for call in group):,}",
            "?" if cost is None else f"<{cost:.4f}",
        )
    output.print(table)


def _alike(calls: Sequence[_Call]) -> list[tuple[str, list[_Call]]]:
    """The calls of one model that ask the same about different traces, with their number."""
    groups: defaultdict[object, list[_Call]] = defaultdict(list)
    for call in calls:
        groups[call.planned.stage, call.planned.metrics].append(call)
    return [(f"{len(group):,}", group) for group in groups.values()]


def _cost(calls: Sequence[_Call]) -> float | None:
    """What the calls cost at most, in USD; None where one has no known price."""
    costs = [call.estimate.cost_usd for call in calls if call.estimate.cost_usd is not None]
    return sum(costs) if len(costs) == len(calls) else None


def _nothing(settings: Settings) -> str:
    """Why there is no call."""
    unjudged = not any(x.models for x in settings.judges)
    why = (
        "no model is configured; --model or judge.model names one"
        if unjudged
        else "nothing is left to judge"
    )
    return f"No judge would be asked: {why}. Nothing was sent."


def _summary(calls: Sequence[_Call]) -> str:
    tokens_in = sum(call.estimate.input_tokens for call in calls)
    tokens_out = sum(call.estimate.max_output_tokens for call in calls)
    models = ", ".join(sorted({on_one_line(call.model, 80) for call in calls}))
    cost = _cost(calls)
    price = "at a price that is not known for all" if cost is None else f"at most {cost:.4f} USD"
    each = "" if len(calls) <= _MAX_ROWS else " --jsonl lists each call."
    return (
        f"{len(calls):,} call{'s' if len(calls) > 1 else ''} of {models}, at most {tokens_in:,}"
        f" tokens in and {tokens_out:,} out, {price}. A later stage quotes the answers before it,"
        " and is counted with the longest that there can be. Retries and repairs come on"
        f" top.{each} Nothing was sent."
    )
