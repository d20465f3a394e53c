"""`spanscore monitors` reads what a server's monitors know."""

import asyncio
import json

import pytest

from spanscore.cli.main import main
from spanscore.control.monitors import Monitors
from spanscore.export.alerting_config import Alerting
from spanscore.monitoring.config import Monitor
from spanscore.store.config import Config
from spanscore.store.store import Store

HOUR = 3600 * 10**9
NOW_NS = 1_790_000_000 * 10**9


@pytest.fixture
def configuration(tmp_path):
    path = tmp_path / "spanscore.yaml"
    monitors = {"quality": {"metric": "coherence", "floor": 0.5}, "slow": {"metric": "coherence", "paused": True}}
    path.write_text(json.dumps({"store": {"url": f"sqlite:///{tmp_path}/spanscore.db"}, "monitors": monitors}))
    return path


@pytest.fixture
def looked(configuration, tmp_path):
    """The monitor `quality` has looked once."""
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    given = {"quality": Monitor(metric="coherence", floor=0.5)}, Alerting(), store.monitors, None
    monitors = Monitors(*given, clock_ns=lambda: NOW_NS)

    async def trigger():
        await monitors.trigger(await monitors.get("", "quality"))

    asyncio.run(trigger())
    store.close()
    return configuration


def listed(capsys, *arguments):
    code = main(["monitors", *map(str, arguments)])
    return code, capsys.readouterr()


def test_monitors_are_listed_before_a_server_ran(configuration, capsys):
    code, out = listed(capsys, "-c", configuration, "--json")
    found = [json.loads(line) for line in out.out.splitlines()]
    assert code == 0
    assert [(x["monitor"], x["state"], x["last_look"]) for x in found] == [
        ("quality", "new", None),
        ("slow", "paused", None),
    ]


def test_a_monitor_that_has_looked_says_what_it_does(looked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    _, out = listed(capsys, "-c", looked)
    assert "gathers its first sessions" in out.out


def test_the_looks_of_a_monitor_are_listed(looked, capsys):
    _, out = listed(capsys, "quality", "-c", looked, "--json")
    assert json.loads(out.out) == {
        "due": "2026-09-21T14:13:20.000Z",
        "looked": "2026-09-21T14:13:20.000Z",
        "outcome": "unchanged",
        "scores": 0,
        "sessions": 0,
    }


def test_a_monitor_that_is_not_configured_is_named_with_those_that_are(configuration, capsys):
    code, out = listed(capsys, "other", "-c", configuration)
    assert code == 2
    assert "other: no such monitor in the configuration; there: quality, slow" in out.err


def test_without_monitors_it_says_so(tmp_path, capsys):
    path = tmp_path / "spanscore.yaml"
    path.write_text("{}")
    _, out = listed(capsys, "-c", path)
    assert "no monitors are configured" in out.out


@pytest.mark.parametrize(
    ("monitor", "message"),
    [
        ({"metric": "coherence", "cron": "99 * * * *"}, "cron '99"),
        ({"metric": "coherence", "cron": "0 9 * * *", "time_zone": "Mars"}, "time_zone 'Mars'"),
        ({}, "metric"),
    ],
)
def test_what_is_wrong_with_a_monitor_is_said_with_its_key(tmp_path, capsys, monitor, message):
    path = tmp_path / "spanscore.yaml"
    path.write_text(json.dumps({"monitors": {"quality": monitor}}))
    code, out = listed(capsys, "-c", path)
    assert code == 2
    assert "monitors.quality" in out.err
    assert message in out.err
