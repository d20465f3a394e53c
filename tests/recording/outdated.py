"""Lists which recordings are behind their framework's release, and which cannot be recorded again
(network).

python tests/recording/outdated.py [NAME ...]
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from described import FRAMEWORKS, GOLDEN, Framework, frameworks
from packaging.version import InvalidVersion, Version

_RECORDED = re.compile(r"Recorded by tests/recording .* on (\d{4}-\d\d-\d\d)")
_KEPT_OLD = "-version-"
"""In the name of a framework's folder: it is pinned to an old release on purpose."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A package of a recording and its newest release."""

    package: str
    recorded: str
    newest: str

    @property
    def by(self) -> str:
        """Which part of the version is behind: `major`, `minor` or `patch`; "" where it is the
        newest.

        >>> Behind("langgraph", "1.2.22", "1.4.0").by
        'minor'
        """
        try:
            old, new = Version(self.recorded), Version(self.newest)
        except InvalidVersion:
            return "" if self.recorded == self.newest else "major"
        if new <= old:
            return ""
        return "major" if old.major != new.major else "minor" if old.minor != new.minor else "patch"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="frameworks; without any, all that are not kept old on purpose"
    )
    names = parser.parse_args().names
    known = {x.name: x for x in frameworks()}
    if unknown := set(names) - set(known):
        parser.error(f"no such framework: {', '.join(sorted(unknown))}; `make record` lists them")
    chosen = [known[x] for x in names] or [x for x in known.values() if not kept_old(x)]
    newest = newest_versions(chosen)
    for framework in chosen:
        for line in describe(framework, newest):
            print(line)
    if not names:
        print("\n".join(summary(known.values())))
    return 0


def describe(framework: Framework, newest: Mapping[tuple[str, str], str]) -> Iterable[str]:
    """A line for each package that is behind, below a line with the framework and its command; none
    where none is.
    """
    pinned = pins(framework)
    packages = [Behind(x, pinned[x], newest.get((framework.runtime, x), pinned[x])) for x in pinned]
    late = [x for x in packages if x.by]
    if late:
        yield (
            f"{framework.name}, recorded {recorded_on(framework)}: make record"
            f" NAME={framework.name}"
        )
        yield from (f"  {x.by}: {x.package} {x.recorded} -> {x.newest}" for x in late)


def pins(framework: Framework) -> dict[str, str]:
    """The recorded version of each package whose version matters, of those that the framework's
    files pin.
    """
    if framework.runtime == "python":
        text = (framework.folder / "requirements.txt").read_text(encoding="utf-8")
        found = dict(re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)", text, re.MULTILINE))
    elif framework.runtime == "node":
        manifest = json.loads((framework.folder / "package.json").read_text(encoding="utf-8"))
        found = manifest["dependencies"]
    else:
        found = {}
    return {name: version for name, version in found.items() if name in framework.versions}


def newest_versions(chosen: Iterable[Framework]) -> dict[tuple[str, str], str]:
    """(runtime, package) -> its newest release, as the registries' own clients find it."""
    wanted = {(x.runtime, name) for x in chosen for name in pins(x)}
    python = sorted(name for runtime, name in wanted if runtime == "python")
    node = sorted(name for runtime, name in wanted if runtime == "node")
    found = {("python", name): version for name, version in _newest_of_pypi(python).items()}
    return found | {("node", name): _output(["npm", "view", name, "version"]) for name in node}


def _newest_of_pypi(names: list[str]) -> dict[str, str]:
    if not names:
        return {}
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    # OpenTelemetry's instrumentations have no other releases
    prereleases = ["--prerelease", "if-necessary"]
    command = [
        uv,
        "pip",
        "compile",
        "-q",
        "--no-deps",
        "--no-header",
        "--no-annotate",
        *prereleases,
        "-",
    ]
    found = dict(re.findall(r"^([\w.-]+)==(\S+)", _output(command, "\n".join(names)), re.MULTILINE))
    return {name: found[name.lower()] for name in names if name.lower() in found}


def recorded_on(framework: Framework) -> str:
    """The day of the oldest of a framework's recordings."""
    sources = [framework.golden(x) / "SOURCE" for x in framework.cases]
    days = [_RECORDED.match(x.read_text(encoding="utf-8")) for x in sources if x.exists()]
    return min((x[1] for x in days if x), default="never")


def kept_old(framework: Framework) -> bool:
    """Whether the framework is pinned to an old release on purpose."""
    return _KEPT_OLD in framework.name or bool(framework.exclude_newer)


def summary(known: Iterable[Framework]) -> Iterable[str]:
    """What is not compared, and why."""
    known = list(known)
    yield f"kept old on purpose: {', '.join(x.name for x in known if kept_old(x))}"
    java = [x.name for x in known if x.runtime == "java"]
    yield (
        f"not compared (run `mvn versions:display-dependency-updates` in {FRAMEWORKS.name}/NAME):"
        f" {', '.join(java)}"
    )
    recorded = {x.golden(case) for x in known for case in x.cases}
    others = sorted(
        x.parent.relative_to(GOLDEN).as_posix()
        for x in GOLDEN.glob("*/*/SOURCE")
        if x.parent not in recorded
    )
    yield f"cannot be recorded again, since no framework here gives them: {', '.join(others)}"


def _output(command: list[str], given: str | None = None) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, input=given
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
