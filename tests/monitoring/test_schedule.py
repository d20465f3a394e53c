"""The times of monitors, through changes of the clock both ways."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from spanscore.monitoring import Schedule

HOUR = 3600 * 10**9


def ns(text, zone="UTC"):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 10**9


def times(cron, zone, after, count):
    """The next times in UTC, as `day hour:minute`."""
    schedule, at_ns, found = Schedule("a", cron=cron, time_zone=zone), ns(after, zone), []
    for _ in range(count):
        at_ns = schedule.next_after(at_ns)
        found.append(datetime.fromtimestamp(at_ns / 1e9, UTC).strftime("%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00", ["29 01:00", "30 00:30"]),
        ("America/New_York", "30 2 * * *", "2026-03-07T12:00", ["08 07:00", "09 06:30"]),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00", ["03 15:30", "04 15:15"]),
    ],
)
def test_what_falls_into_the_time_that_is_skipped_comes_right_after_it(zone, cron, after, expected):
    assert times(cron, zone, after, 2) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00", ["25 00:30", "26 01:30"]),
        ("America/New_York", "30 1 * * *", "2026-10-31T12:00", ["01 05:30", "02 06:30"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00", ["04 14:45", "05 15:15"]),
    ],
)
def test_what_falls_into_the_time_that_there_is_twice_comes_once(zone, cron, after, expected):
    assert times(cron, zone, after, 2) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T01:10", "26 01:30"),
        ("America/New_York", "30 1 * * *", "2026-11-01T06:10", "02 06:30"),
        ("Europe/Berlin", "30 3 * * *", "2026-10-25T01:10", "25 02:30"),
    ],
)
def test_a_time_that_there_is_twice_does_not_come_again_in_the_second_of_the_two_hours(
    zone, cron, after, expected
):
    schedule, after_ns = Schedule("a", cron=cron, time_zone=zone), ns(after)
    assert (
        datetime.fromtimestamp(schedule.next_after(after_ns) / 1e9, UTC).strftime("%d %H:%M")
        == expected
    )
    assert schedule.last_until(after_ns + 60 * 10**9, after_ns) is None


CHANGES = [
    ("Europe/Berlin", "2026-03-29T01:00"),
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("America/St_Johns", "2026-03-08T05:30"),
    ("America/St_Johns", "2026-11-01T04:30"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("Africa/Cairo", "2026-04-23T22:00"),
    ("Africa/Cairo", "2026-10-29T21:00"),
]
"""When clocks change: by an hour or half of one, in the night or at midnight."""


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "change"), CHANGES)
def test_each_day_has_each_time_once_as_clocks_that_are_looked_at_each_minute_have_it(zone, change):
    start = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(days=1, minutes=7)
    minutes = [(start + timedelta(minutes=x)).astimezone(ZoneInfo(zone)) for x in range(3 * 1440)]
    for minute in range(0, 300, 15):
        schedule = Schedule("a", cron=f"{minute % 60} {minute // 60} * * *", time_zone=zone)
        at_ns, found = int(minutes[0].timestamp()) * 10**9, []
        while (at_ns := schedule.next_after(at_ns)) <= int(minutes[-1].timestamp()) * 10**9:
            found.append(at_ns // 10**9)
        assert found == reached(minutes, timedelta(minutes=minute))


def reached(minutes, after_midnight):
    """When clocks first show or pass a time of each day, in seconds since the Unix epoch."""
    found = {}
    for before, now in itertools.pairwise(minutes):
        shown, earlier = now.replace(tzinfo=None), before.replace(tzinfo=None)
        wanted = shown.replace(hour=0, minute=0) + after_midnight
        if earlier < wanted <= shown:
            found.setdefault(wanted, int(now.timestamp()))
    return sorted(found.values())


@pytest.mark.parametrize("after", ["2026-03-28T20:00", "2026-10-24T20:00"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_every_half_hour_comes_every_half_hour_whatever_the_clocks_do(zone, after):
    schedule, at_ns, found = Schedule("a", cron="*/30 * * * *", time_zone=zone), ns(after), []
    for _ in range(20):
        at_ns = schedule.next_after(at_ns)
        found.append(at_ns)
    assert {b - a for a, b in itertools.pairwise(found)} == {HOUR // 2}


def test_an_interval_has_the_same_times_after_a_restart():
    schedule = Schedule("a", every_ns=HOUR)
    assert schedule.next_after(ns("2026-01-01T10:20")) == ns("2026-01-01T11:00")


def test_jitter_is_the_same_for_one_monitor_and_less_than_asked_for():
    later = {
        name: Schedule(name, every_ns=HOUR, jitter_ns=HOUR // 6).next_after(ns("2026-01-01T10:30"))
        for name in "abcdef"
    }
    assert later["a"] == Schedule("a", every_ns=HOUR, jitter_ns=HOUR // 6).next_after(
        ns("2026-01-01T10:30")
    )
    assert len(set(later.values())) == 6
    assert all(ns("2026-01-01T11:00") <= x < ns("2026-01-01T11:10") for x in later.values())


@pytest.mark.parametrize("jitter_ns", [0, HOUR // 4])
@pytest.mark.parametrize("given", [{"cron": "0 * * * *"}, {"every_ns": HOUR}])
def test_each_time_is_the_last_until_the_next(given, jitter_ns):
    schedule = Schedule("a", **given, jitter_ns=jitter_ns)
    first = schedule.next_after(ns("2026-01-01T10:20"))
    second = schedule.next_after(first)
    assert second - first == HOUR
    assert schedule.last_until(second - 1, 0) == schedule.last_until(first, 0) == first
    assert schedule.last_until(second - 1, first) is None


def test_the_last_time_is_found_after_a_year():
    schedule = Schedule("a", cron="0 9 1 1 *", time_zone="Europe/Berlin")
    assert schedule.last_until(ns("2026-12-01T00:00"), ns("2025-06-01T00:00")) == ns(
        "2026-01-01T08:00"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cron": "61 * * * *"}, "cron '61"),
        ({"cron": "0 0 30 2 *"}, "cron '0 0 30 2 \\*'"),
        ({"cron": "often"}, "cron 'often'"),
        ({"cron": "0 0 * * *", "time_zone": "Europe/Nowhere"}, "'Europe/Nowhere' is no time zone"),
        ({"cron": "0 0 * * *", "time_zone": "../passwd"}, "is no time zone"),
    ],
)
def test_what_is_no_schedule_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Schedule("a", **given)
