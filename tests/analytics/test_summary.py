"""Each figure of a summary is what the exported rows come to, added up by themselves."""

from collections import Counter, defaultdict
from zoneinfo import ZoneInfo

import pytest
from populations import Population

from spanscore.analytics import summary
from spanscore.analytics.selection import Selection
from spanscore.errors import FieldError, InputError
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import Target
from spanscore.stats import moments, weighted_mean
from spanscore.store import schema
from spanscore.store.stored_rows import put_rows

SCALES = {"task_completion": (0.0, 1.0), "coherence": (0.0, 1.0), "rubric.tone": (1.0, 5.0)}


def summarize(population, group_by=(), **selection):
    return population.store.read(
        lambda connection: summary.summarize(connection, Selection(**selection), group_by)
    )


def wanted(population, run=""):
    return [x for x in population.rows if x.run == run]


def by_key(rows, group=lambda _row: [()]):
    found = defaultdict(list)
    for row in rows:
        for values in group(row):
            found[row.metric, row.source, values].append(row)
    return found


def require_equal(found, rows):
    """Hold a summary against its rows: counts, the reasons of what is missing, mean and pass rate
    with intervals.
    """
    scored = [x for x in rows if x.status == "scored"]
    assert found.scores == len(scored)
    assert found.subjects == len({x.subject for x in scored})
    assert found.sessions == len({x.cluster for x in scored})
    missing = Counter((x.status, x.cause) for x in rows if x.status != "scored")
    assert {(x.status, x.cause): x.count for x in found.missing} == missing
    require_figure(
        found.mean, [x for x in scored if x.value is not None], lambda x: x.value, found.scale
    )
    judged = [x for x in scored if x.passed is not None]
    require_figure(found.pass_rate, judged, lambda x: float(x.passed), (0.0, 1.0))


def require_figure(figure, rows, read, scale):
    assert figure.units == len(rows)
    assert figure.clusters == len({x.cluster for x in rows})
    if not rows:
        assert figure.estimate is None
        assert figure.why_not
        return
    total = sum(x.weight for x in rows)
    assert figure.estimate.value == pytest.approx(sum(x.weight * read(x) for x in rows) / total)
    sums = defaultdict(float)
    for x in rows:
        sums[x.cluster] += x.weight
    assert figure.estimate.effective_n == pytest.approx(
        total**2 / sum(x**2 for x in sums.values())
    ) or (figure.estimate.effective_n is None)
    if figure.clusters < 2:
        assert figure.estimate.interval is None
        assert "one session" in figure.estimate.note
    elif scale is not None:
        given = [read(x) for x in rows], [1 / x.weight for x in rows]
        own = moments(*given, clusters=[x.cluster for x in rows], bounds=scale)
        expected = weighted_mean(own, bounds=scale).interval
        assert figure.estimate.interval.low == pytest.approx(expected.low, abs=1e-6)
        assert figure.estimate.interval.high == pytest.approx(expected.high, abs=1e-6)


@pytest.mark.slow
def test_every_figure_is_what_the_rows_come_to(population):
    expected = by_key(wanted(population))
    found = {(x.metric, x.source, ()): x for x in summarize(population)}
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        require_equal(found[key], rows)


@pytest.mark.slow
def test_the_session_that_makes_an_interval_wide_is_named_to_its_own_tenant(any_store):
    population = Population(any_store)
    for number in range(200):
        tenant = ("ours", "theirs")[number % 2]
        resource = with_headers({}, ((TENANT, tenant),))
        target = Target(f"{number:032x}", f"{number:016x}", 1, 2, resource)
        session = f"long of {tenant}" if number < 60 else None
        facts = {"target": target, "session_id": session, "session_key": None}
        population.measure(number, "task_completion", 0.5, **facts)
    for tenant in ("ours", "theirs"):
        [found] = summarize(population, tenant=tenant)
        assert found.mean.estimate.note == f"session long of {tenant} has 30 % of the scores"


@pytest.mark.slow
def test_an_evaluation_run_has_figures_of_its_own(population):
    expected = by_key(wanted(population, "a" * 32))
    found = {(x.metric, x.source, ()): x for x in summarize(population, run="a" * 32)}
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        require_equal(found[key], rows)


GROUPS = {
    "service": lambda x: [(x.service,)],
    "agent": lambda x: [(x.agent,)],
    "environment": lambda x: [(x.environment,)],
    "version": lambda x: [(x.version,)],
    "model": lambda x: [(x.model,)],
    "tool": lambda x: [(tool,) for tool in x.tools] or [(None,)],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_figures_are_grouped_by_what_was_scored(population, name):
    expected = by_key(wanted(population), GROUPS[name])
    found = {(x.metric, x.source, (x.groups[name],)): x for x in summarize(population, [name])}
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        require_equal(found[key], rows)


@pytest.mark.slow
def test_figures_are_grouped_by_several_at_once(population):
    expected = by_key(
        wanted(population), lambda x: [(x.service, tool) for tool in x.tools or [None]]
    )
    found = {
        (x.metric, x.source, tuple(x.groups.values())): x
        for x in summarize(population, ["service", "tool"])
    }
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        require_equal(found[key], rows)


def test_more_groups_than_an_answer_can_have_are_refused(population, monkeypatch):
    monkeypatch.setattr("spanscore.analytics.cells.MAX_CELLS", 1)
    with pytest.raises(InputError, match="more than 1 groups and times of a metric"):
        summarize(population, ["service"])


@pytest.mark.slow
def test_they_are_grouped_by_judge_too(population):
    found = summarize(population, ["judge_model", "service"])
    assert {x.groups["judge_model"] for x in found if x.source == "spanscore"} == {"judge-1"}
    assert {x.groups["judge_model"] for x in found if x.source == "human"} == {None}
    assert all(list(x.groups) == ["judge_model", "service"] for x in found)


FILTERS = {
    'service = "shop"': lambda x: x.service == "shop",
    "version != 1 AND model = gpt-4o": lambda x: x.version != "1" and x.model == "gpt-4o",
    "tool:search": lambda x: "search" in x.tools,
    "NOT tool:search AND source = spanscore": lambda x: (
        "search" not in x.tools and x.source == "spanscore"
    ),
    "environment = prod AND (metric = coherence OR metric:rubric)": lambda x: (
        x.environment == "prod" and x.metric in {"coherence", "rubric.tone"}
    ),
    "agent:*": lambda x: x.agent is not None,
    "source = human": lambda x: x.source == "human",
    "tags:beta": lambda x: "beta" in x.tags,
    "NOT tags:beta AND service = shop": lambda x: "beta" not in x.tags and x.service == "shop",
    "tags:*": lambda x: len(x.tags) > 0,
    'tags:"*" OR tags:"be\0ta" OR tags:internal': lambda x: "internal" in x.tags,
    "NOT (tags:beta OR NOT tags:*)": lambda x: len(x.tags) > 0 and "beta" not in x.tags,
    "tags:beta AND tags:internal": lambda x: {"beta", "internal"} <= {*x.tags},
    "tags:internal OR tags:nobody AND metric = coherence": lambda x: (
        "internal" in x.tags and x.metric == "coherence"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_takes_the_rows_that_meet_it(population, text):
    expected = by_key([x for x in wanted(population) if FILTERS[text](x)])
    found = {(x.metric, x.source, ()): x for x in summarize(population, filter=text)}
    assert found.keys() >= expected.keys()
    for key, one in found.items():
        require_equal(one, expected.get(key, []))


@pytest.mark.slow
def test_only_what_was_measured_in_a_time_counts(population):
    times = sorted(x.at_ns for x in wanted(population))
    start_ns, end_ns = times[len(times) // 3], times[-len(times) // 3]
    expected = by_key([x for x in wanted(population) if start_ns <= x.at_ns < end_ns])
    for one in summarize(population, start_ns=start_ns, end_ns=end_ns):
        require_equal(one, expected.get((one.metric, one.source, ()), []))


def trend(population, unit, zone, group_by=(), **selection):
    return population.store.read(
        lambda connection: summary.trend(
            connection, Selection(**selection), unit, ZoneInfo(zone), group_by
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
@pytest.mark.parametrize("unit", ["hour", "day", "week", "month"])
def test_a_trend_has_the_figures_of_each_time(population, unit, zone):
    rows = wanted(population)
    counted = 0
    for series in trend(population, unit, zone):
        for point in series.points:
            own = [x for x in rows if (x.metric, x.source) == (series.metric, series.source)]
            within = [x for x in own if point.start_ns <= x.at_ns < point.end_ns]
            require_equal(point.summary, within)
            counted += len(within)
    assert counted == len(rows)


@pytest.mark.slow
def test_a_trend_is_grouped_too(population):
    rows = wanted(population)
    for series in trend(population, "week", "UTC", ["tool"]):
        for point in series.points:
            tool = series.groups["tool"]
            own = [x for x in rows if (x.metric, x.source) == (series.metric, series.source)]
            of_tool = [x for x in own if (tool in x.tools if tool else not x.tools)]
            require_equal(
                point.summary, [x for x in of_tool if point.start_ns <= x.at_ns < point.end_ns]
            )


def test_a_store_without_scores_has_no_figures(any_store):
    assert any_store.read(lambda connection: summary.summarize(connection, Selection())) == []
    assert (
        any_store.read(
            lambda connection: summary.trend(connection, Selection(), "day", ZoneInfo("UTC"))
        )
        == []
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "group_by", "problem"),
    [
        ({"filter": "servce = shop"}, (), "there is no field servce; did you mean 'service'"),
        (
            {"filter": "service = shop OR metric = a"},
            (),
            "metric and service stand under one OR or NOT",
        ),
        ({"filter": "NOT (tags:beta AND tool:search)"}, (), "tags and tool stand under one"),
        ({}, ("colour",), "there is no group 'colour'"),
        ({}, ("tool", "tool"), "names a group twice"),
        ({"start_ns": 2, "end_ns": 2}, (), "is not after start_ns"),
    ],
)
def test_what_cannot_be_right_is_named(population, selection, group_by, problem):
    with pytest.raises(FieldError, match=problem):
        summarize(population, group_by, **selection)


def test_a_question_about_tags_is_answered_however_many_there_are(any_store):
    rows = [("", number, f"user {number}") for number in range(20_001)]
    any_store.monitors.write(lambda x: put_rows(x.connection, schema.score_tags, rows))
    selection = Selection(filter="tags:beta")
    assert any_store.read(lambda connection: summary.summarize(connection, selection)) == []
