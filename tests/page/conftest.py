"""A real Chromium that opens the page of a real server."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from filled_store import fill
from served import Served

HERE = Path(__file__).parent
MANY = 50_000
_WAIT_MS = 60_000
_TOKENS = "writer scopes=read,write\nreader scopes=read\nsender scopes=write\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with 400 turns, of which a tenth fails."""
    served = Served(tmp_path_factory.mktemp("server"))
    fill(served.store_url, 400)
    yield served.start()
    served.stop()


@pytest.fixture(scope="session")
def large_server(tmp_path_factory):
    """A server with 50,000 turns."""
    served = Served(tmp_path_factory.mktemp("large"))
    fill(served.store_url, MANY)
    yield served.start()
    served.stop()


@pytest.fixture
def serve(tmp_path):
    """Makes a server that is not started yet; it is stopped at the end."""
    made = []

    def serve(**settings):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Served(folder, **settings))
        return made[-1]

    yield serve
    for one in made:
        one.stop()


@pytest.fixture
def guarded(serve, tmp_path):
    """A server that asks for a token."""
    (tmp_path / "tokens").write_text(_TOKENS)
    extension = {"bearertokenauth/api": {"filename": str(tmp_path / "tokens")}}
    return serve(
        extensions=extension, api={"auth": {"authenticator": "bearertokenauth/api"}}
    ).start()


@pytest.fixture
def show(browser):
    """Opens the page of a server; it has `complaints`, what its console said and which other
    servers it asked.
    """
    pages = []

    def show(served, at="", *, width=1400, dark=False, ready=".row, .nothing, .enter"):
        page = browser.open("about:blank", width=width, height=900)
        page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        page.set_default_timeout(_WAIT_MS)
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (page.complaints.append("a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda x: (
                None if x.url.startswith((served.url, "data:")) else page.complaints.append(x.url)
            ),
        )
        page.goto(f"{served.url}/ui/{at}")
        page.locator(ready).first.wait_for(state="attached")
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
