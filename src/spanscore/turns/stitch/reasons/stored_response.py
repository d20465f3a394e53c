"""An answer requested in one trace, fetched in another."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.turns.basis import stitch_keys
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment, is_half
from spanscore.turns.stitch.groups import MAX_ALIKE, Groups, Reason, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponseClue(Clue):
    """The id of a response that was only requested, or only fetched."""

    response_id: str
    is_open: bool = True


class StoredResponse(Reason):
    """One trace only requested an answer, the other only fetched it."""

    words = "one trace only requested an answer, the other only fetched it: same response id"
    after = ("conversation",)
    signs: ClassVar[frozenset[Sign]] = frozenset({"half a call"})

    def clue(self, trace: ReadTrace) -> StoredResponseClue | None:
        """The response id of the only model call, where that is half a call."""
        turn = trace.first
        if len(turn.models) != 1 or turn.agents or not is_half(turn.models[0]):
            return None
        return StoredResponseClue(response_id=turn.models[0].response_id or "")

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The response's id."""
        clue = part.clue(StoredResponseClue)
        return () if clue is None else (stitch_keys.response(clue.response_id),)

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The response's id."""
        return self.offers(part)

    def join(self, groups: Groups) -> None:
        """Join the traces of one response, of which only one may have a question."""
        of_response = defaultdict[str, list[TraceFragment]](list)
        for part in groups.all:
            clue = part.clue(StoredResponseClue)
            if clue is not None:
                of_response[clue.response_id].append(part)
        for response_id, same in of_response.items():
            questions = sum(other.question is not None for other in same)
            if len(same) <= MAX_ALIKE and questions <= 1:
                since = f"both are halves of a model call with response {shown(response_id)}"
                for part in same[1:]:
                    groups.join(same[0], part, reason=self.name, since=since)
