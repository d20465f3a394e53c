"""Everything that leaves is in docs/exporting.md."""

from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.export import events, spans
from spanscore.export.wording import annotate
from spanscore.model.score import Result, Tally
from spanscore.otlp.signal import WIRE

DOCUMENT = (Path(__file__).parents[2] / "docs" / "exporting.md").read_text(encoding="utf-8")
PREFIXES = ("spanscore.evaluator.", "spanscore.judge.", "gen_ai.evaluation.")


def is_documented(name):
    """Whether a name stands there, perhaps shortened to its end after another one with the same
    beginning.
    """
    return f"`{name}`" in DOCUMENT or any(
        name.startswith(prefix) and f"`.{name.removeprefix(prefix)}`" in DOCUMENT
        for prefix in PREFIXES
    )


def test_every_attribute_is_documented(make):
    tally = Tally((Result("METRIC", 0.1, "fail"),))
    scores = [
        make.score(revision=2, supersedes="d" * 16, label_before="fail", tally=tally),
        make.failed(),
        make.groundless(),
        make.score(scope="session", target=make.target(response_id="r")),
    ]
    traces = WIRE["traces"].request.FromString(spans.request(scores, "child", 100))
    logs = WIRE["logs"].request.FromString(events.request(scores, 100))
    metrics = WIRE["metrics"].request.FromString(events.histogram_request(scores, 1, 2))
    messages = [
        *traces.resource_spans[0].scope_spans[0].spans,
        *logs.resource_logs[0].scope_logs[0].log_records,
        *metrics.resource_metrics[0].scope_metrics[0].metrics[0].histogram.data_points,
    ]
    names = {name for message in messages for name in make.attributes(message)}
    assert sorted(name for name in names if not is_documented(name)) == []


def test_every_inline_attribute_is_documented(make):
    span = Span()
    annotate(span, [make.score(tally=Tally((Result("m", 0.1, "fail"),))), make.failed()])
    names = {
        x.replace("task_completion", "METRIC").replace("s.0.", "s.N.")
        for x in make.attributes(span)
    }
    missing = [
        x
        for x in names
        if f"`{x}`" not in DOCUMENT and f"`.{x.rpartition('.')[2]}`" not in DOCUMENT
    ]
    assert missing == []
