"""Which results of tools are errors that were returned, and which only speak of errors."""

import pytest

from spanscore.turns.calls.tool_errors import inferred_error

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
    "404 Client Error: Not Sourced for url: http://example.org",
    "[Errno 2] No such file or directory: 'a.txt'",
    "Traceback (most recent call last):\n  File ...",
    "ValueError: bad city",
    "ValueError('bad city')",
    "TimeoutError()",
    "openai.RateLimitError: slow down",
    "java.lang.IllegalStateException: closed",
    "Error 404: Not Sourced",
    "Error (500): upstream",
    "API Error: 500 Internal server error",
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}',
    "Error while calling tool weather: timed out",
    "I encountered an error: no such city",  # CrewAI
    "I encountered an error while trying to use the tool. This was the error: no such city.",
    (
        "You tried to use the tool wether, but it doesn't exist. You must use one of the following"
        " tools: weather."
    ),
    (
        "\nError executing tool. coworker mentioned not found, it must be one of the following"
        " options:\n- clerk\n"
    ),
    "Encountered error: no such city",  # LlamaIndex
    # smolagents
    "Error when executing tool weather with arguments {'city': 'Rom'}: KeyError: 'Rom'",
    "Error executing tool 'weather' with arguments {'city': 'Rom'}: KeyError: 'Rom'",
    # Haystack
    "Failed to invoke Tool `weather` with parameters {'city': 'Rom'}. Error: no such city",
    "Tool 'wether' not found. Available tools: weather",
    "wether is not a valid tool, try one of [weather].",  # LangChain
    "Error invoking tool 'weather' with kwargs {'city': 1} with error:\n city: should be a string",
    "<tool_use_error>File does not exist.</tool_use_error>",  # Claude Code
    "Client error '404 Not Sourced' for url 'http://example.org'",  # httpx
    "Request failed with status code 404",  # axios
    "Tool input validation error",  # LangChain
    "Input validation error: 'city' is a required property",  # MCP
    "Unknown tool: wether",
    "Execution error in weather: no such city",  # DSPy
    # smolagents
    "Code execution failed at line 'weather(1)' due to: InterpreterError: no such city",
    "java.lang.NullPointerException",
    'Exception in thread "main" java.lang.NullPointerException',
    'Tool "wether" not found in registry.',  # Gemini CLI
    (  # Mastra
        "Tool input validation failed for weather. Please fix the following errors and try"
        " again:\n- city"
    ),
    "Tool with name wether not found. Please select a tool that is available.",  # LlamaIndex
    "Action 'wether' don't exist, these are the only available Actions:\nweather",  # CrewAI
    # Pydantic AI
    "Unknown tool name: 'wether'. Available tools: 'weather'\n\nFix the errors and try again.",
    "Model tried to call unavailable tool 'wether'. Available tools: weather.",  # AI SDK
    "An error occurred (AccessDenied) when calling the GetObject operation: Access Denied",
    "Error: 'city'",
    "PianoError: out of tune",
    "Error: ",
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
    "Traceback (most recent call last) explained",
    "TypeError (JavaScript) - reference",
    "404 Client Error: what it means",
    "MCP error -32601 in the documentation",
    "Error while typing: 3 %",
    "Error 404 page design ideas",
    "Error 500 miles: the song",
    "Tool call failed. is a common phrase",
    "Encountered errors in 3 of 5 runs: see the log",
    "The API error 500 is a server's",
    "hammer is not a valid tool, try a saw",
    "Error: None",
    "error: 0",
    "Error: no error.",
    "Error code: 0 (success)",
    "Encountered error: none",
    "Exception: n/a",
    "NoError: all checks passed",
    "NoException: all checks passed",
    "An error occurred in 3 of 500 requests today.",
    'An error occurred on line 4 of your essay: "their" should be "there".',
    "Error has occurred 3 times in the last week",
    "Tool hammer not found",
    "see.Exception",
    "NullPointerException",
    "Input validation errors are listed below",
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
        {"error": "none", "success": True},
        {"error": "±2", "status": "ok"},
        {"error": "±2", "status": "completed"},
        {"error": "1 of 3 retried", "ok": True, "message": "sent"},
        {"error": "none"},
        {"error": "No error.", "code": 0},
        {"exit_code": 1, "stderr": "warning: unused"},
        [{"error": "no such city"}],
        0,
        None,
        False,
    ],
)
def test_an_object_whose_keys_only_sound_like_an_error_is_data(result):
    assert inferred_error(result) is None
