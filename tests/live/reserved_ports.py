"""Ports for the servers that a test starts, each given once in a run of the tests.

A module, so that all conftests of a process share one list: two lists could give one port to two
servers of a test.
"""

import contextlib
import os
import random
import socket

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PORTS = iter(
    random.SystemRandom().sample(
        range(10_000 + _WORKER % 4 * 5_500, 15_500 + _WORKER % 4 * 5_500), 5_500
    )
)


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody has, nor gets while a server is started or restarted.

    Each is given once, and each worker has ports of its own: a server may be started long after its
    ports were found. Clients' are from 32768 on.
    """
    found = {}
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            port = next(_PORTS)
            with contextlib.suppress(OSError):
                found[port] = stack.enter_context(socket.create_server(("127.0.0.1", port)))
    return list(found)
