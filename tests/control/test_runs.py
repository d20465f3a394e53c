"""Runs over what is stored: which items, which scores, and what becomes of them through pauses and
restarts.
"""

import asyncio

import pytest

from spanscore.config import Settings
from spanscore.control.active_runs import TurnTaking
from spanscore.control.measurer import Measurers
from spanscore.errors import (
    ExistsError,
    FieldError,
    InputError,
    JudgeUnavailableError,
    NotFoundError,
    StateError,
)
from spanscore.model.options import read_spec
from spanscore.scoring import Scoring
from spanscore.specs import RunBudget, RunSpec
from spanscore.store.listing import ScoreQuery
from spanscore.store.runs import OpenRun

COMPLETION = {"measure": {"metrics": ["task_completion"]}}


def spec(**given):
    return read_spec(RunSpec, {**COMPLETION, **given})


def scores_of(server, run):
    return server.store.list_scores(ScoreQuery(run=run.id, skipped=True), 100_000).items


def work(server, given=None, tenant=""):
    """A run, worked off."""

    async def scenario():
        run = await server.runs.create(tenant, given or spec())
        return await server.ended(run.id)

    return server.do(scenario())


@pytest.mark.slow
def test_every_stored_trace_is_scored_once(server, traces):
    ids = server.keep(traces(30))
    run = work(server)

    assert (run.state, run.progress.done, run.progress.items) == ("SUCCEEDED", 30, 30)
    assert sorted(x.subject_id for x in scores_of(server, run)) == sorted(ids)


@pytest.mark.slow
def test_no_question_is_asked_twice(server, traces, judge):
    server.keep(traces(30))
    work(server)

    assert set(judge.asked.values()) == {1}


@pytest.mark.slow
def test_the_scores_name_their_run_and_leave_the_live_ones_as_they_were(server, traces):
    server.keep(traces(3))
    run = work(server)

    assert {x.run for x in scores_of(server, run)} == {run.id}
    assert server.store.list_scores(ScoreQuery(), 100).items == []


@pytest.mark.slow
def test_two_runs_do_not_take_the_place_of_each_other(server, traces):
    server.keep(traces(3))
    one, other = (
        work(server),
        work(server, spec(measure={"metrics": ["task_completion"], "model": "other"})),
    )

    assert {x.evaluator.model for x in scores_of(server, one)} == {"scripted"}
    assert {x.evaluator.model for x in scores_of(server, other)} == {"other"}
    assert {x.revision for x in [*scores_of(server, one), *scores_of(server, other)]} == {1}


def test_scores_of_a_run_are_withheld_from_exporters(server, traces):
    server.keep(traces(3))
    assert not any(x.is_shown for x in scores_of(server, work(server)))


def test_those_of_a_run_that_exports_are_shown(server, traces):
    server.keep(traces(3))
    assert all(x.is_shown for x in scores_of(server, work(server, spec(export=True))))


def test_a_filter_names_the_traces(server, traces):
    wanted = server.keep(traces(5, service_name="bank"))
    server.keep(traces(5))
    run = work(server, spec(target={"filter": {"service": "bank"}}))

    assert sorted(x.subject_id for x in scores_of(server, run)) == sorted(wanted)


def test_ids_name_the_traces(server, traces):
    some = traces(5)
    server.keep(some)
    run = work(server, spec(target={"trace_ids": [some[1].id, some[3].trace_ids[0]]}))

    assert sorted(x.subject_id for x in scores_of(server, run)) == sorted([some[1].id, some[3].id])


def test_an_id_that_is_not_stored_creates_no_run(server, traces):
    server.keep(traces(1))
    with pytest.raises(NotFoundError, match=r"1 of the traces are not stored .*: 'ffff'"):
        server.do(server.runs.create("", spec(target={"trace_ids": ["ffff"]})))
    assert server.do(server.runs.page("", 10)) == []


@pytest.mark.slow
def test_a_sample_of_a_seed_is_the_same_in_every_run(server, traces):
    server.keep(traces(60))
    target = {"sampling": {"share": 0.4, "seed": 3}}
    first, second = (work(server, spec(target=target)) for _ in range(2))

    drawn = [{x.subject_id for x in scores_of(server, run)} for run in (first, second)]
    assert drawn[0] == drawn[1]
    assert 10 < len(drawn[0]) < 40


@pytest.mark.slow
def test_a_count_draws_exactly_so_many_with_their_chance(server, traces):
    server.keep(traces(40))
    run = work(server, spec(target={"sampling": {"count": 10}}))

    found = scores_of(server, run)
    assert (len(found), {x.sampling for x in found}) == (10, {0.25})


def test_a_session_run_stores_the_signals_that_it_needs(server, traces, judge):
    server.keep(traces(3, session_id="s1"))
    given = spec(
        target={"scope": "session"}, measure={"metrics": ["agent_reliability"], "model": "other"}
    )
    found = scores_of(server, work(server, given))

    assert [x.metric for x in found if x.scope == "session"] == ["agent_reliability"]
    assert {"confidence", "tool_correctness", "loop_detection"} <= {
        x.metric for x in found if x.scope == "trace"
    }
    assert judge.models == {"other"}


def test_a_session_run_computes_no_signal_that_is_turned_off(open_server, traces):
    server = open_server(metrics={"confidence": False, "loop_detection": False})
    server.keep(traces(3, session_id="s1"))
    given = spec(target={"scope": "session"}, measure={"metrics": ["agent_reliability"]})
    found = {x.metric for x in scores_of(server, work(server, given)) if x.scope == "trace"}
    assert found == {"tool_correctness", "coherence"}


def test_a_filter_names_sessions_by_their_traces(server, traces):
    server.keep(
        traces(
            4, session_id=lambda n: f"s{n % 2}", service_name=lambda n: "bank" if n == 1 else "shop"
        )
    )
    given = spec(
        target={"scope": "session", "filter": {"service": "bank"}},
        measure={"metrics": ["conversation_completion"]},
    )
    assert {x.session_id for x in scores_of(server, work(server, given))} == {"s1"}


def test_what_was_skipped_is_counted_by_its_cause(server, traces):
    server.keep(traces(4, tool_calls=()))
    run = work(server, spec(measure={"metrics": ["check.errors_recovered"]}))

    assert run.progress.scores.skipped == {"check.errors_recovered\tnot_applicable": 4}


@pytest.mark.slow
def test_only_what_failed_is_asked_again_on_a_retry(server, traces, judge):
    server.keep(traces(10))
    judge.errors = {"Where is order 4?": JudgeUnavailableError("no connection")}
    run = work(server)
    before = judge.asked.copy()
    judge.errors = {}

    async def retried():
        await server.runs.retry("", run.id)
        return await server.ended(run.id)

    again = server.do(retried())
    assert (run.progress.failed, again.progress.failed, again.progress.done) == (1, 0, 10)
    assert {"Where is order 4?" in transcript for transcript, _ in judge.asked - before} == {True}
    assert again.progress.scores.failed == {}
    assert max(x.revision for x in scores_of(server, again)) == 2


def test_a_run_of_which_nothing_failed_is_not_retried(server, traces):
    server.keep(traces(1))
    run = work(server)
    with pytest.raises(StateError, match="nothing of it has failed"):
        server.do(server.runs.retry("", run.id))


def test_a_run_in_which_everything_failed_has_failed(server, traces, judge):
    server.keep(traces(2))
    judge.errors = {"": JudgeUnavailableError("no key")}
    run = work(server)

    assert (run.state, run.progress.reason) == ("FAILED", "2 of 2 failed")
    assert run.progress.scores.failed == {"task_completion\tJudgeUnavailableError": 2}


def test_a_run_over_nothing_says_so(server):
    run = work(server)
    assert (run.state, run.progress.reason[:7]) == ("FAILED", "nothing")


def test_a_run_of_which_nothing_was_scored_has_failed_and_says_why(server, traces):
    server.keep(traces(4, tool_calls=()))
    run = work(server, spec(measure={"metrics": ["check.errors_recovered"]}))
    assert (run.state, run.progress.reason) == (
        "FAILED",
        "nothing was scored; skipped: check.errors_recovered not_applicable (4)",
    )


@pytest.mark.slow
def test_a_paused_run_asks_nothing_more_until_it_is_resumed(open_server, traces, judge):
    server = open_server(runs={"max_concurrent": 2})
    server.keep(traces(20))

    async def scenario():
        working = asyncio.create_task(server.runs.run())
        judge.gate.clear()
        run = await server.runs.create("", spec())
        await server.until(run.id, lambda x: x.progress.items == 20)
        await server.eventually(lambda: judge.asked)
        paused = await server.runs.pause("", run.id)
        judge.gate.set()
        await server.eventually(lambda: not server.active)
        asked = judge.asked.total()
        resumed = await server.runs.resume("", run.id)
        ended = await server.until(run.id, lambda x: x.is_ended)
        working.cancel()
        await asyncio.wait([working])
        return paused.state, asked, resumed.state, ended

    paused, asked, resumed, ended = server.do(scenario())
    assert (paused, resumed, ended.state, ended.progress.done) == (
        "PAUSED",
        "PENDING",
        "SUCCEEDED",
        20,
    )
    assert asked <= 4  # two questions of each of the two that were under way
    assert set(judge.asked.values()) == {1}


def test_a_cancelled_run_is_given_up_with_what_is_under_way(server, traces, judge):
    server.keep(traces(20))

    async def scenario():
        working = asyncio.create_task(server.runs.run())
        judge.gate.clear()
        run = await server.runs.create("", spec())
        await server.eventually(lambda: judge.asked)
        await server.runs.cancel("", run.id)
        await server.eventually(lambda: not server.active)
        working.cancel()
        await asyncio.wait([working])
        return await server.runs.get("", run.id)

    run = server.do(scenario())
    assert (run.state, run.progress.done) == ("CANCELLED", 0)


def move_as_it_begins(server, monkeypatch, run_id, move):
    """Have `move(run_id)` happen right after it was committed that the run is worked on."""
    write, loop, moved = server.store.write_runs, asyncio.get_running_loop(), []

    def wrapped(change):
        written = write(change)
        if not moved and server.store.read_runs(lambda x: x.get("", run_id)).state == "RUNNING":
            moved.append(run_id)
            asyncio.run_coroutine_threadsafe(move(run_id), loop).result()
        return written

    monkeypatch.setattr(server.store, "write_runs", wrapped)


@pytest.mark.parametrize(("action", "state"), [("pause", "PAUSED"), ("cancel", "CANCELLED")])
def test_a_run_that_is_ended_just_as_it_begins_asks_nothing(
    open_server, traces, judge, monkeypatch, action, state
):
    server = open_server(runs={"at_once": 1})
    server.keep(traces(3))

    async def scenario():
        run = await server.runs.create(
            "", spec(measure={"metrics": ["task_completion"], "model": "ended"})
        )
        move_as_it_begins(
            server, monkeypatch, run.id, lambda id_: getattr(server.runs, action)("", id_)
        )
        later = await server.runs.create(
            "", spec(measure={"metrics": ["task_completion"], "model": "later"})
        )
        await server.ended(later.id)
        return await server.runs.get("", run.id)

    assert server.do(scenario()).state == state
    assert judge.models == {"later"}


@pytest.mark.parametrize("text", ["\ud800", "\0"])
def test_an_error_that_no_database_takes_as_text_costs_no_other_item(server, traces, judge, text):
    server.keep(traces(3))
    judge.errors["order 1?"] = JudgeUnavailableError(f"the answer {text}has no JSON")
    run = work(server)

    assert (run.state, run.progress.done, run.progress.failed) == ("SUCCEEDED", 2, 1)
    [item] = server.do(server.runs.items("", run.id, "FAILED", 10))
    assert "the answer has no JSON" in item.error


class Unstorable(Scoring):
    """Stores no scores of a subject, and where `is_full` nothing that is of a run."""

    def __init__(self, scoring, subject_id, *, is_full=False):
        self.__dict__ = vars(scoring)
        self.subject_id, self.is_full = subject_id, is_full

    async def commit(self, traces, evaluations, **options):
        if self.is_full or any(x.subject_id == self.subject_id for x in evaluations):
            raise ValueError("no row fits")
        return await super().commit(traces, evaluations, **options)


def test_scores_that_cannot_be_stored_cost_no_other_item(server, traces):
    [subject_id, *_] = server.keep(traces(3))
    server.runs.scoring = Unstorable(server.scoring, subject_id)
    run = work(server)

    assert (run.state, run.progress.done, run.progress.failed) == ("SUCCEEDED", 2, 1)


def test_a_run_of_which_nothing_can_be_stored_has_the_reason(server, traces):
    [subject_id, *_] = server.keep(traces(3))
    server.runs.scoring = Unstorable(server.scoring, subject_id, is_full=True)
    run = work(server)

    assert (run.state, run.progress.reason) == ("FAILED", "ValueError: no row fits")


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
def test_what_has_ended_is_not_moved(server, action):
    run = work(server)
    with pytest.raises(StateError, match=f"run {run.id} is FAILED"):
        server.do(getattr(server.runs, action)("", run.id))


@pytest.mark.slow
def test_a_restart_goes_on_where_the_run_stood(open_server, traces, judge):
    first = open_server(runs={"max_concurrent": 4})
    first.keep(traces(60))

    async def begin():
        run = await first.runs.create("", spec())
        working = asyncio.create_task(first.runs.run())
        await first.until(run.id, lambda x: x.progress.done >= 10)
        working.cancel()
        await asyncio.wait([working])
        return run

    run = first.do(begin())
    first.store.close()
    second = open_server()
    ended = second.do(second.ended(run.id))

    assert (ended.state, ended.progress.done) == ("SUCCEEDED", 60)
    assert len(scores_of(second, ended)) == 60


def test_the_same_request_creates_one_run(server):
    one, other = (server.do(server.runs.create("", spec(), "key")) for _ in range(2))
    assert one == other


def test_another_request_under_the_same_id_is_refused(server):
    run = server.do(server.runs.create("", spec(), "key"))
    with pytest.raises(ExistsError, match=f"run {run.id} was created under it"):
        server.do(server.runs.create("", spec(display_name="other"), "key"))


def test_a_tenant_has_no_runs_of_another(server):
    run = server.do(server.runs.create("acme", spec()))
    for asked in (server.runs.get("other", run.id), server.runs.cancel("other", run.id)):
        with pytest.raises(NotFoundError, match="there is no run"):
            server.do(asked)
    assert server.do(server.runs.page("other", 10)) == []


def test_slow_runs_of_one_tenant_keep_none_of_another_from_starting(open_server, traces, judge):
    server = open_server(runs={"at_once": 2})
    judge.gate.clear()

    async def scenario():
        for tenant, trace in zip(("acme", "other"), traces(2), strict=True):
            await server.runs.import_traces(tenant, [trace])
        slow = [await server.runs.create("acme", spec()) for _ in range(3)]
        other = await server.runs.create("other", spec())
        working = asyncio.create_task(server.runs.run())
        await server.eventually(lambda: len(server.active) == 2)
        working.cancel()
        await asyncio.wait([working])
        return [(await server.runs.get(x.tenant, x.id)).state for x in (*slow, other)]

    assert server.do(scenario()) == ["RUNNING", "PENDING", "PENDING", "RUNNING"]


@pytest.mark.slow
def test_a_tenant_with_all_places_gives_one_up_for_a_tenant_without(
    open_server, traces, judge, monkeypatch
):
    monkeypatch.setattr("spanscore.control.active_runs._GRACE_S", 0.0)
    server = open_server(runs={"at_once": 2, "max_concurrent": 1})
    judge.gate.clear()
    *several, one = traces(9)

    async def scenario():
        await server.runs.import_traces("acme", several)
        await server.runs.import_traces("other", [one])
        first, second = [await server.runs.create("acme", spec()) for _ in range(2)]
        working = asyncio.create_task(server.runs.run())
        await server.eventually(lambda: sorted(server.active) == sorted((first.id, second.id)))
        await server.eventually(lambda: judge.asked and min(judge.asked.values()) == 2)
        await server.eventually(lambda: max(judge.asked.values(), default=0) == 2)
        other = await server.runs.create("other", spec())
        await server.eventually(lambda: server.active[second.id].gives_way)
        judge.gate.set()
        await server.eventually(lambda: other.id in server.active)
        given_way = await server.runs.get("acme", second.id)
        for run in (first, second, other):
            while (await server.runs.get(run.tenant, run.id)).state != "SUCCEEDED":
                await asyncio.to_thread(lambda: None)
        working.cancel()
        await asyncio.wait([working])
        return given_way.progress.done

    assert server.do(scenario()) == 1  # what was under way
    assert set(judge.asked.values()) == {2, 1}  # by each run once


@pytest.mark.parametrize(
    ("budget", "field"),
    [(RunBudget(max_usd=5.1), "max_usd"), (RunBudget(max_tokens=2001), "max_tokens")],
)
def test_a_run_that_asks_for_more_than_any_may_spend_is_refused(open_server, traces, budget, field):
    server = open_server(runs={"max_budget": {"max_usd": 5, "max_tokens": 2000}})
    server.keep(traces(1))
    done = work(server)
    for asked in (
        server.runs.create("", spec(budget=budget)),
        server.runs.estimate("", spec(budget=budget)),
        server.runs.retry("", done.id, budget),
    ):
        with pytest.raises(
            FieldError, match=rf"^budget\.{field}: .* is above .* evaluation\.runs\.max_budget"
        ):
            server.do(asked)


@pytest.mark.parametrize(
    ("own", "bound", "held"),
    [
        (None, {"max_usd": 5}, (None, 5)),
        (RunBudget(max_tokens=7), {"max_usd": 5, "max_tokens": 9}, (7, 5)),
        (RunBudget(max_usd=2), {"max_usd": 5}, (None, 2)),
        (RunBudget(max_usd=9), {"max_usd": 5}, (None, 5)),
    ],
)
def test_a_run_is_held_to_its_own_budget_and_to_the_bound_of_all(own, bound, held):
    settings = Settings.model_validate({"evaluation": {"runs": {"max_budget": bound}}})
    limits = Measurers(settings, None, None).limits(own)
    assert (limits.max_tokens, limits.max_usd) == held


def test_tenants_with_equally_many_runs_take_turns():
    waiting = [OpenRun(f"{tenant}{n}", "PENDING", tenant) for tenant in "abc" for n in range(2)]
    turns, begun = TurnTaking(), []
    while waiting:  # one at a time
        begun.append(turns.next(waiting, {}))
        waiting.remove(begun[-1])
    assert [x.id for x in begun] == ["a0", "b0", "c0", "a1", "b1", "c1"]


def test_runs_are_listed_newest_first(server):
    made = [server.do(server.runs.create("", spec(display_name=str(n)))).id for n in range(3)]
    assert [x.id for x in server.do(server.runs.page("", 10))] == made[::-1]


@pytest.mark.parametrize("with_scores", [True, False])
def test_a_run_is_deleted_with_or_without_its_scores(server, traces, with_scores):
    server.keep(traces(5))
    run = work(server)
    server.do(server.runs.delete("", run.id, with_scores=with_scores))

    assert len(scores_of(server, run)) == (0 if with_scores else 5)
    with pytest.raises(NotFoundError):
        server.do(server.runs.get("", run.id))


WRONG = [
    (
        {"measure": {"metrics": ["task_complete"]}},
        "measure.metrics: there is no metric 'task_complete'; did you mean",
    ),
    (
        {"measure": {"metrics": ["agent_reliability"]}},
        "measure.metrics: agent_reliability runs with a session, .* let the scope be that of a",
    ),
    (
        {"measure": {"metrics": ["coherence"], "thresholds": {"confidence": 1}}},
        "measure: confidence has options or a threshold",
    ),
    (
        {
            "measure": {
                "metrics": ["coherence"],
                "thresholds": {"coherence": 1},
                "options": {"coherence": {"threshold": 0.5}},
            }
        },
        r"measure\.thresholds\.coherence: options give a threshold for it too",
    ),
    (
        {"measure": {"metrics": ["coherence"], "thresholds": {"coherence": 9}}},
        "measure: coherence.threshold: 9 is off the scale of coherence, which is 0 to 1",
    ),
    (
        {"measure": {"metrics": ["coherence"], "options": {"coherence": {"threshold": -1}}}},
        "measure: coherence.threshold: -1 is off the scale of coherence",
    ),
    (
        {"measure": {"metrics": ["coherence"], "options": {"coherence": {"x": 1}}}},
        "coherence has no option 'x'",
    ),
    (
        {"measure": {"signal_weights": {"nothing": 1}}},
        "measure.signal_weights: 'nothing' is no metric of traces",
    ),
]


@pytest.mark.parametrize(("given", "why"), WRONG, ids=lambda x: str(x)[:50])
def test_what_cannot_be_measured_creates_no_run(server, given, why):
    with pytest.raises(InputError, match=why):
        server.do(server.runs.create("", read_spec(RunSpec, given)))
    assert server.do(server.runs.page("", 10)) == []


def test_a_threshold_of_the_run_decides_its_labels(server, traces):
    server.keep(traces(1))
    given = spec(measure={"metrics": ["task_completion"], "thresholds": {"task_completion": 0.95}})
    [found] = scores_of(server, work(server, given))

    assert (found.threshold, found.value, found.label) == (0.95, 0.8, "fail")


def test_a_run_that_cannot_begin_fails_and_keeps_none_waiting(server, traces, monkeypatch):
    server.keep(traces(1))

    async def scenario():
        one = await server.runs.create("", spec(display_name="one"))
        other = await server.runs.create("", spec())
        monkeypatch.setattr(server.runs, "measurers", Unable(server.runs.measurers))
        return await server.ended(other.id), await server.runs.get("", one.id)

    other, one = server.do(scenario())
    assert (other.state, one.state, one.progress.reason) == (
        "SUCCEEDED",
        "FAILED",
        "RuntimeError: no such module",
    )


class Unable:
    """Makes no engine for the run that is named one."""

    def __init__(self, measurers):
        self._measurers = measurers

    def of(self, given, *spent):
        if given.display_name == "one":
            raise RuntimeError("no such module")
        return self._measurers.of(given, *spent)


def test_the_ids_of_a_target_are_not_read_with_the_runs(server, traces):
    ids = server.keep(traces(3))
    run = server.do(server.runs.create("", spec(target={"trace_ids": ids})))
    [listed] = server.do(server.runs.page("", 10))
    _, whole = server.do(server.runs.get_whole("", run.id))

    assert (ids[0] in listed.spec, listed.progress.named) == (False, 3)
    assert list(whole.target.trace_ids) == ids
