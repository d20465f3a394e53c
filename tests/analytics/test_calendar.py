"""Buckets of time begin by the clocks of a time zone."""

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from spanscore.analytics import summary
from spanscore.errors import FieldError

HOUR_NS = 3600 * 10**9


def ns(text, zone):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("unit", "zone", "start", "end", "edges"),
    [
        ("day", "UTC", "2026-01-01T12:00", "2026-01-02T00:00", ["2026-01-01", "2026-01-02"]),
        (
            "day",
            "Europe/Berlin",
            "2026-03-29T03:30",
            "2026-03-30T00:01",
            ["2026-03-29", "2026-03-30", "2026-03-31"],
        ),
        ("week", "UTC", "2026-01-01", "2026-01-05", ["2025-12-29", "2026-01-05"]),
        (
            "month",
            "Asia/Tokyo",
            "2026-01-31T23:59",
            "2026-02-02",
            ["2026-01-01", "2026-02-01", "2026-03-01"],
        ),
        ("quarter", "UTC", "2026-05-05", "2026-05-06", ["2026-04-01", "2026-07-01"]),
        (
            "year",
            "America/New_York",
            "2025-12-31T20:00",
            "2026-01-01T00:01",
            ["2025-01-01", "2026-01-01", "2027-01-01"],
        ),
    ],
)
def test_they_cover_a_time(unit, zone, start, end, edges):
    found = summary.bucket_edges(ns(start, zone), ns(end, zone), unit, ZoneInfo(zone))
    assert found == [ns(x, zone) for x in edges]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("America/Santiago", "2026-09-06", 23),  # there midnight itself is skipped
        ("UTC", "2026-03-29", 24),
    ],
)
def test_a_day_on_which_the_clocks_change_is_shorter_or_longer(zone, day, hours):
    noon = ns(f"{day}T12:00", zone)
    start, end = summary.bucket_edges(noon, noon + 1, "day", ZoneInfo(zone))
    assert (end - start) / HOUR_NS == hours


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Santiago"]
)
def test_hours_have_sixty_minutes_and_follow_each_other_through_a_change_of_the_clocks(zone):
    start_ns = ns("2026-01-01", zone)
    found = summary.bucket_edges(start_ns, start_ns + 24 * 60 * HOUR_NS, "hour", ZoneInfo(zone))
    assert {b - a for a, b in pairwise(found)} == {HOUR_NS}
    assert datetime.fromtimestamp(found[0] / 1e9, ZoneInfo(zone)).minute == 0


def test_too_many_are_refused():
    with pytest.raises(FieldError, match="more than 2000 buckets of one hour"):
        summary.bucket_edges(0, 10**18, "hour", ZoneInfo("UTC"))


def test_the_last_moment_that_can_be_stored_has_a_bucket():
    assert summary.bucket_edges(2**63 - 2, 2**63 - 1, "year", ZoneInfo("UTC"))[0] < 2**63 - 1


@pytest.mark.parametrize(
    "name", ["Europe/Nowhere", "/etc/passwd", "..", "a\0b", "Europe", "x" * 9999]
)
def test_what_is_no_time_zone_is_named(name):
    with pytest.raises(FieldError, match="is no time zone; write one such as Europe/Berlin"):
        summary.zone(name)
