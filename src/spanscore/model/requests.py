"""Which model answer asked for which tool call."""

from collections import defaultdict, deque
from collections.abc import Sequence

from spanscore.model.json import dumps
from spanscore.model.trace import ModelCall, ToolCall


def requested_in(models: Sequence[ModelCall], calls: Sequence[ToolCall]) -> list[int | None]:
    """For each of `calls` the place in `models` of the answer that asked for it; None where nobody
    is known to have.

    By the call's id; where only one of the two has it, by name and arguments, one after the other.
    """
    requests = [(place, x) for place, model in enumerate(models) for x in model.tool_calls]
    by_id = {x.call_id: place for place, x in requests if x.call_id}
    made = {x.call_id for x in calls if x.call_id}
    by_content: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
    for place, request in requests:
        if request.call_id not in made:
            by_content[request.name, dumps(request.arguments)].append(place)
    found: list[int | None] = []
    for call in calls:
        answer = by_id.get(call.call_id) if call.call_id else None
        if answer is None and (same := by_content[call.name, dumps(call.arguments)]):
            answer = same.popleft()
        found.append(answer)
    return found
