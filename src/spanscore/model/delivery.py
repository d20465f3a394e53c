"""Messages of a broker that stay there until they are done."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
"""A topic, and the number of one of its partitions."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A message that the broker delivers again, after a restart too, until it is done.

    `done` is called once nothing needs the message any more.
    """

    partition: Partition
    offset: int
    done: Callable[[], None]
