"""In process, a recording gets the scores that it gets from its files."""

import asyncio

import pytest
from recorded import KINDS, one_of_each_dialect

from spanscore import config
from spanscore.offline import OfflineScoring
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all
from spanscore.sdk.application import _emitted, readable
from spanscore.sdk.in_process_settings import settings
from spanscore.sdk.scoring_thread import Job, Worker

CASES = sorted({*KINDS, *one_of_each_dialect()})
"""Of each dialect, since spans and log records are taken from the application's own objects."""

METRICS = (
    *(
        "check.answer_present",
        "check.repeated_calls",
        "check.arguments_grounded",
        "check.errors_recovered",
    ),
    *("coherence", "loop_detection", "agent_reliability", "agent_consistency"),
)


class LogRecord:
    """A log record as a processor is given it."""

    def __init__(self, record):
        self.log_record = _emitted(record)
        self.resource = readable_resource(record.resource)
        self.instrumentation_scope = record.scope


def readable_resource(resource):
    from opentelemetry.sdk.resources import Resource

    return Resource(dict(resource.attributes))


def asked():
    base = config.parse("embedding: {provider: ngrams}")
    return settings(metrics=METRICS, config=base, export="application")


def in_process(telemetry):
    found = []
    worker = Worker(Job(asked(), lambda _: {}, scored=found.extend))
    for record in telemetry.logs:
        worker.logged(LogRecord(record))
    for span in telemetry.spans:
        worker.ended(readable(span))
    assert worker.shutdown(60)
    newest = {(x.scope, x.subject_id, x.metric): x for x in found}
    return sorted(map(told, newest.values()))


def from_files(telemetry):
    async def all_scores():
        scoring = OfflineScoring.prepared(asked())
        traces = rebuild_all(telemetry.spans, telemetry.logs)
        return [y async for x in scoring.run([traces]) for y in x.evaluations]

    return sorted(map(told, asyncio.run(all_scores())))


def told(evaluation):
    """What an evaluation says, whenever and in which revision it was made."""
    said = evaluation.to_json()
    for changing in ("evaluated_at_ns", "revision"):
        said.pop(changing)
    return repr(sorted(said.items()))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.parent.name}/{x.name}")
def test_a_recording_is_scored_alike(case):
    telemetry = files.load(sorted(case.glob("*.pb.gz")))
    assert in_process(telemetry) == from_files(telemetry)
