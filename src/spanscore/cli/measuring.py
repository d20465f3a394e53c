"""Scores that a command needs and that nobody has given: made now, and ended early by Ctrl-C where
that is of use.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import NamedTuple

from spanscore.cli import unscored
from spanscore.cli.score_stream import Display
from spanscore.config import Settings
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.offline import OfflineScoring
from spanscore.offline.summary import counted

INTERRUPTED = 130
"""The exit code where Ctrl-C ended a command, also where it gave what was done by then."""


class Measured(NamedTuple):
    """Scores, and whether they are all: with False, Ctrl-C ended the run before."""

    evaluations: list[Evaluation]
    is_complete: bool


def measured(
    settings: Settings,
    traces: Sequence[AgentTrace],
    *,
    metrics: Sequence[str] | None,
    model: str | None,
    threshold: float | None = None,
    keeps_part: bool = False,
) -> Measured:
    """The scores of `traces`; what could not be scored is printed on standard error.

    Arguments as `OfflineScoring`'s.

    `keeps_part`: the first Ctrl-C gives what is finished; without it, it ends the command.
    """
    scoring = OfflineScoring.prepared(settings, metrics=metrics, model=model, threshold=threshold)

    async def collect() -> list[Evaluation]:
        found: list[Evaluation] = []
        if keeps_part:
            stop_on_interrupt(scoring.stop)
        with Display(silent=True) as display:
            async for one in scoring.run([traces]):
                display.print(one)
                found += one.evaluations
        return found

    evaluations = asyncio.run(collect())
    unscored.print_unscored(counted(evaluations))
    return Measured(evaluations, not scoring.is_stopped)


def stop_on_interrupt(*stops: Callable[[], None]) -> None:
    """Have the first Ctrl-C call these within the running event loop, and the next one end the
    program at once.
    """
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        for each in stops:
            each()

    loop.add_signal_handler(signal.SIGINT, stop)
