"""A PostgreSQL of the tests' own, on loopback and in a temporary folder, by the binaries that are
installed here.

As a program: exits with 0 where it can be started, or with 3 and a line that says why not.
"""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

_USER = "spanscore"
# Debian's, a folder a version, which it does not put on the PATH
_INSTALLED = Path("/usr/lib/postgresql")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # the database ends with the tests
    "shared_buffers": "32MB",
    "max_connections": "200",
}


class NotInstalledError(Exception):
    """There is no PostgreSQL that could be started here; the message says what is missing."""


class Server:
    """A server that runs until `stop`."""

    def __init__(self) -> None:
        """Start it.

        Raises NotInstalledError, or CalledProcessError where PostgreSQL does not start.
        """
        self._bin = binaries()
        self._as_user = unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="spanscore-postgresql-"))
        if self._as_user:
            os.chown(self._folder, self._as_user["user"], self._as_user["group"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            _USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        )
        self.start()

    def create(self) -> str:
        """Make a schema of its own for a test, sooner than a database, and return the store URL
        that leads there.
        """
        import psycopg

        name = f"test_{uuid.uuid4().hex}"
        address = f"{_USER}@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(f"postgresql://{address}") as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"postgresql+psycopg://{address}?options=-csearch_path%3D{name}"

    def start(self) -> None:
        """Start it on its port, and wait until it takes connections."""
        settings = " ".join(f"-c {name}='{value}'" for name, value in _SETTINGS.items())
        try:
            self._run(
                "pg_ctl",
                "start",
                "-w",
                "-s",
                "-D",
                self._data,
                "-l",
                self.log,
                "-o",
                f"-p {self.port} {settings}",
            )
        except subprocess.CalledProcessError:
            sys.stderr.write(self.log.read_text() if self.log.exists() else "")
            raise

    @property
    def log(self) -> Path:
        """What it writes about itself."""
        return self._folder / "log"

    @property
    def pid(self) -> int:
        """The process that all others of the server are children of."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def crash(self) -> None:
        """Stop it at once, as a crash does: the next start recovers what was committed."""
        self._end("immediate")

    def shut_down(self) -> None:
        """Stop it in order, closing all connections, as for an upgrade."""
        self._end("fast")

    def _end(self, mode) -> None:
        self._run("pg_ctl", "stop", "-w", "-s", "-D", self._data, "-m", mode)

    def stop(self) -> None:
        """Stop it and remove all that it has written."""
        self.crash()
        shutil.rmtree(self._folder)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program, *arguments) -> None:
        command = [self._bin / program, *arguments]
        environment = {**os.environ, "LC_ALL": "C"}
        subprocess.run(
            command,
            check=True,
            cwd=self._folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            **self._as_user,
        )


def binaries() -> Path:
    """The folder of the programs, the newest version first. Raises NotInstalledError."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = [
        x for x in _INSTALLED.glob("*/bin") if (x / "initdb").exists() and x.parent.name.isdigit()
    ]
    if not versions:
        raise NotInstalledError(
            f"no initdb on the PATH or in {_INSTALLED}; install PostgreSQL (Debian: postgresql)"
        )
    return max(versions, key=lambda x: int(x.parent.name))


def unprivileged() -> dict:
    """How a program is run as another user than root, whom PostgreSQL refuses.

    Raises NotInstalledError.
    """
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise NotInstalledError(
        "PostgreSQL refuses root, and there is neither a user postgres nor nobody"
    )


if __name__ == "__main__":
    try:
        binaries()
        unprivileged()
    except NotInstalledError as error:
        sys.stderr.write(f"PostgreSQL cannot be started here: {error}\n")
        sys.exit(3)
