"""A look-up that returns a log, a page or a job that speaks of an error has not failed."""

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, tool

from spanscore.rebuild import rebuild_all
from spanscore.turns.calls.tool_errors import error_in

STACK = 'Traceback (most recent call last):\n  File "/srv/tools/a.py", line 40, in get\n    raise e'
VALIDATION = (
    "Error executing tool search_docs: 2 validation errors for Arguments\nquery\n  Field\nk\n"
)
LOG = "Error: disk full\n2026-01-01T10:00:00 retried\n2026-01-01T10:00:05 disk full again"

QUOTED = [
    ("search_docs", {"query": "error 500"}, "Error 500: shown when the upstream is late."),
    ("web_search", {"query": "MCP error -32601"}, "MCP error -32601: Method not found. It means"),
    ("read_log", {"lines": 3}, LOG),
    ("get_events", {}, "Error: late\n[10:00:01] request timed out\n[10:00:02] request timed out"),
    ("bash", {"command": "grep -i error app.log"}, "Error: disk full\nNo space left"),
    ("bash", {"command": "grep 'a|b' x.log 2>&1 | tail -n 2"}, "Error: disk full\nNo space left"),
    ("shell", {"cmd": "cat a.log"}, "Error: listen EADDRINUSE :::3000\n    at Server.listen"),
    (
        "fetch_page",
        {"url": "https://help.example/codes"},
        "Error: the door is open\n\nThis page explains what to do.\n1. Close it.\n2. Restart it.",
    ),
    ("get_job", {"id": 9}, {"id": 9, "status": "failed", "error": "out of memory"}),
    ("getBuildStatus", {}, {"status": "failed", "error": "lint failed", "build": 17}),
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
    ("get_logs", {"service": "api"}, "Error 500: Internal Server Error"),
    ("read_log", {"lines": 1}, "Error 500: upstream timed out"),
    ("query_logs", {"index": "app"}, "ConnectionError: Max retries exceeded"),
    ("get_ticket", {"id": "T-9"}, "Error: Database connection failed"),
    ("list_emails", {"folder": "inbox"}, "Error: IMAP connection lost"),
    ("read_email", {"id": "7"}, "Error: Token has expired"),
    ("get_trace", {"id": "1"}, "MCP error -32603: Internal error"),
    ("get_issue", {"number": 7}, f"{STACK}\nhttpx.ReadTimeout: timed out"),
    ("search_logs", {"query": "level=error"}, "Error: request timed out after 30000ms"),
    ("web_search", {"query": "exception handling in Python"}, "Error: Tavily returned 500"),
    ("fetch", {"url": "https://s.example/logs"}, "Error: getaddrinfo ENOTFOUND s.example"),
    ("read_file", {"path": "/var/log/syslog"}, "Error: file too large to read (2.1 GB)"),
    ("search_docs", {"k": 1}, VALIDATION),
    ("bash", {"command": "tail -n 5 app.log"}, "Error: spawn /bin/bash EAGAIN"),
    ("bash", {"command": "cat a.log"}, "Error: Command failed: cat a.log\ncat: a.log: I/O error"),
    ("bash", {"command": "cat a.sh; sh a.sh"}, "Error: disk full\nNo space left"),
    ("find_staff", {"query": "head of sales"}, "Error: no index\nAsk the operator."),
    ("get_payment_methods", {}, {"status": "failed", "error": "down", "id": 5}),
    ("get_transactions", {}, {"status": "failed", "error": "Internal server error"}),
    ("list_jobs", {}, {"status": "failed", "error": "ECONNREFUSED", "job": 5}),
    ("search_emails", {"q": "x"}, {"status": "failed", "error": "backend error"}),
    ("get_job", {"id": 9}, {"status": "failed", "error": "late", "request_id": "r", "path": "/"}),
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
        tool("2", 3, "read_log", call__arguments='{"lines": 1}', call__result=LOG),
        chat("3", 5, [ASK], [ANSWER]),
    ]
    (trace,) = rebuild_all(spans)

    assert [(x.result, x.error) for x in trace.tool_calls] == [(LOG, None)]
