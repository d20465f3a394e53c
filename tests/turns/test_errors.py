"""Which results of tools are errors that were returned, and which only speak of errors."""

import pytest

from spanscore.turns._errors import inferred_error

ERRORS = [
    "Error: no such city",
    "ERROR: upstream timeout",
    "error: connection refused",
    "  Exception: boom",
    "Fatal error: disk full",
    "Error - no such city",
    "Error code: 404 - {'error': {'message': 'no model'}}",
    "Error executing tool weather: timed out",
    "Error calling tool 'weather'.",
    "Error fetching https://example.org: 500",
    "An error occurred while running the tool. Please try again. Error: timeout",
    "Error in tool call execution: bad city",
    "Tool execution failed: no such tool",
    "Tool weather failed: no such city",
    "MCP error -32602: Invalid arguments for tool weather",
    "HTTP 500 Internal Server Error",
    "HTTP 404",
    "HTTP Error 403: Forbidden",
    "404 Client Error: Not Found for url: http://example.org",
    "[Errno 2] No such file or directory: 'a.txt'",
    "Traceback (most recent call last):\n  File ...",
    "ValueError: bad city",
    "ValueError('bad city')",
    "TimeoutError()",
    "openai.RateLimitError: slow down",
    "java.lang.IllegalStateException: closed",
]
NO_ERRORS = [
    "",
    "0 errors found",
    "The error rate is 2 %",
    "Error handling in Rust: a guide",
    "Errors: a history",
    "Terror: the film",
    "no_error: 0",
    "HTTP 200 OK",
    "HTTP 404 pages are shown where a page is missing",
    "ERROR 2026-01-01 disk full",
    "ERROR: disk full\nINFO: freed 2 GB",
    "500 m to the station",
    "Failed parcels: 3",
    "Traceback is a Python term",
]


@pytest.mark.parametrize("text", ERRORS)
def test_text_that_starts_as_an_error_is_one(text):
    assert inferred_error(text) == text


@pytest.mark.parametrize("text", NO_ERRORS)
def test_text_that_speaks_of_errors_is_data(text):
    assert inferred_error(text) is None


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"error": "no such city"}, "no such city"),
        ({"error": "no such city", "code": 404}, "no such city"),
        ({"error": "no such city", "data": None}, "no such city"),
        ({"error": {"message": "gone"}}, '{"message":"gone"}'),
        ({"error": True, "message": "gone"}, "gone"),
        ({"ok": False, "error": "channel_not_found"}, "channel_not_found"),
        ({"status": "error", "message": "gone", "city": "Rome"}, "gone"),
        ({"status": "error", "error_message": "gone"}, "gone"),
        ({"success": False, "message": "gone", "id": 3}, "gone"),
        ({"isError": True, "content": [{"type": "text", "text": "gone"}]}, "gone"),
    ],
)
def test_an_object_that_says_that_it_failed_is_an_error(result, error):
    assert inferred_error(result) == error


@pytest.mark.parametrize(
    "result",
    [
        {"error": None, "result": 5},
        {"error": 0},
        {"error": False, "message": "all well"},
        {"error": ""},
        {"error": [], "data": 1},
        {"error": "±2", "result": 5},
        {"errors": ["line 3: missing title"]},
        {"status": "failed", "build": 17},
        {"status": "error"},
        {"isError": False, "content": []},
        {"success": False},
        {"exit_code": 1, "stderr": "warning: unused"},
        [{"error": "no such city"}],
        0,
        None,
        False,
    ],
)
def test_an_object_whose_keys_only_sound_like_an_error_is_data(result):
    assert inferred_error(result) is None
