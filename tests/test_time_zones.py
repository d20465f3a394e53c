import sys
import zoneinfo

import pytest

from spanscore.analytics import summary
from spanscore.monitoring import Schedule
from spanscore.time_zones import zone_of


@pytest.fixture
def no_database(monkeypatch):
    """As in a container that has neither the system's time zones nor the package `tzdata`."""
    for name in ["tzdata", *(x for x in sys.modules if x.startswith("tzdata."))]:
        monkeypatch.setitem(sys.modules, name, None)
    zoneinfo.ZoneInfo.clear_cache()
    zoneinfo.reset_tzpath(to=())
    yield
    zoneinfo.reset_tzpath()


def test_utc_needs_no_database(no_database):
    assert summary.zone("").utcoffset(None) == summary.zone("UTC").utcoffset(None)
    assert Schedule("a", cron="0 0 * * *").next_after(0) == 86_400 * 10**9
    with pytest.raises(ValueError, match="'Europe/Berlin' is no time zone"):
        zone_of("Europe/Berlin")
