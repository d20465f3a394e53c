"""What traces and other units are gathered under: their id, and behind it the tenant who sent them,
where there is one.

So two tenants that send one trace id have two traces, whatever is kept by such a key.
"""

from typing import Final

ID_BYTES: Final = 16
"""The length of a trace's id, and of what stands for another unit."""


def with_tenant(trace_id: bytes, tenant: str) -> bytes:
    """The key of a trace, or other unit, with an id of 16 bytes; "" where there are no tenants."""
    return trace_id + tenant.encode() if tenant else trace_id


def id_in(key: bytes) -> bytes:
    """The id of the trace, or other unit, with this key."""
    return key[:ID_BYTES]


def tenant_in(key: bytes) -> str:
    """Whose the trace, or other unit, with this key is; "" where there are no tenants.

    >>> tenant_in(with_tenant(bytes(16), "acme"))
    'acme'
    """
    return key[ID_BYTES:].decode()
