"""Steps to agent traces.

Names are imported when they are first used: a server that no trace has reached needs none of them.
"""

from typing import TYPE_CHECKING

from spanscore.lazy_imports import lazy_names

if TYPE_CHECKING:
    from spanscore.turns.builder import Watch, build, shows_whole
    from spanscore.turns.facts.source import TurnSteps
    from spanscore.turns.provenance import Explained, Explanation, Origin, explain
    from spanscore.turns.stitch.fragment import Join, TraceFragment
    from spanscore.turns.stitch.gateway import ids_of_calls, without_repeats
    from spanscore.turns.stitch.reasons.delegation import (
        DelegationHints,
        DelegationIndex,
        hints_of,
    )
    from spanscore.turns.stitch.stitcher import (
        Stitching,
        UnmatchedContinuations,
        delegating_calls,
        is_settled,
        is_whole,
    )

__all__ = [
    "DelegationHints",
    "DelegationIndex",
    "Explained",
    "Explanation",
    "Join",
    "Origin",
    "Stitching",
    "TraceFragment",
    "TurnSteps",
    "UnmatchedContinuations",
    "Watch",
    "build",
    "delegating_calls",
    "explain",
    "hints_of",
    "ids_of_calls",
    "is_settled",
    "is_whole",
    "shows_whole",
    "without_repeats",
]

_HOMES = {
    "DelegationHints": "spanscore.turns.stitch.reasons.delegation",
    "DelegationIndex": "spanscore.turns.stitch.reasons.delegation",
    "Explained": "spanscore.turns.provenance",
    "Explanation": "spanscore.turns.provenance",
    "Join": "spanscore.turns.stitch.fragment",
    "Origin": "spanscore.turns.provenance",
    "Stitching": "spanscore.turns.stitch.stitcher",
    "TraceFragment": "spanscore.turns.stitch.fragment",
    "TurnSteps": "spanscore.turns.facts.source",
    "UnmatchedContinuations": "spanscore.turns.stitch.stitcher",
    "Watch": "spanscore.turns.builder",
    "build": "spanscore.turns.builder",
    "delegating_calls": "spanscore.turns.stitch.stitcher",
    "explain": "spanscore.turns.provenance",
    "hints_of": "spanscore.turns.stitch.reasons.delegation",
    "ids_of_calls": "spanscore.turns.stitch.gateway",
    "is_settled": "spanscore.turns.stitch.stitcher",
    "is_whole": "spanscore.turns.stitch.stitcher",
    "shows_whole": "spanscore.turns.builder",
    "without_repeats": "spanscore.turns.stitch.gateway",
}

if not TYPE_CHECKING:  # a type checker would take a misspelt name for one that it gives
    __getattr__ = lazy_names(__name__, _HOMES)
