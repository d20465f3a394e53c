from pathlib import Path

import pytest

from spanscore.errors import InputError
from spanscore.sources import parse, stored_traces

NOW_NS = 10**18
DAY_NS = 24 * 3600 * 10**9


def parsed(text, **environ):
    return parse(text, environ=environ, now_ns=lambda: NOW_NS)


def test_a_url_names_the_backend_and_which_of_its_traces_are_wanted():
    found = parsed(
        "jaeger://there:1?service=shop&since=1h&until=30m&attribute.session.id=a%20b&errors=true&min_duration=2s"
        "&trace_id=AB&limit=5"
    )
    query = found.query
    assert (found.scheme, found.connection.base_url) == ("jaeger", "http://there:1")
    assert (query.service, query.attributes, query.errors, query.limit) == (
        "shop",
        {"session.id": "a b"},
        True,
        5,
    )
    assert (query.since_ns, query.until_ns) == (NOW_NS - 3600 * 10**9, NOW_NS - 1800 * 10**9)
    assert (query.min_duration_ns, query.trace_ids) == (2 * 10**9, ("ab".zfill(32),))


def test_a_backend_is_asked_for_the_last_day_where_the_url_says_nothing():
    assert parsed("jaeger://there").query.since_ns == NOW_NS - DAY_NS


def test_traces_that_are_named_by_their_ids_may_be_of_any_age():
    assert parsed("jaeger://there?trace_id=ab").query.since_ns is None


def test_files_are_read_whatever_their_age():
    assert parsed("s3://bucket/traces").query.since_ns is None


def test_the_backends_own_port_is_taken_where_none_is_named():
    assert parsed("jaeger://[::1]/base/").connection.base_url == "http://[::1]:16686/base"


def test_https_is_asked_for_beside_the_backends_name():
    assert parsed("jaeger+https://there").connection.base_url == "https://there:16686"


def test_credentials_come_from_the_environment():
    found = parsed(
        "jaeger://${env:NAME}:${env:KEY}@${env:HOST}?header.X-Tenant=${env:TENANT:-none}",
        NAME="me",
        KEY="p@s/s",
        HOST="there:1",
    )
    assert (found.connection.user, found.connection.password) == ("me", "p@s/s")
    assert found.connection.headers == {"X-Tenant": "none"}
    assert found.connection.base_url == "http://there:1"


def test_a_token_is_sent_as_a_bearer():
    assert parsed("jaeger://there?token=${env:T}", T="abc").connection.headers == {
        "Authorization": "Bearer abc"
    }


def test_no_reference_is_filled_in_for_a_url_that_came_over_the_network():
    found = parse("jaeger://there?token=${env:HOME}", now_ns=lambda: NOW_NS)
    assert found.connection.headers == {"Authorization": "Bearer ${env:HOME}"}


@pytest.mark.parametrize(
    "text",
    [
        "jaeger://me:secret@there?service=a",
        "jaeger://there?service=a&token=secret",
        "jaeger://there?header.X=secret&service=a",
        "jaeger://there?header%2EX=secret&service=a&%74oken=secret",
    ],
)
def test_what_is_shown_of_a_url_has_no_credential(text):
    found = parsed(text)
    assert str(found) == "jaeger://there?service=a"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("jaeger://there?sevice=a", "'sevice' is no parameter"),
        ("jaeger://", "names no host"),
        ("jaeger+ftp://there", "write jaeger:// or jaeger+https://"),
        ("jaeger://there:port", "jaeger://there:port"),
        ("jaeger://there?since=soon", "since: 'soon'"),
        ("jaeger://there?since=1h&until=2h", "since is not before until"),
        ("jaeger://there?limit=0", "limit=0: write a number of at least 1"),
        ("jaeger://there?errors=perhaps", "write true or false"),
        ("jaeger://there?min_duration=long", "min_duration: 'long'"),
        ("jaeger://there?trace_id=xyz", "hexadecimal"),
        ("jaeger://me:secret@there?limit=x", "jaeger://there: limit=x"),
        ("jaeger://me:secret@there?token=x", "one kind of credentials"),
        ("jaeger://there?header.X=a%0Ab", "cannot be sent"),
        ("s3://bucket?token=x", "'token' is no parameter"),
        ("jaeger://there#traces", "it has # in its path"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_by_what_is_wrong_and_without_its_credentials(
    text, what
):
    with pytest.raises(InputError, match=r".") as caught:
        parsed(text)
    assert what in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("end", ["/", "?", "#", "?a=", "[", "]"])
@pytest.mark.parametrize(
    "start", ["jaeger://bob:secret", "tempo+https://bob:34", "ftp://bob:secret"]
)
def test_no_part_of_a_password_that_is_not_percent_encoded_is_shown(start, end):
    with pytest.raises(InputError, match=r"percent-encode|no parameter") as caught:
        parsed(f"{start}{end}hidden@127.0.0.1:1")
    assert not any(x in str(caught.value) for x in ("secret", "34", "hidden"))


def test_an_address_of_s3_may_have_colons_and_an_at_sign():
    url = "s3://arn:aws:s3:us-east-1:123456789012:accesspoint/access/me@there.jsonl"
    assert parsed(url).url == url


def test_a_file_may_have_a_number_sign_in_its_name():
    location = parsed("file:///data/a#b.jsonl?service=shop")
    assert (location.url, str(location)) == (
        "file:///data/a#b.jsonl",
        "file:///data/a#b.jsonl?service=shop",
    )
    assert stored_traces.local_path(location) == Path("/data/a#b.jsonl")
