"""The simulation of bench/scaling.py beside closed forms, where these are exact."""

import runpy
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

SCALING = runpy.run_path(str(Path(__file__).parents[1] / "bench/scaling.py"))
ONLY_COMMITS = SCALING["Assumed"](
    read_ms=0, export_ms=0, own_share=0, commit_ms=10, commit_trace_ms=0, fsync_ms=0, look_s=0
)


def simulated(assumed, rate, *, share=0.0):
    plan = SCALING["Plan"](rate, 1, 1, share, "", SCALING["Use"]({}, 0, 0))
    group = SCALING["Group"](assumed, plan)
    group.run(20, 400)
    return group


def test_traces_wait_for_the_writers_lock_as_in_an_m_d_1_queue():
    took_s = fmean(simulated(ONLY_COMMITS, 60).took_s[False])
    waited_s = took_s - ONLY_COMMITS.wait_s - 0.01
    assert waited_s == pytest.approx(0.6 / (1 - 0.6) / 2 * 0.01, rel=0.1)


def test_as_many_calls_are_under_way_as_littles_law_has_it():
    free = replace(ONLY_COMMITS, commit_ms=0, refused=0, call_p50_s=1, call_p95_s=3, calls=1)
    group = simulated(free, 8, share=1.0)
    assert group.calls_s / 400 == pytest.approx(8 * free.call_s, rel=0.1)


def test_a_provider_that_allows_less_than_comes_sets_the_rate():
    slow = replace(ONLY_COMMITS, commit_ms=0, refused=0, calls=1, requests_per_minute=120)
    assert len(simulated(slow, 8, share=1.0).took_s[True]) <= 2 * 400 + 1


def test_all_that_is_planned_fits_and_less_does_not():
    assumed = SCALING["Assumed"](judged=0)
    plan = SCALING["planned"](assumed, 1000)
    assert max(plan.use.parts.values()) <= assumed.use
    fewer = SCALING["used"](assumed, plan.rate, plan.replicas - 1, 0.0)
    assert max(fewer.parts.values()) > assumed.use


def test_the_budget_of_a_day_is_spent_and_no_more():
    assumed = SCALING["Assumed"](usd_per_day=17, usd=0.0017)
    plan = SCALING["planned"](assumed, 100)
    assert plan.share * 100 * 86400 * 0.0017 == pytest.approx(17)
    assert plan.limits.startswith("budget")
