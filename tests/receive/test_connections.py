"""How many HTTP connections are open, and for how long."""

import asyncio

from spanscore.receive.connections import Connections
from spanscore.telemetry import declared


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        self.now_s += 1.0
        return self.now_s


def connections(limit):
    closed = []
    table = Connections(limit, clock_s=Clock())

    def open_one(key, address="a"):
        table.opened(key, address, lambda: closed.append(key))

    return table, open_one, closed


def test_for_one_too_many_that_without_a_request_for_the_longest_is_closed():
    _, open_one, closed = connections(2)
    for key in ("first", "second", "third"):
        open_one(key)
    assert closed == ["first"]


def test_a_connection_that_has_served_a_request_stays_longer_than_one_that_has_not():
    table, open_one, closed = connections(2)
    open_one("served")
    table.working("served")
    table.answered("served")
    for key in ("silent", "new"):
        open_one(key)
    assert closed == ["silent"]


def test_a_connection_with_a_request_being_worked_on_is_not_closed():
    table, open_one, closed = connections(1)
    open_one("busy")
    table.working("busy")
    open_one("new")
    assert closed == ["new"]


def test_the_address_with_the_most_connections_loses_one():
    _, open_one, closed = connections(3)
    open_one("alone", "b")
    for key in ("one", "two", "three"):
        open_one(key, "a")
    assert closed == ["one"]


def test_what_was_closed_is_counted_no_more():
    table, open_one, closed = connections(1)
    open_one("gone")
    table.closed("gone")
    open_one("new")
    assert (closed, len(table)) == ([], 1)


async def send_head_slowly(port):
    """A connection that sends part of a request's headers and waits; returns when the server closes
    it.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Slow: a")
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def closed_connections(up):
    series = next(x for x in up.meter.collect() if x.metric is declared.RECEIVER_CLOSED_CONNECTIONS)
    return {labels[1]: count for labels, count in series.values.items()}


def open_connections(up):
    return next(
        x.values[()] for x in up.meter.collect() if x.metric is declared.RECEIVER_HTTP_CONNECTIONS
    )


async def test_a_connection_whose_headers_do_not_arrive_in_time_is_closed(serve):
    async with serve(http={"read_header_timeout": "10ms"}) as up:
        assert await send_head_slowly(up.server.http_port) == b""
        assert closed_connections(up) == {"headers": 1}


async def test_a_connection_too_many_is_served_and_a_silent_one_closed(serve, traces):
    async with serve(http={"max_connections": 1}) as up:
        silent = asyncio.create_task(send_head_slowly(up.server.http_port))
        while not open_connections(up):  # noqa: ASYNC110 # the server has no event for it
            await asyncio.sleep(0)
        headers = {"Content-Type": "application/x-protobuf"}
        async with up.http.post(
            "/v1/traces", data=traces().SerializeToString(), headers=headers
        ) as answer:
            assert answer.status == 200
        assert await silent == b""
        assert closed_connections(up) == {"connections": 1}


async def test_health_closes_silent_connections_too(serve, monkeypatch):
    monkeypatch.setattr("spanscore.receive.connections.PAGE_HEADERS_S", 0.01)
    async with serve() as up:
        assert await send_head_slowly(up.server.health_port) == b""
