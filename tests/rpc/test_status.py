"""google.rpc.Status as this package writes and reads it, against the package that publishes it."""

import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from spanscore.rpc.messages import (
    ErrorInfo,
    FieldViolation,
    Status,
    message_class,
    read_status,
    write_status,
)

STATUSES = st.builds(
    Status,
    st.integers(0, 16),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.none() | st.integers(0, 10**12).map(lambda x: x / 1000),
)


def published(code, message, *details):
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return status


@pytest.mark.slow
@given(STATUSES)
def test_the_published_messages_read_what_is_written(status):
    read = status_pb2.Status.FromString(write_status(status))
    info = error_details_pb2.RetryInfo()
    found = [
        info.retry_delay.ToNanoseconds() / 1e9 for detail in read.details if detail.Unpack(info)
    ]

    assert (read.code, read.message) == (status.code, status.message)
    assert found == ([] if status.retry_after_s is None else [pytest.approx(status.retry_after_s)])


def test_the_published_messages_read_the_reason_and_the_wrong_fields():
    status = Status(
        3, "no", None, ErrorInfo("BAD", "spanscore", {"a": "b"}), (FieldViolation("filter", "odd"),)
    )
    read = status_pb2.Status.FromString(write_status(status))
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert read.details[0].Unpack(info)
    assert read.details[1].Unpack(bad)
    assert (info.reason, info.domain, dict(info.metadata)) == ("BAD", "spanscore", {"a": "b"})
    assert [(x.field, x.description) for x in bad.field_violations] == [("filter", "odd")]


def test_programs_that_ask_for_the_descriptors_show_metadata_as_a_map():
    pool = message_class("google.rpc.ErrorInfo").DESCRIPTOR
    assert pool.fields_by_name["metadata"].message_type.GetOptions().map_entry


def test_the_reason_and_the_wrong_fields_are_read():
    info = error_details_pb2.ErrorInfo(reason="BAD", domain="d", metadata={"a": "b"})
    bad = error_details_pb2.BadRequest(field_violations=[{"field": "filter", "description": "odd"}])
    status = Status(
        3, "no", None, ErrorInfo("BAD", "d", {"a": "b"}), (FieldViolation("filter", "odd"),)
    )
    assert read_status(published(3, "no", info, bad).SerializeToString()) == status


@given(STATUSES)
def test_what_is_written_is_read_again(status):
    assert read_status(write_status(status)).message == status.message


def test_details_of_other_kinds_are_passed_over():
    wait = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=3))
    status = published(14, "later", error_details_pb2.QuotaFailure(), wait)

    assert read_status(status.SerializeToString()) == Status(14, "later", 3.0)


@pytest.mark.parametrize("data", [b"\xff", b"\x1a\x7f", b"\x0a"])
def test_what_is_no_status_is_none(data):
    assert read_status(data) is None
