"""A gRPC server of servicers that a test wrote, in a thread of its own."""

import asyncio
import contextlib
import threading

import grpc

from spanscore.api.caller import Caller
from spanscore.api.server import _handlers


@contextlib.contextmanager
def serving(*servicers, tokens=None):
    """The endpoint of a server that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait_for(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    async def start():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(tuple(_handlers(x, Caller(tokens)) for x in servicers))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, port

    server = None
    try:
        server, port = wait_for(start())
        yield f"127.0.0.1:{port}"
    # also where a servicer is not as its proto has it: a thread that is left would keep pytest from
    # ending
    finally:
        if server is not None:
            wait_for(server.stop(0))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
