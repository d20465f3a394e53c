"""`spanscore` by a clock that a test sets: `python clocked.py serve -c FILE`; the file `clock`
beside FILE is its face.

In the file are the time it shows and, where it runs, the real time at which it showed that, both in
Unix nanoseconds.
"""

import sys
import time
from pathlib import Path

from spanscore.cli.main import main
from spanscore.serving.pipeline import Pipeline


def clock(face):
    """A clock whose face is the file `face`."""

    def now_ns():
        shown_ns, *since_ns = map(int, face.read_text().split())
        return shown_ns + (time.time_ns() - since_ns[0] if since_ns else 0)

    return now_ns


if __name__ == "__main__":
    Pipeline.__init__.__kwdefaults__["clock_ns"] = clock(Path(sys.argv[-1]).with_name("clock"))
    sys.exit(main())
