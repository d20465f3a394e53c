"""Which of two sets belong together, so that the sum over the pairs is the highest: the assignment
problem.
"""

from __future__ import annotations

from collections.abc import Sequence

from spanscore.arrays import np


def best_pairs(worth: Sequence[Sequence[float]]) -> list[int | None]:
    """For each row the column that it is paired with, None for one that is left without; each
    column at most once.

    The Hungarian method with potentials (Kuhn 1955, Munkres 1957): rows are paired one after the
    other, each along the cheapest path through the pairs there are. Takes O(rows^2 x columns), of
    which numpy does the columns.

    >>> best_pairs([[1.0, 0.9], [0.8, 0.0]])
    [1, 0]
    """
    rows, columns = len(worth), max(map(len, worth), default=0)
    if not columns:
        return [None] * rows
    wide = max(rows, columns)
    # column 0 is where each path starts, those after the last are nobody
    cost = np.zeros((rows, wide + 1))
    cost[:, 1 : columns + 1] = -np.asarray(worth, float)
    row_potential, column_potential = np.zeros(rows + 1), np.zeros(wide + 1)
    paired = np.zeros(wide + 1, int)
    for row in range(1, rows + 1):
        _pair(row, cost, row_potential, column_potential, paired)
    found: list[int | None] = [None] * rows
    for column in range(1, columns + 1):
        if paired[column]:
            found[paired[column] - 1] = column - 1
    return found


def _pair(
    row: int, cost: np.ndarray, of_rows: np.ndarray, of_columns: np.ndarray, paired: np.ndarray
) -> None:
    """Pair one more row: Dijkstra from it over reduced costs, then move the pairs along the path
    that was found.
    """
    paired[0] = row
    column = 0
    distance = np.full(len(paired), np.inf)
    before = np.zeros(len(paired), int)
    seen = np.zeros(len(paired), bool)
    while paired[column]:
        seen[column] = True
        at = paired[column]
        reduced = cost[at - 1] - of_rows[at] - of_columns
        shorter = ~seen & (reduced < distance)
        distance[shorter], before[shorter] = reduced[shorter], column
        following = int(np.argmin(np.where(seen, np.inf, distance)))
        step = distance[following]
        of_rows[paired[seen]] += step
        of_columns[seen] -= step
        distance[~seen] -= step
        column = following
    while column:
        paired[column] = paired[before[column]]
        column = before[column]
