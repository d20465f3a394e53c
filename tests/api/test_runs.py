"""RunService: what is asked by messages is what is stored, and what is stored is shown as
messages.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spanscore.api.runs import RunService, budget_of, encode_run, spec_of
from spanscore.api.servicer import Call
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.score_pb2 import SCOPE_SESSION
from spanscore.config import Settings
from spanscore.control.measurer import Measurers
from spanscore.control.runs import Runs
from spanscore.errors import FieldError, NotFoundError, RetryableError
from spanscore.evaluation import Engine
from spanscore.export.sender import Sender
from spanscore.receive.auth import ForbiddenError, UnauthenticatedError
from spanscore.scoring import Scoring
from spanscore.store.config import Config
from spanscore.store.runs import Progress, Run, Tallied
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Meter
from spanscore.testing.traces import agent_trace

CALL = Call()
MEASURE = pb.RunMeasure(metrics=["check.errors_recovered"])
TRACES = [agent_trace(user_input=str(n)) for n in range(3)]
FULL = pb.Run(
    display_name="nightly",
    target=pb.RunTarget(
        scope=SCOPE_SESSION,
        filter=pb.TraceFilter(
            service="shop",
            resource={"zone": "eu"},
            has_error=False,
            min_duration_s=0.5,
            min_tokens=7,
        ),
        sampling=pb.RunSampling(count=50, seed=9),
        where="score.agent_reliability < 0.5",
    ),
    measure=pb.RunMeasure(
        metrics=["agent_reliability"],
        model="gpt-4o",
        thresholds={"agent_reliability": 0.7},
        signal_weights={"confidence": 2.0},
    ),
    budget=pb.RunBudget(max_usd=5.0),
    export=True,
)
FULL.measure.options["agent_reliability"].update({"threshold": 0.5})


class Backend:
    def __init__(self, store):
        settings = Settings()
        scoring = Scoring(
            Engine(settings.evaluation, None, None),
            store,
            Sender(settings.export, {}, store, Meter()),
            Meter(),
        )
        self.runs = Runs(settings.evaluation.runs, Measurers(settings, None, None), scoring, store)


@pytest.fixture
def service(tmp_path):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    store.commit([StoredTrace(x, 1, "") for x in TRACES], [])
    yield RunService(Backend(store))
    store.close()


def kept(run, **facts):
    return Run("ab" * 16, "", "RUNNING", spec_of(run).model_dump_json(), 5, 6, **facts)


def create(service, run=None, call=CALL, **fields):
    request = pb.CreateRunRequest(
        run=run or pb.Run(measure=pb.RunMeasure(metrics=["check.errors_recovered"])), **fields
    )
    return asyncio.run(service.create_run(request, call))


def test_what_was_asked_is_shown_again():
    shown = encode_run(kept(FULL), None)
    for name in ("display_name", "target", "measure", "budget", "export"):
        assert getattr(shown, name) == getattr(FULL, name)


def test_progress_is_shown_with_what_is_missing_and_why():
    scores = Tallied(4, {"coherence\tbudget": 2}, {"\tInputError": 1})
    progress = Progress(cursor=None, candidates=9, items=3, done=2, failed=1, scores=scores)
    shown = encode_run(kept(pb.Run(), progress=progress), 12.5).progress

    assert (shown.listed, shown.items, shown.done, shown.scores, shown.eta_s) == (
        True,
        3,
        2,
        4,
        12.5,
    )
    assert [(x.metric, x.cause, x.count) for x in (*shown.skipped, *shown.errors)] == [
        ("coherence", "budget", 2),
        ("", "InputError", 1),
    ]


WRONG = [
    (pb.Run(target=pb.RunTarget(sampling=pb.RunSampling(share=2.0))), "run.target.sampling.share"),
    (pb.Run(target=pb.RunTarget(sampling=pb.RunSampling(count=0))), "run.target.sampling.count"),
    (pb.Run(target=pb.RunTarget(trace_ids=["a"], session_ids=["b"])), "run.target"),
    (
        pb.Run(measure=pb.RunMeasure(thresholds={"coherence": float("nan")})),
        "run.measure.thresholds.coherence",
    ),
    (pb.Run(budget=pb.RunBudget(max_tokens=0)), "run.budget.max_tokens"),
    (pb.Run(display_name="x" * 300), "run.display_name"),
    (pb.Run(target=pb.RunTarget(scope=7)), "run.target.scope"),
    (pb.Run(target=pb.RunTarget(where="score <")), "run.target.where"),
    (
        pb.Run(target=pb.RunTarget(filter=pb.TraceFilter(started_after_ns=2**63))),
        "run.target.filter.started_after_ns",
    ),
    (
        pb.Run(target=pb.RunTarget(filter=pb.TraceFilter(started_before_ns=2**63))),
        "run.target.filter.started_before_ns",
    ),
]


@pytest.mark.parametrize(("run", "field"), WRONG, ids=[x for _, x in WRONG])
def test_a_field_that_is_wrong_is_named(run, field):
    with pytest.raises(FieldError) as raised:
        spec_of(run)
    assert raised.value.field == field


def test_each_field_that_is_wrong_is_named_by_its_path():
    wrong = pb.Run(
        target=pb.RunTarget(sampling=pb.RunSampling(share=7.0)),
        measure=pb.RunMeasure(signal_weights={"coherence": -1.0}),
        budget=pb.RunBudget(max_tokens=0),
    )
    with pytest.raises(FieldError) as raised:
        spec_of(wrong)
    found = [x.field for x in (raised.value, *raised.value.others)]
    assert sorted(found) == [
        "run.budget.max_tokens",
        "run.measure.signal_weights.coherence",
        "run.target.sampling.share",
    ]


def test_a_field_of_another_budget_that_is_wrong_is_named():
    with pytest.raises(FieldError) as raised:
        budget_of(pb.RunBudget(max_tokens=0))
    assert raised.value.field == "budget.max_tokens"


def test_only_one_run_is_shown_with_the_ids_that_its_target_names(service):
    ids = [x.id for x in TRACES]
    measure = pb.RunMeasure(metrics=["check.errors_recovered"])
    created = create(service, pb.Run(target=pb.RunTarget(trace_ids=ids), measure=measure))
    [listed] = asyncio.run(service.list_runs(pb.ListRunsRequest(), CALL)).runs
    one = asyncio.run(service.get_run(pb.GetRunRequest(name=created.name), CALL))

    assert list(created.target.trace_ids) == list(one.target.trace_ids) == ids
    assert (list(listed.target.trace_ids), listed.target.id_count) == ([], 3)


def test_runs_are_listed_page_by_page(service):
    names = [create(service).name for _ in range(5)]
    found, token = [], ""
    while True:
        page = asyncio.run(
            service.list_runs(pb.ListRunsRequest(page_size=2, page_token=token), CALL)
        )
        found += [x.name for x in page.runs]
        if not (token := page.next_page_token):
            break
    assert found == names[::-1]


@pytest.mark.parametrize("state", [pb.RUN_STATE_UNSPECIFIED, 99])
def test_a_state_that_no_run_has_is_refused_by_its_place_with_those_that_there_are(service, state):
    request = pb.ListRunsRequest(states=[pb.RUN_STATE_PAUSED, state])
    wrong = r"states\[1\]: \d+ is none of its values; there are RUN_STATE_PENDING, .*_CANCELLED"
    with pytest.raises(FieldError, match=wrong):
        asyncio.run(service.list_runs(request, CALL))


@pytest.mark.parametrize("order_by", ["created_ns", "updated_ns desc"])
def test_runs_are_listed_in_the_order_that_is_asked_for(service, order_by):
    names = [create(service).name for _ in range(3)]
    asyncio.run(service.pause_run(pb.PauseRunRequest(name=names[0]), CALL))
    found, token = [], ""
    while not found or token:
        request = pb.ListRunsRequest(order_by=order_by, page_size=2, page_token=token)
        page = asyncio.run(service.list_runs(request, CALL))
        found, token = found + [x.name for x in page.runs], page.next_page_token
    assert found == (names if order_by == "created_ns" else [names[0], names[2], names[1]])


def test_another_tenant_has_none_of_them(service):
    run = create(service, call=Call("acme"))
    with pytest.raises(NotFoundError):
        asyncio.run(service.get_run(pb.GetRunRequest(name=run.name), Call("other")))
    assert not asyncio.run(service.list_runs(pb.ListRunsRequest(), Call("other"))).runs


def test_the_same_request_id_gives_the_same_run(service):
    assert create(service, request_id="k").name == create(service, request_id="k").name


def test_an_estimate_counts_what_would_be_evaluated(service):
    run = pb.Run(
        target=pb.RunTarget(sampling=pb.RunSampling(count=2)),
        measure=pb.RunMeasure(metrics=["check.errors_recovered"]),
    )
    found = asyncio.run(service.estimate_run(pb.EstimateRunRequest(run=run), CALL))
    assert (found.candidates, found.items, found.calls) == (3, 2, 0)


@pytest.mark.parametrize("method", ["create_run", "estimate_run"])
@pytest.mark.parametrize(
    ("run", "field"),
    [
        (pb.Run(target=pb.RunTarget(source="nope")), "run.target.source"),
        (pb.Run(measure=pb.RunMeasure(model="http://a/b")), "run.measure.model"),
    ],
)
def test_what_this_server_refuses_is_named_by_its_path_too(service, method, run, field):
    requests = {"create_run": pb.CreateRunRequest, "estimate_run": pb.EstimateRunRequest}
    with pytest.raises(FieldError) as raised:
        asyncio.run(getattr(service, method)(requests[method](run=run), CALL))
    assert raised.value.field == field


def test_to_have_a_source_read_needs_more_than_the_scope_read(service):
    request = pb.EstimateRunRequest(run=pb.Run(target=pb.RunTarget(source="archive")))
    with pytest.raises(ForbiddenError, match="scope write"):
        asyncio.run(service.estimate_run(request, Call(scopes=frozenset({"read"}))))
    with pytest.raises(FieldError, match="no source"):
        asyncio.run(service.estimate_run(request, Call(scopes=frozenset({"read", "write"}))))


def test_requests_wait_for_none_of_the_threads_that_all_else_uses(service):
    held = threading.Event()

    async def scenario():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        other = asyncio.create_task(asyncio.to_thread(held.wait))
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(60):
                return await service.list_runs(pb.ListRunsRequest(), CALL)
        finally:
            held.set()
            await other

    assert asyncio.run(scenario()) == pb.ListRunsResponse()


def test_a_watched_run_ends_when_the_server_stops(service):
    async def watch():
        created = await service.create_run(
            pb.CreateRunRequest(
                run=pb.Run(measure=pb.RunMeasure(metrics=["check.errors_recovered"]))
            ),
            CALL,
        )
        watching = service.watch_run(pb.WatchRunRequest(name=created.name), CALL)
        await anext(watching)
        service.stop()
        await anext(watching)

    with pytest.raises(RetryableError, match="stops"):
        asyncio.run(watch())


@pytest.mark.slow
def test_a_watched_run_ends_when_the_token_is_revoked(service):
    revoked = []

    def admit():
        if revoked:
            raise UnauthenticatedError("this token is not known here")

    async def watch():
        name = (
            await service.create_run(pb.CreateRunRequest(run=pb.Run(measure=MEASURE)), CALL)
        ).name
        watching = service.watch_run(pb.WatchRunRequest(name=name), Call(admit=admit))
        await anext(watching)
        revoked.append(True)
        await anext(watching)

    with pytest.raises(UnauthenticatedError, match="not known"):
        asyncio.run(watch())


def test_a_tenant_watches_no_more_runs_at_once_than_it_may(service, monkeypatch):
    monkeypatch.setattr("spanscore.api.runs._MAX_STREAMS", 1)

    async def watch():
        made = [
            await service.create_run(pb.CreateRunRequest(run=pb.Run(measure=MEASURE)), Call(tenant))
            for tenant in ("acme", "other")
        ]
        first, second, other = (
            service.watch_run(pb.WatchRunRequest(name=made[n].name), Call(tenant))
            for n, tenant in ((0, "acme"), (0, "acme"), (1, "other"))
        )
        await anext(first)
        await anext(other)
        with pytest.raises(RetryableError, match="1 streams watch runs already") as raised:
            await anext(second)
        await first.aclose()
        await other.aclose()
        third = service.watch_run(pb.WatchRunRequest(name=made[0].name), Call("acme"))
        found = (await anext(third)).name == made[0].name
        await third.aclose()
        return found, raised.value.retry_after_s

    assert asyncio.run(watch()) == (True, 5.0)


def test_a_name_of_something_else_is_refused(service):
    with pytest.raises(FieldError, match="write runs/ID"):
        asyncio.run(service.get_run(pb.GetRunRequest(name="traces/1"), CALL))
