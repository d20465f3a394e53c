"""Distributions, comparisons, ranks and histories are what the exported rows come to."""

from collections import Counter, defaultdict

import pytest

from spanscore.analytics import distribution, summary
from spanscore.analytics.selection import Selection
from spanscore.analytics.worst import worst
from spanscore.errors import FieldError
from spanscore.stats import crossed, moments, weighted_difference, weighted_mean
from spanscore.store import session_ranks

SCALES = {"task_completion": (0.0, 1.0), "coherence": (0.0, 1.0), "rubric.tone": (1.0, 5.0)}
QUANTILES = (0.1, 0.5, 0.9)


def scored(population, **facts):
    rows = [x for x in population.rows if x.run == "" and x.status == "scored"]
    return [x for x in rows if all(getattr(x, name) == value for name, value in facts.items())]


def distributions(population, count=10, shares=QUANTILES, **selection):
    return population.store.read(
        lambda connection: distribution.distributions(
            connection, Selection(**selection), count, shares, 0.95
        )
    )


def expected_mean(rows, read, bounds=(0, 1)):
    given = [read(x) for x in rows], [1 / x.weight for x in rows]
    found = moments(*given, clusters=[x.cluster for x in rows], bounds=bounds)
    return weighted_mean(found, bounds=bounds)


def require_share(figure, rows, is_of):
    expected = expected_mean(rows, lambda x: float(is_of(x)))
    assert figure.estimate.value == pytest.approx(expected.value, abs=1e-9)
    assert figure.estimate.interval.low == pytest.approx(expected.interval.low, abs=1e-6)
    assert figure.estimate.interval.high == pytest.approx(expected.interval.high, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4, 10])
def test_bins_have_the_share_of_their_values_with_an_interval(population, count):
    for found in distributions(population, count):
        rows = [
            x
            for x in scored(population, metric=found.metric, source=found.source)
            if x.value is not None
        ]
        assert len(found.bins) == count
        low, high = SCALES.get(
            found.metric, (min(x.value for x in rows), max(x.value for x in rows))
        )
        assert (found.bins[0].low, found.bins[-1].high) == (low, high)
        for number, one in enumerate(found.bins):
            is_last = number == count - 1
            inside = [x for x in rows if one.low <= x.value and (x.value < one.high or is_last)]
            assert one.scores == len(inside)
            require_share(one.share, rows, lambda x, inside=inside: x in inside)


@pytest.mark.slow
def test_labels_have_their_share(population):
    for found in distributions(population):
        rows = scored(population, metric=found.metric, source=found.source)
        assert {x.label: x.scores for x in found.labels} == Counter(x.label for x in rows)
        for label in found.labels:
            require_share(label.share, rows, lambda x, label=label: x.label == label.label)


@pytest.mark.slow
def test_a_quantile_is_the_lowest_value_that_so_much_weight_does_not_exceed(population):
    for found in distributions(population):
        rows = [
            x
            for x in scored(population, metric=found.metric, source=found.source)
            if x.value is not None
        ]
        rows.sort(key=lambda x: x.value)
        total = sum(x.weight for x in rows)
        for quantile in found.quantiles:
            so_far, expected = 0.0, None
            for row in rows:
                so_far += row.weight
                if so_far >= quantile.share * total * (1 - 1e-12):
                    expected = row.value
                    break
            assert quantile.figure.estimate.value == pytest.approx(expected)
            interval = quantile.figure.estimate.interval
            assert interval.low <= expected <= interval.high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"count": 0}, "bins: 0: give a number from 1 to 100"),
        ({"shares": [1.0]}, "quantiles: 1: give a share between 0 and 1"),
        ({"shares": [0.5] * 21}, "21 of them"),
    ],
)
def test_a_distribution_that_cannot_be_is_refused(population, arguments, problem):
    with pytest.raises(FieldError, match=problem):
        distributions(population, **arguments)


def compared(population, before, after, group_by=()):
    return population.store.read(
        lambda connection: summary.compare(
            connection, Selection(**before), Selection(**after), group_by
        )
    )


def expected_difference(old, new, read, bounds):
    def sums(rows):
        by = defaultdict(lambda: [0.0, 0.0])
        for x in rows:
            by[x.cluster][0] += x.weight * (read(x) - bounds[0]) / (bounds[1] - bounds[0])
            by[x.cluster][1] += x.weight
        return {cluster: tuple(x) for cluster, x in by.items()}

    both = [
        moments(
            [read(x) for x in rows],
            [1 / x.weight for x in rows],
            clusters=[x.cluster for x in rows],
            bounds=bounds,
        )
        for rows in (old, new)
    ]
    shared = crossed(sums(old), sums(new))
    return weighted_difference(*both, shared=shared, bounds=bounds), shared.clusters


def require_difference(found, old, new):
    bounds = SCALES[found.metric]
    expected, shared = expected_difference(old, new, lambda x: x.value, bounds)
    assert found.shared_sessions == shared
    estimate = found.mean_difference.estimate
    assert estimate.value == pytest.approx(expected.value)
    assert estimate.interval.low == pytest.approx(expected.interval.low, abs=1e-6)
    assert estimate.interval.high == pytest.approx(expected.interval.high, abs=1e-6)
    judged = [[x for x in rows if x.passed is not None] for rows in (old, new)]
    if all(judged):
        expected, _ = expected_difference(*judged, lambda x: float(x.passed), (0.0, 1.0))
        assert found.pass_rate_difference.estimate.value == pytest.approx(expected.value)
        assert found.pass_rate_difference.estimate.interval.high == pytest.approx(
            expected.interval.high, abs=1e-6
        )
    else:
        assert found.pass_rate_difference.estimate is None


@pytest.mark.slow
def test_two_versions_differ_by_what_their_rows_differ_by(population):
    found = compared(
        population,
        {"filter": "version = 1 AND source = spanscore"},
        {"filter": "version = 2 AND source = spanscore"},
    )
    assert {x.metric for x in found} == set(SCALES)
    for one in found:
        rows = scored(population, metric=one.metric, source="spanscore")
        require_difference(
            one, [x for x in rows if x.version == "1"], [x for x in rows if x.version == "2"]
        )


@pytest.mark.slow
def test_two_periods_are_compared_by_group(population):
    middle = sorted(x.at_ns for x in scored(population, source="spanscore"))[90]
    found = compared(population, {"end_ns": middle}, {"start_ns": middle}, ["environment"])
    of_ours = [x for x in found if x.source == "spanscore"]
    assert len(of_ours) == 6
    for one in of_ours:
        rows = scored(
            population, metric=one.metric, source="spanscore", environment=one.groups["environment"]
        )
        require_difference(
            one, [x for x in rows if x.at_ns < middle], [x for x in rows if x.at_ns >= middle]
        )


@pytest.mark.slow
def test_a_side_without_scores_has_no_difference(population):
    found = compared(population, {"filter": "version = 9"}, {"filter": "version = 1"})
    assert found
    assert all(x.mean_difference.estimate is None and x.mean_difference.why_not for x in found)


@pytest.mark.slow
def test_sessions_are_ranked_by_how_much_of_them_fails(population):
    rows = scored(population, source="spanscore")
    expected = defaultdict(list)
    for x in rows:
        expected[x.cluster].append(x)
    found = population.store.read(
        lambda connection: worst(connection, Selection(filter="source = spanscore"), 1000, 0)
    ).ranked
    assert len(found) == len(expected)
    rates = [-1.0 if x.fail_rate is None else x.fail_rate for x in found]
    assert rates == sorted(rates, reverse=True)
    for one in found:
        own = expected[one.stored.example.session_id or one.stored.example.subject_id]
        judged = [x for x in own if x.passed is not None]
        assert (one.scores, one.judged) == (len(own), len(judged))
        assert one.failing == sum(x.passed is False for x in judged)
        if judged:
            weight = sum(x.weight for x in judged)
            assert one.fail_rate == pytest.approx(
                sum(x.weight for x in judged if not x.passed) / weight
            )
        scaled = [
            (x.value - SCALES[x.metric][0]) / (SCALES[x.metric][1] - SCALES[x.metric][0])
            for x in own
        ]
        weight = sum(x.weight for x in own)
        assert one.mean == pytest.approx(
            sum(x.weight * y for x, y in zip(own, scaled, strict=True)) / weight
        )


@pytest.mark.slow
def test_ranks_have_pages(population):
    def page(limit, offset):
        return population.store.read(
            lambda connection: worst(connection, Selection(), limit, offset)
        ).ranked

    everything = page(1000, 0)
    assert [*page(7, 0), *page(7, 7)] == everything[:14]


@pytest.mark.slow
def test_a_history_has_every_revision_run_and_author(population):
    trace = population.traces[0]

    def history(metric, trace_id):
        return population.store.read(
            lambda connection: session_ranks.history(connection, metric, "", trace_id=trace_id)
        )

    measured = history("task_completion", trace.id)
    assert sorted((x.revision, x.run) for x in measured if x.run is None) == [(1, None), (2, None)]
    assert sum(x.run is not None for x in measured) == 1
    given = history("helpful", trace.trace_ids[0])
    assert [x.evaluator.author for x in given] == ["ada", "bob", "ada"]
    assert history("helpful", trace.id) == given
    assert history("unknown", trace.id) == []
