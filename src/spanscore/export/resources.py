"""Group what goes out under the resources that the evaluated spans came from."""

from importlib.metadata import version

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from spanscore.export import wire
from spanscore.model.headers import without_headers
from spanscore.model.span import Attributes

SCOPE_NAME = "spanscore"
"""The instrumentation scope of everything that spanscore emits; what it receives under it, it never
evaluates.
"""

# Field numbers of export requests, the same for all three signals: a request has groups, each with
# a resource and scopes, each of those with the scope itself and its spans, log records or metrics.
_GROUPS, _RESOURCE, _SCOPES, _SCOPE, _ITEMS = 1, 1, 2, 1, 2

_SPANSCORE = InstrumentationScope(name=SCOPE_NAME, version=version("spanscore")).SerializeToString()


class ByResource:
    """An export request in the making: serialised spans, log records or metrics by the resource
    that they belong to.

    Resources differ by their contents; the identity of the attributes' dict is a short cut, since
    the scores of one trace share it.
    """

    def __init__(self) -> None:
        # keeps the dict: its id() must stay taken
        self._by_identity: dict[int, tuple[Attributes, list[bytes]]] = {}
        self._by_content: dict[bytes, list[bytes]] = {}

    def of(self, resource: Attributes) -> list[bytes]:
        """Where to append the items of the resource with these attributes."""
        known = self._by_identity.get(id(resource))
        if known is not None:
            return known[1]
        items = self._by_content.setdefault(
            wire.attributes(Resource, without_headers(resource)), []
        )
        self._by_identity[id(resource)] = resource, items
        return items

    def request(self) -> bytes:
        """The serialised request; empty where there is nothing in it."""
        parts: list[bytes] = []
        for resource, items in self._by_content.items():
            scoped = wire.delimited(_SCOPE, [_SPANSCORE])
            for item in items:
                scoped += (wire.prefix(_ITEMS, len(item)), item)
            group = wire.delimited(_RESOURCE, [resource]) + wire.delimited(_SCOPES, scoped)
            parts += wire.delimited(_GROUPS, group)
        return b"".join(parts)
