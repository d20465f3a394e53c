"""What is counted is declared, bounded, and told as it is when it is asked for."""

import pytest

from spanscore.telemetry import Distribution, Meter, declared, meter

REQUESTS, DURATION, SIZE = (
    declared.RECEIVER_REQUESTS,
    declared.JUDGE_CALL_DURATION,
    declared.JOURNAL_SIZE,
)


def values(of, metric):
    return next(x for x in of.collect() if x.metric is metric).values


@pytest.fixture
def counted():
    return Meter()


def test_counts_are_kept_apart_by_their_labels(counted):
    counted.add(REQUESTS, transport="grpc", signal="traces")
    counted.add(REQUESTS, 2, transport="http", signal="traces")
    assert values(counted, REQUESTS) == {("grpc", "traces"): 1, ("http", "traces"): 2}


def test_what_is_not_declared_cannot_be_counted(counted):
    with pytest.raises(KeyError):
        counted.add(declared.Declared("spanscore_made_up", "counter", "", "Made up."))


@pytest.mark.parametrize(
    "labels", [{}, {"transport": "grpc"}, {"transport": "grpc", "colour": "red"}]
)
def test_the_labels_are_those_that_are_declared(counted, labels):
    with pytest.raises(KeyError):
        counted.add(REQUESTS, **labels)


def test_a_counter_without_labels_is_there_from_the_start(counted):
    assert values(counted, declared.TRACES_FINISHED) == {(): 0}


def test_label_sets_are_bounded(counted, monkeypatch):
    monkeypatch.setattr(meter, "MAX_SERIES", 2)
    for number in range(5):
        counted.add(declared.JUDGE_RETRIES, model=f"m{number}")
    assert values(counted, declared.JUDGE_RETRIES) == {("m0",): 1, ("m1",): 1, ("other",): 3}


def test_a_label_set_that_is_known_is_counted_even_when_there_are_too_many(counted, monkeypatch):
    monkeypatch.setattr(meter, "MAX_SERIES", 1)
    for model in ("m0", "m1", "m0"):
        counted.add(declared.JUDGE_RETRIES, model=model)
    assert values(counted, declared.JUDGE_RETRIES)["m0",] == 2


def test_a_label_of_any_length_takes_little_room(counted):
    counted.add(declared.JUDGE_RETRIES, model="m" * 10_000)
    assert list(values(counted, declared.JUDGE_RETRIES)) == [("other",)]


def test_measurements_are_counted_up_to_their_bounds(counted):
    for seconds in (0.01, 0.011, 1000.0):
        counted.observe(DURATION, seconds, model="m", outcome="ok")
    found = values(counted, DURATION)["m", "ok"]
    assert (found.counts[0], found.counts[1], found.counts[-1], found.total) == (1, 1, 1, 1000.021)


def test_what_was_collected_does_not_change_any_more(counted):
    counted.observe(DURATION, 1.0, model="m", outcome="ok")
    before = values(counted, DURATION)["m", "ok"]
    counted.observe(DURATION, 1.0, model="m", outcome="ok")
    assert sum(before.counts) == 1


def test_what_is_watched_is_asked_for_each_time(counted):
    sizes = iter((1, 2))
    counted.watch(SIZE, lambda: next(sizes))
    assert [values(counted, SIZE)[()] for _ in range(2)] == [1, 2]


def test_what_has_no_value_now_is_not_told(counted):
    counted.watch(SIZE, lambda: None)
    assert values(counted, SIZE) == {}


def test_several_may_tell_of_one_metric(counted):
    for name in ("a", "b"):
        counted.watch(declared.EXPORTER_QUEUE_SIZE, lambda name=name: {(name,): 1})
    assert values(counted, declared.EXPORTER_QUEUE_SIZE) == {("a",): 1, ("b",): 1}


def test_totals_add_up_counters_over_their_labels(counted):
    counted.add(REQUESTS, transport="grpc", signal="traces")
    counted.add(REQUESTS, 2, transport="http", signal="traces")
    assert counted.totals() == {"receiver_requests": 3}


def test_a_distribution_has_a_count_above_its_highest_bound():
    assert Distribution((1.0, 2.0)).counts == [0, 0, 0]
