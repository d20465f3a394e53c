"""Programs and services that some tests need: whether each is here, and how to get it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
CANNOT_BE_BUILT = 3
"""The exit code of a build script without its compiler or the modules that it builds from."""


def browser() -> str | None:
    """Chromium, and the package that drives it."""
    from harness import browser as chromium
    from harness.installed import packages

    from spanscore.errors import SpanscoreError

    try:
        chromium.chromium()
        packages("playwright")
    except SpanscoreError as error:
        return str(error)
    return None


def cluster() -> str | None:
    """Toxiproxy, built once into a cache."""
    return _built("live/cluster/build/build.sh")


def collector() -> str | None:
    """The OpenTelemetry Collector, built once into a cache."""
    return _built("live/collector/build/build.sh")


def compose() -> str | None:
    """The reference parser of compose files, built once into a cache."""
    return _built("deploy/build.sh")


def container() -> str | None:
    """Podman, and what it builds images on where no container registry can be reached."""
    return _built("deploy/base.sh") or registry()


def helm() -> str | None:
    """Helm, built once into a cache, and the schemas of Kubernetes."""
    from harness.installed import packages

    from spanscore.errors import SpanscoreError

    try:
        packages("kubernetes-validate")
    except SpanscoreError as error:
        return str(error)
    return _built("deploy/build.sh")


def kafka() -> str | None:
    """Apache Kafka, downloaded once into a cache, and the Java that it runs on."""
    import broker

    try:
        broker.jars()
    except broker.NotInstalledError as error:
        return str(error)
    return None


def openapi() -> str | None:
    """What makes the API's document, built once into a cache, and protoc."""
    if not (ROOT / ".venv/protoc").exists():
        return "no protoc in .venv/protoc: make proto-check"
    return _built("../proto/openapi/build.sh")


def _built(script: str) -> str | None:
    built = subprocess.run([TESTS / script], capture_output=True, text=True, check=False)
    if built.returncode == CANNOT_BE_BUILT:
        return built.stderr.strip()
    built.check_returncode()
    return None


def postgresql() -> str | None:
    """The programs of PostgreSQL, and a user for them who is not root."""
    import postgresql_server

    try:
        postgresql_server.binaries()
        postgresql_server.unprivileged()
    except postgresql_server.NotInstalledError as error:
        return str(error)
    return None


def registry() -> str | None:
    """A registry of Python packages that answers."""
    uv = Path(sys.executable).with_name("uv")
    asked = ["pip", "install", "-q", "--dry-run", "--refresh-package", "six", "--python"]
    if subprocess.run(
        [uv, *asked, sys.executable, "six"], capture_output=True, check=False
    ).returncode:
        return (
            "no package registry answers: set UV_INDEX_URL or PIP_INDEX_URL, or see to the network"
        )
    return None


def systemd() -> str | None:
    """What looks at units."""
    return None if shutil.which("systemd-analyze") else "no systemd-analyze: apt install systemd"


def site() -> str | None:
    """The documentation's site."""
    if not (ROOT / "out/site/index.html").exists():
        return "no site in out/site: make site"
    return None


NEEDED: dict[str, Callable[[], str | None]] = {
    "browser": browser,
    "cluster": cluster,
    "collector": collector,
    "compose": compose,
    "container": container,
    "examples": registry,
    "helm": helm,
    "kafka": kafka,
    "openapi": openapi,
    "packaging": registry,
    "postgresql": postgresql,
    "schemathesis": registry,
    "site": site,
    "systemd": systemd,
    "ui": registry,
}
"""By marker: gives why its tests cannot run here and what to do, or None."""


@cache
def lacking(marker: str) -> str | None:
    """Why tests with this marker cannot run here, found out once."""
    return NEEDED[marker]()
