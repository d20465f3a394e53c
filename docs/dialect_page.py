"""The page docs/dialects.md: what each dialect's golden cases hold, their origin, how its spans are
recognised.
"""

import inspect
import itertools
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from spanscore.dialects import all_dialects
from spanscore.dialects.dialect import Dialect
from spanscore.dialects.registry import own_quirks
from spanscore.otlp import files

ROOT: Final = Path(__file__).parent.parent
GOLDEN: Final = ROOT / "tests/golden"
LIMITS: Final = Path(__file__).parent / "dialect-limits.toml"

_YES, _PARTLY, _NO = (
    "yes",
    "partly",
    "–",  # noqa: RUF001  # the dash is how an empty cell is printed
)

_INTRODUCTION: Final = """\
# Dialects

<!-- written by `make docs` from the code and the golden cases: change those, not this page -->

What can be known of an agent depends on who writes its spans. This page is made from the golden
cases in `tests/golden`: telemetry of real frameworks, each recorded against a scripted model, and
the agent traces rebuilt from it. The tests compare these with what user, model and tools really
wrote. Cases that are *written by hand*, after an emitter's source and documentation, are marked so.
[agent-trace.md](agent-trace.md) lists the facts and the order of their sources;
[add-a-dialect.md](add-a-dialect.md) shows how to write a dialect and how to record a case.

## What each case contains

*yes*: every agent trace of the case has the fact. *partly*: some have it, or it is recorded
shortened or changed. A dash: the fact is `null`, since the set-up did not record it; if the reason
lies with the emitter, its section below gives it. *question* is `user_input`, *answer*
`final_output`, *offered* the tools on offer, *described* their descriptions, *calls* which tools
were called.

Some instrumentations, OpenTelemetry's own among them, record no content unless that is switched on.
Without content, questions, answers and arguments are `null` and little can be scored. `spanscore
eval`, `test`, `inspect` and `doctor` and the server's log report this once, with the switch that is
given below as *To record content*.
"""

_WORDS: Final = {
    "user_input": "question",
    "final_output": "answer",
    "system": "system prompt",
    "tools_offered": "tools on offer",
    "tool_descriptions": "descriptions of tools",
    "tool_names": "calls",
    "tool_arguments": "arguments",
    "tool_results": "results",
    "tool_errors": "errors of tools",
}

_Trace: TypeAlias = dict[str, Any]


def _calls(trace: _Trace) -> list[dict[str, Any]]:
    return trace["tool_calls"] or []


def _tools(trace: _Trace) -> list[dict[str, Any]]:
    return trace["available_tools"] or []


@dataclass(frozen=True, slots=True)
class _Fact:
    """A column: its heading, its name in recording.toml, whether a trace has it, and whether it
    could have it.
    """

    heading: str
    name: str
    has: Callable[[_Trace], bool]
    could: Callable[[_Trace], object] = lambda _trace: True


_FACTS: Final = (
    _Fact("question", "user_input", lambda x: x["user_input"] is not None),
    _Fact("answer", "final_output", lambda x: x["final_output"] is not None),
    _Fact("system prompt", "system", lambda x: x["system_instructions"] is not None),
    _Fact("offered", "tools_offered", lambda x: bool(_tools(x))),
    _Fact("described", "tool_descriptions", lambda x: any(y["description"] for y in _tools(x))),
    _Fact("calls", "tool_names", lambda x: x["tool_calls"] is not None),
    _Fact(
        "arguments",
        "tool_arguments",
        lambda x: all(y["arguments"] is not None for y in _calls(x)),
        _calls,
    ),
    _Fact(
        "results",
        "tool_results",
        lambda x: all(y["returned"] or y["error"] is not None for y in _calls(x)),
        _calls,
    ),
    _Fact("session", "session", lambda x: x["session_id"] is not None),
    _Fact("user", "user", lambda x: x["user_id"] is not None),
    _Fact("agent", "agent", lambda x: x["agent_name"] is not None),
    _Fact("tokens", "tokens", lambda x: x["usage"]["input_tokens"] is not None),
)


@dataclass(frozen=True, slots=True)
class _Case:
    """A golden case, and what its recording.toml says of it, if it is one of our own
    conversation.
    """

    folder: Path
    truth: dict[str, Any] | None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def source(self) -> str:
        return " ".join((self.folder / "SOURCE").read_text(encoding="utf-8").split())

    @property
    def traces(self) -> list[_Trace]:
        found: list[_Trace] = json.loads(
            (self.folder / "expected.json").read_text(encoding="utf-8")
        )
        return found

    @property
    def scopes(self) -> str:
        """Names and versions of the instrumentations that wrote the spans."""
        scopes = {x.scope for x in files.load(sorted(self.folder.glob("traces.pb.gz"))).spans}
        return ", ".join(sorted(f"{x.name} {x.version}".strip() for x in scopes if x.version))

    def reasons(self) -> Iterator[tuple[str, str]]:
        """(fact, why it is missing or differs)."""
        for table in ("not_recorded", "differs"):
            yield from ((self.truth or {}).get(table, {})).items()

    def holds(self, fact: _Fact) -> str:
        """What the cell of this case and fact says; of our own conversation, what the tests have
        checked.
        """
        truth = self.truth or {}
        if fact.name in truth.get("not_recorded", {}):
            return _NO
        if fact.name in truth.get("differs", {}):
            return _PARTLY
        asked = [x for x in self.traces if fact.could(x)]
        has = sum(map(fact.has, asked))
        if asked and has == len(asked):
            return _YES
        return _PARTLY if has else _NO


def page() -> str:
    """The whole page."""
    cases = {x.name: _cases(x) for x in all_dialects()}
    lines = [_INTRODUCTION, *_table(cases), ""]
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    for dialect in all_dialects():
        lines += [*_section(dialect, cases[dialect.name], limits.get(dialect.name, [])), ""]
    return "\n".join(lines)


def _cases(dialect: Dialect) -> list[_Case]:
    truths = _truths()
    folders = sorted(x.parent for x in (GOLDEN / dialect.name).glob("*/expected.json"))
    return [_Case(x, truths.get((dialect.name, x.name))) for x in folders]


def _truths() -> dict[tuple[str, str], dict[str, Any]]:
    """(dialect, case) -> what recording.toml says of it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted((ROOT / "tests/recording/frameworks").glob("*/recording.toml")):
        recording = tomllib.loads(path.read_text(encoding="utf-8"))
        found |= {(recording["dialect"], x["name"]): x.get("truth", {}) for x in recording["case"]}
    return found


def _table(cases: dict[str, list[_Case]]) -> Iterator[str]:
    yield f"| dialect | case | {' | '.join(x.heading for x in _FACTS)} |"
    yield f"|---|---|{'---|' * len(_FACTS)}"
    for dialect, some in cases.items():
        for case in some:
            cells = " | ".join(case.holds(x) for x in _FACTS)
            yield f"| `{dialect}` | {case.name} | {cells} |"


def _described(dialect: Dialect) -> str:
    """The paragraph of its module that begins with the dialect's name; without one, all others."""
    doc = inspect.cleandoc(sys.modules[dialect.read.__module__].__doc__ or "")
    paragraphs, start = doc.split("\n\n"), f"`{dialect.name}`: "
    own = next((x.removeprefix(start) for x in paragraphs if x.startswith(start)), "")
    return textwrap.fill(own, 100, break_on_hyphens=False) or "\n\n".join(
        x for x in paragraphs if not x.startswith("`")
    )


def _section(dialect: Dialect, cases: list[_Case], limits: list[str]) -> Iterator[str]:
    yield f"## {dialect.name}"
    yield ""
    yield _described(dialect)
    yield ""
    yield f"Its spans: {'; or '.join(_recognised(dialect))}."
    yield ""
    for switch in dialect.content:
        place = f" (scope `{switch.scope}…`)" if switch.scope else ""
        yield f"To record content{place}: {switch.how}."
        yield ""
    if cases:
        yield "| case | from | versions |"
        yield "|---|---|---|"
    for case in cases:
        yield f"| {case.name} | {' | '.join(_origin(case))} |"
    missing = [*limits, *(y for x in cases for y in _missing(x))]
    if missing:
        yield ""
        yield "What it does not record, or changes:"
        yield ""
        yield from (f"- {x}" for x in missing)


def _missing(case: _Case) -> Iterator[str]:
    """What the set-up does not record or changes, with the reasons, on one line."""
    facts: dict[str, list[str]] = {}
    for fact, reason in case.reasons():
        facts.setdefault(reason, []).append(_WORDS.get(fact, fact.replace("_", " ")))
    if facts:
        groups = [f"{', '.join(named)} ({reason})" for reason, named in facts.items()]
        yield f"`{case.name}`: {'; '.join(groups)}"


def _recognised(dialect: Dialect) -> Iterator[str]:
    claimed = (x.scopes for x in own_quirks() if x.claims_scopes and x.under == dialect.name)
    if scopes := (*dialect.scopes, *itertools.chain.from_iterable(claimed)):
        yield f"instrumentation scope {_either(scopes)}"
    if dialect.keys:
        yield f"attribute {_either(dialect.keys)}"
    if dialect.matches is not None:
        sentence = inspect.getdoc(dialect.matches) or "what the span looks like"
        sentence = re.sub(
            r"^Whether (?:a|the) span ", "", sentence.split(".\n")[0].split("\n\n")[0].rstrip(".")
        )
        yield " ".join(sentence.split())


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(f"`{x}`" for x in names)


def _origin(case: _Case) -> tuple[str, str]:
    """What a case shows, and versions: those that its SOURCE names, else those that its spans
    do.
    """
    source = case.source
    if source.startswith("Written by hand"):
        return "written by hand", ""
    by_us = re.match(
        r"Recorded by tests/recording .*? on ([0-9-]+): (.*?)\. Versions: (.*?)\.(?= [A-Z])", source
    )
    if by_us:
        return f"recorded {by_us.group(1)}: {by_us.group(2)}", by_us.group(3)
    by_running = re.match(r"Recorded by running (.*?)\.(?= [A-Z])", source)
    return f"recorded: {by_running.group(1) if by_running else source}", case.scopes
