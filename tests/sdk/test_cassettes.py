"""What makes two questions the same to a cassette, and how its file is kept."""

import stat

import pytest

from spanscore.judge import Prompt
from spanscore.sdk.cassettes import Cassette, Entry, as_compared

ONE = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def compared(transcript):
    return as_compared(Prompt("instructions", transcript, "question"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Turn started: 2024-05-15 15:00:00 UTC, a Wednesday; it took 0.1 s",
            "Turn started: ; it took 2 min 3 s",
        ),
        ("1. the tool x was called (+0.1 s)", "1. the tool x was called (+1.2 s, took 5.8 s)"),
        ("booked at 2024-05-15T15:00:00.123Z", "booked at 2031-01-01T00:00:00+01:00"),
        ("<untrusted-data lphjfqtkkqhn>", "<untrusted-data bcdfghjklmnp>"),
        (f"order {ONE}", f"order {OTHER}"),
        ("<Tool object at 0x7f8d23563750>", "<Tool object at 0x7f8d13c7c750>"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(one, other):
    assert compared(one) == compared(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the order is 17", "the order is 18"),
        ("it costs 5 s", "it costs 6 s"),
        (f"booked {ONE}, answered {ONE}", f"booked {ONE}, answered {OTHER}"),
    ],
)
def test_what_an_answer_may_rest_on_is_not(one, other):
    assert compared(one) != compared(other)


def test_a_file_of_answers_is_readable_by_its_owner_alone_also_where_it_was_there(tmp_path):
    path = tmp_path / "cassettes" / "test_travel.json"
    path.parent.mkdir()
    path.write_text("{}")
    path.chmod(0o644)
    cassette = Cassette(path)
    cassette.record("key", Entry(("Book a flight.",), "judge-1", {"score": 1}))
    cassette.save()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Cassette.load(path).entries == cassette.entries
