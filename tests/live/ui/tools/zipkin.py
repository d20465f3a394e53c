"""Zipkin, its released server; spans come to it through a small converter."""

import hashlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import rest
from harness.browser import Browser, picture
from harness.failing import FAIL, evaluated, failing
from harness.findings import Findings
from harness.installed import installed
from harness.line import Run
from harness.processes import Processes, answers, free_ports

from spanscore.cli.one_run import Backend
from spanscore.errors import SpanscoreError

_HERE = Path(__file__).resolve().parent.parent / "zipkin"
_VERSION = "3.6.1"
_SHA256 = "d8326e0ed4f43855dba81228f688554706e52578a7c782d9a90b73f8680654a1"
_WITHIN_S = 30.0
_LEAST_PX, _HEAD_PX, _ROW_PX = 820, 340, 30
_DAY_MS = 24 * 3600 * 1000


class Tool:
    """One Zipkin, its spans in memory, and the converter before it."""

    has_pages = True

    def __init__(self, processes: Processes, folder: Path) -> None:
        port, self._converter = free_ports(2)
        server = f"http://127.0.0.1:{port}"
        self._api = f"{server}/api/v2"
        self.address = f"{server}/zipkin"
        url = f"http://127.0.0.1:{self._converter}"
        self.backend = Backend(url, "127.0.0.1", self._converter, "http", secure=False, headers={})
        self.sinks: Mapping[str, Any] = {}
        listen = {"ip": "127.0.0.1", "port": port, "protocols[0]": "http"}
        place = [f"--armeria.ports[0].{name}={value}" for name, value in listen.items()]
        processes.start(
            folder.name,
            [_program("java", "default-jre-headless"), "-Xmx256m", "-jar", _jar(), *place],
        )
        script = [
            sys.executable,
            _HERE / "converter.py",
            str(self._converter),
            f"{self._api}/spans",
        ]
        processes.start(f"{folder.name}-converter", script)

    def is_ready(self) -> bool:
        with socket.socket() as probe:
            converts = probe.connect_ex(("127.0.0.1", self._converter)) == 0
        return converts and answers(f"{self._api}/services")

    def facts(self, trace_id: str) -> Mapping[str, object]:
        trace = self._trace(trace_id)
        if not trace:
            raise LookupError(trace_id)
        return {
            "duration_us": _duration_us(trace),
            "spans besides those of spanscore": len([x for x in trace if not _is_score(x)]),
            "status": sorted(x["name"] for x in trace if "error" in x["tags"]),
            "services": sorted({x["localEndpoint"]["serviceName"] for x in trace}),
        }

    def look(self, run: Run, browser: Browser, findings: Findings) -> None:
        """Each trace's page, a score opened on it, and the search for failing traces."""
        expected = {x.uid for x in evaluated(run)}
        traces = self._when_all_are_there({x.trace_id for x in evaluated(run)}, expected)
        found = {x["id"]: x for spans in traces.values() for x in spans if _is_score(x)}
        missing = expected - found.keys()
        findings.holds(
            f"{len(expected)} evaluation spans are there", true=not missing, found=missing
        )
        for number, (trace_id, spans) in enumerate(traces.items(), 1):
            page = self._open(browser, trace_id, spans)
            self._look_at(page, trace_id, spans, findings)
            picture(page, run.pictures / f"trace-{number}.png")
            page.close()
        self._open_a_failing_score(run, traces, browser, findings)
        failed = {x["traceId"] for x in found.values() if x["tags"].get(FAIL[0]) == FAIL[1]}
        findings.holds(
            "every failing score's trace is there", true=failing(run) <= failed, found=failed
        )
        self._search(failed, run, browser, findings)

    def _open(self, browser: Browser, trace_id: str, spans: list[dict[str, Any]]) -> Any:
        """A trace's page, as high as it takes: rows that are out of sight are not drawn."""
        height = max(_LEAST_PX, _HEAD_PX + _ROW_PX * len(spans))
        return browser.open(f"{self.address}/traces/{trace_id}", height=height)

    def _look_at(
        self, page: Any, trace_id: str, spans: list[dict[str, Any]], findings: Findings
    ) -> None:
        names = sorted(x["name"] for x in spans if _is_score(x))
        page.get_by_text(names[0]).first.wait_for()
        shown = page.locator("body").inner_text()
        unseen = [x for x in names if x not in shown]
        findings.holds(
            f"{trace_id}: its page shows {len(names)} scores, by their names",
            true=not unseen,
            found=unseen,
        )
        duration = _shown(_duration_us(spans))
        header = shown[: shown.index("Trace ID")].split()
        findings.holds(
            f"{trace_id}: its page says that it took {duration}",
            true=duration in header,
            found=header,
        )

    def _open_a_failing_score(
        self,
        run: Run,
        traces: Mapping[str, list[dict[str, Any]]],
        browser: Browser,
        findings: Findings,
    ) -> None:
        score = min(evaluated(run), key=lambda x: x.label != FAIL[1])
        name = next(x["name"] for x in traces[score.trace_id] if x["id"] == score.uid)
        page = self._open(browser, score.trace_id, traces[score.trace_id])
        page.get_by_text(name).first.click()
        page.get_by_text("evaluation.summary").first.wait_for()
        shown = page.locator("body").inner_text()
        for key in ("evaluation.summary", "gen_ai.evaluation.explanation"):
            texts = {x["tags"].get(key) for x in traces[score.trace_id] if x["name"] == name}
            findings.holds(
                f"one click on {name!r} shows its {key}", true=any(x and x in shown for x in texts)
            )
        picture(page, run.pictures / "score.png")
        page.close()

    def _search(self, expected: set[str], run: Run, browser: Browser, findings: Findings) -> None:
        """A trace that was scored again is found by its earlier scores too."""
        query = "=".join(FAIL)
        asked = urllib.parse.urlencode(
            {"annotationQuery": query, "limit": 1000, "lookback": _DAY_MS}
        )
        found = {spans[0]["traceId"] for spans in rest.get(f"{self._api}/traces?{asked}")}
        claim = f"a search for {query} finds the {len(expected)} failing traces and no other"
        findings.holds(claim, true=found == expected, found=found)
        if not expected:
            return
        page = browser.open(
            f"{self.address}/?annotationQuery={urllib.parse.quote(query)}&limit=1000"
        )
        page.get_by_role("button", name="Run Query").click()
        results = page.locator("a[href*='/traces/']")
        results.first.wait_for()
        found = {
            str(x).rpartition("/")[2]
            for x in results.evaluate_all("links => links.map(x => x.href)")
        }
        findings.holds("so does its page", true=found == expected, found=found)
        picture(
            page,
            run.pictures / "failing.png",
            x=0,
            y=0,
            width=page.viewport_size["width"],
            height=300,
        )
        page.close()

    def _trace(self, trace_id: str) -> list[dict[str, Any]]:
        spans: list[dict[str, Any]] | None = rest.get(f"{self._api}/trace/{trace_id}")
        return spans or []

    def _when_all_are_there(
        self, trace_ids: set[str], uids: set[str]
    ) -> dict[str, list[dict[str, Any]]]:
        deadline_s = time.monotonic() + _WITHIN_S
        while True:
            traces = {trace_id: self._trace(trace_id) for trace_id in sorted(trace_ids)}
            there = {x["id"] for spans in traces.values() for x in spans}
            if uids <= there or time.monotonic() > deadline_s:
                return traces
            time.sleep(0.5)


def _duration_us(trace: list[dict[str, Any]]) -> int:
    end_us = max(x["timestamp"] + x["duration"] for x in trace)
    return int(end_us - min(x["timestamp"] for x in trace))


def _shown(duration_us: int) -> str:
    """A duration as its pages have it."""
    if duration_us >= 10**6:
        return f"{duration_us / 10**6:.3f}s"
    if duration_us % 1000 == 0:
        return f"{duration_us // 1000}ms"
    return (
        f"{duration_us / 1000:.3f}ms"
        if duration_us >= 1000
        else f"{duration_us}\N{GREEK SMALL LETTER MU}s"
    )


def _is_score(span: Mapping[str, Any]) -> bool:
    return "spanscore.emitted" in span.get("tags", {})


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SpanscoreError(
            f"Zipkin needs {name}: `apt-get install {package}` (Debian), then again"
        )
    return found


def _jar() -> Path:
    name = f"zipkin-server-{_VERSION}-exec.jar"

    def install(folder: Path) -> None:
        artifact = f"-Dartifact=io.zipkin:zipkin-server:{_VERSION}:jar:exec"
        command = [
            _program("mvn", "maven"),
            "-q",
            "-B",
            "dependency:copy",
            artifact,
            f"-DoutputDirectory={folder}",
        ]
        subprocess.run(command, check=True, cwd="/")  # not where a pom.xml is
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if digest != _SHA256:
            raise SpanscoreError(
                f"{folder / name} is another file than the pinned one: its SHA-256 is {digest}"
            )

    return installed(f"zipkin-{_VERSION}", _SHA256.encode(), install) / name
