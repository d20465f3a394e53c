"""Where the facts of an agent trace came from, printed for a person: `spanscore inspect
--explain`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spanscore.cli.terminal import on_one_line
from spanscore.cli.trees import branch
from spanscore.model.json import dumps
from spanscore.turns import Explained, Explanation, Join, Origin

if TYPE_CHECKING:
    from rich.tree import Tree

_VALUE_CHARS = 60
_SINCE_CHARS = 400
_SHOWN_AGREEING = 1
_ID_CHARS = 8


def add_sources(tree: "Tree", explanation: Explanation) -> None:
    """Add a branch that says, for each fact, which attribute of which span it came from, why, and
    what lost.
    """
    from rich.text import Text  # noqa: PLC0415 - --jsonl needs no rich

    _add_joins(tree, explanation.joins)
    facts = tree.add(Text("sources", "bold"))
    _add_facts(facts, explanation.facts)
    for number, call in enumerate(explanation.tool_calls, start=1):
        _add_facts(facts.add(Text.assemble(("call ", "bold"), f"{number}")), call)
    _add_counts(facts, "tools on offer", Counter(_place(x) for x in explanation.tools.values()))
    _add_counts(facts, "tokens", Counter(_place(x) for x in explanation.tokens))


def _add_joins(tree: "Tree", joins: Sequence[Join]) -> None:
    """Say which traces were joined to which, by which reason, and why."""
    from rich.text import Text  # noqa: PLC0415 - --jsonl needs no rich

    if joins:
        found = tree.add(Text("joins", "bold"))
        for join in joins:
            pair = f"trace {join.trace_id} was joined to trace {join.to}"
            why = f"{pair}, since {on_one_line(join.since, _SINCE_CHARS)}"
            found.add(branch(Text(join.reason, "cyan"), why))


def _add_facts(tree: "Tree", facts: Mapping[str, Explained]) -> None:
    from rich.text import Text  # noqa: PLC0415 - --jsonl needs no rich

    for name, explained in facts.items():
        if explained.origin is None:
            continue
        damaged = (", cut or redacted", "yellow") if explained.origin.damaged else ""
        why = (f": {explained.origin.source}", "dim")
        found = tree.add(
            branch(Text(name, "cyan"), Text.assemble(_place(explained.origin), damaged, why))
        )
        same = [_place(x) for x in explained.lost if x.value == explained.origin.value]
        if same:
            found.add(branch(Text("lost, has the same value", "dim"), _some(same)))
        for other in explained.lost:
            if other.value != explained.origin.value:
                found.add(
                    branch(Text("lost", "yellow"), f"{_place(other)}, says {_value(other.value)}")
                )
    silent = [name for name, explained in facts.items() if explained.origin is None]
    if silent:
        tree.add(branch(Text("no source", "dim"), Text(", ".join(silent), "cyan")))


def _some(places: Sequence[str]) -> str:
    """The first place and how many more: a framework may tell everything several times, and --jsonl
    names them all.
    """
    more = len(places) - _SHOWN_AGREEING
    return "; ".join(places[:_SHOWN_AGREEING]) + (f" and {more} more" if more > 0 else "")


def _add_counts(tree: "Tree", name: str, places: Counter[str]) -> None:
    from rich.text import Text  # noqa: PLC0415 - --jsonl needs no rich

    if places:
        found = tree.add(Text(name, "cyan"))
        for place, count in places.items():
            found.add(Text.assemble(f"{count} from " if count > 1 else "", place))


def _place(origin: Origin) -> str:
    """The attributes and the span that hold a value."""
    span = origin.step.span
    where = f"{on_one_line(span.name, 50)} ({span.span_id[:_ID_CHARS]})"
    keys = ", ".join(on_one_line(x, 80) for x in origin.attributes)
    return f"{keys} of {where}" if keys else where


def _value(value: Any) -> str:
    return (
        "nothing"
        if value is None
        else on_one_line(value if isinstance(value, str) else dumps(value), _VALUE_CHARS)
    )
