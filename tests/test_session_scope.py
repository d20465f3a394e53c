"""Turns with one session id are one session only within one service namespace and tenant."""

import pytest

from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import DEFAULT_SCOPE, Target, in_scope, scope_of, session_key


@pytest.fixture
def keys(make_trace):
    """The session keys of traces with the session id `42`, one for each resource."""

    def made(*resources, names=DEFAULT_SCOPE, session_id="42"):
        targets = [Target("a" * 32, "b" * 16, 1, 2, x) for x in resources]
        traces = [make_trace(n, target=x, session_id=session_id) for n, x in enumerate(targets, 1)]
        return [x.session_key for x in in_scope(traces, names)]

    return made


def test_without_namespace_and_tenant_the_id_is_the_key(keys):
    assert keys({}, {"service.name": "shop"}) == ["42", "42"]


@pytest.mark.parametrize("name", DEFAULT_SCOPE)
def test_another_namespace_or_tenant_is_another_session(keys, name):
    assert len(set(keys({name: "a"}, {name: "b"}, {}))) == 3


def test_services_of_one_namespace_share_a_session(keys):
    one, other = keys(
        *({"service.namespace": "shop", "service.name": x} for x in ("front", "back"))
    )
    assert one == other


def test_another_attribute_can_be_configured(keys):
    names = (*DEFAULT_SCOPE, "service.name")
    assert len(set(keys({"service.name": "front"}, {"service.name": "back"}, names=names))) == 2


def test_no_attribute_at_all_joins_by_the_id(keys):
    assert keys({"service.namespace": "a"}, {"tenant.id": "b"}, names=()) == ["42", "42"]


def test_a_header_that_was_kept_keeps_sessions_apart_whatever_is_configured(keys):
    resources = [with_headers({}, (("x-scope-orgid", x),)) for x in "ab"]
    assert len(set(keys(*resources, names=()))) == 2


def test_a_header_is_no_attribute_of_its_name(keys):
    assert len(set(keys(with_headers({}, (("tenant.id", "a"),)), {"tenant.id": "a"}))) == 2


def test_an_empty_attribute_bounds_nothing(keys):
    assert keys({"service.namespace": ""}) == ["42"]


def test_the_key_of_one_tenant_cannot_be_given_as_another_ones_id(keys):
    [key] = keys({"tenant.id": "a"})
    assert keys({}, {"tenant.id": "b"}, session_id=key).count(key) == 0


@pytest.mark.parametrize("other", [{}, with_headers({}, ((TENANT, "blue"),))])
def test_the_id_that_is_a_tenants_key_is_another_key_for_others(keys, other):
    [key] = keys(with_headers({"service.namespace": "shop"}, ((TENANT, "acme"),)))
    [found] = keys(other, session_id=key)
    assert key.startswith("acme/")
    assert not found.startswith("acme/")


def test_where_there_are_tenants_other_headers_do_not_keep_sessions_apart(keys):
    found = keys(*(with_headers({}, ((TENANT, "acme"), ("x-region", x))) for x in "ab"))
    assert len(set(found)) == 1


def test_a_value_of_any_length_gives_a_short_key():
    scope = scope_of({"tenant.id": "x" * 10**6}, DEFAULT_SCOPE)
    assert len(session_key("42", scope)) < 100


def test_a_trace_without_a_session_has_no_key(keys):
    assert keys({"tenant.id": "a"}, session_id=None) == [None]


def test_the_key_is_in_the_json_of_a_trace_where_it_is_not_the_id(make_trace):
    traces = [
        make_trace(1, session_id="42"),
        make_trace(2, session_id="42", session_key="other:42"),
    ]
    assert ["session_key" in x.to_json() for x in traces] == [False, True]
