"""What `doctor` says of rules."""

import asyncio

import pytest

from spanscore import config
from spanscore.cli import doctor_server as endpoints
from spanscore.cli.doctor_machine import Look, Probe
from spanscore.telemetry import Meter, declared, formats

STATE = {"endpoint": "127.0.0.1:1"}
SETTINGS = config.parse("""
evaluation:
  sampling: 0.1
  rules: [{name: failed, when: {error: true}, sampling: 1}, \
{name: idle, when: {user: monitor}, metrics: none}]
""")


@pytest.fixture
def checked(monkeypatch):
    def check(settings, state=None, **taken):
        meter = Meter()
        for rule, count in taken.items():
            meter.add(
                declared.RULES_DECISIONS, count, rule=rule, scope="trace", outcome="evaluated"
            )
            meter.add(declared.RULES_DECISIONS, 7, rule=rule, scope="session", outcome="evaluated")

        async def page(_url):
            return formats.page(meter.collect(), {})

        monkeypatch.setattr(endpoints, "_page", page)
        return asyncio.run(anext(endpoints.check_rules(Look(settings, state, Probe(), ask=False))))

    return check


def test_without_rules_it_says_so(checked):
    assert (
        checked(config.parse("")).message == "none: all traces are treated alike, with the share 1"
    )


def test_rules_are_listed_in_their_order(checked):
    assert (
        checked(SETTINGS).message
        == "in their order: failed (share 1), idle (nothing is measured), no rule (share 0.1)"
    )


def test_of_a_running_server_each_has_the_number_of_its_traces(checked):
    assert (
        checked(SETTINGS, STATE, failed=3, default=12).message
        == "in their order: failed (share 1, took 3), idle (nothing is measured, took 0), no rule"
        " (share 0.1, took 12)"
    )


def test_a_rule_that_takes_none_of_many_traces_is_named(checked):
    found = checked(SETTINGS, STATE, failed=300, default=1200)
    assert (found.status, "of 1,500 traces none was taken by idle" in found.message) == (
        "warn",
        True,
    )
