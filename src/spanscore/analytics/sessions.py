"""Sessions, the worst first."""

from sqlalchemy.engine import Connection

from spanscore.analytics.selection import Selection, select
from spanscore.store import ranking
from spanscore.store.ranking import Ranked


def worst(connection: Connection, selection: Selection, limit: int, offset: int) -> list[Ranked]:
    """The sessions with the greatest share of failing scores first; see `store.ranking.worst`.

    Raises FieldError where the selection cannot be right.
    """
    selected = select(connection, selection)
    scored = [x for part in selected.parts for x in part.scored]
    scales = {
        x.id: (x.low, x.high)
        for x in scored
        if x.low is not None and x.high is not None and x.low < x.high
    }
    return ranking.worst(
        connection, selection.tenant, selected.scores(scored), scales, limit, offset
    )
