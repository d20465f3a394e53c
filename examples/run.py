"""Runs one of the examples in an environment of its own, which is made once, in a cache.

    python examples/run.py langgraph
    python examples/run.py vercel_ai "Where is my order SO-77?"

Exits with 3 where the environment cannot be made here: no package registry answers, or there is no
Node.js.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parent
CANNOT_BE_MADE = 3
_SCRIPT = "agent.py"


def examples() -> list[str]:
    """The names of all examples that are programs."""
    return sorted(path.parent.name for path in HERE.glob("*/agent.*"))


def cache() -> Path:
    """The folder of the environments."""
    base = os.environ.get("SPANSCORE_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME", "~/.cache"), "spanscore"
    )
    return Path(base).expanduser() / "examples"


def environment(name: str) -> Path:
    """The folder in which what the example needs is installed, beside the package of this checkout.

    Raises CalledProcessError where it cannot be.
    """
    needed = [
        path
        for path in (HERE / name / "requirements.txt", HERE / name / "package-lock.json")
        if path.exists()
    ]
    digest = hashlib.sha256(f"{sys.version_info[:2]} {CHECKOUT.resolve()}".encode())
    for path in (CHECKOUT / "pyproject.toml", *needed):
        digest.update(path.read_bytes())
    folder = cache() / f"{name}-{digest.hexdigest()[:16]}"
    if not (folder / "installed").exists():
        print(f"installing what {name} needs, once, into {folder}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _install_node(name, folder) if _is_node(name) else _install_python(name, folder)
        (folder / "installed").touch()
    return folder


def _is_node(name: str) -> bool:
    return (HERE / name / "package.json").exists()


def _install_python(name: str, folder: Path) -> None:
    requirements = HERE / name / "requirements.txt"
    given = ["-r", requirements] if requirements.exists() else []
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    uv = Path(sys.executable).with_name("uv")  # which is quicker, where there is one
    pip = [uv, "pip", "install", "--python", folder / "bin/python"]
    if not uv.exists():
        pip = [folder / "bin/python", "-m", "pip", "install", "--disable-pip-version-check"]
    subprocess.run([*pip, "-q", *given, "-e", CHECKOUT], check=True)


def _install_node(name: str, folder: Path) -> None:
    for file in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name / file, folder)
    try:
        subprocess.run(["npm", "ci", "--silent"], cwd=folder, check=True)  # noqa: S607 - whichever npm is on the path
    except FileNotFoundError:
        raise subprocess.CalledProcessError(CANNOT_BE_MADE, "npm") from None


def command(name: str, folder: Path) -> list[str]:
    """What runs the example with what is installed in `folder`."""
    if not _is_node(name):
        return [str(folder / "bin/python"), str(HERE / name / _SCRIPT)]
    (folder / "agent.ts").write_bytes((HERE / name / "agent.ts").read_bytes())
    checks = ("arguments_match_schema", "arguments_grounded")
    metrics = [word for check in checks for word in ("--metric", f"check.{check}")]
    served = [
        sys.executable,
        str(HERE / "model_server.py"),
        "--",
        str(folder / "node_modules/.bin/tsx"),
    ]
    return [
        str(Path(sys.executable).with_name("spanscore")),
        "run",
        *metrics,
        "--",
        *served,
        str(folder / "agent.ts"),
    ]


def main() -> int:
    """Run the example that is named. Returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=examples(), help="which example")
    parser.add_argument(
        "question", nargs="*", help="what to ask its agent; by default a question of its own"
    )
    args = parser.parse_args()
    try:
        folder = environment(args.name)
    except subprocess.CalledProcessError as error:
        print(f"{args.name}: what it needs could not be installed: {error}", file=sys.stderr)
        return CANNOT_BE_MADE
    return subprocess.run([*command(args.name, folder), *args.question], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
