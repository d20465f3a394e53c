"""Scores by bucket of time, group and session: what figures rest on."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy.engine import Connection

from spanscore.analytics.selection import Part, Selected, groups_of
from spanscore.errors import InputError
from spanscore.lazy_imports import np
from spanscore.stats.means import Moments, moments_by_group
from spanscore.stats.weighted import Crossed
from spanscore.store.selections import NO_VERDICT, Columns, columns

Kind: TypeAlias = Literal["value", "verdict"]
"""What a score may have that figures are of."""

MAX_CELLS: Final = 20_000
"""Buckets and groups of a metric at most."""


class Place(NamedTuple):
    """A bucket of time, which counts from 0, and a group, which has a value for each field grouped
    by.
    """

    bucket: int | None
    group: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """Scores that are missing: "skipped" or "failed", the skip's cause or the error's type, and how
    many.
    """

    status: str
    cause: str
    count: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The scores that have a value, or a verdict, on the scale 0..1.

    `moments` has those of each place. Of each cluster of a place, in the order of both: the
    number of its place, its id, its weighted values and its weight.
    """

    moments: Sequence[Moments]
    places: Any
    clusters: Any
    a: Any
    b: Any

    def heaviest(self, place: int) -> int:
        """The id of the cluster that weighs most in a place."""
        own = self.of_place(place)
        return int(self.clusters[own][np.argmax(self.b[own])])

    def shared(self, place: int, other: "Sample", others: int) -> Crossed | None:
        """What the clusters sum up to that a place shares with the place `others` of another
        sample.
        """
        old, new = self.of_place(place), other.of_place(others)
        found, one, two = np.intersect1d(
            self.clusters[old], other.clusters[new], assume_unique=True, return_indices=True
        )
        if not len(found):
            return None
        a, b, c, d = self.a[old][one], self.b[old][one], other.a[new][two], other.b[new][two]
        return Crossed(len(found), *(float(x @ y) for x, y in ((a, c), (a, d), (b, c), (b, d))))

    def of_place(self, place: int) -> slice:
        """Where the clusters of a place are."""
        return slice(*np.searchsorted(self.places, (place, place + 1)))


class Cells:
    """The scores of a part of a selection, by place."""

    def __init__(
        self, found: Columns, selected: Selected, part: Part, edges: Sequence[int]
    ) -> None:
        """`found` has what `read` asks for. Raises InputError where places are too many."""
        rows, place, places = _placed(found, selected, edges)
        self.places: Mapping[Place, int] = {x: n for n, x in enumerate(places)}
        self.part = part
        ids, procedure = np.unique(found["procedure"][rows], return_inverse=True)
        made = [part.by_id[x] for x in ids.tolist()]
        is_scored = np.array([x.status == "scored" for x in made], bool)[procedure]
        self.missing: Mapping[Place, Sequence[Missing]] = {
            places[n]: [Missing(*x, count) for x, count in counts.most_common()]
            for n, counts in _counted(
                place[~is_scored], procedure[~is_scored], [(x.status, x.cause or "") for x in made]
            ).items()
        }
        self._found = {name: x[rows][is_scored] for name, x in found.items()}
        self._weights = np.array([1 / x.sampling for x in made], float)[procedure][is_scored]
        ids, number = np.unique(self._found["cluster"], return_inverse=True)
        pairs, self._pair = np.unique(
            place[is_scored] * max(1, len(ids)) + number, return_inverse=True
        )
        self._pair_places, clusters = np.divmod(pairs, max(1, len(ids)))
        self._clusters = ids[clusters]
        self.scores = np.bincount(place[is_scored], None, len(places)).tolist()
        self.clusters = np.bincount(self._pair_places, None, len(places)).tolist()

    @cached_property
    def subjects(self) -> Sequence[int]:
        """How many subjects the scores of each place are of; of one has each its own."""
        if "subject" not in self._found:
            return list(self.scores)
        ids, subject = np.unique(self._found["subject"], return_inverse=True)
        pairs = np.unique(self._pair * max(1, len(ids)) + subject) // max(1, len(ids))
        return list(np.bincount(self._pair_places[pairs], None, len(self.places)).tolist())

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The values that become 0 and 1, see `Part.bounds`."""
        values = self._found["value"]
        return self.part.bounds(values[~np.isnan(values)])

    def sample(self, kind: Kind, bounds: tuple[float, float] = (0.0, 1.0)) -> Sample:
        """Those of `kind`; `bounds` are the values that become 0 and 1."""
        if kind == "verdict":
            passing = self._found["passing"]
            return self._sample(passing.astype(float), passing != NO_VERDICT)
        values = self._found["value"]
        with np.errstate(all="ignore"):  # bounds may be too far apart for a number
            scaled = (values - bounds[0]) / (bounds[1] - bounds[0])
        return self._sample(scaled, ~np.isnan(values))

    def _sample(self, values: Any, is_known: Any) -> Sample:
        pair, weights, values = self._pair[is_known], self._weights[is_known], values[is_known]
        moments = moments_by_group(values, weights, pair, self._pair_places, len(self.places))
        n, a, b = (
            np.bincount(pair, x, len(self._clusters)) for x in (None, weights * values, weights)
        )
        used = n > 0
        return Sample(moments, self._pair_places[used], self._clusters[used], a[used], b[used])


def read(
    connection: Connection, selected: Selected, part: Part, edges: Sequence[int] = ()
) -> Cells:
    """Read the scores of a part; those between two `edges` (Unix ns, rising) lie in one bucket."""
    names = ["cluster", "value", "passing"]
    names += ["context"] if selected.fields else []
    names += ["happened_ns"] if edges else []
    names += ["subject"] if part.is_given else []
    found = columns(connection, selected.scores(part.procedures), names, part.scale)
    return Cells(found, selected, part, edges)


def _placed(
    found: Columns, selected: Selected, edges: Sequence[int]
) -> tuple[Any, Any, Sequence[Place]]:
    """The rows that lie in a place, one several times where it counts for several tools; the number
    of the place of each, and the places.
    """
    count = len(found["cluster"])
    buckets, groups = max(1, len(edges) - 1), dict[tuple[str | None, ...], int]()
    if not (edges or selected.fields):
        return np.arange(count), np.zeros(count, int), [Place(None, ())]
    bucket: Any = np.zeros(count, int)
    if edges:
        bucket = np.searchsorted(np.array(edges), found["happened_ns"], "right") - 1
    numbers = np.zeros((count, 1), int)
    if selected.fields:
        ids, context = np.unique(found["context"], return_inverse=True)
        # A context that came later is of no group: each part is read in a snapshot of its own.
        known = [selected.known.get(x) for x in ids.tolist()]
        own = [
            [groups.setdefault(x, len(groups)) for x in groups_of(context, selected.fields)]
            for context in known
        ]
        width = max(map(len, own), default=1)
        numbers = np.array([x + [-1] * (width - len(x)) for x in own], int)
        numbers = numbers.reshape(len(own), width)[context]
    else:
        groups[()] = 0
    is_placed = (numbers >= 0) & (bucket >= 0)[:, None] & (bucket < buckets)[:, None]
    rows, which = np.nonzero(is_placed)
    codes, place = np.unique(bucket[rows] * len(groups) + numbers[rows, which], return_inverse=True)
    if len(codes) > MAX_CELLS:
        raise InputError(
            f"the answer has more than {MAX_CELLS} groups and times of a metric: ask for fewer"
            " groups by a filter, or for longer times"
        )
    of_groups = list(groups)
    places = [
        Place(code // len(groups) if edges else None, of_groups[code % len(groups)])
        for code in codes.tolist()
    ]
    return rows, place, places


def _counted(
    place: Any, procedure: Any, causes: Sequence[tuple[str, str]]
) -> Mapping[int, Counter[tuple[str, str]]]:
    """How often each cause occurs in each place."""
    found: defaultdict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    pairs, counts = np.unique(place * max(1, len(causes)) + procedure, return_counts=True)
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        number, cause = divmod(pair, len(causes))
        found[number][causes[cause]] += count
    return found
