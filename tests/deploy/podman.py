"""Podman with a storage of its own, and the image that it builds."""

import json
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFINED = ["--network=none", "--read-only", "--read-only-tmpfs=false", "--cap-drop=all"]
CONFINED += ["--security-opt=no-new-privileges", "--health-interval=disable"]
LIMITS = ["--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]
"""Podman's own may be above what this user may set."""
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"
DEADLINE_S = 60


class Podman:
    """Images and containers in one folder."""

    def __init__(self, folder):
        roots = [f"--root={folder}/storage", f"--runroot={folder}/run", f"--tmpdir={folder}/state"]
        self._command = ["podman", *roots, "--runtime=runc", "--cgroup-manager=cgroupfs"]
        self._command += ["--events-backend=file"]

    def __call__(self, *words, check=True):
        """What the command printed."""
        done = subprocess.run(
            [*self._command, *words], capture_output=True, text=True, check=False, timeout=500
        )
        assert not check or done.returncode == 0, f"{words}: {done.stderr[-4000:]}"
        return done.stdout if check else done

    def build(self):
        """Build the image `spanscore` upon Debian's packages."""
        base = subprocess.check_output([ROOT / "tests/deploy/base.sh"], text=True).strip()
        certificates = [f"--change=ENV={x}={TRUSTED}" for x in ("SSL_CERT_FILE", "PIP_CERT")]
        self("import", *certificates, base, "localhost/base")
        options = ["--isolation=chroot", "--format=docker", "--layers=false", "--pull=never"]
        self(
            "build",
            *options,
            "--build-arg=BASE=localhost/base",
            "--file=deploy/Containerfile",
            "--tag=spanscore",
            str(ROOT),
        )

    def run(self, name, *options):
        """Start a container of it, which may do next to nothing, and wait until it is well."""
        self("run", "--detach", f"--name={name}", *CONFINED, *LIMITS, *options, "spanscore")
        deadline_s = time.monotonic() + DEADLINE_S
        while (asked := self("healthcheck", "run", name, check=False)).returncode:
            assert time.monotonic() < deadline_s, asked.stderr + self("logs", name)
            time.sleep(0.5)

    def inspect(self, kind, name):
        return json.loads(self(kind, "inspect", name))[0]

    def end(self):
        self("rm", "--all", "--force", "--time=1")
        self("volume", "rm", "--all", "--force")
        self("rmi", "--all", "--force")
