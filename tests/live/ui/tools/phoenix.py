"""Arize Phoenix: evaluation spans in its trace tree, and annotations of spans, traces and
sessions.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness import rest
from harness.browser import Browser, picture, sees, until
from harness.findings import Findings
from harness.installed import environment
from harness.line import Run, span_name
from harness.processes import Processes, answers, free_ports

from spanscore.api.v1.score_pb2 import Score
from spanscore.cli.one_run import Backend
from spanscore.model.trace import AgentTrace

_TRACE = """query ($id: String!) { trace: getTraceByOtelId(traceId: $id) {
  latencyMs errorCount
  rootSpan \
{ statusCode propagatedStatusCode cumulativeTokenCountPrompt cumulativeTokenCountCompletion }
  costSummary { total { tokens cost } } } }"""
_PROJECT = """{ projects { edges { node { id name } } } }"""
_FAILED = "task_completion"
_NOW_FAILING = (
    f"len([s for s in spans if 'fail: {_FAILED}' in s.name]) > "
    f"len([s for s in spans if ': {_FAILED} (revised, was fail)' in s.name])"
)
_WHOLE_TREE_PX = 4000
"""The page has only those rows of a tree that are in sight."""


class Tool:
    """One Phoenix, its data in a folder of its own."""

    has_pages = True

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._port, self._grpc_port = free_ports(2)
        self._folder = folder
        self.address = f"http://127.0.0.1:{self._port}"
        self.backend = Backend(
            self.address, "127.0.0.1", self._port, "http", secure=False, headers={}
        )
        self.sinks: Mapping[str, Any] = {"phoenix": {"endpoint": self.address}}
        self.start(processes)

    def start(self, processes: Processes) -> None:
        """Start it, or start it again."""
        environ = {
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(self._port),
            "PHOENIX_GRPC_PORT": str(self._grpc_port),
            "PHOENIX_WORKING_DIR": str(self._folder),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        }
        program = environment("phoenix", "arize-phoenix") / "phoenix"
        processes.start(self._folder.name, [program, "serve"], environ)

    def is_ready(self) -> bool:
        return answers(f"{self.address}/healthz")

    def facts(self, trace_id: str) -> Mapping[str, object]:
        trace = self._ask(_TRACE, id=trace_id)["trace"]
        if trace is None or trace["rootSpan"] is None:
            raise LookupError(trace_id)
        root = trace["rootSpan"]
        return {
            "duration_ms": trace["latencyMs"],
            "status": (root["statusCode"], root["propagatedStatusCode"], trace["errorCount"]),
            "tokens": (root["cumulativeTokenCountPrompt"], root["cumulativeTokenCountCompletion"]),
            "cost": trace["costSummary"]["total"],
        }

    def look(self, run: Run, browser: Browser, findings: Findings) -> None:
        page = browser.open(self._url(), height=_WHOLE_TREE_PX)
        for trace in run.traces:
            self._look_at_trace(page, run, trace, findings)
        self._look_at_sessions(page, run, findings)
        if run.failing(_FAILED):
            self._filter(page, run, findings)

    def _look_at_trace(self, page: Any, run: Run, trace: AgentTrace, findings: Findings) -> None:
        trace_id = run.place_of(trace)
        page.goto(self._url(f"traces/{trace_id}"))
        pane = page.get_by_test_id("application-drawer-plane")
        for score in run.of_trace(trace):
            name = span_name(score)
            if score.label == "fail":
                findings.holds(f"{trace_id}: {name}: in the tree", true=sees(pane, name))
            if not score.span_id:
                continue  # its header shows annotations of the root only
            told = f"{score.metric}\n{_mean(score.value)}"
            found = until(lambda told=told: told in _text(pane))
            findings.holds(f"{trace_id}: {told!r}: an annotation", true=found, found=_text(pane))
        tally = f"spanscore: {_tally(run.of_trace(trace))}"
        findings.holds(f"{trace_id}: {tally}: in the tree", true=sees(pane, tally))
        if trace_id in run.failing(_FAILED):
            pane.get_by_text(f"fail: {_FAILED}", exact=True).click()
            findings.holds("a click shows the reason", true=sees(pane, "Output"))
            page.set_viewport_size({"width": 1500, "height": 820})
            picture(page, run.pictures / "trace.png")
            page.set_viewport_size({"width": 1500, "height": _WHOLE_TREE_PX})

    def _look_at_sessions(self, page: Any, run: Run, findings: Findings) -> None:
        page.set_viewport_size({"width": 1500, "height": 820})
        for session in run.sessions:
            page.goto(self._url("sessions"))
            page.get_by_text(session.session_id, exact=True).first.click()
            pane = page.get_by_test_id("application-drawer-plane")
            for score in run.of_session(session):
                claim = (
                    f"{session.session_id}: {score.metric}: annotation with {_mean(score.value)}"
                )
                there = sees(pane, score.metric)
                shown = _text(pane)
                findings.holds(
                    claim,
                    true=there and f"{score.metric}\n{_mean(score.value)}" in shown,
                    found=shown,
                )
        if run.sessions:
            picture(page, run.pictures / "session.png")

    def _filter(self, page: Any, run: Run, findings: Findings) -> None:
        """The filters that docs/phoenix.md names, in a link as a person would keep it."""
        failing = len(run.failing(_FAILED))
        for tab, parameter, condition in (
            ("spans", "spanFilterCondition", f"annotations['{_FAILED}'].label == 'fail'"),
            ("traces", "traceFilterCondition", f"any(s.name == 'fail: {_FAILED}' for s in spans)"),
            ("traces", "traceFilterCondition", _NOW_FAILING),
            ("traces", "traceFilterCondition", "trace_annotations['_spanscore'].label == 'fail'"),
            ("traces", "traceFilterCondition", f"trace_annotations['{_FAILED}'].label == 'fail'"),
        ):
            page.goto(self._url(f"{tab}?{parameter}={quote(condition)}"))
            rows = page.locator("table tbody tr")
            found = until(lambda rows=rows: rows.count() == failing)
            findings.holds(f"{tab} with {condition}: {failing}", true=found, found=rows.count())
        picture(page, run.pictures / "filter.png")

    def _url(self, path: str = "") -> str:
        projects = self._ask(_PROJECT)["projects"]["edges"]
        (project,) = (x["node"]["id"] for x in projects if x["node"]["name"] == "default")
        return f"{self.address}/projects/{project}/{path}"

    def _ask(self, query: str, **variables: object) -> Any:
        return rest.post(f"{self.address}/graphql", {"query": query, "variables": variables})[
            "data"
        ]


def _tally(scores: Sequence[Score]) -> str:
    """What sums up a trace: of what is measured with it, and with its session where that failed."""
    judged = [x for x in scores if x.label and (x.metric != "loop_detection" or x.label == "fail")]
    failed = [x for x in judged if x.label == "fail"]
    return f"{len(failed)} of {len(judged)} failed" if failed else f"all {len(judged)} passed"


def _text(pane: Any) -> str:
    text: str = pane.inner_text()
    return text.replace("\xa0", " ")


def _mean(value: float) -> str:
    """A value as Phoenix writes it: cut, not rounded."""
    return f"μ {math.floor(value * 100 + 1e-9) / 100:.2f}"
