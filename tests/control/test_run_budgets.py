"""A run spends no more than its budget, however often it is paused, resumed or begun anew after a
restart.
"""

import asyncio

import pytest

from spanscore.judge import ModelJudge
from spanscore.judge.config import Config
from spanscore.judge.provider import CallError, Completion
from spanscore.specs import MeasureSpec, RunBudget, RunSpec, TargetSpec

ANSWER = '{"score": 0.8, "reason": "because", "task": "a task", "outcome": "done", "verdicts": []}'


class GatedModel:
    """A model whose calls each take 1000 tokens of input; none ends while `gate` is not set."""

    def __init__(self):
        self.calls = 0
        self.gate = asyncio.Event()

    async def complete(self, _model, _messages, _schema, _timeout_s, _max_output_tokens=None):
        self.calls += 1
        await self.gate.wait()
        return Completion(ANSWER, 1000, 10, None)

    async def knows(self, _model):
        return True

    async def takes_schema(self, _model):
        return True

    async def cost_usd(self, _model, _input_tokens, _output_tokens):
        return None


@pytest.fixture
def model():
    return GatedModel()


@pytest.fixture
def at_once():
    return 32


@pytest.fixture
def judge(model, at_once):
    config = {"model": "openai/gated", "max_output_tokens": 500, "max_retries": 0}
    return ModelJudge(Config.model_validate({**config, "max_concurrent": at_once}), model)


def spec(max_tokens, *trace_ids):
    return RunSpec(
        target=TargetSpec(scope="trace", trace_ids=trace_ids),
        measure=MeasureSpec(metrics=("task_completion",)),
        budget=RunBudget(max_tokens=max_tokens),
    )


async def given_up(server, model, run, give_up):
    """Have a run asked its first question, and give up that call."""
    working = asyncio.create_task(server.runs.run())
    await server.eventually(lambda: model.calls)
    await give_up(run.id)
    await server.eventually(lambda: not server.active)
    working.cancel()
    await asyncio.wait([working])


async def one_call_tokens(server, model, run):
    """What a run has booked for the one call that was given up."""

    async def pause(run_id):
        await server.runs.pause("", run_id)
        server.runs.end(run_id, grace_s=0.0)

    await given_up(server, model, run, pause)
    return (await server.runs.get("", run.id)).progress.booked.tokens


@pytest.mark.slow
def test_what_a_call_may_have_cost_that_a_pause_gave_up_is_not_spent_again(
    open_server, traces, model
):
    server = open_server(runs={"max_concurrent": 1})
    server.keep(traces(1))

    async def scenario():
        first = await server.runs.create("", spec(100_000))
        tokens = await one_call_tokens(server, model, first)
        run = await server.runs.create("", spec(tokens + 100))
        model.calls = 0
        await one_call_tokens(server, model, run)
        model.gate.set()
        await server.runs.resume("", run.id)
        return await server.ended(run.id, {"SUCCEEDED", "FAILED"})

    run = server.do(scenario())
    assert (model.calls, run.progress.scores.skipped) == (1, {"task_completion\tbudget": 1})


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1])
def test_calls_that_a_pause_gave_up_before_they_were_sent_cost_nothing(open_server, traces, model):
    server = open_server(runs={"max_concurrent": 3})
    first, *_others = server.keep(traces(3))

    async def scenario():
        alone = await server.runs.create("", spec(100_000, first))
        tokens = await one_call_tokens(server, model, alone)
        model.calls = 0

        async def pause_while_two_wait(run_id):
            await server.until(run_id, lambda run: run.progress.booked.tokens > 2.5 * tokens)
            await server.runs.pause("", run_id)
            server.runs.end(run_id, grace_s=0.0)

        run = await server.runs.create("", spec(100_000))
        await given_up(server, model, run, pause_while_two_wait)
        return tokens, await server.runs.get("", run.id)

    tokens, run = server.do(scenario())
    assert (model.calls, run.progress.booked.tokens) == (1, pytest.approx(tokens, abs=10))


def test_a_call_that_was_refused_and_given_up_before_it_was_sent_again_costs_nothing(
    open_server, traces, model
):
    server = open_server(runs={"max_concurrent": 1})
    server.keep(traces(1))

    async def refuse(*_given):
        model.calls += 1
        raise CallError("slow down", status=429, headers={"retry-after": "100"})

    model.complete = refuse

    async def scenario():
        run = await server.runs.create("", spec(100_000))
        return await one_call_tokens(server, model, run)

    assert server.do(scenario()) == 0


def test_what_a_call_may_have_cost_that_a_stop_gave_up_is_booked_after_the_restart(
    open_server, traces, model
):
    server = open_server(runs={"max_concurrent": 1})
    server.keep(traces(1))

    async def stopped(server):
        working = asyncio.create_task(server.runs.run())
        run = await server.runs.create("", spec(100_000))
        await server.eventually(lambda: model.calls)
        working.cancel()
        await asyncio.wait([working])
        return run.id

    run_id = server.do(stopped(server))
    server.store.close()
    again = open_server(runs={"max_concurrent": 1})
    run = again.do(again.runs.get("", run_id))
    assert (run.state, run.progress.usage.input_tokens) == ("RUNNING", 0)
    assert run.progress.booked.tokens > 500


def test_a_run_of_which_no_call_was_given_up_has_booked_what_it_cost(open_server, traces, model):
    server = open_server()
    server.keep(traces(3))
    model.gate.set()

    async def scenario():
        run = await server.runs.create("", spec(100_000))
        return await server.ended(run.id)

    run = server.do(scenario())
    usage = run.progress.usage
    assert (
        run.progress.booked.tokens == usage.input_tokens + usage.output_tokens == model.calls * 1010
    )


def test_what_calls_may_cost_that_a_kill_would_end_is_in_the_store(open_server, traces, model):
    server = open_server(runs={"max_concurrent": 2})
    server.keep(traces(2))

    async def scenario():
        working = asyncio.create_task(server.runs.run())
        run = await server.runs.create("", spec(100_000))
        await server.eventually(lambda: model.calls == 2)
        killed = await server.runs.get("", run.id)  # what a kill would leave
        working.cancel()
        await asyncio.wait([working])
        return killed, await server.runs.get("", run.id)

    killed, stopped = server.do(scenario())
    assert killed.progress.booked == stopped.progress.booked
    assert killed.progress.booked.tokens > 2 * 500


def test_a_call_is_not_made_before_what_it_may_cost_is_stored(open_server, traces, model):
    server = open_server(runs={"max_concurrent": 1})
    server.keep(traces(1))
    stored = []
    complete = model.complete

    async def noted(*arguments):
        run_id = (await server.runs.page("", 1))[0].id
        stored.append((await server.runs.get("", run_id)).progress.booked.tokens)
        return await complete(*arguments)

    model.complete = noted
    model.gate.set()

    async def scenario():
        run = await server.runs.create("", spec(100_000))
        return await server.ended(run.id)

    server.do(scenario())
    assert stored
    assert min(stored) > 500
