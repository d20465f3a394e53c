"""Group what goes out under the resources that the evaluated spans came from."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from opentelemetry.proto.resource.v1.resource_pb2 import Resource

import spanscore
from spanscore.model.span import Attributes
from spanscore.otlp import encode

SCOPE_NAME = "spanscore"
"""The instrumentation scope of everything that spanscore emits; what it receives under it, it never evaluates."""

ScopedT = TypeVar("ScopedT")


class ByResource(Generic[ScopedT]):
    """The one scope message of each resource in a request that is being built.

    Resources are told apart by their contents; the identity of the attributes' dict is a short cut, since the scores of
    one trace share it.
    """

    def __init__(self, add: Callable[[], Any], scoped: Callable[[Any], ScopedT]) -> None:
        """`add` adds a resource message to the request; `scoped` adds a scope message to that."""
        self._add = add
        self._scoped = scoped
        self._by_identity: dict[int, tuple[Attributes, ScopedT]] = {}  # holds the dict: its id() must stay taken
        self._by_content: dict[bytes, ScopedT] = {}

    def of(self, attributes: Attributes) -> ScopedT:
        """The scope message under the resource with these attributes, added when it is the first time."""
        known = self._by_identity.get(id(attributes))
        if known is not None:
            return known[1]
        resource = Resource()
        encode.fill(resource.attributes, attributes)
        content = resource.SerializeToString()
        if content not in self._by_content:
            self._by_content[content] = self._begin(resource)
        self._by_identity[id(attributes)] = attributes, self._by_content[content]
        return self._by_content[content]

    def _begin(self, resource: Resource) -> ScopedT:
        message = self._add()
        message.resource.CopyFrom(resource)
        scoped: Any = self._scoped(message)
        scoped.scope.name = SCOPE_NAME
        scoped.scope.version = spanscore.__version__
        return scoped  # type: ignore[no-any-return]  # Any, to set the scope on whichever of the three it is
