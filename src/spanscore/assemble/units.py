"""What is gathered as one: mostly what has one trace id, for some emitters what belongs to one
session or prompt.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

from spanscore.model.span import Attributes
from spanscore.otlp import decode

_log = logging.getLogger(__name__)


class UnitOf(Protocol):
    """Finds what a span or log record is read with, by the name of its scope, its trace id and
    attributes.
    """

    def __call__(
        self, scope_name: str, trace_id: str, attributes: Callable[[], Attributes], *, of_log: bool
    ) -> str:
        """The id, as hex; "" for what belongs to nothing."""


def _own_trace(
    scope_name: str,  # noqa: ARG001 # as UnitOf has it
    trace_id: str,
    attributes: Callable[[], Attributes],  # noqa: ARG001 # as UnitOf has it
    *,
    of_log: bool,  # noqa: ARG001 # as UnitOf has it
) -> str:
    return trace_id


@dataclass(frozen=True)
class Units:
    """`unit_of` is called where a scope's name starts with one that `find_scopes` gives; `goes_on`
    finds units that have no end.
    """

    find_scopes: Callable[[], tuple[str, ...]] = tuple
    unit_of: UnitOf = _own_trace
    goes_on: Callable[[str], bool] = lambda _unit: False

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """What `find_scopes` gives, which is called when this is first used."""
        return self.find_scopes()

    def key(self, scope_name: str, item: Any, *, of_log: bool) -> bytes:
        """The id by which a decoded span or log record is gathered; empty for a record that belongs
        to nothing.
        """
        if not scope_name.startswith(self.scopes):
            return item.trace_id  # type: ignore[no-any-return]  # protobuf's bytes
        trace_id = item.trace_id.hex()
        try:
            unit = self.unit_of(
                scope_name, trace_id, lambda: decode.attributes(item.attributes), of_log=of_log
            )
        except Exception as error:  # noqa: BLE001 - one item must not stop all that come, nor every start after it
            _warn_once(
                next(x for x in self.scopes if scope_name.startswith(x)), type(error).__name__
            )
            return item.trace_id  # type: ignore[no-any-return]  # protobuf's bytes
        return bytes.fromhex(unit)


@lru_cache(maxsize=64)
def _warn_once(scope: str, error: str) -> None:
    """Warn once: there would be a line for each item."""
    _log.warning(
        "%s: what an item belongs to could not be found (%s): it goes by its trace id", scope, error
    )


BY_TRACE = Units()
"""All by trace id."""
