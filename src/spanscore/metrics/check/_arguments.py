"""The texts among a call's arguments, and what SQL in them does."""

import re
from collections.abc import Iterator
from itertools import islice

from spanscore.model.json import Json
from spanscore.model.tool_names import name_words
from spanscore.model.trace import ToolCall

_MAX_VALUES = 1_000
_MAX_CHARS = 20_000
"""Values of a call's arguments that are looked at, and characters of each."""
_RUNS_SQL = frozenset(("db", "database", "execute", "mysql", "postgres", "query", "run", "sql"))
_OWN_TABLE = r"(?!(?:if\s+exists\b|\S*(?:te?mp|cache|staging|#)))"
_REMOVING_SQL = re.compile(
    rf"(?:^|;)\s*(?:delete\s+from|truncate\s+table|drop\s+(?:table|database|schema))\s+{_OWN_TABLE}"
    r"[\w\"`\[]",
    re.IGNORECASE,
)
_MAKING_SQL = re.compile(r"\bcreate\s", re.IGNORECASE)


def texts(arguments: Json) -> Iterator[tuple[str, str]]:
    """The texts among the arguments, at any depth, each with its key as in `http_method`."""
    left: list[tuple[str, Json]] = [("", arguments)]
    for _ in range(_MAX_VALUES):
        if not left:
            return
        key, value = left.pop()
        if isinstance(value, str):
            yield key, value[:_MAX_CHARS]
        elif isinstance(value, list):
            left.extend((key, x) for x in value[:_MAX_VALUES])
        elif isinstance(value, dict):
            items = islice(value.items(), _MAX_VALUES)
            left.extend(("_".join(name_words(name)), x) for name, x in items)


def removes_by_sql(call: ToolCall) -> bool:
    """Whether a tool that runs SQL was given a statement that deletes records or tables.

    A table that the statement itself makes, or that by its name is temporary, does not count.
    """
    if _RUNS_SQL.isdisjoint(name_words(call.name)):
        return False
    return any(
        _REMOVING_SQL.search(text) and not _MAKING_SQL.search(text)
        for _, text in texts(call.arguments)
    )
