"""What a framework's recording.toml says: how it is run, and what its set-up is known not to
record.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from script import Options

HERE = Path(__file__).parent
FRAMEWORKS = HERE / "frameworks"
GOLDEN = HERE.parent / "golden"


@dataclass(frozen=True, slots=True)
class Truth:
    """How a case's agent traces may differ from the conversation; the table `[case.truth]`."""

    not_recorded: dict[str, str] = field(default_factory=dict)
    """Fact -> why the set-up does not record it; the rebuilt fact is then null, never something
    else.
    """
    differs: dict[str, str] = field(default_factory=dict)
    """Fact -> why it is recorded otherwise than it was said, so that it cannot be held against the
    conversation.
    """
    tool_prefix: str = ""
    """What the framework puts before the tools' names."""
    own_sessions: bool = False
    """Whether the framework makes up session ids: then only who shares one is checked."""
    agent_traces: int = 0
    """How many agent traces there should be, where not one a turn."""


@dataclass(frozen=True, slots=True)
class Case:
    """One recording of a framework."""

    name: str
    shows: str
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    truth: Truth = field(default_factory=Truth)


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, or a set-up of one, and its cases."""

    folder: Path
    runtime: str
    """`python` (requirements.txt, perhaps `python_version`), `node` (package.json and its lock) or
    `java` (pom.xml).
    """
    command: tuple[str, ...]
    versions: tuple[str, ...]
    """The packages whose versions are worth naming."""
    dialect: str
    cases: tuple[Case, ...]
    python_version: str = "3.11"
    conversation: str = "shop"
    protocol: str = "http/protobuf"
    environment: dict[str, str] = field(default_factory=dict)
    model: Options = field(default_factory=Options)
    rewrite: str = ""
    """A file of the folder with `rewrite(answer, body)`, where the prompt asks for a form of its
    own.
    """
    leaves_out: tuple[str, ...] = ()
    """Attributes that are left out of the recording, since they hold a text that is not ours to
    give away.
    """
    scripts_of: str = ""
    """The framework whose scripts are run, where this is only another set-up or version of it."""
    exclude_newer: str = ""
    """A day, as 2025-12-01: nothing that was published after it is installed."""
    timeout_s: int = 300

    @property
    def name(self) -> str:
        return self.folder.name

    def golden(self, case: Case) -> Path:
        return GOLDEN / self.dialect / case.name


def frameworks() -> Iterator[Framework]:
    """All frameworks, by name. Raises TypeError on a key that does not exist."""
    for path in sorted(FRAMEWORKS.glob("*/recording.toml")):
        yield _framework(path)


def _framework(path: Path) -> Framework:
    said: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    cases = tuple(_case(x) for x in said.pop("case"))
    model = Options(**said.pop("model", {}))
    lists = {key: tuple(said.pop(key, ())) for key in ("command", "versions", "leaves_out")}
    return Framework(folder=path.parent, cases=cases, model=model, **lists, **said)


def _case(said: dict[str, Any]) -> Case:
    truth, command = Truth(**said.pop("truth", {})), tuple(said.pop("command", ()))
    return Case(command=command, truth=truth, **said)
