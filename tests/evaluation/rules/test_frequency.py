"""How common traces are, and rules for rare ones."""

import asyncio

import pytest

from spanscore.evaluation import Config, Engine
from spanscore.evaluation.rules import FREQUENCY, Frequencies, Frequency, Rules
from spanscore.model.headers import TENANT, with_headers
from spanscore.model.trace import Target, ToolCall
from spanscore.testing import agent_trace

HOUR = 3600 * 10**9
NOW = 1000 * HOUR + HOUR // 2


def turn(*tools, started_ns=NOW, **facts):
    calls = tuple(ToolCall(None, x) for x in tools)
    return agent_trace(
        agent_name="helper",
        tool_calls=calls,
        started_ns=started_ns,
        ended_ns=started_ns + 1,
        **facts,
    )


def of_tenant(tenant):
    return Target("a" * 32, "b" * 16, 1, 2, with_headers({}, ((TENANT, tenant),)))


class Stored:
    """Traces that were stored before any time, and the times that were asked for."""

    def __init__(self, *traces):
        self.traces = traces
        self.asked = []

    def __call__(self, _tenant, before_ns, limit):
        self.asked.append((before_ns, limit))
        return self.traces[:limit]


COMMON = [turn("search")] * 198 + [turn("refund")] * 2


def noted(stored, *traces, now_ns=NOW, **config):
    frequencies = Frequencies(Frequency(**config), stored, lambda: now_ns)
    return [x.attributes.get(FREQUENCY, ()) for x in frequencies.added_to(traces)]


def test_it_is_the_share_of_traces_of_one_group_among_those_before():
    assert noted(Stored(*COMMON), turn("search"), turn("refund"), turn("delete")) == [
        (0.99,),
        (0.01,),
        (0.0,),
    ]


def test_a_trace_is_compared_with_those_of_its_own_tenant():
    def stored(tenant, _before_ns, limit):
        return {"acme": COMMON, "blue": COMMON[::-1]}[tenant][:limit]

    traces = [turn("refund", target=of_tenant(x)) for x in ("acme", "blue")]
    assert noted(stored, *traces, of=100) == [(0.0,), (0.02,)]


def test_a_tool_that_is_called_again_makes_no_other_group():
    assert noted(Stored(*COMMON), turn("search", "search")) == [(0.99,)]


def test_the_order_of_tools_makes_another_group():
    stored = Stored(*[turn("a", "b")] * 100)
    assert noted(stored, turn("a", "b"), turn("b", "a")) == [(1.0,), (0.0,)]


def test_a_group_can_be_of_other_facts():
    stored = Stored(*[turn("a", user_id="ann")] * 100)
    assert noted(stored, turn("b", user_id="ann"), turn("a", user_id="bob"), by=["user"]) == [
        (1.0,),
        (0.0,),
    ]


def test_of_few_traces_no_share_is_told():
    assert noted(Stored(*COMMON[:99]), turn("delete")) == [()]


def test_only_what_was_stored_before_the_last_window_counts():
    stored = Stored(*COMMON)
    noted(stored, turn("a"), of=500)
    assert stored.asked == [(999 * HOUR, 500)]


def test_traces_of_one_window_are_compared_with_the_same_ones_whenever_they_are_decided():
    first, later = Stored(*COMMON), Stored(*COMMON)
    noted(first, turn("a"), now_ns=NOW)
    noted(later, turn("a"), now_ns=NOW + 5 * HOUR)
    assert first.asked == later.asked


def test_the_store_is_asked_once_a_window():
    stored = Stored(*COMMON)
    noted(stored, *[turn("a", started_ns=NOW - x * 10**9) for x in range(60)])
    assert len(stored.asked) == 1


def test_a_clock_that_is_ahead_asks_for_no_time_to_come():
    stored = Stored(*COMMON)
    noted(stored, turn("a", started_ns=NOW + 100 * HOUR))
    assert stored.asked == [(999 * HOUR, 1000)]


def test_times_long_ago_cost_the_store_nothing():
    stored = Stored(*COMMON)
    assert noted(stored, *[turn("a", started_ns=x * HOUR) for x in range(900)]) == [()] * 900
    assert stored.asked == []


def test_a_rule_takes_rare_traces():
    config = Config(
        rules=[{"name": "rare", "when": {"frequency": {"below": 0.01}}, "sampling": 1}],
        sampling=0.1,
    )
    frequencies = Frequencies(config.frequency, Stored(*COMMON), lambda: NOW)
    rules = Rules(config.rules, config.sampling)
    traces = frequencies.added_to([turn("search"), turn("refund"), turn("delete")])
    assert [rules.decide(x).rule for x in traces] == [None, None, "rare"]


def test_where_it_is_not_known_no_trace_is_rare():
    rules = Rules(Config(rules=[{"name": "rare", "when": {"frequency": {"below": 1}}}]).rules, 1.0)
    assert rules.decide(turn("delete")).rule is None


@pytest.mark.parametrize(
    ("when", "asks"), [({"frequency": {"below": 1}}, True), ({"user": "x"}, False)]
)
def test_it_is_looked_up_only_where_a_rule_asks_for_it(when, asks):
    alternatives = [when, {"any": [{"tool": "x"}, when]}, {"not": when}]
    assert {Config(rules=[{"name": "a", "when": x}]).uses_frequency for x in alternatives} == {asks}


@pytest.mark.slow
def test_a_weighted_count_of_rare_and_common_traces_is_that_of_the_population():
    config = Config(
        metrics={"check.answer_present": {}},
        default_metrics=False,
        sampling=0.1,
        rules=[{"name": "rare", "when": {"frequency": {"below": 0.02}}, "sampling": 0.8}],
    )
    engine = Engine(config, None, None)
    frequencies = Frequencies(config.frequency, Stored(*COMMON), lambda: NOW)

    async def run():
        traces = [
            turn("refund" if x % 20 == 0 else "search", trace_ids=(f"{x:032x}",))
            for x in range(4000)
        ]
        found = [await engine.evaluate_trace(x) for x in frequencies.added_to(traces)]
        return [x[0] for x in found if x]

    scores = asyncio.run(run())
    weighted = {
        rule: sum(1 / x.sampling for x in scores if x.rule == rule) for rule in ("rare", None)
    }
    assert weighted["rare"] == pytest.approx(200, abs=4 * (200 * 0.2 / 0.8) ** 0.5)
    assert weighted[None] == pytest.approx(3800, abs=4 * (3800 * 0.9 / 0.1) ** 0.5)
