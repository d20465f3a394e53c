"""The same metrics as an OTLP request."""

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from spanscore.telemetry import Meter, declared, formats

CUMULATIVE = 2


def request(meter, started_ns=5, now_ns=9):
    body = formats.request(
        meter.collect(), {"service.name": "spanscore", "service.version": "1"}, started_ns, now_ns
    )
    (group,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    return group


def metrics(meter, **times):
    return {x.name: x for x in request(meter, **times).scope_metrics[0].metrics}


def attributes(message):
    return {x.key: x.value.string_value for x in message.attributes}


def test_the_resource_and_the_scope_say_who_it_is():
    group = request(Meter())
    assert attributes(group.resource) == {"service.name": "spanscore", "service.version": "1"}
    assert (group.scope_metrics[0].scope.name, group.scope_metrics[0].scope.version) == (
        "spanscore",
        "1",
    )


def test_a_counter_is_a_monotonic_cumulative_sum():
    meter = Meter()
    meter.add(declared.JUDGE_RETRIES, 3, model="m")
    found = metrics(meter)["spanscore_judge_retries"].sum
    assert (found.is_monotonic, found.aggregation_temporality) == (True, CUMULATIVE)
    assert (found.data_points[0].as_int, attributes(found.data_points[0])) == (3, {"model": "m"})


def test_a_sum_begins_when_the_process_did():
    (point,) = metrics(Meter())["spanscore_traces_finished"].sum.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)


def test_a_gauge_is_a_gauge():
    meter = Meter()
    meter.watch(declared.JOURNAL_OLDEST_AGE, lambda: 1.5)
    found = metrics(meter)["spanscore_journal_oldest_age"]
    assert (found.gauge.data_points[0].as_double, found.unit) == (1.5, "s")


def test_a_histogram_is_cumulative_with_explicit_bounds():
    meter = Meter()
    meter.observe(declared.JUDGE_CALL_DURATION, 0.2, model="m", outcome="ok")
    found = metrics(meter)["spanscore_judge_call_duration"].histogram
    (point,) = found.data_points
    assert (found.aggregation_temporality, point.count, point.sum) == (CUMULATIVE, 1, 0.2)
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1


def test_what_has_no_value_is_left_out():
    assert "spanscore_judge_retries" not in metrics(Meter())


def test_a_label_that_is_no_text_harms_nothing():
    meter = Meter()
    meter.add(declared.JUDGE_RETRIES, model="\ud800")
    (point,) = metrics(meter)["spanscore_judge_retries"].sum.data_points
    assert attributes(point) == {"model": "?"}
