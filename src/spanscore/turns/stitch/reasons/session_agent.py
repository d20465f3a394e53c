"""An agent's span, and fragments of its session."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from spanscore.turns.basis import stitch_keys
from spanscore.turns.stitch.fragment import Clue, ReadTrace, Sign, TraceFragment
from spanscore.turns.stitch.groups import Group, Groups, Reason, latest


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAgentClue(Clue):
    """That a trace has an agent and no model call: these may be in other traces."""


class SessionAgent(Reason):
    """An agent that records no model call ran around fragments of its session.

    Fragments are the traces that other reasons have found to lack something.
    """

    words = (
        "an agent that records no model call, around traces that are parts of turns of the "
        "same session and no other such agent's"
    )
    after = ("tool_run",)
    signs: ClassVar[frozenset[Sign]] = frozenset({"no model call"})

    def clue(self, trace: ReadTrace) -> SessionAgentClue | None:
        """That it has no model call."""
        if not trace.lacks_model_calls:
            return None
        return SessionAgentClue(is_evidence=bool(trace.sessions))

    def offers(self, part: TraceFragment) -> Iterable[str]:
        """The sessions of such an agent."""
        return map(stitch_keys.session_agent, part.sessions if _is_agent(part) else ())

    def seeks(self, part: TraceFragment) -> Iterable[str]:
        """The agents of the sessions of a trace that is part of a turn."""
        is_part = part.is_open and not _is_agent(part)
        return map(stitch_keys.session_agent, part.sessions if is_part else ())

    def join(self, groups: Groups) -> None:
        """Join fragments to the agents that ran around them.

        Agents may be inside each other, as in a workflow; of two side by side neither is chosen.
        """
        agents = defaultdict[str, list[TraceFragment]](list)
        for part in groups.all:
            for session in part.sessions if _is_agent(part) else ():
                agents[session].append(part)
        for group in groups.groups() if agents else ():
            around = _around(group, agents)
            if all(inner.ended_ns <= outer.ended_ns for outer, inner in pairwise(around)):
                for agent in around:
                    groups.join(
                        agent,
                        group.parts[0],
                        reason=self.name,
                        since="it ran while the agent of that trace did, in one session, and that "
                        "agent records no model call",
                    )


def _is_agent(part: TraceFragment) -> bool:
    return part.clue(SessionAgentClue) is not None


def _around(group: Group, agents: Mapping[str, Sequence[TraceFragment]]) -> list[TraceFragment]:
    """The agents that ran around all of a group, the outermost first; none where the group lacks
    nothing.
    """
    members = group.parts
    if any(map(_is_agent, members)) or not any(part.is_fragment for part in members):
        return []
    started_ns = min(part.started_ns for part in members)
    ended_ns = max(part.ended_ns for part in members)
    near: list[TraceFragment] = []
    for session in group.sessions:
        near += latest(agents.get(session, ()), started_ns)
    around = [part for part in near if part.started_ns <= started_ns and ended_ns <= part.ended_ns]
    return sorted(around, key=lambda x: (x.started_ns, -x.ended_ns))
