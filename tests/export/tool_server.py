"""A server that plays a tool with an API of its own, and remembers what it was asked."""

import json
from contextlib import asynccontextmanager

from aiohttp import web


class FakeTool:
    """Answers by `answers`: path (without query) to a function of the request's JSON; remembers
    what it was asked.
    """

    def __init__(self):
        self.asked, self.answers, self.headers = [], {}, {}

    async def handle(self, request):
        text = await request.text()
        body = json.loads(text) if text else None
        self.headers = dict(request.headers)
        self.asked.append((request.method, request.path, body))
        status, shown = self.answer(request, body)
        return (
            web.json_response(shown, status=status)
            if not isinstance(shown, str)
            else web.Response(status=status, text=shown)
        )

    def answer(self, request, body):
        return self.answers.get((request.method, request.path), lambda body: (200, {}))(body)

    def bodies(self, method, path):
        return [body for asked, at, body in self.asked if (asked, at) == (method, path)]


@asynccontextmanager
async def before(kind, config, tool=None, **settings):
    """A sink and the tool that it speaks to."""
    tool = tool or FakeTool()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", tool.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    sink = kind(config.model_validate({"endpoint": url, **settings}))
    try:
        yield sink, tool
    finally:
        await sink.close()
        await sink.close()
        await runner.cleanup()
