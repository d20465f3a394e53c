"""Builds the distributions, and installs them into environments of their own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


def run(*words, cwd=None):
    """The output of a program that must succeed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHON"))}
    done = subprocess.run(
        [str(x) for x in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=900,
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]} {done.stderr[-4000:]}"
    return done.stdout


def build(kind, source, out):
    """The path of the one distribution of `kind` that hatchling builds from the folder `source`."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", out, cwd=source)
    (made,) = out.iterdir()
    return made


@dataclass(frozen=True)
class Environment:
    """A virtual environment of its own."""

    folder: Path

    def python(self, *words):
        return run(self.folder / "bin/python", *words, cwd=self.folder)

    def spanscore(self, *words):
        return run(self.folder / "bin/spanscore", *words, cwd=self.folder)

    def install_first(self, *requirements):
        """What an agent is installed with, by whatever tool is quickest."""
        run(UV, "pip", "install", "-q", "--python", self.folder / "bin/python", *requirements)

    def pip_install(self, *requirements):
        """As a user installs, into what is there already."""
        self.python("-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements)

    def packages(self):
        """Each package and its version."""
        lines = self.python(
            "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"
        ).split()
        return dict(line.split("==") for line in lines)

    def megabytes(self):
        (site,) = self.folder.glob("lib/*/site-packages")
        return sum(x.stat().st_size for x in site.rglob("*") if x.is_file()) / 1e6
