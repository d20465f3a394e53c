from spanscore.turns.builder import Watch as Watch, build as build, shows_whole as shows_whole
from spanscore.turns.facts.source import TurnSteps as TurnSteps
from spanscore.turns.provenance import (
    Explained as Explained,
    Explanation as Explanation,
    Origin as Origin,
    explain as explain,
)
from spanscore.turns.stitch.fragment import Join as Join, TraceFragment as TraceFragment
from spanscore.turns.stitch.gateway import (
    ids_of_calls as ids_of_calls,
    without_repeats as without_repeats,
)
from spanscore.turns.stitch.reasons.delegation import (
    DelegationHints as DelegationHints,
    DelegationIndex as DelegationIndex,
    hints_of as hints_of,
)
from spanscore.turns.stitch.stitcher import (
    Stitching as Stitching,
    UnmatchedContinuations as UnmatchedContinuations,
    delegating_calls as delegating_calls,
    is_settled as is_settled,
    is_whole as is_whole,
)
