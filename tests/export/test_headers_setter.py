"""Headers that leave with what passes through."""

import pytest

from spanscore.errors import RetryableError
from spanscore.export.config import HeadersSetter, applied
from spanscore.export.port import UndeliveredError

RECEIVED = (("x-scope-orgid", "tenant-a"),)


def sent(setting, given=(), received=RECEIVED):
    return HeadersSetter.model_validate({"headers": [setting]})(dict(given), received)


def test_a_header_is_taken_from_the_request_that_came_in():
    assert sent({"key": "X-Scope-OrgID", "from_context": "X-Scope-OrgID"}) == {
        "x-scope-orgid": "tenant-a"
    }


def test_a_header_that_did_not_come_has_its_default():
    setting = {"key": "x", "from_context": "absent", "default_value": "none"}
    assert sent(setting) == {"x": "none"}


def test_a_header_that_did_not_come_and_has_no_default_is_left_as_it_is():
    assert sent({"key": "x", "from_context": "absent"}, {"x": "before"}) == {"x": "before"}


@pytest.mark.parametrize(
    ("action", "absent", "present"),
    [
        ("insert", "new", "before"),
        ("update", None, "new"),
        ("upsert", "new", "new"),
        ("delete", None, None),
    ],
)
def test_actions_are_those_of_the_collector(action, absent, present):
    setting = {"key": "x", "action": action, **({} if action == "delete" else {"value": "new"})}
    assert sent(setting).get("x") == absent
    assert sent(setting, {"x": "before"}).get("x") == present


@pytest.mark.parametrize("sources", [{}, {"value": "a", "from_context": "b"}])
def test_a_header_has_one_source(sources):
    with pytest.raises(ValueError, match="give value or from_context, one of the two"):
        HeadersSetter.model_validate({"headers": [{"key": "x", **sources}]})


def test_what_is_needed_of_requests_is_known_in_lower_case():
    setter = HeadersSetter.model_validate(
        {"headers": [{"key": "x", "from_context": "X-Scope-OrgID"}]}
    )
    assert setter.wanted == {"x-scope-orgid"}


def test_a_key_that_is_no_header_is_refused():
    with pytest.raises(ValueError, match="is no header"):
        HeadersSetter.model_validate({"headers": [{"key": "a b", "value": "c"}]})


def test_credentials_that_cannot_be_told_now_are_waited_for():
    def fail(_given, _received):
        raise RetryableError("the token cannot be told now")

    with pytest.raises(UndeliveredError, match="cannot be told now"):
        applied(fail, {}, ())
