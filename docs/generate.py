"""Writes the pages that are made from the code and the golden cases (`make docs`)."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spanscore import config
from spanscore.metrics import _reference
from spanscore.telemetry import declared, formats
from spanscore.turns import provenance as sources
from spanscore.turns.stitch import stitcher

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))  # also when a test runs this file from somewhere else

import api_page  # noqa: E402  # beside this file, see above
import dialect_page  # noqa: E402  # likewise

_INTRODUCTION = """\
# Configuration

<!-- written by `make docs` from the code: change the code, not this page -->

One YAML file, given with `spanscore serve -c FILE`. Environment variables replace `${env:NAME}` and
`${env:NAME:-default}`, as in the collector; `$$` is one dollar sign. Durations are written as
`200ms`, `10s`, `5m`, `24h`, sizes as `64KiB`, `4MiB`, `1GiB`. An unknown key is refused, with the
name of the nearest right one. `spanscore config check FILE` prints what is wrong; `spanscore config
schema` prints the JSON schema, for editors.

`SPANSCORE_JUDGE_MODEL` in the environment is `judge.model` where the file does not set it.
"""


def configuration() -> str:
    """The page of all keys, one table a section."""
    schema = config.json_schema()
    lines = [_INTRODUCTION]
    top = {key: value for key, value in schema["properties"].items() if "$ref" not in value}
    lines += [
        "| key | default | meaning |",
        "|---|---|---|",
        *_rows("", {"properties": top}, schema),
        "",
    ]
    for key, value in schema["properties"].items():
        if "$ref" in value:
            section = _resolve(value, schema)
            lines += [f"## {key}", "", value.get("description") or section["description"], ""]
            lines += [
                "| key | default | meaning |",
                "|---|---|---|",
                *_rows("", section, schema),
                "",
            ]
    return "\n".join(lines)


def _rows(
    prefix: str, model: dict[str, Any], schema: dict[str, Any], above: Sequence[dict[str, Any]] = ()
) -> Iterator[str]:
    """The rows of a model's keys; one that contains itself, as a selector does, is shown once."""
    if any(model is x for x in above):
        return
    above = (*above, model)
    for key, value in model.get("properties", {}).items():
        held = _resolve(value, schema)
        text = " ".join((value.get("description") or held.get("description", "")).split()).replace(
            "|", "\\|"
        )
        default = (
            ""
            if ("properties" in held and "anyOf" not in value) or "default" not in value
            else f"`{_default(value)}`"
        )
        yield f"| `{prefix}{key}` | {default} | {text} |"
        if "properties" in held:
            yield from _rows(f"{prefix}{key}.", held, schema, above)
        yield from _rows(
            f"{prefix}{key}[].", _resolve(held.get("items", {}), schema), schema, above
        )
        if isinstance(named := held.get("additionalProperties"), dict) and "$ref" in named:
            yield from _rows(f"{prefix}{key}.NAME.", _resolve(named, schema), schema, above)
        for pattern, inner in held.get("patternProperties", {}).items():
            name = pattern.strip("^$").removesuffix("(/.+)?")
            yield from _rows(f"{prefix}{key}.{name}.", _resolve(inner, schema), schema, above)


def _resolve(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """What `value` refers to, also where it may be null as well; else itself."""
    named = [x["$ref"] for x in (value, *value.get("anyOf", ())) if "$ref" in x]
    return schema["$defs"][named[0].removeprefix("#/$defs/")] if len(named) == 1 else value


def _default(value: dict[str, Any]) -> str:
    written = value.get("default")
    if isinstance(written, dict) and written and all(not x for x in written.values()):
        return ", ".join(written)  # metrics without options
    return written if isinstance(written, str) else json.dumps(written)


_REASONS, _END_OF_REASONS = "<!-- reasons: written by `make docs` -->\n", "<!-- /reasons -->\n"
_SOURCES, _END_OF_SOURCES = "<!-- sources: written by `make docs` -->\n", "<!-- /sources -->\n"


def agent_trace() -> str:
    """The page on agent traces, in which the tables of reasons and of sources are made and the rest
    is not.
    """
    page = (FOLDER / "agent-trace.md").read_text(encoding="utf-8")
    with_reasons = _between(_REASONS, _END_OF_REASONS, page, stitcher.reference())
    return _between(_SOURCES, _END_OF_SOURCES, with_reasons, sources.reference())


def _between(start: str, end: str, page: str, made: str) -> str:
    """The page with what is made between two marks in place of what stood there."""
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{made}\n{end}{after}"


_WATCHED, _END_OF_WATCHED = "<!-- metrics: written by `make docs` -->\n", "<!-- /metrics -->\n"


def watching() -> str:
    """The page on watching, in which the table of spanscore's own metrics is made and the rest is
    not.
    """
    page = (FOLDER / "watching.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(_WATCHED)
    _, _, after = rest.partition(_END_OF_WATCHED)
    rows = [
        f"| `{formats.name(x)}` | {x.kind} | {', '.join(f'`{label}`' for label in x.labels)} |"
        f" {x.about} |"
        for x in declared.METRICS
    ]
    table = "\n".join(["| on `/metrics` | kind | labels | |", "|---|---|---|---|", *rows])
    return f"{before}{_WATCHED}{table}\n{_END_OF_WATCHED}{after}"


PAGES = {
    "agent-trace.md": agent_trace,
    "api.md": api_page.page,
    "configuration.md": configuration,
    "dialects.md": dialect_page.page,
    "metrics.md": _reference.reference,
    "watching.md": watching,
}


def main() -> int:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
