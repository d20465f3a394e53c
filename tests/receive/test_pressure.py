"""What is turned away is told in few lines, and what is put aside has a bound."""

from spanscore.receive import exports
from spanscore.receive.exports import Allowance, Pressure


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def test_what_is_turned_away_is_told_at_once_and_then_once_a_minute(caplog):
    clock = Clock()
    pressure = Pressure(clock)
    for clock.now_s in (0.0, 1.0, 59.0, 60.0):
        pressure.note("http", "slow")
    assert [x.split("(")[1].split(")")[0] for x in caplog.messages] == [
        "http slow: 1",
        "http slow: 3",
    ]


def test_what_is_the_senders_fault_is_not_told_as_pressure(caplog):
    Pressure().note("http", "malformed")
    assert caplog.messages == []


def test_an_allowance_is_used_up_and_comes_back_with_time():
    clock = Clock()
    allowance = Allowance(100, 10.0, clock)
    assert [allowance.take(60), allowance.take(60)] == [True, False]
    clock.now_s = 2.0
    assert [allowance.take(60), allowance.take(1)] == [True, False]


async def test_past_the_bound_what_cannot_be_decoded_is_refused_for_good(serve, monkeypatch):
    monkeypatch.setattr(exports, "_MAX_ASIDE_BYTES", 10)
    async with serve() as up:
        for _ in range(2):
            headers = {"Content-Type": "application/json"}
            async with up.http.post("/v1/traces", data=b"{broken", headers=headers) as answer:
                status = answer.status
    assert (status, len(up.intake.set_aside)) == (400, 1)
