"""Which traces a search for failing ones has to find."""

from collections.abc import Iterator

from harness.line import Run
from spanscore.api.v1.score_pb2 import STATUS_FAILED, STATUS_SKIPPED, Score

FAIL = ("gen_ai.evaluation.score.label", "fail")
"""The attribute of an evaluation span that such a search asks for."""


def evaluated(run: Run) -> Iterator[Score]:
    """Everything that has an evaluation span of its own: what failed, or could not be measured."""
    found = (x for scores in run.scores.values() for x in scores)
    return (
        x
        for x in found
        if x.label == FAIL[1]
        or x.status == STATUS_FAILED
        or (x.status == STATUS_SKIPPED and x.skip_cause == "no_signals")
    )


def failing(run: Run) -> set[str]:
    """The ids of the traces with a score below its threshold; a session's is on its last trace."""
    return {x.trace_id for x in evaluated(run) if x.label == FAIL[1]}
