"""Find the spans of tool calls that were interrupted before they ran, to be approved, and were run
later.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from spanscore.model.step import Step
from spanscore.turns.calls.appearances import Call, Executed
from spanscore.turns.calls.call_kinds import Kind, kind_of


class InterruptedCalls:
    """The calls of a turn that a span without a request of its own may be about: once those have
    their spans.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        self._interrupted: defaultdict[Kind, deque[Call]] = defaultdict(deque)
        self._latest: dict[Kind, Call] = {}
        for call in calls:
            if call.request is not None and call.ran is not None:
                kind = kind_of(call.name, call.arguments)
                self._latest[kind] = call
                if _is_interrupted(call.ran.step):
                    self._interrupted[kind].append(call)

    def resumed(self, ran: Executed) -> Call | None:
        """The call that `ran` is a span of, if any; without the span known before, where `ran`
        records more.
        """
        kind = kind_of(ran.step.tool_name or "", ran.arguments)
        latest = self._latest.get(kind)
        if latest is not None and latest.ran is not None and _went_on(ran.step, latest.ran.step):
            return latest
        interrupted = self._interrupted.get(kind)
        first = interrupted[0] if interrupted else None
        if (
            interrupted
            and first is not None
            and first.ran is not None
            and _went_on(first.ran.step, ran.step)
        ):
            if not _is_interrupted(ran.step):
                interrupted.popleft()
            first.ran = None
            return first
        return None


def ids_of_one_call(spans: Iterable[Step], repeated: set[str]) -> set[str]:
    """Of ids that several spans have, those whose spans are of one call, interrupted until the last
    of them.
    """
    steps: defaultdict[str, list[Step]] = defaultdict(list)
    for step in spans:
        if step.call_id in repeated:
            steps[step.call_id or ""].append(step)
    return {x for x, alike in steps.items() if _are_one(alike)}


def last_of_each(spans: Sequence[Executed]) -> list[Executed]:
    """The spans, in order of time, without those whose id, which identifies one call, a later one
    has too.
    """
    last = {x.call_id: x for x in spans}
    return [x for x in spans if x.call_id is None or last[x.call_id] is x]


def _are_one(steps: Sequence[Step]) -> bool:
    *interrupted, last = steps  # by time
    kinds = {kind_of(x.tool_name or "", x.arguments) for x in steps}
    return len(kinds) == 1 and all(_went_on(x, last) for x in interrupted)


def _is_interrupted(step: Step) -> bool:
    return not step.has_result and step.error is None


def _went_on(interrupted: Step, step: Step) -> bool:
    """Whether a tool's span that ended without a result had its result in another one, or may
    have.
    """
    if not _is_interrupted(interrupted) or interrupted.span.end_ns > step.span.start_ns:
        return False
    if interrupted.call_id and step.call_id and interrupted.call_id != step.call_id:
        return False
    return (
        step.has_result
        or step.error is not None
        or (step.call_id is not None and step.call_id == interrupted.call_id)
    )
