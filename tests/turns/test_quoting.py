"""A look-up that returns a log, a page or a job that speaks of an error has not failed."""

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, tool

from spanscore.rebuild import rebuild_all
from spanscore.turns.calls.quoting import error_in

QUOTED = [
    ("search_docs", {"query": "error 500"}, "Error 500: shown when the upstream is late."),
    ("web_search", {"query": "MCP error -32601"}, "MCP error -32601: Method not found. It means"),
    ("read_log", {"lines": 1}, "Error 500: upstream timed out"),
    ("get_build_log", {}, "Error: Type 'string' is not assignable\n  src/app.ts:12:5"),
    ("read_email", {"id": "m1"}, "Tool failed: the nightly backup did not run."),
    ("read_file", {"path": "/var/log/nginx/error.log"}, "Error 502: bad gateway"),
    ("read_file", {"path": "crash.txt"}, "Traceback (most recent call last):\nKeyError: 'a'"),
    ("bash", {"command": "grep -i error app.log"}, "Error: disk full\nError: disk full"),
    (
        "fetch_page",
        {"url": "https://help.example/codes"},
        "Error 404: Not Found\n\nThis page explains what to do.\n1. Check it.\n2. Restore it.",
    ),
    ("get_job", {"id": 9}, {"status": "failed", "error": "out of memory"}),
    ("get_deployment_status", {}, {"status": "failed", "message": "image not found"}),
    ("list_failed_payments", {}, {"error": "card declined", "status": "failed", "code": 4}),
]
FAILED = [
    ("get_weather", {"city": "Rome"}, "Error 500: upstream timed out"),
    ("fetch_page", {"url": "https://a.example/x"}, "Error 404: Not Found"),
    ("WebFetch", {"url": "https://x.example"}, "Request failed with status code 403"),
    ("read_file", {"path": "errors.py"}, "Error: ENOENT: no such file or directory"),
    ("read_log", {}, "PermissionError: [Errno 13] Permission denied: '/var/log/app.log'"),
    ("web_search", {"query": "how to fix an error"}, "HTTP 429 Too Many Requests"),
    ("bash", {"command": "python a.py"}, "Traceback (most recent call last):\nKeyError: 'a'"),
    ("run_tests", {"path": "test_errors.py"}, "Error: command not found: pytest"),
    ("get_ticket", {"id": 3}, {"error": "ticket not found"}),
    ("get_job", {"id": 77}, {"error": "no such job"}),
    ("get_order", {"id": 1}, {"status": "failed", "error": "internal error"}),
]


@pytest.mark.parametrize("returned", QUOTED)
def test_a_look_up_that_returned_what_speaks_of_an_error_has_not_failed(returned):
    assert error_in(*returned) is None


@pytest.mark.parametrize("returned", FAILED)
def test_a_call_that_failed_has_its_error(returned):
    assert error_in(*returned) is not None


def test_a_turn_that_reads_a_log_has_no_failed_call():
    spans = [
        agent(),
        chat("1", 1, [ASK], [call("read_log", {"lines": 1}, "c1")]),
        tool("2", 3, "read_log", call__arguments='{"lines": 1}', call__result="Error 500: late"),
        chat("3", 5, [ASK], [ANSWER]),
    ]
    (trace,) = rebuild_all(spans)

    assert [(x.result, x.error) for x in trace.tool_calls] == [("Error 500: late", None)]
