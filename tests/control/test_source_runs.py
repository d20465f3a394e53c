"""Runs over traces that are stored elsewhere: which are read, what is kept of them, and what a
restart does.
"""

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sent_traces import SECOND_NS, lines_of, request_of

from spanscore.control import item_lists
from spanscore.control.run_sources import Reading, Sources
from spanscore.control.runs import Runs
from spanscore.errors import ConfigError, FieldError, InputError, RetryableError
from spanscore.evaluation.config import RunSource
from spanscore.model.options import read_spec
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all
from spanscore.specs import RunSpec
from spanscore.store.listing import ScoreQuery, TraceQuery
from spanscore.store.store import StoredTrace


@pytest.fixture
def recorded(tmp_path):
    """`recorded(requests)` writes a folder elsewhere."""

    def write(requests):
        folder = tmp_path / "elsewhere"
        folder.mkdir(exist_ok=True)
        (folder / "traces.jsonl").write_text(lines_of(requests))
        return folder

    return write


@pytest.fixture
def elsewhere(recorded, open_server):
    """A server with a source `archive` of so many traces."""

    def made(requests, *, tenants=(), conditions="", **settings):
        folder = recorded(requests)
        source = RunSource(url=f"file://{folder}{conditions}", tenants=list(tenants))
        server = open_server(**settings)
        server.runs = Runs(
            server.settings.evaluation.runs,
            server.runs.measurers,
            server.scoring,
            server.store,
            sources=Sources({"archive": source}),
            sleep=lambda _s: asyncio.sleep(0),
        )
        return server

    return made


def spec(**target):
    measure = target.pop("measure", {"metrics": ["task_completion"]})
    return read_spec(RunSpec, {"target": {"source": "archive", **target}, "measure": measure})


def stored():
    return read_spec(RunSpec, {"measure": {"metrics": ["task_completion"]}})


def work(server, given=None, tenant=""):
    async def scenario():
        run = await server.runs.create(tenant, given or spec())
        return await ended(server, tenant, run.id)

    return server.do(scenario())


async def ended(server, tenant, run_id, states=("SUCCEEDED", "FAILED")):
    working = asyncio.create_task(server.runs.run())
    try:
        while (run := await server.runs.get(tenant, run_id)).state not in states:
            await asyncio.to_thread(lambda: None)
        return run
    finally:
        working.cancel()
        await asyncio.wait([working])


def traces_of(server, tenant=""):
    return [x.trace for x in server.store.list_traces(TraceQuery(tenant=tenant), 1000).items]


def scores_of(server, run):
    return server.store.list_scores(ScoreQuery(run=run.id, skipped=True), 100_000).items


@pytest.mark.slow
def test_each_trace_of_the_source_is_scored_once_and_can_be_looked_at(elsewhere):
    server = elsewhere([request_of(n) for n in range(30)])
    run = work(server)

    assert (run.state, run.progress.done, run.progress.candidates) == ("SUCCEEDED", 30, 30)
    assert {x.subject_id for x in scores_of(server, run)} == {x.id for x in traces_of(server)}


@pytest.mark.slow
def test_what_is_read_is_no_trace_that_came(elsewhere):
    server = elsewhere([request_of(n, session="s") for n in range(3)])
    work(server)
    assert server.store.open_sessions() == []


def test_a_trace_that_comes_after_it_was_read_is_evaluated_as_if_it_was_new(elsewhere, recorded):
    requests = [request_of(0)]
    server = elsewhere(requests)
    work(server)
    [trace] = rebuild_all(files.load([recorded(requests)]).spans)
    assert [x.revision for x in server.scoring.new([trace])] == [1]


def test_a_trace_that_came_stays_as_it_is_when_it_is_read(elsewhere, recorded):
    requests = [request_of(0)]
    server = elsewhere(requests)
    [trace] = rebuild_all(files.load([recorded(requests)]).spans)
    server.store.commit([StoredTrace(trace, 3, "digest")], [])
    run = work(server)

    assert server.store.known([trace.id]) == {trace.id: (3, "digest")}
    assert run.progress.done == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "left"),
    [
        ({"filter": {"service": "bank"}}, {3, 4}),
        ({"filter": {"resource": {"zone": "eu"}}}, {4}),
        ({"filter": {"started_after_ns": 4 * 60 * SECOND_NS}}, {3, 4}),
        ({"filter": {"started_before_ns": 2 * 60 * SECOND_NS}}, {0}),
        ({"trace_ids": [f"{3:032X}", f"{77:032x}"]}, {2}),
        ({"filter": {"agent": "clerk", "min_duration_s": 2}}, set()),
    ],
)
def test_the_target_narrows_what_is_read(elsewhere, target, left):
    bank = [request_of(3, service="bank"), request_of(4, service="bank", resource={"zone": "eu"})]
    server = elsewhere([*(request_of(n) for n in range(3)), *bank])
    work(server, spec(**target))
    assert {int(x.trace_ids[0], 16) - 1 for x in traces_of(server)} == left


def test_the_conditions_of_the_source_hold_for_every_run(elsewhere):
    server = elsewhere([request_of(0), request_of(1, service="bank")], conditions="?service=bank")
    run = work(server, spec(filter={"service": "shop"}))
    assert (run.progress.candidates, traces_of(server)) == (0, [])


def test_what_started_after_the_run_was_created_is_no_part_of_it(elsewhere):
    server = elsewhere([request_of(0), request_of(1, start_ns=2**62)])
    assert work(server).progress.candidates == 1


@pytest.mark.slow
def test_only_what_is_drawn_is_stored(elsewhere):
    server = elsewhere([request_of(n) for n in range(100)])
    run = work(server, spec(sampling={"share": 0.2, "seed": 5}))
    assert (run.progress.candidates, run.progress.items) == (100, len(traces_of(server)))
    assert 5 < run.progress.items < 40


@pytest.mark.slow
def test_of_a_count_little_more_than_the_sample_is_stored(elsewhere):
    server = elsewhere([request_of(n) for n in range(300)])
    run = work(server, spec(sampling={"count": 5}))
    assert run.progress.items == 5
    assert 5 <= len(traces_of(server)) < 60


@pytest.mark.slow
def test_a_trace_that_is_drawn_is_judged_with_the_turns_before_it_as_in_the_store(elsewhere, judge):
    server = elsewhere([request_of(n, session=f"s{n // 3}") for n in range(30)])
    drawn = {"share": 0.3, "seed": 2}
    work(server, spec(sampling=drawn))
    asked_of_source, judge.asked = set(judge.asked), type(judge.asked)()
    work(server)
    judge.asked.clear()
    work(
        server,
        read_spec(
            RunSpec, {"target": {"sampling": drawn}, "measure": {"metrics": ["task_completion"]}}
        ),
    )

    assert asked_of_source == set(judge.asked) != set()


@pytest.mark.slow
def test_the_same_seed_draws_the_same_traces_of_a_source_as_of_the_store(elsewhere):
    server = elsewhere([request_of(n) for n in range(100)])
    drawn = {"count": 10, "seed": 5}
    first = work(server, spec(sampling=drawn))
    work(server)  # stores all
    stored = read_spec(
        RunSpec, {"target": {"sampling": drawn}, "measure": {"metrics": ["task_completion"]}}
    )
    second = work(server, stored)

    assert first.progress.items == 10
    assert {x.subject_id for x in scores_of(server, first)} == {
        x.subject_id for x in scores_of(server, second)
    }


@pytest.mark.slow
def test_sessions_of_a_source_are_evaluated_with_all_of_their_traces(elsewhere):
    server = elsewhere([request_of(n, session=f"s{n % 3}") for n in range(12)])
    given = spec(scope="session", measure={"metrics": ["agent_reliability"]})
    run = work(server, given)
    found = [x for x in scores_of(server, run) if x.metric == "confidence"]

    assert (run.progress.candidates, run.progress.done) == (3, 3)
    assert len({x.subject_id for x in found}) == 12


def test_nothing_of_a_source_is_drawn_or_encoded_in_the_event_loop(elsewhere, monkeypatch):
    threads, encode = set(), item_lists._encoded

    class Watched(item_lists.Drawing):
        def of(self, traces):
            threads.add(threading.current_thread())
            return super().of(traces)

    def encoded(trace):
        threads.add(threading.current_thread())
        return encode(trace)

    monkeypatch.setattr(item_lists, "Drawing", Watched)
    monkeypatch.setattr(item_lists, "_encoded", encoded)
    work(elsewhere([request_of(n, session="s") for n in range(3)]))

    assert len(threads) == 1
    assert threading.main_thread() not in threads


def committed(server, monkeypatch):
    """The ids of the traces of each commit of `server`, those of them that have any."""
    commits, commit = [], server.store.commit

    def noted(traces, *arguments, **options):
        commits.append([x.trace.id for x in traces])
        return commit(traces, *arguments, **options)

    monkeypatch.setattr(server.store, "commit", noted)
    return commits


@pytest.mark.slow
def test_an_earlier_turn_is_stored_once(elsewhere, monkeypatch):
    server = elsewhere([request_of(n, session="s") for n in range(12)])
    commits = committed(server, monkeypatch)
    work(server)

    assert [len(x) for x in commits if x] == [12]


def test_traces_of_many_bytes_are_committed_in_parts(elsewhere, monkeypatch):
    monkeypatch.setattr(item_lists, "_MAX_PART_BYTES", 1)
    server = elsewhere([request_of(n) for n in range(5)])
    commits = committed(server, monkeypatch)
    run = work(server)

    assert ([len(x) for x in commits if x], run.progress.done) == ([1] * 5, 5)


class Interrupted(Reading):
    """Reads one batch and then waits to be stopped, as a source that is slow."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stopping = threading.Event()

    def stop(self):
        super().stop()
        self.stopping.set()

    def batches(self):
        yield from itertools.islice(super().batches(), 1)
        self.stopping.wait()


@pytest.mark.slow
def test_a_restart_while_the_source_is_read_counts_and_asks_nothing_twice(
    elsewhere, judge, monkeypatch
):
    monkeypatch.setattr("spanscore.control.run_sources._BATCH", 10)
    requests = [request_of(n) for n in range(40)]
    first = elsewhere(requests)
    with monkeypatch.context() as patched:
        patched.setattr("spanscore.control.run_sources.Reading", Interrupted)

        async def until_some_are_listed():
            run = await first.runs.create("", spec(sampling={"count": 25, "seed": 1}))
            working = asyncio.create_task(first.runs.run())
            while not (await first.runs.get("", run.id)).progress.items:
                await asyncio.to_thread(lambda: None)
            working.cancel()
            await asyncio.wait([working])
            return run.id

        run_id = first.do(until_some_are_listed())
    second = elsewhere(requests)
    run = second.do(ended(second, "", run_id))

    assert (run.progress.candidates, run.progress.items, run.progress.done) == (40, 25, 25)
    assert (len(scores_of(second, run)), set(judge.asked.values())) == (25, {1})


class Unreachable:
    """Fails some times before it gives one trace's batches."""

    def __init__(self, failures, reading):
        self.failures, self.reading = failures, reading
        self.asked = 0

    def open(self, *arguments):
        self.asked += 1
        if self.asked <= self.failures:
            raise RetryableError("jaeger://there: refused")
        return self.reading(*arguments)

    def require(self, *_):
        pass


@pytest.mark.parametrize(("failures", "state"), [(3, "SUCCEEDED"), (100, "FAILED")])
def test_a_source_that_cannot_be_reached_is_asked_again_some_times(elsewhere, failures, state):
    server = elsewhere([request_of(0)])
    server.runs.sources = sources = Unreachable(failures, server.runs.sources.open)
    run = work(server)

    assert run.state == state
    assert ("refused" in (run.progress.reason or "")) == (state == "FAILED")
    assert sources.asked <= failures + 1


@pytest.mark.slow
def test_a_run_whose_source_could_not_be_read_is_retried_from_where_it_stood(elsewhere):
    server = elsewhere([request_of(0)])
    server.runs.sources = Unreachable(item_lists._TRIES, server.runs.sources.open)
    run = work(server)

    async def again():
        await server.runs.retry("", run.id)
        return await ended(server, "", run.id)

    assert server.do(again()).progress.done == 1


def test_a_source_with_more_than_may_be_stored_is_refused(elsewhere):
    server = elsewhere([request_of(n) for n in range(20)], runs={"max_from_source": 5})
    run = work(server)
    assert (run.state, "more than 5 traces" in run.progress.reason) == ("FAILED", True)


@pytest.mark.slow
def test_a_sample_of_a_source_with_more_is_drawn(elsewhere):
    server = elsewhere([request_of(n) for n in range(20)], runs={"max_from_source": 5})
    assert work(server, spec(sampling={"count": 5})).progress.done == 5


def test_a_source_that_is_not_configured_is_refused_before_anything_is_stored(elsewhere):
    server = elsewhere([])
    with pytest.raises(FieldError, match=r"no source 'other'.*there are archive"):
        work(server, spec(source="other"))
    assert server.do(server.runs.page("", 10)) == []


def test_a_source_of_other_tenants_is_not_there(elsewhere):
    server = elsewhere([request_of(0)], tenants=["acme"])
    with pytest.raises(FieldError, match="none is configured"):
        work(server, tenant="rival")
    assert work(server, tenant="acme").progress.done == 1


def test_traces_of_a_source_are_those_of_the_tenant_who_reads_it_whatever_they_say(elsewhere):
    forged = {"spanscore.header.:tenant": "rival"}
    server = elsewhere([request_of(0, resource=forged)], tenants=["acme"])
    work(server, tenant="acme")
    assert [x.tenant for x in traces_of(server, "acme")] == ["acme"]


@pytest.mark.parametrize("url", ["traces.jsonl", "jaeger://", "jaeger://there?limit=x"])
def test_a_source_without_a_usable_url_is_refused_at_the_start(url):
    with pytest.raises(ConfigError, match=r"evaluation\.runs\.sources\.archive\.url"):
        Sources({"archive": RunSource(url=url)})


@pytest.mark.parametrize(
    "target",
    [
        {"session_ids": ["s"]},
        {"trace_ids": ["no id"]},
        {"scope": "session", "trace_ids": ["0" * 32]},
    ],
)
def test_a_source_is_not_asked_for_what_it_cannot_find(target):
    with pytest.raises(InputError, match="target"):
        spec(**target)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [{}, {"count": 7}, {"share": 0.5}])
@pytest.mark.parametrize(
    ("scope", "metric"), [("trace", "task_completion"), ("session", "conversation_completion")]
)
def test_an_estimate_of_a_source_is_that_of_the_same_traces_in_the_store(
    elsewhere, scope, metric, sampling
):
    server = elsewhere([request_of(n, session=f"s{n // 2}") for n in range(20)])
    target = {"scope": scope, "sampling": sampling}
    measure = {"metrics": [metric], "model": "gpt-4o"}
    of_source = server.do(server.runs.estimate("", spec(**target, measure=measure)))
    stored_before = traces_of(server)
    work(server)
    of_store = server.do(
        server.runs.estimate("", read_spec(RunSpec, {"target": target, "measure": measure}))
    )

    assert (of_source, stored_before) == (of_store, [])
    assert of_source.calls > 0


def test_an_estimate_of_a_source_that_takes_too_long_says_so(elsewhere, monkeypatch):
    monkeypatch.setattr("spanscore.control.estimates.DEADLINE_S", 0.0)
    monkeypatch.setattr("spanscore.control.run_sources.Reading", Interrupted)
    server = elsewhere([request_of(0)])
    with pytest.raises(InputError, match="cannot be read in 0 s"):
        server.do(server.runs.estimate("", spec()))


def test_estimates_of_a_slow_source_leave_all_other_threads_free(elsewhere, monkeypatch):
    monkeypatch.setattr("spanscore.control.run_sources.Reading", Interrupted)
    server = elsewhere([request_of(0)])

    async def scenario():
        server.loop.get_loop().set_default_executor(ThreadPoolExecutor(1))
        slow = [asyncio.create_task(server.runs.estimate("", spec())) for _ in range(8)]
        refused = await asyncio.gather(*slow[1:], return_exceptions=True)
        free = (
            await asyncio.to_thread(lambda: "free"),
            (await server.runs.estimate("", stored())).items,
        )
        slow[0].cancel()
        await asyncio.wait(slow)
        return {type(x) for x in refused}, free

    assert server.do(scenario()) == ({RetryableError}, ("free", 0))


def test_an_estimate_of_one_tenant_keeps_no_other_tenant_waiting(elsewhere, monkeypatch):
    monkeypatch.setattr("spanscore.control.run_sources.Reading", Interrupted)
    server = elsewhere([request_of(0)], tenants=["acme", "blue"])

    async def scenario():
        asked = [
            asyncio.create_task(server.runs.estimate(x, spec()))
            for x in ("acme", "blue", "acme", "blue")
        ]
        refused = await asyncio.gather(*asked[2:], return_exceptions=True)
        reading = sorted(server.runs._estimating._from_sources)
        for task in asked:
            task.cancel()
        await asyncio.wait(asked)
        return reading, {type(x) for x in refused}

    assert server.do(scenario()) == (["acme", "blue"], {RetryableError})


def test_a_source_is_read_no_further_when_the_caller_has_gone(elsewhere, monkeypatch):
    monkeypatch.setattr("spanscore.control.run_sources.Reading", Interrupted)
    server = elsewhere([request_of(0)])

    async def scenario():
        asked = asyncio.create_task(server.runs.estimate("", spec()))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        reading = server.runs._estimating._from_sources[""]
        await server.eventually(reading.done)
        return reading.exception()

    assert "cannot be read" in str(server.do(scenario()))


def test_an_estimate_of_what_is_stored_that_takes_too_long_says_so(elsewhere, traces, monkeypatch):
    monkeypatch.setattr("spanscore.control.estimates.DEADLINE_S", 0.0)
    server = elsewhere([])
    server.keep(traces(1))
    with pytest.raises(InputError, match="cannot be estimated in 0 s"):
        server.do(server.runs.estimate("", stored()))
