"""A page token leads on, and shows whoever holds it nothing."""

import base64

import pytest
from hypothesis import given, strategies as st

from spanscore.api import requests
from spanscore.api.requests import opened, seal
from spanscore.api.servicer import Call
from spanscore.api.v1 import trace_service_pb2 as pb
from spanscore.errors import FieldError

ACME = Call("acme", page_key=b"k" * 32)
REQUEST = pb.ListTracesRequest(page_size=5)
NUMBERS = st.integers(-1, 2**63 - 1)


def following(token, call=ACME, numbers=2):
    return requests.place(pb.ListTracesRequest(page_token=token), call, numbers)


@given(place=st.tuples(NUMBERS, NUMBERS))
def test_a_token_leads_to_its_place(place):
    assert following(requests.token(REQUEST, ACME, place)) == place


def test_tokens_of_near_and_far_places_look_alike():
    near, next_, far = (
        base64.urlsafe_b64decode(requests.token(REQUEST, ACME, (x, 0))) for x in (7, 8, 2**40)
    )
    assert len(near) == len(next_) == len(far)
    assert sum(a == b for a, b in zip(near, next_, strict=True)) < len(near) / 4


@pytest.mark.parametrize("byte", range(48))
def test_a_token_that_was_changed_is_refused(byte):
    token = bytearray(base64.urlsafe_b64decode(requests.token(REQUEST, ACME, (7, 8))))
    token[byte] ^= 1
    with pytest.raises(FieldError, match="page_token: is no next_page_token"):
        following(base64.urlsafe_b64encode(token).decode())


@pytest.mark.parametrize(
    ("call", "numbers"),
    [(Call("acme", page_key=b"o" * 32), 2), (Call("acme"), 2), (ACME, 1), (ACME, 3)],
)
def test_a_token_of_another_store_or_list_is_refused(call, numbers):
    with pytest.raises(FieldError, match="page_token: is no next_page_token"):
        following(requests.token(REQUEST, ACME, (7, 8)), call, numbers)


def test_a_token_of_another_tenant_is_refused():
    with pytest.raises(FieldError, match="page_token: is of another request"):
        following(requests.token(REQUEST, ACME, (7, 8)), Call("blue", page_key=ACME.page_key))


def test_a_token_of_any_length_costs_little():
    with pytest.raises(FieldError, match="page_token: is no next_page_token"):
        following("A" * 10**6)


@given(key=st.binary(min_size=1, max_size=64), content=st.binary(max_size=300))
def test_what_is_sealed_can_be_opened_with_its_key_alone(key, content):
    assert opened(key, seal(key, content)) == content
    assert opened(b"another", seal(key, content)) is None or key == b"another"
