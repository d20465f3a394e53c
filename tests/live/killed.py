"""`spanscore` that is killed at a point: `python killed.py serve -c FILE`, where the file `kill`
beside FILE names it.

It contains `MODULE CLASS METHOD before`, or `after`: the process ends when the method is called, or
has done its work. The file is removed first, so that the next process goes on.
"""

import functools
import importlib
import inspect
import os
import signal
import sys
from pathlib import Path

from spanscore.cli.main import main


def end():
    os.kill(os.getpid(), signal.SIGKILL)


def have_it_end(point):
    module, kind, method, when = point.read_text().split()
    owner = getattr(importlib.import_module(module), kind)
    original = getattr(owner, method)

    def begin():
        point.unlink()
        if when == "before":
            end()

    @functools.wraps(original)
    def call(*arguments, **options):
        begin()
        found = original(*arguments, **options)
        end()
        return found

    @functools.wraps(original)
    async def call_async(*arguments, **options):
        begin()
        found = await original(*arguments, **options)
        end()
        return found

    setattr(owner, method, call_async if inspect.iscoroutinefunction(original) else call)


if __name__ == "__main__":
    if (named := Path(sys.argv[-1]).with_name("kill")).exists():
        have_it_end(named)
    sys.exit(main())
