"""Which traces a target names, and which of them a sample draws."""

import pytest

from spanscore.errors import InputError
from spanscore.model.options import read_spec
from spanscore.model.span import with_headers
from spanscore.model.trace import Target, Usage
from spanscore.specs import MeasureSpec, Sampling, TargetSpec, TraceFilter
from spanscore.testing.traces import agent_trace, tool_call

RESOURCE = {
    "service.name": "shop",
    "deployment.environment.name": "prod",
    "replica": 3,
    "synthetic": True,
}
TRACE = agent_trace(
    service_name="shop",
    agent_name="clerk",
    user_id="ann",
    started_ns=10**9,
    ended_ns=3 * 10**9,
    target=Target("1" * 32, "2" * 16, 10**9, 3 * 10**9, RESOURCE),
    tool_calls=(tool_call("find_order", {}, error="503"),),
    usage=Usage(100, 20),
)
IDS = [f"{number:032x}" for number in range(4000)]

HOLD = [
    {},
    {"service": "shop"},
    {"agent": "clerk"},
    {"environment": "prod"},
    {"user": "ann"},
    {"resource": {"replica": "3"}},
    {"resource": {"synthetic": "true"}},
    {"started_after_ns": 10**9},
    {"started_before_ns": 10**9 + 1},
    {"has_error": True},
    {"min_duration_s": 2},
    {"min_tokens": 120},
]
FAIL = [
    {"service": "bank"},
    {"agent": "Clerk"},
    {"environment": "staging"},
    {"user": "bob"},
    {"resource": {"replica": "4"}},
    {"resource": {"zone": "eu"}},
    {"resource": {"synthetic": "True"}},
    {"started_after_ns": 10**9 + 1},
    {"started_before_ns": 10**9},
    {"has_error": False},
    {"min_duration_s": 2.1},
    {"min_tokens": 121},
    {"service": "shop", "user": "bob"},
]


@pytest.mark.parametrize("conditions", HOLD, ids=str)
def test_a_filter_accepts_a_trace_for_which_its_conditions_hold(conditions):
    assert TraceFilter(**conditions).accepts(TRACE)


@pytest.mark.parametrize("conditions", FAIL, ids=str)
def test_a_filter_leaves_out_a_trace_for_which_one_does_not_hold(conditions):
    assert not TraceFilter(**conditions).accepts(TRACE)


def test_the_former_name_of_the_environment_is_read_too():
    target = Target("1" * 32, "2" * 16, 0, 0, {"deployment.environment": "prod"})
    assert TraceFilter(environment="prod").accepts(agent_trace(target=target))


def test_the_headers_that_came_with_a_trace_fulfil_no_condition():
    target = Target("1" * 32, "2" * 16, 0, 0, with_headers({}, (("x-api-key", "secret"),)))
    assert not TraceFilter(resource={"spanscore.header.x-api-key": "secret"}).accepts(
        agent_trace(target=target)
    )


def test_a_trace_that_records_no_tokens_is_not_of_many_tokens():
    assert not TraceFilter(min_tokens=0).accepts(agent_trace())


def test_the_same_seed_draws_the_same_ones():
    one, other = (Sampling(share=0.3, seed=5) for _ in range(2))
    assert [one.is_in_share(x) for x in IDS] == [other.is_in_share(x) for x in IDS]


def test_another_seed_draws_others():
    drawn = [{x for x in IDS if Sampling(share=0.5, seed=seed).is_in_share(x)} for seed in (1, 2)]
    assert 900 < len(drawn[0] & drawn[1]) < 1100


def test_a_share_draws_about_so_many():
    assert 0.27 < sum(map(Sampling(share=0.3).is_in_share, IDS)) / len(IDS) < 0.33


def test_a_larger_share_draws_those_of_a_smaller_one_too():
    small, large = Sampling(share=0.1), Sampling(share=0.2)
    assert all(large.is_in_share(x) for x in IDS if small.is_in_share(x))


def test_each_of_a_count_has_the_same_chance():
    assert Sampling(count=50).probability(200) == 0.25


def test_a_count_of_more_than_there_are_draws_all():
    assert Sampling(count=50).probability(20) == 1.0


WRONG = [
    (TargetSpec, {"sampling": {"share": 0}}, "sampling.share: Input should be greater than 0"),
    (
        TargetSpec,
        {"sampling": {"share": 0.5, "count": 9}},
        "sampling: give share or count, not both",
    ),
    (
        TargetSpec,
        {"trace_ids": ["1"], "session_ids": ["2"]},
        "give trace_ids or session_ids, not both",
    ),
    (TargetSpec, {"scope": "session", "trace_ids": ["1"]}, "trace_ids name no sessions"),
    (TargetSpec, {"filter": {"servce": "shop"}}, "filter.servce: Extra inputs are not permitted"),
    (
        TargetSpec,
        {"filter": {"started_after_ns": 5, "started_before_ns": 5}},
        "no trace can be in between",
    ),
    (TargetSpec, "{", "Invalid JSON"),
    (
        MeasureSpec,
        {"thresholds": {"coherence": float("nan")}},
        "thresholds.coherence: Input should be a finite number",
    ),
    (
        MeasureSpec,
        {"signal_weights": {"coherence": -1}},
        "signal_weights.coherence: Input should be greater than",
    ),
]


@pytest.mark.parametrize(("kind", "given", "why"), WRONG, ids=lambda x: str(x)[:40])
def test_what_cannot_be_right_is_refused_with_its_place(kind, given, why):
    with pytest.raises(InputError) as raised:
        read_spec(kind, given)
    assert why in str(raised.value)


def test_a_spec_is_read_back_from_its_json():
    spec = TargetSpec(
        filter=TraceFilter(service="shop", has_error=False), sampling=Sampling(count=3, seed=9)
    )
    assert read_spec(TargetSpec, spec.model_dump_json()) == spec
