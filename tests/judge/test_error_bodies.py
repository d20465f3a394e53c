"""What the error of a judge's provider quotes of its answer."""

from types import SimpleNamespace

import pytest

from spanscore.judge.litellm import _without_body


@pytest.mark.parametrize(
    ("said", "model", "body", "shown"),
    [
        ("AuthenticationError: Wrong key", "openai/x", None, "AuthenticationError: Wrong key"),
        (
            'APIError: {"error": {"message": "no such model", "code": 1}, "x": 2}',
            "a/x",
            None,
            "APIError: no such model",
        ),
        (
            "APIError: Error code: 400 - {'error': {'message': 'too long'}}",
            "a/x",
            None,
            "APIError: too long",
        ),
        ('APIError: {"secret": 1}', "a/x", None, "APIError (HTTP 500)"),
        ("APIError: <!DOCTYPE html><p>secret", "a/x", None, "APIError (HTTP 500)"),
        ("APIError: secret", "openai/x", "secret", "APIError (HTTP 500)"),
        ('APIError: {"message": "secret"}', "a/http://localhost/", None, "APIError (HTTP 500)"),
    ],
)
def test_no_body_is_quoted_but_the_message_of_json(said, model, body, shown):
    assert _without_body(said, model, SimpleNamespace(status_code=500, body=body)) == shown
