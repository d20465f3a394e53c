"""The real Phoenix and MLflow, one of each for all tests, and what each of them says was filed with
it.
"""

import time
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest
from harness import rest
from harness.processes import Processes
from tools import mlflow, phoenix

from spanscore.otlp import codec

DEADLINE_S = 120
START_WITHIN_S = 300


@dataclass(frozen=True)
class Filed:
    """A score as a tool has it."""

    place: str
    name: str
    value: float | None
    uid: str
    revision: int


class Phoenix(phoenix.Tool):
    """With what it says of annotations."""

    def filed(self, spans, session_id=None):
        ids = {"span_ids": {x.span_id for x in spans}, "trace_ids": {x.trace_id for x in spans}}
        if session_id is not None:
            ids["session_ids"] = {session_id}
        found = []
        for key, listed in ids.items():
            place = key.removesuffix("_ids")
            query = urlencode({key: sorted(listed), "limit": 1000}, doseq=True)
            answer = rest.get(
                f"{self.address}/v1/projects/default/{place}_annotations?{query}"
            ) or {"data": []}
            found += [self._read(place, x) for x in answer["data"]]
        return found

    def number_of_spans(self, trace_id):
        query = "query ($id: String!) { trace: getTraceByOtelId(traceId: $id) { numSpans } }"
        answer = rest.post(
            f"{self.address}/graphql", {"query": query, "variables": {"id": trace_id}}
        )
        return answer["data"]["trace"]["numSpans"]

    @staticmethod
    def _read(place, annotation):
        told = annotation["metadata"]
        value = annotation["result"].get("score")
        return Filed(
            place, annotation["name"], value, told["spanscore.uid"], told["spanscore.revision"]
        )


class Mlflow(mlflow.Tool):
    """With what it says of assessments."""

    def filed(self, spans, session_id=None):
        found = []
        for trace_id in sorted({x.trace_id for x in spans}):
            answer = rest.get(f"{self.address}/api/3.0/mlflow/traces/tr-{trace_id}")
            if answer is None:
                continue
            found += map(self._read, answer["trace"]["trace_info"].get("assessments", []))
        return [x for x in found if x.place == "trace" or session_id is not None]

    @staticmethod
    def _read(assessment):
        told = assessment["metadata"]
        value = assessment["feedback"].get("value")
        revision = int(told["spanscore.revision"])
        return Filed(
            told["spanscore.scope"],
            assessment["assessment_name"],
            value,
            told["spanscore.uid"],
            revision,
        )


class Running:
    """A tool that can be stopped and started again; `sink` is its entry under
    `export.exporters`.
    """

    def __init__(self, kind, folder, processes):
        self.name = folder.name
        self._processes = processes
        self.tool = kind(processes, folder)
        self.sink = dict(self.tool.sinks)
        self._wait()

    def stop(self):
        self._processes.kill(self.name)

    def start(self):
        self.tool.start(self._processes)
        self._wait()

    def has(self, trace_id):
        """Whether it has stored the trace: it answers before it has."""
        try:
            return bool(self.tool.facts(trace_id))
        except LookupError:
            return False

    def _wait(self):
        self._processes.wait(self.name, self.tool.is_ready, START_WITHIN_S)


@pytest.fixture(scope="session")
def tools(tmp_path_factory):
    """Call it with a name to get that tool, started with the first test that needs it."""
    folder = tmp_path_factory.mktemp("tools")
    kinds, made = {"phoenix": Phoenix, "mlflow": Mlflow}, {}
    with Processes(folder) as processes:

        def named(name):
            if name not in made:
                (folder / name).mkdir(exist_ok=True)
                made[name] = Running(kinds[name], folder / name, processes)
            return made[name]

        yield named


@pytest.fixture
def until():
    """Call it to wait until something holds."""

    def wait(holds, what=lambda: ""):
        deadline_s = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline_s, what()
            time.sleep(0.2)

    return wait


@pytest.fixture
def spans_of():
    """The spans of a request."""
    return lambda request: list(codec.spans(request))
