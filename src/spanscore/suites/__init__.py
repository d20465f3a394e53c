"""Test suites over recorded traces."""

from spanscore.suites.delivery import send, to_file
from spanscore.suites.matches import suite_of
from spanscore.suites.report import CaseResult, Run, as_text, to_json, to_junit
from spanscore.suites.run import prepare, run, run_suite, run_suite_async, with_judge
from spanscore.suites.suite import Case, Suite, json_schema, load, parse
from spanscore.suites.trial import Trial

__all__ = [
    "Case",
    "CaseResult",
    "Run",
    "Suite",
    "Trial",
    "as_text",
    "json_schema",
    "load",
    "parse",
    "prepare",
    "run",
    "run_suite",
    "run_suite_async",
    "send",
    "suite_of",
    "to_file",
    "to_json",
    "to_junit",
    "with_judge",
]
