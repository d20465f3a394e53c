"""Both clients against a real server whose answers a test decides."""

import asyncio
import threading

import pytest
from serving import serving

from spanscore import AsyncClient, Client
from spanscore.api.scores import ScoreService
from spanscore.api.servicer import Servicer, needs
from spanscore.api.v1 import run_service_pb2, score_pb2, score_service_pb2 as pb
from spanscore.errors import (
    ConflictError,
    ExistsError,
    FieldError,
    InputError,
    NotFoundError,
    RetryableError,
    StateError,
)
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import BearerToken
from spanscore.rpc import authorization


class Scores(ScoreService):
    """Five scores in pages of two, after the errors that a test wants."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked = 0

    @needs("read")
    async def get_score(self, request, call):
        raise NotFoundError(request.name)

    @needs("read")
    async def list_scores(self, request, call):
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        start = int(request.page_token or 0)
        scores = [score_pb2.Score(metric=f"m{x}") for x in range(start, min(start + 2, 5))]
        return pb.ListScoresResponse(
            scores=scores, next_page_token=str(start + 2) if start + 2 < 5 else ""
        )


class Runs(Servicer):
    """Notes what a run is created with, after the errors that a test wants."""

    service = run_service_pb2.DESCRIPTOR.services_by_name["RunService"]

    def __init__(self, *errors):
        self.errors = list(errors)
        self.ids = []

    def __getattr__(self, name):
        if name.startswith("watch"):

            @needs("read")
            async def stream(request, call):
                yield run_service_pb2.Run(name=request.name)
        else:

            @needs("write")
            async def stream(request, call):
                self.ids.append(getattr(request, "request_id", None))
                if self.errors:
                    raise self.errors.pop(0)
                return run_service_pb2.Run(name="runs/1")

        return stream


class Answering(Runs):
    """Answers GetRun, which a token for reading permits."""

    @needs("read")
    async def get_run(self, request, call):
        return run_service_pb2.Run(name=request.name)


BUSY = RetryableError("busy", retry_after_s=7)


def test_a_list_is_read_page_after_page():
    with serving(Scores()) as endpoint, Client(endpoint) as client:
        found = [x.metric for x in client.pages(client.scores.ListScores, pb.ListScoresRequest())]
    assert found == ["m0", "m1", "m2", "m3", "m4"]


def test_what_may_pass_is_asked_again_when_the_server_says():
    waited = []
    with serving(Scores(BUSY, BUSY)) as endpoint, Client(endpoint, sleep=waited.append) as client:
        assert client.scores.ListScores(pb.ListScoresRequest()).scores
    assert waited == [7.0, 7.0]


def test_what_does_not_pass_is_raised_in_the_end():
    servicer = Scores(*[BUSY] * 9)
    with (
        serving(servicer) as endpoint,
        Client(endpoint, sleep=lambda _s: None) as client,
        pytest.raises(RetryableError, match="busy"),
    ):
        client.scores.ListScores(pb.ListScoresRequest())
    assert servicer.asked == 5


def test_a_request_that_is_sent_again_has_one_request_id():
    servicer = Runs(BUSY)
    with serving(servicer) as endpoint, Client(endpoint, sleep=lambda _s: None) as client:
        client.runs.CreateRun(run_service_pb2.CreateRunRequest())
    first, second = servicer.ids
    assert first
    assert first == second


def test_what_changes_something_and_has_no_request_id_is_asked_once():
    servicer = Runs(BUSY, BUSY)
    with (
        serving(servicer) as endpoint,
        Client(endpoint, sleep=lambda _s: None) as client,
        pytest.raises(RetryableError),
    ):
        client.runs.PauseRun(run_service_pb2.PauseRunRequest(name="runs/1"))
    assert len(servicer.ids) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotFoundError("no"), NotFoundError),
        (ExistsError("no"), ExistsError),
        (StateError("no"), StateError),
        (ConflictError("no"), ConflictError),
        (InputError("no"), InputError),
        (FieldError("filter", "no"), FieldError),
    ],
)
def test_the_errors_of_the_server_are_raised_by_the_client(error, kind):
    with (
        serving(Scores(error)) as endpoint,
        Client(endpoint) as client,
        pytest.raises(kind, match=str(error)),
    ):
        client.scores.ListScores(pb.ListScoresRequest())


def test_all_fields_that_are_wrong_reach_the_client():
    error = FieldError("a", "one", [FieldError("b", "two")])
    with (
        serving(Scores(error)) as endpoint,
        Client(endpoint) as client,
        pytest.raises(FieldError) as caught,
    ):
        client.scores.ListScores(pb.ListScoresRequest())
    assert [(x.field, x.problem) for x in (caught.value, *caught.value.others)] == [
        ("a", "one"),
        ("b", "two"),
    ]


def test_a_stream_is_read_with_the_token():
    tokens = open_authenticators({"bearertokenauth": BearerToken(tokens=["right"])})[
        "bearertokenauth"
    ]
    request = run_service_pb2.WatchRunRequest(name="runs/1")
    with serving(Runs(), tokens=tokens) as endpoint, Client(endpoint, token="right") as client:  # noqa: S106 - of a test
        assert [x.name for x in client.runs.WatchRun(request)] == ["runs/1"]


def test_a_token_that_is_not_known_is_an_input_error():
    tokens = open_authenticators({"bearertokenauth": BearerToken(tokens=["right"])})[
        "bearertokenauth"
    ]
    with (
        serving(Scores(), tokens=tokens) as endpoint,
        Client(endpoint) as client,
        pytest.raises(InputError, match="no token"),
    ):
        client.scores.ListScores(pb.ListScoresRequest())


async def _asked(endpoint, sleep):
    async with AsyncClient(endpoint, sleep=sleep) as client:
        return [
            x.metric async for x in client.pages(client.scores.ListScores, pb.ListScoresRequest())
        ]


def test_the_asynchronous_client_reads_pages_and_asks_again():
    waited = []

    async def sleep(wait_s):
        waited.append(wait_s)

    with serving(Scores(BUSY)) as endpoint:
        found = asyncio.run(_asked(endpoint, sleep))
    assert (found, waited) == (["m0", "m1", "m2", "m3", "m4"], [7.0])


def test_the_asynchronous_client_raises_the_servers_errors():
    with (
        serving(Scores(FieldError("filter", "odd"))) as endpoint,
        pytest.raises(FieldError, match="filter: odd"),
    ):
        asyncio.run(_asked(endpoint, None))


def test_the_asynchronous_client_reads_streams():
    async def watch(endpoint):
        async with AsyncClient(endpoint) as client:
            return [
                x.name
                async for x in client.runs.WatchRun(run_service_pb2.WatchRunRequest(name="runs/2"))
            ]

    with serving(Runs()) as endpoint:
        assert asyncio.run(watch(endpoint)) == ["runs/2"]


def test_the_asynchronous_client_shows_its_token_in_calls_and_streams():
    tokens = open_authenticators({"bearertokenauth": BearerToken(tokens=["right"])})[
        "bearertokenauth"
    ]

    async def ask(endpoint):
        async with AsyncClient(endpoint, token="right") as client:  # noqa: S106 - of a test
            got = await client.runs.get("2")
            return got.name, [x.name async for x in client.runs.watch("2")]

    with serving(Answering(), tokens=tokens) as endpoint:
        assert asyncio.run(ask(endpoint)) == ("runs/2", ["runs/2"])


@pytest.mark.parametrize("token", ["one\ntwo", "tök", "one scopes=read", " "])
def test_what_is_no_token_is_an_input_error_that_does_not_show_it(token):
    with pytest.raises(InputError, match="token: contains") as raised:
        Client("127.0.0.1:1", token=token)
    assert "one" not in str(raised.value).replace("one token", "")


def test_the_blanks_around_a_token_are_no_part_of_it():
    assert authorization("secret\n", "token") == ("authorization", "Bearer secret")


def test_a_closed_client_says_so():
    client = Client("127.0.0.1:1")
    client.close()
    with pytest.raises(InputError, match="this client is closed"):
        client.scores.ListScores(pb.ListScoresRequest())


def test_a_closed_asynchronous_client_says_so():
    async def ask():
        client = AsyncClient("127.0.0.1:1")
        await client.close()
        await client.scores.ListScores(pb.ListScoresRequest())

    with pytest.raises(InputError, match="this client is closed"):
        asyncio.run(ask())


class Watched(Runs):
    """Streams a run's states; `errors` are what each try ends with after its states, None is a
    whole stream.
    """

    def __init__(self, *tries):
        super().__init__()
        self.tries = list(tries)

    @needs("read")
    async def watch_run(self, request, call):
        states, error = self.tries.pop(0)
        for state in states:
            yield run_service_pb2.Run(name=request.name, display_name=state)
        if error is not None:
            raise error


RESTARTED = [("ab", BUSY), ("", BUSY), ("bc", None)]


def test_a_stream_that_breaks_off_goes_on_where_it_was():
    waited = []
    with serving(Watched(*RESTARTED)) as endpoint, Client(endpoint, sleep=waited.append) as client:
        assert [x.display_name for x in client.runs.watch("1")] == ["a", "b", "c"]
    assert waited == [7.0, 7.0]


def test_an_asynchronous_stream_that_breaks_off_goes_on_where_it_was():
    async def scenario(endpoint):
        async with AsyncClient(endpoint, sleep=lambda _s: asyncio.sleep(0)) as client:
            return [x.display_name async for x in client.runs.watch("1")]

    with serving(Watched(*RESTARTED)) as endpoint:
        assert asyncio.run(scenario(endpoint)) == ["a", "b", "c"]


def test_a_stream_that_fails_raises_what_a_call_would():
    with (
        serving(Watched(("a", NotFoundError("there is no run '1'")))) as endpoint,
        Client(endpoint) as client,
        pytest.raises(NotFoundError, match="there is no run"),
    ):
        list(client.runs.watch("1"))


class Endless(Runs):
    """Streams a run's states until the client wants no more."""

    def __init__(self):
        super().__init__()
        self.ended = threading.Event()

    @needs("read")
    async def watch_run(self, request, call):
        try:
            while True:
                yield run_service_pb2.Run(name=request.name)
                await asyncio.sleep(0.01)
        finally:
            self.ended.set()


def test_a_stream_that_is_left_ends_at_the_server():
    servicer = Endless()
    with serving(servicer) as endpoint, Client(endpoint) as client:
        for _ in client.runs.watch("1"):
            break
        assert servicer.ended.wait(60)


def test_an_asynchronous_stream_that_is_left_ends_at_the_server():
    servicer = Endless()

    async def leave(endpoint):
        async with AsyncClient(endpoint) as client:
            async for _ in client.runs.watch("1"):
                break
            return await asyncio.to_thread(servicer.ended.wait, 60)

    with serving(servicer) as endpoint:
        assert asyncio.run(leave(endpoint))


def test_a_stream_of_a_server_that_has_never_answered_is_given_up_soon():
    servicer = Watched(*[("", BUSY)] * 9)
    with (
        serving(servicer) as endpoint,
        Client(endpoint, sleep=lambda _s: None) as client,
        pytest.raises(RetryableError, match="busy"),
    ):
        list(client.runs.watch("1"))
    assert len(servicer.tries) == 4


class Created(Runs):
    """Notes the requests."""

    def __init__(self):
        super().__init__()
        self.asked = []

    @needs("write")
    async def create_run(self, request, call):
        self.asked.append(request)
        return request.run

    @needs("write")
    async def retry_run(self, request, call):
        self.asked.append(request)
        return run_service_pb2.Run(name=request.name)


WANTED = {
    "where": "label.faithfulness = fail",
    "service": "shop",
    "metrics": ["faithfulness"],
    "thresholds": {"faithfulness": 0.7},
    "options": {"faithfulness": {"strict": True}},
    "count": 5,
    "max_usd": 2.0,
    "scope": "session",
}


def test_a_run_is_created_by_keywords():
    servicer = Created()
    with serving(servicer) as endpoint, Client(endpoint) as client:
        client.runs.create(**WANTED)
    run = servicer.asked[0].run
    assert (run.target.where, run.target.filter.service) == ("label.faithfulness = fail", "shop")
    assert (run.target.scope, run.target.sampling.count) == (score_pb2.SCOPE_SESSION, 5)
    assert list(run.measure.metrics) == ["faithfulness"]
    assert dict(run.measure.thresholds) == {"faithfulness": 0.7}
    assert run.measure.options["faithfulness"]["strict"] is True
    assert (run.budget.max_usd, run.budget.HasField("max_tokens")) == (2.0, False)


def test_both_clients_create_the_same_run():
    servicer = Created()

    async def scenario(endpoint):
        async with AsyncClient(endpoint) as client:
            return await client.runs.create(**WANTED)

    with serving(servicer) as endpoint, Client(endpoint) as client:
        assert asyncio.run(scenario(endpoint)) == client.runs.create(**WANTED)


def test_a_keyword_that_a_run_has_not_is_named():
    with (
        serving(Created()) as endpoint,
        Client(endpoint) as client,
        pytest.raises(TypeError, match="has no 'metric'"),
    ):
        client.runs.create(metric="faithfulness")


def test_a_run_is_retried_with_another_budget():
    servicer = Created()
    with serving(servicer) as endpoint, Client(endpoint) as client:
        client.runs.retry("a1", max_usd=3.0)
        client.runs.retry("runs/a1")
    first, second = servicer.asked
    assert (first.name, first.budget.max_usd) == ("runs/a1", 3.0)
    assert (second.name, second.HasField("budget")) == ("runs/a1", False)
