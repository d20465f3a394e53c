"""`spanscore eval --dry-run`: what a judge would be asked and what that may cost, with nothing sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spanscore.cli.terminal import console, on_one_line, print_json, printable
from spanscore.config import Settings
from spanscore.evaluate import Engine, Overrides, PlannedCall
from spanscore.judge import Config, Estimate, Prompt, estimate
from spanscore.judge.redact import Redactor
from spanscore.judge.transcript import BYTES_PER_TOKEN
from spanscore.model.json import dumps
from spanscore.model.trace import AgentTrace

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class _Call:
    """A planned call with the model that would get it and its size; tokens and cost are upper bounds."""

    trace_id: str
    planned: PlannedCall
    model: str
    prompt: Prompt
    estimate: Estimate

    def to_json(self, *, with_prompt: bool) -> dict[str, Any]:
        prompt = {name: getattr(self.prompt, name) for name in Prompt.__dataclass_fields__}
        schema = self.planned.schema.model_json_schema()
        return {
            "trace_id": self.trace_id,
            "metrics": list(self.planned.metrics),
            "stage": self.planned.stage,
            "model": self.model,
            "placeholders": self.planned.placeholders,
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
    calls = [call for trace in traces for call in _planned(engine, settings.judge, overrides, trace)]
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
    output.print(_summary(calls))
    if settings.embedding.chosen == "litellm":
        output.print("An embedding provider would be sent inputs and outputs besides: see embedding.model.")
    return 0


def _planned(engine: Engine, config: Config, overrides: Overrides, trace: AgentTrace) -> Iterator[_Call]:
    redactor = Redactor(config.redact.rules, numbered=False)
    for planned in engine.plan(trace, overrides):
        model = planned.models[0] if planned.models else config.model
        prompt = replace(planned.prompt, question=redactor.redact(planned.prompt.question))  # as the judge sends it
        yield _Call(trace.trace_ids[0], planned, model, prompt, _bound(planned, prompt, model, config))


def _bound(planned: PlannedCall, prompt: Prompt, model: str, config: Config) -> Estimate:
    """The call's size, with room for the longest answers there can be where a later stage quotes earlier ones."""
    earlier_calls = planned.stage - 1 if planned.placeholders else 0
    room = "x" * (earlier_calls * config.max_output_tokens * BYTES_PER_TOKEN)
    return estimate(replace(prompt, question=prompt.question + room), planned.schema, model, config)


def _print_prompt(output: "Console", number: int, call: _Call) -> None:
    output.print(f"Call {number}: {', '.join(call.planned.metrics)}, stage {call.planned.stage}", style="bold")
    parts = {name: printable(getattr(call.prompt, name)) for name in Prompt.__dataclass_fields__}
    parts["schema of the answer"] = dumps(call.planned.schema.model_json_schema())
    for name, text in parts.items():
        output.print(f"[{name}]", style="dim")
        output.print(text, end="\n\n", soft_wrap=True)


def _print_calls(output: "Console", calls: Sequence[_Call]) -> None:
    from rich.table import Table  # noqa: PLC0415 - --jsonl needs no rich

    several = len({call.model for call in calls}) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("trace", "stage", *(("model",) if several else ()), "metrics", "tokens in", "out", "USD"):
        figures = heading in {"stage", "tokens in", "out", "USD"}
        table.add_column(heading, no_wrap=heading not in {"metrics", "model"}, justify="right" if figures else "left")
    for call in calls:
        size = call.estimate
        table.add_row(
            call.trace_id[:8],
            str(call.planned.stage),
            *((on_one_line(call.model, 40),) if several else ()),
            ", ".join(call.planned.metrics),
            f"{'<' if call.planned.placeholders else ''}{size.input_tokens:,}",
            f"<{size.max_output_tokens:,}",
            "?" if size.cost_usd is None else f"<{size.cost_usd:.4f}",
        )
    output.print(table)


def _summary(calls: Sequence[_Call]) -> str:
    if not calls:
        return "No judge would be asked: the built-in rules judge, or nothing is left to judge. Nothing was sent."
    tokens_in = sum(call.estimate.input_tokens for call in calls)
    tokens_out = sum(call.estimate.max_output_tokens for call in calls)
    models = ", ".join(sorted({on_one_line(call.model, 80) for call in calls}))
    costs = [call.estimate.cost_usd for call in calls if call.estimate.cost_usd is not None]
    price = f"at most {sum(costs):.4f} USD" if len(costs) == len(calls) else "at a price that is not known for all"
    return (
        f"\n{len(calls)} calls of {models}, at most {tokens_in:,} tokens in and {tokens_out:,} out, {price}. A later "
        "stage quotes the answers before it, and is counted with the longest that there can be. Retries and repairs "
        "come on top. Nothing was sent."
    )
