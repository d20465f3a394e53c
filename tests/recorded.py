"""The golden recordings that stand for all where what is tested depends on no dialect."""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"

KINDS = tuple(
    GOLDEN / name
    for name in (
        "claude_code/shop-raw",  # log records alone, which are read by their session
        "litellm/shop-gateway",  # an application and its gateway, of which both report the calls
        "openinference/langgraph",  # spans of a scope that is looked into before it is read
        "openllmetry/shop-js-langchain-runs",  # turns of which each run is a trace
        "pydantic_ai/desk-a2a",  # a turn in another agent's service
        "semconv/message-events",  # messages in log records of their spans
        "semconv/shop-spanscore-sdk",  # scores that others gave
        "spring_ai/shop-no-content",  # neither questions nor answers
        "spring_ai/shop-stream",  # traces that no dialect reads
    )
)
"""A recording of each kind of telemetry: of each way in which spans, log records and traces make up
a turn.
"""


def one_of_each_dialect() -> list[Path]:
    """The smallest recording of each dialect."""
    dialects = sorted({x.parents[1] for x in GOLDEN.glob("*/*/SOURCE")})
    return [min((x.parent for x in each.glob("*/SOURCE")), key=_size) for each in dialects]


def _size(case: Path) -> tuple[int, str]:
    return sum(x.stat().st_size for x in case.glob("*.pb.gz")), case.name
