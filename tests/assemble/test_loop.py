"""How often complete traces are looked for."""

from spanscore.assemble import assembler
from spanscore.assemble.config import Config


def config(complete_after: str) -> Config:
    return Config.model_validate({"complete_after": complete_after})


def test_traces_are_cut_at_most_150_ms_after_they_are_complete():
    assert assembler.interval_s(config("10s"), is_idle=False) == 0.15


def test_a_short_wait_is_looked_at_more_often():
    assert assembler.interval_s(config("1s"), is_idle=False) == 0.1


def test_an_idle_server_wakes_once_a_second():
    assert assembler.interval_s(config("10s"), is_idle=True) == 1.0


def test_an_idle_server_looks_again_before_a_trace_that_comes_meanwhile_can_be_complete():
    assert assembler.interval_s(config("1s"), is_idle=True) < 1.0


def test_the_shortest_wait_does_not_keep_the_server_busy():
    assert assembler.interval_s(config("1ms"), is_idle=False) == 0.02
