"""Start processes as forks of one that has imported all a server needs: that costs each second of
CPU once.

Run as a program it is that process. It reads requests as JSON lines and answers each with a number:
the process id of what it started, or the exit code of what has ended. It ends with its input, and
all that it started with it.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import threading

MODULES = (
    "spanscore.cli.serve",
    "spanscore.config",
    "spanscore.serving.pipeline",
    "spanscore.api.server",
    "spanscore.export.otlp_json_file",
    "spanscore.receive.connections",
    "numpy",
)
"""Whatever is missing here is imported by each process for itself."""


class Forked:
    """A process that was forked, as `subprocess.Popen` shows one."""

    def __init__(self, mould, pid):
        self.pid = pid
        self.returncode = None
        self._mould = mould
        self._ended = os.pidfd_open(pid)

    def poll(self):
        return self._reaped(0)

    def wait(self, timeout=None):
        if self._reaped(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def terminate(self):
        self._send(signal.SIGTERM)

    def kill(self):
        self._send(signal.SIGKILL)

    def _send(self, number):
        if self.returncode is None:
            os.kill(self.pid, number)

    def _reaped(self, timeout_s):
        if self.returncode is None and select.select([self._ended], [], [], timeout_s)[0]:
            self.returncode = self._mould.ask(reap=self.pid)
            os.close(self._ended)
        return self.returncode


class Mould:
    """The process that others are forked from; it is started when the first is asked for."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process = None

    def start(self, program, arguments, environment, out, err, *, is_judged=False):
        """Fork a process that runs `program`, or `spanscore` where it is None, and writes into
        the files `out` and `err`; litellm is imported for those that ask a judge's model.
        """
        pid = self.ask(
            program=program,
            is_judged=is_judged,
            arguments=arguments,
            environment=environment,
            out=str(out),
            err=str(err),
        )
        return Forked(self, pid)

    def ask(self, **request):
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C ends the tests, which end it
                )
                atexit.register(self._end)
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def _end(self):
        self._process.stdin.close()
        self._process.wait()


MOULD = Mould()


def _serve():
    """Answer requests; returns, in a process that was forked, what it has to run."""
    for name in MODULES:
        importlib.import_module(name)
    importlib.import_module("spanscore.workers.answers").import_readers()
    load_litellm = importlib.import_module("spanscore.lazy_imports").load_litellm
    running = set()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "reap" in request:
            running.discard(request["reap"])
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            if request["is_judged"]:
                load_litellm()
            gc.freeze()
            answer = os.fork()
            if not answer:
                return request
            running.add(answer)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def _become(request):
    """Be the process that is asked for."""
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, request["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    of_litellm = {k: v for k, v in os.environ.items() if k.startswith("LITELLM_")}
    os.environ.clear()
    os.environ.update(of_litellm | request["environment"])
    sys.argv = [request["program"] or "spanscore", *request["arguments"]]
    if request["program"]:
        runpy.run_path(request["program"], run_name="__main__")
    else:
        from spanscore.cli.main import main

        sys.exit(main())


if __name__ == "__main__":
    if (_wanted := _serve()) is not None:
        _become(_wanted)
