"""What a call that several metrics share costs each of them."""

from spanscore.errors import JudgeError
from spanscore.model.score import JudgeUsage


def spent_on(error: JudgeError) -> JudgeUsage:
    """What a call of the judge cost that ended in `error`."""
    return error.usage if isinstance(error.usage, JudgeUsage) else JudgeUsage()


def shares(usage: JudgeUsage, count: int) -> list[JudgeUsage]:
    """`usage` in `count` parts as equal as whole numbers allow, whose sum it is: what a shared call
    costs each metric.

    >>> [x.input_tokens for x in shares(JudgeUsage(calls=1, input_tokens=11), 3)]
    [4, 4, 3]
    """

    def part(total: int, place: int) -> int:
        return total // count + (place < total % count)

    cost_usd = None if usage.cost_usd is None else usage.cost_usd / count
    return [
        JudgeUsage(
            part(usage.calls, place),
            part(usage.input_tokens, place),
            part(usage.output_tokens, place),
            cost_usd,
            part(usage.cached, place),
        )
        for place in range(count)
    ]
