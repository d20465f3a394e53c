"""Jaeger, by the API that its pages are drawn from: a Go module has no pages in it, so there is
nothing to look at.
"""

import json
import subprocess
import time
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import rest
from harness.browser import Browser
from harness.failing import FAIL, evaluated, failing
from harness.findings import Findings
from harness.line import Run
from harness.processes import Processes, answers, free_ports

from spanscore.cli.one_run import Backend
from spanscore.errors import SpanscoreError

_HERE = Path(__file__).resolve().parent.parent / "jaeger"
_WITHIN_S = 30.0
_CUT_US = 1
"""Jaeger cuts start and length to whole microseconds, each by itself: two spans that end at the
same time may not.
"""

_BAR_CHARS = 40


class Tool:
    """One Jaeger, its spans in memory."""

    has_pages = False

    def __init__(self, processes: Processes, folder: Path) -> None:
        query, query_grpc, otlp, health = free_ports(4)
        self.address = f"http://127.0.0.1:{query}"
        self.backend = Backend(
            f"http://127.0.0.1:{otlp}", "127.0.0.1", otlp, "grpc", secure=False, headers={}
        )
        self.sinks: Mapping[str, Any] = {}
        self._health = f"http://127.0.0.1:{health}/status"
        environ = {
            "QUERY_PORT": str(query),
            "QUERY_GRPC_PORT": str(query_grpc),
            "OTLP_PORT": str(otlp),
            "HEALTH_PORT": str(health),
        }
        processes.start(folder.name, [_built(), f"--config={_HERE / 'config.yaml'}"], environ)

    def is_ready(self) -> bool:
        return answers(self._health) and answers(f"{self.address}/api/services")

    def facts(self, trace_id: str) -> Mapping[str, object]:
        trace = self._trace(trace_id)
        if not trace:
            raise LookupError(trace_id)
        theirs = [x for x in trace if not _is_score(x)]
        ends_us = [_end_us(x) for x in theirs] + [
            _end_us(x) - _CUT_US for x in trace if _is_score(x)
        ]
        return {
            "duration_us": max(ends_us) - min(x["startTime"] for x in trace),
            "spans besides those of spanscore": len(theirs),
            "status": sorted(x["operationName"] for x in trace if _tags(x).get("error")),
            "warnings": sorted(text for x in trace for text in x.get("warnings") or ()),
        }

    def look(self, run: Run, browser: Browser, findings: Findings) -> None:
        """Check the evaluation spans of each trace and the searches; the picture is a text file."""
        expected = {x.uid: x for x in evaluated(run)}
        traces = self._when_all_are_there({x.trace_id for x in evaluated(run)}, set(expected))
        found = {x["spanID"]: x for spans in traces.values() for x in spans if _is_score(x)}
        missing = expected.keys() - found.keys()
        findings.holds(
            f"{len(expected)} evaluation spans are there", true=not missing, found=missing
        )
        wrong = [x.metric for uid, x in expected.items() if x.span_id and not _is_child(found[uid])]
        findings.holds(
            "each is CHILD_OF the span that it evaluates, and nothing else",
            true=not wrong,
            found=wrong,
        )
        warned = [x["warnings"] for x in found.values() if x.get("warnings")]
        findings.holds("none has a warning", true=not warned, found=warned)
        late = [
            x["tags"][0]
            for x in found.values()
            if min(x["tags"], key=_key)["key"] != "evaluation.summary"
        ]
        findings.holds("the summary is the first of the tags", true=not late, found=late)
        self._search([x for x in found.values() if _tags(x).get(FAIL[0]) == FAIL[1]], run, findings)
        self._draw(traces, run.pictures / "waterfall.txt")

    def _search(self, failed: Sequence[dict[str, Any]], run: Run, findings: Findings) -> None:
        """A trace that was scored again is found by its earlier scores too."""
        expected = {x["traceID"] for x in failed}
        findings.holds(
            "every failing score's trace is there", true=failing(run) <= expected, found=expected
        )
        tags = json.dumps(dict([FAIL]))
        claim = (
            f"a search for the tag {'='.join(FAIL)} finds the {len(expected)} failing traces and no"
            " other"
        )
        findings.holds(claim, true=self._found(tags=tags) == expected, found=self._found(tags=tags))
        for operation in sorted({x["operationName"] for x in failed}):
            found = self._found(operation=operation)
            findings.holds(
                f"so does one for the operation {operation!r}",
                true=found == {x["traceID"] for x in failed if x["operationName"] == operation},
                found=found,
            )

    def _found(self, **query: str) -> set[str]:
        found: set[str] = set()
        for service in rest.get(f"{self.address}/api/services")["data"]:
            asked = urllib.parse.urlencode(
                {"service": service, "limit": 1500, "lookback": "2d", **query}
            )
            found |= {x["traceID"] for x in rest.get(f"{self.address}/api/traces?{asked}")["data"]}
        return found

    def _trace(self, trace_id: str) -> list[dict[str, Any]]:
        answer = rest.get(f"{self.address}/api/traces/{trace_id}")
        if answer is None:
            return []
        spans: list[dict[str, Any]] = answer["data"][0]["spans"]
        return spans

    def _when_all_are_there(
        self, trace_ids: Iterable[str], uids: set[str]
    ) -> dict[str, list[dict[str, Any]]]:
        deadline_s = time.monotonic() + _WITHIN_S
        while True:
            traces = {trace_id: self._trace(trace_id) for trace_id in sorted(trace_ids)}
            there = {x["spanID"] for spans in traces.values() for x in spans}
            if uids <= there or time.monotonic() > deadline_s:
                return traces
            time.sleep(0.5)

    def _draw(self, traces: Mapping[str, Sequence[dict[str, Any]]], path: Path) -> None:
        """The waterfalls as text, in the order and with the bars of Jaeger's page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "\n\n".join("\n".join(_waterfall(x)) for x in traces.values()) + "\n", encoding="utf-8"
        )


def _built() -> str:
    built = subprocess.run([_HERE / "build.sh"], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise SpanscoreError("no Jaeger, see the lines above")
    return built.stdout.strip()


def _tags(span: Mapping[str, Any]) -> dict[str, Any]:
    return {x["key"]: x["value"] for x in span["tags"]}


def _end_us(span: Mapping[str, Any]) -> int:
    return int(span["startTime"] + span["duration"])


def _key(tag: Mapping[str, str]) -> str:
    return tag["key"]


def _is_score(span: Mapping[str, Any]) -> bool:
    return "spanscore.emitted" in _tags(span)


def _is_child(span: Mapping[str, Any]) -> bool:
    found = [(x["refType"], x["traceID"]) for x in span["references"]]
    return found == [("CHILD_OF", span["traceID"])]


def _waterfall(spans: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    start_us = min(x["startTime"] for x in spans)
    length_us = max(map(_end_us, spans)) - start_us or 1

    def below(parent: str | None, depth: int) -> Iterable[str]:
        for x in sorted(spans, key=lambda one: (one["startTime"], one["operationName"])):
            if (x["references"][0]["spanID"] if x["references"] else None) == parent:
                begin = (x["startTime"] - start_us) * _BAR_CHARS // length_us
                bar = " " * min(begin, _BAR_CHARS - 1) + "=" * max(
                    1, x["duration"] * _BAR_CHARS // length_us
                )
                yield (
                    f"{'  ' * depth + x['operationName']:<60.60} |{bar:<{_BAR_CHARS}.{_BAR_CHARS}}|"
                )
                yield from below(x["spanID"], depth + 1)

    return [
        f"{spans[0]['traceID']}: {length_us / 1000:.1f} ms, {len(spans)} spans",
        *below(None, 0),
    ]
