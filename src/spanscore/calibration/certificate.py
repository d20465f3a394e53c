"""Certificates: judges whose labels may be relied on."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spanscore.calibration.verdicts import Judge, judge_of, key_of
from spanscore.judge.config import Certificate as Required, Config as JudgeConfig
from spanscore.model.score import Evaluation
from spanscore.stats import Confusion, NotEstimableError
from spanscore.store.config import Config as StoreConfig

if TYPE_CHECKING:
    from spanscore.store.calibrations import Kept

_NONE = "it has too few labels that no certificate used before"


@dataclass(frozen=True, slots=True)
class Inputs:
    """How many inputs have each value of a fact, by the fact's name; lengths, in characters, are
    counted between `limits`.
    """

    limits: tuple[float, ...]
    counts: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A judge's errors on labels that no certificate used before, `labels` of them.

    `confusion` and `design_effects` are as those of a calibration. `inputs` are those that were
    labelled, None until a server has looked at them; `looks` counts how often they were compared
    with what the judge scored, up to the score of number `seq`. `ended` says why it ended.
    """

    confusion: Confusion
    design_effects: tuple[float, float]
    labels: int
    inputs: Inputs | None = None
    looks: int = 0
    seq: int = 0
    ended: str = ""

    def why_not(self, required: Required) -> str:
        """Why it does not hold, in a clause; "" where it does."""
        if self.ended:
            return self.ended
        if self.labels < required.min_labels:
            return f"it rests on {self.labels} labels, and {required.min_labels} are required"
        table, (of_passes, of_fails) = self.confusion, self.design_effects
        try:
            estimates = {
                "sensitivity": table.sensitivity(effect=of_passes),
                "specificity": table.specificity(effect=of_fails),
            }
        except NotEstimableError as reason:
            return str(reason)
        for name, found in estimates.items():
            low = found.interval.low if found.interval else 0.0
            if low < required.lower_bound:
                least = math.floor(low * 100) / 100  # rounded, it might be what is required
                needed = f"{required.lower_bound:g} is required"
                return f"{name} may be as low as {least:.2f}, and {needed}"
        return ""

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> "Certificate | None":
        """What `to_json` gave; None of None."""
        if data is None:
            return None
        given = data["inputs"]
        inputs = given and Inputs(tuple(given["limits"]), given["counts"])
        table, effects = Confusion(**data["confusion"]), tuple(data["design_effects"])
        return cls(**{**data, "confusion": table, "design_effects": effects, "inputs": inputs})


class Certificates:
    """The judges that are certified, as far as the store was read."""

    def __init__(self, required: Required, read: Callable[[], Iterable["Kept"]]) -> None:
        """`read` gives all calibrations; it blocks, and is called by `refresh` alone."""
        self._required = required
        self._read = read
        self._why_not: dict[tuple[str, str], str] = {}

    def refresh(self) -> None:
        """Read the store. Raises as `read`."""
        self._why_not = {(x.tenant, x.key): self._judged(x) for x in self._read()}

    def __call__(self, evaluation: Evaluation) -> bool:
        """Whether the judge of a score is certified."""
        return not self.why_not(judge_of(evaluation), evaluation.tenant)

    def why_not(self, judge: Judge, tenant: str = "") -> str:
        """Why a judge is not certified, in a clause; "" where it is."""
        key = key_of(judge)
        found = self._why_not.get((tenant, key))
        return found if found is not None else self._why_not.get(("", key), "it was not calibrated")

    def _judged(self, kept: "Kept") -> str:
        found = Certificate.from_json(kept.record.get("certificate"))
        return _NONE if found is None else found.why_not(self._required)


def certificates_in(store: StoreConfig, judge: JudgeConfig) -> Certificates | None:
    """The certificates in a store; None where the judge's configuration requires none.

    Raises as `calibrations.kept`.
    """
    if judge.required is None:
        return None
    from spanscore.store import calibrations  # noqa: PLC0415 - SQLAlchemy is slow to import

    found = Certificates(judge.required, lambda: calibrations.kept(store))
    found.refresh()
    return found
