"""google.rpc.Status as this package writes and reads it, against the package that publishes it."""

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given, strategies as st

from spanscore.rpc import (
    BadRequest,
    ErrorInfo,
    as_json,
    detail_of,
    new_status,
    read_status,
    retry_after_s,
)

CODES, TEXTS = st.integers(0, 16), st.text(st.characters(exclude_categories=["Cs"]))
WAITS_S = st.integers(0, 10**12).map(lambda x: x / 1000)
INFO = {"reason": "BAD", "domain": "spanscore", "metadata": {"a": "b"}}
WRONG = {"field": "filter", "description": "odd"}


def published(code, message, *details):
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return status


@pytest.mark.slow
@given(CODES, TEXTS, WAITS_S)
def test_the_published_messages_read_what_is_written(code, message, wait_s):
    status = new_status(code, message, retry_after_s=wait_s)
    read = status_pb2.Status.FromString(status.SerializeToString())
    info = error_details_pb2.RetryInfo()

    assert (read.code, read.message) == (code, message)
    assert read.details[0].Unpack(info)
    assert info.retry_delay.ToNanoseconds() / 1e9 == pytest.approx(wait_s)


def test_the_published_messages_read_the_reason_and_the_wrong_fields():
    status = new_status(3, "no", ErrorInfo(**INFO), BadRequest(field_violations=[WRONG]))
    read = status_pb2.Status.FromString(status.SerializeToString())
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert read.details[0].Unpack(info)
    assert read.details[1].Unpack(bad)
    assert info == error_details_pb2.ErrorInfo(**INFO)
    assert bad == error_details_pb2.BadRequest(field_violations=[WRONG])


def test_the_reason_and_the_wrong_fields_are_read():
    info = error_details_pb2.ErrorInfo(**INFO)
    bad = error_details_pb2.BadRequest(field_violations=[WRONG])
    status = read_status(published(3, "no", info, bad).SerializeToString())

    assert detail_of(status, ErrorInfo) == ErrorInfo(**INFO)
    assert detail_of(status, BadRequest) == BadRequest(field_violations=[WRONG])
    assert retry_after_s(status) is None


def test_as_json_it_is_what_the_published_messages_are():
    wait = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=3))
    status = published(3, "no", error_details_pb2.ErrorInfo(**INFO), wait)

    assert as_json(read_status(status.SerializeToString())) == MessageToDict(status)


def test_details_of_other_kinds_are_passed_over():
    wait = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=3))
    status = published(14, "later", error_details_pb2.QuotaFailure(), wait)

    assert retry_after_s(read_status(status.SerializeToString())) == 3


def test_a_wait_of_less_than_no_time_is_none():
    wait = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=-3))

    assert retry_after_s(published(14, "later", wait)) == 0


def test_a_detail_that_cannot_be_read_is_none():
    status = new_status(14, "later", retry_after_s=3)
    status.details[0].value = b"\xff"

    assert retry_after_s(status) is None


@pytest.mark.parametrize("data", [b"\xff", b"\x1a\x7f", b"\x0a"])
def test_what_is_no_status_is_none(data):
    assert read_status(data) is None
