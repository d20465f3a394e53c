"""What an evaluation run is asked to do."""

import hashlib
import json
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spanscore.specs.target import MeasureSpec, Spec, TargetSpec, read_spec

_IDS: Final = {"trace_ids", "session_ids"}


class RunBudget(Spec):
    """What a run may spend on its judge, all in all; what is past it is skipped."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together; not set: no limit."""

    max_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """USD; not set: no limit. A model whose price is not known cannot be asked under this limit."""


class RunSpec(Spec):
    """What is evaluated, by what, and what becomes of it."""

    name: Annotated[str, Field(max_length=256)] = ""
    """For people; two runs may have the same."""

    target: TargetSpec = TargetSpec()
    """Which stored traces or sessions."""

    measure: MeasureSpec = MeasureSpec()
    """The metrics, their options, and the model that judges."""

    budget: RunBudget | None = None
    """The run's own budget.

    Not set: as much in all as `judge.budget` gives the server for one window.
    """

    export: bool = False
    """Whether the scores are exported by OTLP, with the run's id on each.

    They never replace the traces' own scores.
    """


class StoredSpec(NamedTuple):
    """A spec as the store keeps it, in JSON: the ids that its target names are apart, since they
    may be many.
    """

    spec: str
    ids: str
    digest: str
    """Of all that is not as it is by default: two that ask for the same have the same."""


def stored_spec(spec: RunSpec) -> StoredSpec:
    """`spec` as the store keeps it; `whole` is the inverse."""
    ids = spec.target.model_dump(include=_IDS, exclude_defaults=True)
    digest = hashlib.sha256(
        spec.model_dump_json(exclude_defaults=True).encode("utf-8", "surrogatepass")
    ).hexdigest()
    return StoredSpec(
        spec.model_dump_json(exclude={"target": _IDS}), json.dumps(ids) if ids else "", digest
    )


def whole(spec: str, ids: str) -> RunSpec:
    """What `stored_spec` was given. Raises InputError where this version does not understand it."""
    found = read_spec(RunSpec, spec)
    if not ids:
        return found
    target = read_spec(TargetSpec, {**found.target.model_dump(), **json.loads(ids)})
    return found.model_copy(update={"target": target})
