"""The page of metrics, held against the parser of Prometheus' own client."""

import pytest
from hypothesis import given, strategies as some
from prometheus_client.parser import text_string_to_metric_families

from spanscore.telemetry import Meter, declared, formats

RESOURCE = {"service.name": "spanscore", "service.instance.id": "1", "k8s.pod.name": 'a"b\\c\nd'}


def families(meter, resource=RESOURCE):
    return {
        x.name: x for x in text_string_to_metric_families(formats.page(meter.collect(), resource))
    }


def samples(family):
    return {(x.name, *x.labels.values()): x.value for x in family.samples}


def test_every_metric_is_on_the_page_though_it_has_no_value_yet():
    page = formats.page(Meter().collect(), {})
    assert [
        x.name for x in declared.METRICS if f"# TYPE {formats.name(x)} {x.kind}\n" not in page
    ] == []


def test_help_and_type_come_before_the_values():
    meter = Meter()
    meter.add(declared.JUDGE_RETRIES, model="m")
    lines = formats.page(meter.collect(), {}).splitlines()
    at = lines.index('spanscore_judge_retries_total{model="m"} 1')
    assert lines[at - 2 : at] == [
        "# HELP spanscore_judge_retries_total Calls that were tried again.",
        "# TYPE spanscore_judge_retries_total counter",
    ]


def test_the_types_are_those_that_are_declared():
    found = families(Meter())
    types = {name.removesuffix("_total"): family.type for name, family in found.items()}
    assert {x.name: types[formats.name(x).removesuffix("_total")] for x in declared.METRICS} == {
        x.name: x.kind for x in declared.METRICS
    }


@pytest.mark.slow
@given(some.text(max_size=40))
def test_any_label_comes_back_as_it_was(label):
    meter = Meter()
    meter.add(declared.JUDGE_RETRIES, model=label)
    (sample,) = families(meter)["spanscore_judge_retries"].samples
    assert sample.labels["model"] == label


def test_a_label_that_is_no_text_harms_nothing():
    meter = Meter()
    meter.add(declared.JUDGE_RETRIES, model="\ud800")
    assert families(meter)["spanscore_judge_retries"].samples[0].labels["model"] == "?"


def test_the_resource_is_target_info():
    (sample,) = families(Meter())["target_info"].samples
    assert (sample.labels["service_name"], sample.labels["k8s_pod_name"]) == (
        "spanscore",
        'a"b\\c\nd',
    )


def test_the_buckets_of_a_histogram_add_up():
    meter = Meter()
    for seconds in (0.01, 3.0, 1000.0):
        meter.observe(declared.JUDGE_CALL_DURATION, seconds, model="m", outcome="ok")
    family = families(meter)["spanscore_judge_call_duration_seconds"]
    counts = [x.value for x in family.samples if x.name.endswith("_bucket")]
    assert (counts[0], counts[-1], counts == sorted(counts)) == (1, 3, True)


def test_a_histogram_has_its_sum_and_count():
    meter = Meter()
    meter.observe(declared.JUDGE_CALL_DURATION, 0.25, model="m", outcome="ok")
    found = samples(families(meter)["spanscore_judge_call_duration_seconds"])
    name = "spanscore_judge_call_duration_seconds"
    assert (found[f"{name}_sum", "m", "ok"], found[f"{name}_count", "m", "ok"]) == (0.25, 1)


@pytest.mark.parametrize("bound", ["0.01", "+Inf"])
def test_a_histogram_has_a_bucket_for_each_bound_and_one_for_all(bound):
    meter = Meter()
    meter.observe(declared.JUDGE_CALL_DURATION, 0.25, model="m", outcome="ok")
    assert f'le="{bound}"' in formats.page(meter.collect(), {})
