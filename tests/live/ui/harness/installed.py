"""Tools in the versions that `locks/` pins, installed once into a cache outside the checkout."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spanscore.errors import SpanscoreError

HERE = Path(__file__).resolve().parent.parent
LOCKS = HERE / "locks"


def cache() -> Path:
    """The folder that everything is kept in: `$SPANSCORE_CACHE/ui`, or that of the user."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spanscore"
    return Path(os.environ.get("SPANSCORE_CACHE") or user).resolve() / "ui"


def environment(name: str, package: str) -> Path:
    """The `bin` folder of the tool's own Python environment, made where there is none for its lock.

    `package` is the one of `locks/NAME.txt` whose version names the folder.
    """

    def install(folder: Path) -> None:
        _uv("venv", "-q", "--python", sys.executable, str(folder))
        _uv("pip", "install", "-q", "--python", str(folder / "bin/python"), "-r", str(_lock(name)))

    return installed(f"{name}-{_version(name, package)}", _lock(name).read_bytes(), install) / "bin"


def packages(name: str) -> Path:
    """A folder to put on `sys.path`, with what `locks/NAME.txt` pins, for the Python that runs."""
    python = f"py{sys.version_info.major}{sys.version_info.minor}"

    def install(folder: Path) -> None:
        python_path = ("--python", sys.executable)
        _uv("pip", "install", "-q", *python_path, "--target", str(folder), "-r", str(_lock(name)))

    return installed(f"{name}-{_version(name, name)}-{python}", _lock(name).read_bytes(), install)


def installed(name: str, needs: bytes, install: Callable[[Path], None]) -> Path:
    """The folder `name` in the cache, filled by `install` where that was not done yet, or with
    other `needs`.

    Whoever comes while it is being filled waits.
    """
    folder, stamp = cache() / name, cache() / f"{name}.installed"
    cache().mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(needs).hexdigest()
    with _alone(cache() / f"{name}.lock"):
        if not stamp.exists() or stamp.read_text() != digest:
            print(
                f"installing {name} into {cache()}: some minutes, this first time",
                file=sys.stderr,
                flush=True,
            )
            stamp.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            try:
                install(folder)
            except subprocess.CalledProcessError as error:
                raise SpanscoreError(
                    f"{name} cannot be installed, see the lines above: {error}"
                ) from None
            stamp.write_text(digest)
    return folder


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _lock(name: str) -> Path:
    return LOCKS / f"{name}.txt"


def _version(name: str, package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", _lock(name).read_text(), re.MULTILINE)
    if found is None:
        raise SpanscoreError(f"{_lock(name)} does not pin {package}")
    return found[1]


def _uv(*arguments: str) -> None:
    beside = Path(sys.executable).parent
    uv = shutil.which("uv", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise SpanscoreError("uv is not there: run `make env`, or install it")
    subprocess.run([uv, *arguments], check=True)
