"""Run tests on each supported Python, with the oldest and with the newest dependencies (network).

    python tests/versions.py [--python VERSION]... [--dependencies oldest|newest] [TESTS ...]

A Python that is not on the PATH is fetched by uv. Each combination has an environment of its own in
.venv/versions, which the next run brings up to date. The newest dependencies are what a registry
has now, not the locked ones. The oldest are the lower bounds in pyproject.toml, or the first
versions above them that have a wheel for that Python; they are resolved without the extra `server`,
which needs newer versions than the lower bounds. A table at the end has a line for each
combination. The exit code is 1 where tests failed or could not be run.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
ENVIRONMENTS = ROOT / ".venv/versions"
PYTHONS = ("3.11", "3.12", "3.13")
TESTS = tuple(
    f"tests/{x}"
    for x in (
        "turns",
        "assemble",
        "dialects",
        "metrics",
        "evaluation",
        "stats",
        "otlp",
        "received_scores",
    )
)
"""Tests that need no server: what differs between versions is found in them, in a few minutes
each.
"""

EXTRAS = {
    "oldest": ("judge", "objects", "local"),
    "newest": ("judge", "objects", "local", "server"),
}


@dataclass(frozen=True, slots=True)
class Combination:
    """A version of Python and `oldest` or `newest` dependencies."""

    python: str
    dependencies: str

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / f"{self.python}-{self.dependencies}"

    @property
    def program(self) -> Path:
        return self.folder / "bin/python"

    def installing(self) -> Iterator[list[str]]:
        """The arguments of uv, one list for each of its runs, that bring the environment up to
        date.
        """
        lowest, resolved = self.folder / "lowest.txt", self.folder / "resolved.txt"
        compiling = [
            "pip",
            "compile",
            "--python",
            str(self.program),
            "--only-binary",
            ":all:",
            "--upgrade",
        ]
        compiling += [word for x in EXTRAS[self.dependencies] for word in ("--extra", x)]
        constraint: list[str] = []
        yield ["venv", "--allow-existing", "--python", self.python, str(self.folder)]
        if self.dependencies == "oldest":
            yield [*compiling, "--resolution", "lowest-direct", "pyproject.toml", "-o", str(lowest)]
            constraint = ["-c", str(lowest)]
        # The tests' own tools are the newest that go with these.
        yield [*compiling, *constraint, "--group", "dev", "pyproject.toml", "-o", str(resolved)]
        yield ["pip", "sync", "--python", str(self.program), str(resolved)]
        yield [
            "pip",
            "install",
            "--python",
            str(self.program),
            "--no-deps",
            "--no-build-isolation",
            "-e",
            ".",
        ]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a combination, in one line; `passed` is None where its tests could not be
    run.
    """

    combination: Combination
    passed: bool | None
    line: str


def try_out(combination: Combination, tests: Sequence[str]) -> Result:
    """Install the combination and run the tests in it, whose output is printed."""
    for words in combination.installing():
        done = subprocess.run(
            [UV, "-q", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        if done.returncode:
            return Result(combination, None, f"`uv {' '.join(words[:2])}`: {reason(done.stderr)}")
    command = [combination.program, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment()
    ) as running:
        assert running.stdout is not None
        lines = []
        for line in running.stdout:
            sys.stdout.write(line)
            lines.append(line)
    return Result(combination, running.returncode == 0, outcome(lines, running.returncode))


def environment() -> dict[str, str]:
    """The variables of this process, without those that name another environment."""
    return {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("VIRTUAL_ENV", "PYTHON", "PYTEST_"))
    }


def reason(stderr: str) -> str:
    """What uv says is wrong, in one line and without what it draws.

    >>> reason("  x No solution found:\\n  |-> a needs\\n      b>2\\n".replace("x", "\\u00d7"))
    'No solution found: a needs b>2'
    """
    message = " ".join(re.sub(r"^\W+", "", x) for x in stderr.splitlines())
    return textwrap.shorten(message, 200) or "it failed without a message"


def outcome(lines: Sequence[str], code: int) -> str:
    """The last line of pytest that counts tests, or its exit code where it ended before.

    >>> outcome(["...F [100%]", "FAILED tests/a.py::test_b", "1 failed, 3 passed in 2.10s", ""], 1)
    '1 failed, 3 passed'
    """
    counts = (
        re.search(r"(\d+ (?:failed|passed|error|skipped).*?) in \d", x) for x in reversed(lines)
    )
    return next(
        (x[1] for x in counts if x), f"pytest ended with exit code {code} before it counted"
    )


def table(results: Sequence[Result]) -> Iterator[str]:
    """A line for each combination, in columns."""
    yield "Python  dependencies  result"
    words = {True: "passed", False: "failed", None: "not run"}
    for x in results:
        yield (
            f"{x.combination.python:<8}{x.combination.dependencies:<14}{words[x.passed]}: {x.line}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", default=TESTS, help=f"without any: {' '.join(TESTS)}")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="without any: all")
    parser.add_argument("--dependencies", action="append", choices=EXTRAS, help="without any: both")
    options = parser.parse_args()
    chosen = itertools.product(options.python or PYTHONS, options.dependencies or EXTRAS)
    results = []
    for combination in itertools.starmap(Combination, chosen):
        sys.stdout.write(
            f"== Python {combination.python}, {combination.dependencies} dependencies\n"
        )
        sys.stdout.flush()
        results.append(try_out(combination, options.tests))
    sys.stdout.writelines(f"{x}\n" for x in ("", *table(results)))
    return int(not all(x.passed for x in results))


if __name__ == "__main__":
    sys.exit(main())
