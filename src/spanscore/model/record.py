"""The way that values are declared of which every trace has many: frozen for the type checker, plain at run time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """A slotted dataclass whose fields nothing may assign to, which mypy enforces.

    `frozen=True` would enforce it at run time too, and make each field of each new object cost a call.
    """
    return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only)
