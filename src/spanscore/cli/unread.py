"""What no dialect reads, printed for a person or as JSON lines: `spanscore inspect --unread`."""

from collections.abc import Sequence

from spanscore.cli.terminal import console, on_one_line, print_json
from spanscore.cli.trees import branch
from spanscore.dialects import Key, Unread

_NEXT = (
    "How to have them read: docs/add-a-dialect.md. What is listed here holds no values, and may be"
    " shown to others."
)
_SHOWN_KEYS = 40


def print_unread(groups: Sequence[Unread], *, as_json: bool) -> None:
    """Print the groups of spans and log records that no dialect reads."""
    if as_json:
        for group in groups:
            print_json(group.to_json())
        return
    from rich.text import Text  # noqa: PLC0415 - --jsonl needs no rich
    from rich.tree import Tree  # noqa: PLC0415 - likewise

    output = console()
    for group in groups:
        scope = " ".join(
            on_one_line(x, 100) for x in (group.scope or "(no scope)", group.version) if x
        )
        name = on_one_line(group.name or "(no name)", 100)
        tree = Tree(
            Text.assemble(
                (f"{group.count} ", "bold"),
                f"{group.signal}s " if group.count > 1 else f"{group.signal} ",
            )
            .append(name, "bold cyan")
            .append(f"  {scope}"),
            guide_style="dim",
        )
        for key, held in sorted(group.keys.items())[:_SHOWN_KEYS]:
            tree.add(branch(Text(on_one_line(key, 120), "cyan"), _described(held)))
        if len(group.keys) > _SHOWN_KEYS:
            tree.add(
                Text(f"and {len(group.keys) - _SHOWN_KEYS} more keys, which --jsonl shows", "dim")
            )
        if not group.keys:
            tree.add(Text("no key that looks like content", "dim"))
        others = sorted(group.other_keys - group.keys.keys())
        if others:
            tree.add(branch(Text("other keys", "dim"), Text(_listed(others), "dim")))
        output.print(tree)
    output.print(_NEXT if groups else "Every span and log record is read by a dialect.")


def _listed(keys: Sequence[str]) -> str:
    more = len(keys) - _SHOWN_KEYS
    return ", ".join(on_one_line(x, 120) for x in keys[:_SHOWN_KEYS]) + (
        f" and {more} more" if more > 0 else ""
    )


def _described(key: Key) -> str:
    size = f", up to {key.longest_chars:,} characters" if key.longest_chars else ""
    return f"{' or '.join(sorted(key.kinds))}{size}"
