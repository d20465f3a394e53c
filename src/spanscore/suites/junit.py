"""A run as JUnit XML, which CI systems show: one test case a case, with what kept its trials from
passing.
"""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

from spanscore.suites.report import CaseResult, Run

_MAX_CHARS = 20_000
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(run: Run) -> str:
    """The document.

    It keeps to what the schemas in use have in common (Apache Ant's, Jenkins' in all its versions).

    A case that fails is a `failure`, one of which it cannot be told an `error`, one that nothing
    matches `skipped`.
    """
    root = ET.Element("testsuites")
    started = datetime.fromtimestamp(run.started_at_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "id": "0",
            "package": "spanscore",
            "name": _clean(run.suite.name),
            "timestamp": started,
            "hostname": "localhost",
            "tests": str(len(run.cases)),
            "failures": str(run.count("fail")),
            "errors": str(run.count("error")),
            "skipped": str(run.count("unmatched")),
            "time": f"{sum(map(_time_s, run.cases)):.3f}",
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (("test.suite.name", run.suite.name), ("test.suite.run.id", run.run_id)):
        ET.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    for result in run.cases:
        _add(suite, run, result)
    ET.SubElement(suite, "system-out").text = ""
    ET.SubElement(suite, "system-err").text = ""
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add(suite: ET.Element, run: Run, result: CaseResult) -> None:
    named = {
        "classname": _clean(run.suite.name),
        "name": _clean(result.case.id),
        "time": f"{_time_s(result):.3f}",
    }
    case = ET.SubElement(suite, "testcase", named)
    if result.status == "unmatched":
        ET.SubElement(case, "skipped")
    if result.status in {"fail", "error"}:
        summary = f"{result.passed} of {len(result.trials)} trials passed"
        summary += f", {result.errors} cannot be told" if result.errors else ""
        message = f"{summary}; required is {result.required_pass_rate:.0%}"
        tag = "failure" if result.status == "fail" else "error"
        ET.SubElement(case, tag, {"type": result.status, "message": message}).text = _clean(
            "\n".join(result.reasons)
        )


def _time_s(result: CaseResult) -> float:
    return sum(x.latency_s for x in result.trials)


def _clean(text: str) -> str:
    """`text` without what no XML document may hold, and within bounds."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text[:_MAX_CHARS])
