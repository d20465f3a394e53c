"""What the histogram of scores looks like, rule by rule."""

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from spanscore.export import events


def groups(evaluations, start_ns=1, end_ns=2):
    return ExportMetricsServiceRequest.FromString(
        events.histogram_request(evaluations, start_ns, end_ns)
    ).resource_metrics


def points(evaluations, start_ns=1, end_ns=2):
    scopes = [sm for rm in groups(evaluations, start_ns, end_ns) for sm in rm.scope_metrics]
    return [
        point for sm in scopes for metric in sm.metrics for point in metric.histogram.data_points
    ]


def buckets(value, make, **facts):
    (point,) = points([make.score(value=value, **facts)])
    return list(point.bucket_counts).index(1)


def test_it_is_one_histogram_of_deltas(make):
    (metric,) = groups([make.score()])[0].scope_metrics[0].metrics
    assert (metric.name, metric.histogram.aggregation_temporality) == ("gen_ai.evaluation.score", 1)


def test_a_series_is_a_metric_a_label_and_an_agent(make):
    (point,) = points([make.score()])
    assert make.attributes(point) == {
        "gen_ai.evaluation.name": "task_completion",
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.agent.name": "clerk",
        "spanscore.emitted": True,
    }


def test_the_resource_is_the_service_alone(make):
    (message,) = groups([make.score()])
    assert make.attributes(message.resource) == {"service.name": "shop"}


def test_scores_of_one_series_are_one_point(make):
    (point,) = points([make.score(value=0.8), make.score(value=0.9)])
    assert (point.count, round(point.sum, 6), point.min, point.max) == (2, 1.7, 0.8, 0.9)


def test_pass_and_fail_are_two_points(make):
    assert [point.count for point in points([make.score(value=0.1), make.score(value=0.9)])] == [
        1,
        1,
    ]


def test_a_value_is_a_share_of_its_scale(make):
    (point,) = points([make.score(value=4.0, scale=(1.0, 5.0))])
    assert point.sum == 0.75


def test_a_value_off_its_scale_counts_as_its_end(make):
    assert [events.normalised(make.score(value=x)) for x in (-3.0, 7.0)] == [0.0, 1.0]


def test_the_lowest_value_has_a_bucket_of_its_own(make):
    assert [buckets(value, make) for value in (0.0, 0.05, 0.1, 0.11, 0.9, 1.0)] == [
        0,
        1,
        1,
        2,
        9,
        10,
    ]


def test_there_is_one_bucket_more_than_bounds(make):
    (point,) = points([make.score()])
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1


def test_skipped_and_failed_evaluations_are_not_counted(make):
    assert points([make.skipped(), make.failed()]) == []


def test_a_point_covers_the_time_it_was_given(make):
    (point,) = points([make.score()], 5, 9)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)


def test_a_point_is_never_of_no_length(make):
    (point,) = points([make.score()], 5, 5)
    assert point.time_unix_nano > point.start_time_unix_nano


def test_each_bucket_has_an_exemplar_with_the_evaluated_trace_and_span(make):
    (point,) = points([make.score(value=0.82), make.score(value=0.85), make.score(value=1.0)])
    assert [(x.as_double, x.trace_id.hex(), x.span_id.hex()) for x in point.exemplars] == [
        (0.85, "0a" * 16, "0b" * 8),
        (1.0, "0a" * 16, "0b" * 8),
    ]


def test_an_exemplar_is_of_the_time_of_its_evaluation(make):
    (point,) = points([make.score()])
    assert [x.time_unix_nano for x in point.exemplars] == [make.score().evaluated_at_ns]


def test_a_series_goes_on_where_its_last_delivered_point_ended(make):
    counts = events.CumulativeCounts(1)
    counts.add([make.score("a")], 5)
    counts.add([make.score("b")], 7)
    found = {
        make.attributes(x)["gen_ai.evaluation.name"]: x
        for x in points([make.score("a"), make.score("b")], counts, 9)
    }
    assert {name: x.start_time_unix_nano for name, x in found.items()} == {"a": 5, "b": 7}


def test_a_point_that_was_not_delivered_leaves_no_gap(make):
    counts = events.CumulativeCounts(1)
    events.histogram_request([make.score()], counts, 5)
    assert points([make.score()], counts, 9)[0].start_time_unix_nano == 1


def test_what_is_remembered_of_series_is_bounded(make, monkeypatch):
    monkeypatch.setattr(events, "_MAX_SERIES", 1)
    counts = events.CumulativeCounts(1)
    counts.add([make.score("a")], 5)
    counts.add([make.score("b")], 7)
    assert points([make.score("a")], counts, 9)[0].start_time_unix_nano == 5
