"""Answers are sorted as the OpenTelemetry Collector sorts them."""

import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from spanscore.errors import PermanentError
from spanscore.export import status
from spanscore.export.port import FaultError, UndeliveredError, UnsupportedSignalError

NOW_NS = 1_767_225_600 * 10**9  # 2026-01-01


def with_retry_info(seconds):
    answer = Status(code=8)
    info = RetryInfo()
    info.retry_delay.FromMilliseconds(round(seconds * 1000))
    answer.details.add().Pack(info)
    return answer.SerializeToString()


@pytest.mark.parametrize("code", [429, 502, 503, 504])
def test_http_answers_that_are_retried(code):
    assert isinstance(status.http_error(code, None, "", NOW_NS), UndeliveredError)


@pytest.mark.parametrize("code", [400, 409, 413, 422])
def test_http_answers_that_are_refusals(code):
    assert type(status.http_error(code, None, "", NOW_NS)) is PermanentError


@pytest.mark.parametrize("code", [408, 500, 505, 507, 520])
def test_http_answers_that_are_faults_of_the_backend(code):
    assert isinstance(status.http_error(code, None, "", NOW_NS), FaultError)


def test_a_redirect_is_waited_for_since_nothing_is_wrong_with_what_was_sent():
    error = status.http_error(302, None, "Found", NOW_NS)
    assert (type(error), "redirects" in str(error)) == (UndeliveredError, True)


@pytest.mark.parametrize("code", [404, 405, 501])
def test_http_answers_of_a_backend_without_the_signal(code):
    assert isinstance(status.http_error(code, None, "", NOW_NS), UnsupportedSignalError)


@pytest.mark.parametrize(("code", "maybe"), [(429, False), (503, False), (502, True), (504, True)])
def test_a_gateway_may_have_passed_on_what_it_could_not_answer(code, maybe):
    assert status.http_error(code, None, "", NOW_NS).maybe_delivered is maybe


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30.0),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0.0),
        ("soon", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header, seconds):
    assert status.http_error(503, header, "", NOW_NS).requested_wait_s == seconds


@pytest.mark.parametrize(
    "code",
    ["UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "DATA_LOSS", "CANCELLED"],
)
def test_grpc_answers_that_are_retried(code):
    assert isinstance(status.grpc_error(code, None, ""), UndeliveredError)


@pytest.mark.parametrize(
    "code", ["INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION"]
)
def test_grpc_answers_that_are_refusals(code):
    assert type(status.grpc_error(code, None, "")) is PermanentError


@pytest.mark.parametrize(
    "error",
    [
        status.http_error(401, None, "", NOW_NS),
        status.http_error(403, None, "", NOW_NS),
        status.grpc_error("UNAUTHENTICATED", None, ""),
        status.grpc_error("PERMISSION_DENIED", None, ""),
    ],
)
def test_refused_credentials_are_tried_again_and_named(error):
    assert isinstance(error, UndeliveredError)
    assert not error.maybe_delivered
    assert "check the credentials in this exporter's headers" in str(error)


@pytest.mark.parametrize("code", ["UNKNOWN", "INTERNAL", "RESOURCE_EXHAUSTED"])
def test_grpc_answers_that_are_faults_of_the_backend(code):
    error = status.grpc_error(code, None, "")
    assert (type(error), error.maybe_delivered) == (FaultError, True)


def test_unimplemented_is_a_backend_without_the_signal():
    assert isinstance(status.grpc_error("UNIMPLEMENTED", None, ""), UnsupportedSignalError)


def test_resource_exhausted_is_no_fault_when_told_when_to_come_back():
    told = status.grpc_error("RESOURCE_EXHAUSTED", with_retry_info(2.5), "")
    assert (told.requested_wait_s, type(told)) == (2.5, UndeliveredError)


def test_what_was_put_off_by_the_server_was_not_taken():
    told, broken = (
        status.grpc_error("UNAVAILABLE", details, "") for details in (with_retry_info(1), None)
    )
    assert (told.maybe_delivered, broken.maybe_delivered) == (False, True)


def test_details_that_cannot_be_read_say_nothing():
    assert status.grpc_error("UNAVAILABLE", b"\xff\xff", "").requested_wait_s is None
