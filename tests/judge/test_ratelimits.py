"""Rate limits are read from the headers of every provider that states them, and nothing in a header
is trusted.
"""

import pytest

from spanscore.judge.provider import NOTHING_STATED, Quota, read, reset_s
from spanscore.retry import retry_after_s

NOW_NS = 1_700_000_000 * 10**9


@pytest.mark.parametrize(
    "header", ["soon", "", "nan", "inf", "-inf", "1e400", "Thu, 99 Foo 2026", None]
)
def test_a_retry_after_that_says_nothing_is_ignored(header):
    assert retry_after_s(header, 0) in (None, 0.0)


def test_a_date_in_the_past_is_no_wait():
    assert retry_after_s("Thu, 01 Jan 1970 00:00:07 GMT", 10**18) == 0


def test_milliseconds_go_before_whole_seconds():
    stated = read({"retry-after": "1", "retry-after-ms": "63"}, 0)

    assert (stated.retry_after_s, stated.is_exact) == (0.063, True)


@pytest.mark.parametrize(
    ("header", "is_exact"), [("2", False), ("2.5", True), ("Thu, 01 Jan 1970 00:00:07 GMT", False)]
)
def test_whole_seconds_are_taken_for_rounded(header, is_exact):
    assert read({"retry-after": header}, 0).is_exact == is_exact


def test_a_date_is_taken_for_rounded_whatever_the_time_is():
    stated = read({"retry-after": "Thu, 01 Jan 1970 00:00:07 GMT"}, 5_300_000_000)

    assert (stated.retry_after_s, stated.is_exact) == (pytest.approx(1.7), False)


@pytest.mark.parametrize(
    ("headers", "quota"),
    [
        (
            {
                "x-ratelimit-limit-requests": "500",
                "x-ratelimit-remaining-requests": "499",
                "x-ratelimit-reset-requests": "120ms",
            },
            Quota(500, 499, 0.12),
        ),
        (
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "40",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:32Z",
            },
            Quota(50, 40, 12.0),
        ),
        (
            {
                "x-ratelimit-limit": "20",
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": "1700000003000",
            },
            Quota(20, 0, 3.0),
        ),
        (
            {"ratelimit-limit": "100", "ratelimit-remaining": "10", "ratelimit-reset": "30"},
            Quota(100, 10, 30.0),
        ),
        (
            {"x-ratelimit-limit-req-minute": "60", "x-ratelimit-remaining-req-minute": "59"},
            Quota(60, 59, None),
        ),
    ],
    ids=["openai", "anthropic", "openrouter", "ietf", "mistral"],
)
def test_a_limit_on_requests_is_read_in_each_spelling(headers, quota):
    assert read(headers, NOW_NS).requests == quota


def test_a_limit_on_tokens_is_read_beside_that_on_requests():
    headers = {
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "59.8s",
    }

    assert (read(headers, 0).tokens, read(headers, 0).requests) == (Quota(30000, 100, 59.8), None)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "many", ""])
def test_a_limit_that_is_no_number_is_not_there(text):
    headers = {"x-ratelimit-limit-requests": text, "x-ratelimit-remaining-requests": "1"}

    assert read(headers, 0) == NOTHING_STATED


@pytest.mark.parametrize("text", [None, "", "soon", "5 parsecs", "1x"])
def test_a_reset_that_is_no_time_is_not_there(text):
    assert reset_s(text, 0) is None


def test_a_bucket_refills_by_what_was_used_until_its_reset():
    assert Quota(500, 499, 0.12).refill_per_s == pytest.approx(500 / 60)


@pytest.mark.parametrize("quota", [Quota(10, 10, 1.0), Quota(10, 5, None), Quota(10, 5, 0.0)])
def test_a_rate_that_is_not_stated_is_not_guessed(quota):
    assert quota.refill_per_s is None
