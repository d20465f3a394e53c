"""What a monitor makes of sessions, one after the other: a reference, evidence for a drop, an
alarm, its end. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from spanscore.monitoring.config import Reference, Watch
from spanscore.stats import DropTest, Evidence, lower_limit, watch

_SIZED_BY = 30
_HEAVIER = 3.0
_RESOLVED_BY = 0.05
"""The chance that an alarm is taken back though the mean is still in the lower half of the drop."""

Phase: TypeAlias = Literal["sizing", "reference", "watching", "firing"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A session that has settled, or a trace without one: the weighted mean of its scores on 0..1,
    and their weight.
    """

    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class State:
    """All that a monitor knows. `gathered` are the units of a phase that is about these.

    `floor` is what the mean is held against. `alarms` counts those that were raised; `low_mean` and
    `low_units` are of the last: the mean since it fell, and of how many units it is. `counted` are
    all units so far.
    """

    phase: Phase
    heaviest: float = 0.0
    floor: float = 0.0
    gathered: tuple[tuple[float, float], ...] = ()
    alarms: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    low_mean: float = 0.0
    low_units: int = 0
    counted: int = 0

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self) | {"evidence": self.evidence.to_json()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "State":
        """What `to_json` gave."""
        gathered = tuple((float(value), float(weight)) for value, weight in given["gathered"])
        return cls(
            **{**given, "gathered": gathered, "evidence": Evidence.from_json(given["evidence"])}
        )


@dataclass(frozen=True, slots=True)
class Change:
    """An alarm that begins or ends, with the state at that moment."""

    status: Literal["firing", "resolved"]
    state: State


def start(watched: Watch) -> State:
    """The state of a monitor that has seen nothing."""
    if watched.heaviest is None:
        return State("sizing")
    return _sized(watched, State("sizing"), watched.heaviest)


def advance(watched: Watch, state: State, units: Sequence[Unit]) -> tuple[State, list[Change]]:
    """The state after these units too, and what changed on the way."""
    changes = []
    rest = list(units)
    while rest:
        after, taken, change = _STEPS[state.phase](watched, state, rest)
        rest = rest[taken:]
        state = replace(after, counted=state.counted + taken)
        if change is not None:
            changes.append(Change(change, state))
    return state, changes


def alpha_of(watched: Watch, alarms: int) -> float:
    """The chance of a false alarm that the next alarm may have, after so many.

    A reference takes half of `alpha`. Of the rest, 1/2, 1/6, 1/12 … are for the first, second,
    third … alarm, which sums to 1: so the chance that any alarm ever is a false one is `alpha` at
    most.
    """
    alpha = watched.alpha if watched.held_against is None else watched.alpha / 2
    return alpha / ((alarms + 1) * (alarms + 2))


_Step: TypeAlias = tuple[State, int, Literal["firing", "resolved"] | None]


def _size(watched: Watch, state: State, units: Sequence[Unit]) -> _Step:
    state, taken = _gather(state, units, _SIZED_BY)
    if len(state.gathered) < _SIZED_BY:
        return state, taken, None
    heaviest = _HEAVIER * sum(weight for _, weight in state.gathered) / _SIZED_BY
    return _sized(watched, state, heaviest), taken, None


def _sized(watched: Watch, state: State, heaviest: float) -> State:
    state = replace(state, heaviest=heaviest, gathered=())
    if watched.floor is not None:
        return replace(state, phase="watching", floor=watched.floor)
    return replace(state, phase="reference")


def _refer(watched: Watch, state: State, units: Sequence[Unit]) -> _Step:
    reference = watched.held_against or Reference()
    state, taken = _gather(state, units, reference.sessions)
    if len(state.gathered) < reference.sessions:
        return state, taken, None
    values, weights = zip(*state.gathered, strict=True)
    low = lower_limit(values, weights, heaviest=state.heaviest, alpha=watched.alpha / 2)
    return (
        replace(state, phase="watching", floor=max(0.0, low - reference.tolerance), gathered=()),
        taken,
        None,
    )


def _watch(watched: Watch, state: State, units: Sequence[Unit]) -> _Step:
    test = DropTest(state.floor, alpha_of(watched, state.alarms), state.heaviest)
    found, fell = watch(test, state.evidence, [x.value for x in units], [x.weight for x in units])
    taken = found.units - state.evidence.units
    if not fell:
        return replace(state, evidence=found), taken, None
    low = min(found.low_mean if found.low_mean is not None else 0.0, state.floor)
    fallen = replace(
        state,
        phase="firing",
        alarms=state.alarms + 1,
        evidence=Evidence(),
        low_mean=low,
        low_units=found.low_units,
    )
    return fallen, taken, "firing"


def _recover(_: Watch, state: State, units: Sequence[Unit]) -> _Step:
    """An alarm ends when the mean is more than half of the way back, by the same test upside
    down.
    """
    half = (state.low_mean + state.floor) / 2
    test = DropTest(1 - half, _RESOLVED_BY, state.heaviest)
    found, rose = watch(
        test, state.evidence, [1 - x.value for x in units], [x.weight for x in units]
    )
    taken = found.units - state.evidence.units
    if not rose:
        return replace(state, evidence=found), taken, None
    return replace(state, phase="watching", evidence=Evidence()), taken, "resolved"


def _gather(state: State, units: Sequence[Unit], wanted: int) -> tuple[State, int]:
    taken = min(len(units), wanted - len(state.gathered))
    return replace(
        state, gathered=(*state.gathered, *((x.value, x.weight) for x in units[:taken]))
    ), taken


_STEPS: Mapping[Phase, Callable[[Watch, State, Sequence[Unit]], _Step]] = {
    "sizing": _size,
    "reference": _refer,
    "watching": _watch,
    "firing": _recover,
}
