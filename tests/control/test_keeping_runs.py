"""How long runs are kept that have ended."""

import asyncio

import pytest

from spanscore.model.options import read_spec
from spanscore.specs import RunSpec
from spanscore.store.listing import ScoreQuery

SPEC = read_spec(RunSpec, {"measure": {"metrics": ["task_completion"]}})


def work_off(server, count):
    """So many runs, one after the other; their ids."""

    async def scenario():
        ids = []
        for _ in range(count):
            run = await server.runs.create("", SPEC)
            await server.ended(run.id)
            ids.append(run.id)
        return ids

    return server.do(scenario())


def left(server, of=lambda runs: True):
    """The ids of the runs that are there once a server that has started again is done with the
    others.
    """

    async def scenario():
        working = asyncio.create_task(server.runs.run())
        try:
            while not of(found := await server.runs.page("", 100)) or await unfinished(server):
                await asyncio.to_thread(lambda: None)
            return [x.id for x in found]
        finally:
            working.cancel()
            await asyncio.wait([working])

    return server.do(scenario())


async def unfinished(server):
    return await asyncio.to_thread(server.store.read_runs, lambda x: x.unfinished())


@pytest.mark.slow
def test_of_more_runs_than_are_kept_the_oldest_are_deleted(open_server, traces):
    first = open_server()
    first.keep(traces(2))
    ids = work_off(first, 4)
    kept = left(open_server(runs={"retention": {"max_runs": 2}}), lambda runs: len(runs) <= 2)
    assert kept == [ids[3], ids[2]]


@pytest.mark.slow
def test_a_run_that_has_not_ended_is_never_too_old(open_server, traces, judge):
    first = open_server()
    first.keep(traces(2))
    run = first.do(first.runs.create("", SPEC))
    first.do(first.runs.pause("", run.id))
    second = open_server(runs={"retention": {"max_age": "1ns", "max_runs": 1}})
    [done] = work_off(first, 1)
    assert left(second, lambda runs: done not in {x.id for x in runs}) == [run.id]


@pytest.mark.slow
@pytest.mark.parametrize(("delete_scores", "scores"), [(False, 2), (True, 0)])
def test_scores_go_with_a_run_that_is_too_old_only_where_that_is_configured(
    open_server, traces, delete_scores, scores
):
    first = open_server()
    first.keep(traces(2))
    [run] = work_off(first, 1)
    second = open_server(runs={"retention": {"max_age": "1ns", "delete_scores": delete_scores}})
    assert left(second, lambda runs: not runs) == []
    assert len(second.store.list_scores(ScoreQuery(run=run, skipped=True), 100).items) == scores
