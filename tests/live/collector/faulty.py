"""`spanscore` with faults that pass: `python faulty.py serve -c FILE`; the file `fault` beside FILE
names the one now.

`intake`: what takes requests over fails as nobody foresaw. `tokens`: the tokens cannot be told.
Nothing: none.
"""

import sys
from pathlib import Path

from spanscore.cli.main import main
from spanscore.receive.auth import BearerTokens
from spanscore.serving.pipeline import Pipeline

FAULT = Path(sys.argv[-1]).with_name("fault")


def failing(word, method, error):
    """`method`, which raises `error` while the file has this word."""

    def call(*args, **kwargs):
        if FAULT.exists() and FAULT.read_text() == word:
            raise error
        return method(*args, **kwargs)

    return call


Pipeline.accept = failing("intake", Pipeline.accept, ZeroDivisionError("nobody foresaw this"))
BearerTokens._read = failing("tokens", BearerTokens._read, MemoryError())
BearerTokens.check = failing(
    "check", BearerTokens.check, ConnectionError("the authenticator is away")
)

if __name__ == "__main__":
    sys.exit(main())
