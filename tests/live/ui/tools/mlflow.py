"""MLflow: evaluation spans in its trace tree, and assessments in its list of traces."""

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import rest
from harness.browser import Browser, picture, sees, until
from harness.findings import Findings
from harness.installed import environment
from harness.line import Run, span_name
from harness.processes import Processes, answers, free_ports

from spanscore.api.v1.score_pb2 import Score
from spanscore.cli.one_run import Backend
from spanscore.model.trace import AgentTrace, Session

_EXPERIMENT = "0"
"""The one that every server begins with."""

_FAILED = "task_completion"
_FILTER = "web-shared.traces-table.filter"
_NO_GUIDES = """for (const [key, value] of [["mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", true],
  ["mlflow.assistant.panelOpen_v1", false], ["mlflow.detectIssues.guidanceShown_v1", true]])
  localStorage.setItem(key, value)"""
"""What its page remembers once a person has closed the panels that a first visit opens."""


class Tool:
    """One MLflow server, its data in a folder of its own."""

    has_pages = True

    def __init__(self, processes: Processes, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self._folder = folder
        self.address = f"http://127.0.0.1:{self._port}"
        headers = {"x-mlflow-experiment-id": _EXPERIMENT}
        self.backend = Backend(
            self.address, "127.0.0.1", self._port, "http", secure=False, headers=headers
        )
        self.sinks: Mapping[str, Any] = {"mlflow": {"endpoint": self.address}}
        self.start(processes)

    def start(self, processes: Processes) -> None:
        """Start it, or start it again."""
        programs = environment("mlflow", "mlflow")
        store, artifacts = f"sqlite:///{self._folder}/mlflow.db", self._folder / "artifacts"
        place = ["--backend-store-uri", store, "--artifacts-destination", artifacts]
        listens = ["--host", "127.0.0.1", "--port", str(self._port), "--workers", "1"]
        # It starts programs of its environment by their names.
        environ = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        processes.start(
            self._folder.name, [programs / "mlflow", "server", *listens, *place], environ
        )

    def is_ready(self) -> bool:
        return answers(f"{self.address}/health")

    def facts(self, trace_id: str) -> Mapping[str, object]:
        answer = rest.get(f"{self.address}/api/3.0/mlflow/traces/tr-{trace_id}")
        if answer is None:
            raise LookupError(trace_id)
        found = answer["trace"]["trace_info"]
        told, duration = found.get("trace_metadata", {}), found.get("execution_duration")
        return {
            "duration_ms": duration and round(float(duration.removesuffix("s")) * 1000),
            "status": found["state"],
            "tokens": told.get("mlflow.trace.tokenUsage"),
            "cost": told.get("mlflow.trace.cost"),
        }

    def look(self, run: Run, browser: Browser, findings: Findings) -> None:
        for trace in run.traces:
            self._look_at_trace(browser, run, trace, findings)
        self._look_at_list(browser, run, findings)
        for session in run.sessions:
            self._look_at_session(browser, run, session, findings)
        if run.failing(_FAILED):
            self._filter(browser, run, findings)

    def _look_at_trace(
        self, browser: Browser, run: Run, trace: AgentTrace, findings: Findings
    ) -> None:
        trace_id = run.place_of(trace)
        page = self._open(browser, f"traces?selectedEvaluationId=tr-{trace_id}")
        # a guide may lie over it
        page.get_by_role("button", name="Assess").first.dispatch_event("click")
        for score in run.of_trace(trace):
            name = span_name(score)
            if score.label == "fail":
                findings.holds(f"{trace_id}: {name}: in the tree", true=sees(page, name))
            findings.holds(
                f"{trace_id}: {score.metric} is assessed", true=_is_assessed(page, score)
            )
        if trace_id in run.failing(_FAILED):
            picture(page, run.pictures / "assessments.png", x=190, y=0, width=1510, height=820)
            page.get_by_text(f"fail: {_FAILED}", exact=True).first.click()
            picture(page, run.pictures / "trace.png", x=190, y=0, width=1510, height=820)
        page.close()

    def _look_at_list(self, browser: Browser, run: Run, findings: Findings) -> None:
        page = self._open(browser, "traces", 3400)
        for metric in {x.metric for trace in run.traces for x in run.of_trace(trace)}:
            findings.holds(f"the list has a column {metric}", true=sees(page, metric))
        picture(page, run.pictures / "list.png")
        page.close()

    def _look_at_session(
        self, browser: Browser, run: Run, session: Session, findings: Findings
    ) -> None:
        page = self._open(browser, f"chat-sessions/{session.session_id}")
        for score in run.of_session(session):
            findings.holds(
                f"{session.session_id}: {score.metric} is assessed", true=_is_assessed(page, score)
            )
        picture(page, run.pictures / "session.png")
        page.close()

    def _filter(self, browser: Browser, run: Run, findings: Findings) -> None:
        """The filter that docs/mlflow.md names: by the name of the evaluation span."""
        page = self._open(browser, "traces")
        page.get_by_role("button", name="Filters").click()
        for part, choice in (("field", "Span name"), ("operator", "CONTAINS")):
            page.locator(f'button[data-component-id="{_FILTER}.{part}"]').click()
            page.get_by_role("option", name=choice, exact=True).click()
        page.locator(f'input[data-component-id="{_FILTER}.value"]').fill(f"fail: {_FAILED}")
        picture(page, run.pictures / "filter.png")
        page.get_by_role("button", name="Apply filters").click()
        count = len(run.failing(_FAILED))
        # of all traces, and MLflow has those too that are no agent's
        shown = re.compile(rf"^{count} of \d+$")
        findings.holds(f"span name contains {_FAILED}: fail: {count}", true=sees(page, shown))
        page.close()

    def _open(self, browser: Browser, path: str, width: int = 1700) -> Any:
        return browser.open(
            f"{self.address}/#/experiments/{_EXPERIMENT}/{path}", width=width, before=_NO_GUIDES
        )


def _is_assessed(page: Any, score: Score) -> bool:
    """Whether the pane of assessments shows the score with its value."""
    if not sees(page, score.metric):
        return False

    def is_shown() -> bool:
        shown = re.search(rf"^{score.metric}\s+([\d.]+)$", page.inner_text("body"), re.MULTILINE)
        return shown is not None and math.isclose(float(shown[1]), score.value, abs_tol=0.0001)

    return until(is_shown)
