"""Two tenants attack each other by every method of every service.

The requests are made from the services' descriptors: each text of a request is given all that
another tenant's things are called, and the same with names of things that never existed. Whoever
asks must not be able to tell one from the other. So a new method is attacked without a line here;
where it needs fields to do anything, they stand in `NEEDED`.
"""

import asyncio
import contextlib
import hashlib
import importlib
import pkgutil
import re
import shutil
from dataclasses import dataclass, replace

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor

from spanscore.api import v1
from spanscore.api.convert import encode_trace
from spanscore.api.requests import name_of
from spanscore.api.runs import RunService
from spanscore.api.server import services
from spanscore.api.servicer import Call, methods
from spanscore.api.v1 import (
    annotation_service_pb2 as annotation_pb,
    monitor_service_pb2 as monitor_pb,
    run_service_pb2 as run_pb,
    score_pb2 as score_pb,
    score_service_pb2 as score_service_pb,
)
from spanscore.config import Settings
from spanscore.errors import SpanscoreError
from spanscore.model.score import Annotation, Evaluation, Evaluator, Score
from spanscore.model.span import TENANT, with_headers
from spanscore.model.trace import AgentTrace, Target, in_scope
from spanscore.serving.pipeline import Pipeline
from spanscore.store.store import StoredTrace

ACME, BLUE = "acme", "blue"
METRIC = "check.errors_recovered"
SHARED = "chat-7"
HIDDEN = "what only {} may know"
_CODE = Evaluator("CODE", "spanscore", "1")
_HUMAN = Evaluator("HUMAN", "anna", "", source="human")
_MEASURE = run_pb.RunMeasure(metrics=[METRIC])
_MONITOR = monitor_pb.Monitor(watch=monitor_pb.MonitorWatch(metric=METRIC, floor=0.5))
_GIVEN = score_pb.Score(
    metric="helpful",
    value=1.0,
    trace_id=f"{7:032x}",
    evaluator=score_pb.Evaluator(source="human", author="anna"),
)
_QUEUE = annotation_pb.AnnotationQueue(
    metric="coherence",
    author="anna",
    strategy=annotation_pb.ANNOTATION_STRATEGY_RANDOM,
    scope=score_pb.SCOPE_TRACE,
)
_CHANGED = score_pb.Score(value=0.5)

NEEDED = {
    "EvaluateTrace": {"metrics": [METRIC]},
    "EvaluateSession": {"metrics": ["loop_detection"]},
    "Evaluate": {"metrics": [METRIC]},
    "CreateRun": {"run": run_pb.Run(display_name="nightly", measure=_MEASURE)},
    "EstimateRun": {"run": run_pb.Run(measure=_MEASURE)},
    "CreateMonitor": {"monitor": _MONITOR},
    "UpdateMonitor": {"monitor": _MONITOR, "update_mask": {"paths": ["display_name"]}},
    "CreateScore": {"score": _GIVEN},
    "BatchCreateScores": {"requests": [score_service_pb.CreateScoreRequest(score=_GIVEN)]},
    "SummarizeScores": {"group_by": ["agent"]},
    "QueryScoreTrend": {"group_by": ["agent"]},
    "CompareScores": {"group_by": ["agent"]},
    "ListScoreHistory": {"metric": "coherence"},
    "GetAgreement": {"metric": "coherence", "label": "helpful"},
    "CalibrateJudge": {"metric": "coherence", "label": "helpful", "all_labels": True},
    "ListAnnotationItems": {"queue": _QUEUE},
    "LeaseAnnotationItems": {"queue": _QUEUE},
    "ReleaseAnnotationItem": {"queue": _QUEUE, "scope": score_pb.SCOPE_TRACE},
    "UpdateScore": {"score": _CHANGED, "update_mask": {"paths": ["value"]}},
}
"""By method what a request has beside the names that are tried, so that it is answered where they
are right.
"""

OF_ALL = {"GetViewer"}
"""Methods that give every tenant the same."""

_MONITORS = "/spanscore.v1.MonitorService"
FILTERED = ("trace_id", "session_id", "session_key", "subject_id", "uid", "id")
_NEXT = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyz", "1234567890bcdefahijklmnopqrstuvwxyzg"
)
UNTRIED = frozenset(
    {"google.protobuf.FieldMask", "google.protobuf.Struct", "google.protobuf.Timestamp"}
)


@dataclass(frozen=True)
class Names:
    """All that the things of a tenant are called, by their collection; `invented` has names of the
    same form of which there is none.
    """

    of: dict[str, tuple[str, ...]]

    @property
    def ids(self):
        return tuple(dict.fromkeys(id_ for ids in self.of.values() for id_ in ids))

    def texts(self, *path):
        """What the field at the end of a path is given, in an order that only the kind of the names
        decides.
        """
        if path[-1:] in {("filter",), ("where",)}:
            return [f'{x} = "{id_}"' for id_ in self.ids for x in FILTERED]
        is_named = len(path) < 2 or path[-1] in {"name", "parent"}
        names = [name_of(x, id_) for x, ids in self.of.items() for id_ in ids]
        return [*self.ids, *(names if is_named else ())]

    def invented(self):
        return Names({x: tuple(map(_other, ids)) for x, ids in self.of.items()})


def _other(id_):
    """Another text of the same form: each digit is another one, and each letter of the digest that
    it may be.
    """
    tenant, slash, rest = id_.rpartition("/")
    return tenant + slash + rest.translate(_NEXT)


def _trace(tenant, number, session):
    resource = with_headers({}, ((TENANT, tenant),) if tenant else ())
    target = Target(f"{number:032x}", f"{number:016x}", 10**9, 2 * 10**9, resource)
    trace = AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=10**9,
        ended_ns=2 * 10**9,
        session_id=session,
        user_input=HIDDEN.format(tenant),
        final_output=HIDDEN.format(tenant),
        agent_name=HIDDEN.format(tenant),
    )
    return in_scope([trace], ())[0]


def _needed(method):
    """A request that the method answers, where it names what is there."""
    name = method.path.rpartition("/")[2]
    if name == "ImportTraces":
        return method.request_class(traces=[encode_trace(_trace("", 5, "imported"))])
    return method.request_class(**NEEDED.get(name, {}))


def _score(trace, metric, **facts):
    defaults = {
        "scope": "trace",
        "subject_id": trace.id,
        "metric": metric,
        "outcome": Score(0.25 if trace.tenant == ACME else 0.75, HIDDEN.format(trace.tenant)),
        "agent_name": trace.agent_name,
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": _CODE,
        "target": trace.target,
        "session_id": trace.session_id,
        "session_key": trace.session_key,
    }
    return Evaluation(**{**defaults, **facts})


def _fill(store, tenant, number, session):
    """Keep a trace with a score, one of its session and what a person gave; returns all that these
    are called.
    """
    trace = _trace(tenant, number, session)
    own = _score(trace, "coherence")
    of_session = _score(trace, "loop_detection", scope="session", subject_id=trace.session_key)
    given = replace(
        _score(trace, "helpful", subject_id=trace.target.trace_id),
        outcome=Annotation(1.0, "pass", HIDDEN.format(tenant), passed=True),
        evaluator=_HUMAN,
        received_uid=hashlib.sha256(f"{tenant}{number}".encode()).hexdigest()[:16],
    )
    store.commit([StoredTrace(trace, 1, "")], [own, of_session])
    store.put_external([given])
    return {
        "traces": (trace.id, trace.target.trace_id),
        "sessions": (session, trace.session_key),
        "scores": (own.uid, of_session.uid, given.uid),
    }


class World:
    """A server with two tenants, who have some things of the same name and some of their own.

    Where there is an `earlier` one, its database is read, in which all of this is.
    """

    def __init__(self, settings, earlier=None):
        self.loop = asyncio.Runner()
        self.pipeline = self.loop.run(self._opened(settings))
        self.services = services(self.pipeline)
        self.methods = {x.path: x for servicer in self.services for x in methods(servicer)}
        if earlier is None:
            self._fill()
        else:
            self.names, self.parents = earlier.names, earlier.parents

    def _fill(self):
        store = self.pipeline._store
        for tenant, number in ((ACME, 7), (BLUE, 7)):
            _fill(store, tenant, number, SHARED)
        _fill(store, BLUE, 9, "of blue alone")
        ids = _fill(store, ACME, 8, "of acme alone")
        run, uid = self.loop.run(self._run_of(ACME))
        self.loop.run(
            self._runs.create_run(
                run_pb.CreateRunRequest(run=run_pb.Run(measure=_MEASURE)), Call(ACME)
            )
        )
        monitors = [self._monitor_of(ACME, x) for x in ("of-acme-weekly", "of-acme-nightly")]
        ids["scores"] = (*ids["scores"], uid)
        self.names = Names({**ids, "runs": (run, "nightly-7"), "monitors": tuple(monitors)})
        leasing = annotation_pb.LeaseAnnotationItemsRequest(queue=_QUEUE, max_items=5)
        self.message("/spanscore.v1.AnnotationService/LeaseAnnotationItems", leasing, ACME)
        self.parents = {
            "ListRunItems": {"parent": name_of("runs", run), "state": "RUN_ITEM_STATE_DONE"},
            "ListMonitorTicks": {"parent": name_of("monitors", monitors[0])},
        }

    async def _opened(self, settings):
        return Pipeline(settings)

    @property
    def _runs(self):
        return next(x for x in self.services if isinstance(x, RunService))

    async def _run_of(self, tenant):
        """Make a run and work it off; its id, and the uid of one of its scores."""
        runs, call = self._runs, Call(tenant)
        wanted = run_pb.Run(display_name=HIDDEN.format(tenant), measure=_MEASURE)
        made = await runs.create_run(
            run_pb.CreateRunRequest(run=wanted, request_id="nightly-7"), call
        )
        working = asyncio.create_task(self.pipeline.runs.run())
        async for _ in runs.watch_run(run_pb.WatchRunRequest(name=made.name), call):
            pass
        working.cancel()
        await asyncio.wait([working])
        run_id = made.name.partition("/")[2]
        found = self.pipeline.evaluations(tenant=tenant, trace_id=f"{8:032x}", run=run_id)
        return run_id, found[0].uid

    def _monitor_of(self, tenant, id_):
        """Make a monitor that was triggered twice."""
        made = monitor_pb.CreateMonitorRequest(monitor=_MONITOR, monitor_id=id_)
        made.monitor.display_name = HIDDEN.format(tenant)
        name = self.message(f"{_MONITORS}/CreateMonitor", made, tenant).name
        for request_id in "12":
            trigger = monitor_pb.TriggerMonitorRequest(name=name, request_id=request_id)
            self.message(f"{_MONITORS}/TriggerMonitor", trigger, tenant)
        return id_

    def message(self, path, request, tenant):
        """What a tenant gets; of a stream the first message."""
        return self.loop.run(self._answer(path, request, Call(tenant)))

    def answer(self, path, request, tenant):
        """What a tenant gets as text, or the error's kind and text."""
        try:
            return text_format.MessageToString(self.message(path, request, tenant))
        except SpanscoreError as error:
            return f"{type(error).__name__}: {error}"

    async def _answer(self, path, request, call):
        method = self.methods[path]
        if not method.is_stream:
            return await method.answer(request, call)
        async with contextlib.aclosing(method.answer(request, call)) as responses:
            return await anext(responses)

    def seen_by(self, tenant):
        """What a tenant sees by the methods that change nothing: lists, and what the first field
        may name.
        """
        found = {}
        for path, method in self.methods.items():
            if not method.has_side_effects:
                asked = requests(method, self.names)[: 1 + len(self.names.texts())]
                found[path] = [
                    _without_names(self.answer(path, request, tenant), Names({}))
                    for request in asked
                ]
        return found

    def close(self):
        self.pipeline._store.close()
        self.pipeline._backlog.close()
        self.loop.close()


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def database(request):
    return request.param


@pytest.fixture(scope="module")
def open_world(tmp_path_factory, database, request):
    """`open_world()`: a server on a database of its own; each has the same in it, on PostgreSQL but
    for what chance has named.
    """
    folders = []

    def folder():
        folders.append(tmp_path_factory.mktemp("world"))
        return folders[-1]

    def settings(folder, url):
        journal = {"path": folder / "journal.db"}
        return Settings.model_validate({"journal": journal, "store": {"url": url}})

    def on_postgresql():
        return World(settings(folder(), request.getfixturevalue("postgresql_server").create()))

    def on_sqlite(earlier=None):
        made = folder()
        if earlier is not None:
            shutil.copytree(folders[0], made, dirs_exist_ok=True)
        return World(settings(made, f"sqlite:///{made}/store.db"), earlier)

    if database == "postgresql":
        return on_postgresql
    first = on_sqlite()
    first.close()
    return lambda: on_sqlite(first)


@pytest.fixture(scope="module")
def world(open_world):
    """The one that all tests read."""
    opened = open_world()
    yield opened
    opened.close()


@pytest.fixture
def new_world(open_world):
    """`new_world()`: one that a test may change."""
    made = []

    def new():
        made.append(open_world())
        return made[-1]

    yield new
    for opened in made:
        opened.close()


@pytest.fixture
def world_of(world, new_world):
    """`world_of(path)`: one that the test may ask this method of."""
    return lambda path: new_world() if world.methods[path].has_side_effects else world


def requests(method, names):
    """The requests of a method that have one of the names in one of their fields, each field in its
    turn.
    """
    needed = _needed(method)
    fields = list(_text_fields(needed.DESCRIPTOR))
    return [
        needed,
        *(
            _with(needed, path, text)
            for path in fields
            for text in names.texts(*(x.name for x in path))
        ),
    ]


def _text_fields(descriptor, around=()):
    """The ways to all texts in a message."""
    for field in descriptor.fields:
        if field.type == FieldDescriptor.TYPE_STRING and not field.name.endswith("_json"):
            yield (*around, field)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and _is_tried(field, around):
            yield from _text_fields(field.message_type, (*around, field))


def _is_tried(field, around):
    kind = field.message_type
    return kind.full_name not in UNTRIED and not kind.GetOptions().map_entry and len(around) < 3


def _with(request, path, text):
    """The request with a text in a field."""
    changed = type(request)()
    changed.CopyFrom(request)
    *around, field = path
    part = changed
    for outer in around:
        part = getattr(part, outer.name)
        if outer.is_repeated:
            part = part[0] if part else part.add()
    if field.is_repeated:
        getattr(part, field.name)[:] = [text]
    else:
        setattr(part, field.name, text)
    return changed


def _without_names(answer, names):
    """An answer with the same word for every name, and without what the clock and chance decide."""
    for id_ in sorted(names.ids, key=len, reverse=True):
        for form in (name_of("x", id_).partition("/")[2], id_):
            answer = answer.replace(form, "NAME")
    return re.sub(r"[0-9a-f]{12,}|\d{6,}|(?<=seconds: )\d+|(?<=nanos: )\d+", "NUMBER", answer)


def _services():
    """The descriptors of all services, those too that no server serves yet."""
    for module in pkgutil.iter_modules(v1.__path__, f"{v1.__name__}."):
        if module.name.endswith("_pb2"):
            yield from importlib.import_module(module.name).DESCRIPTOR.services_by_name.values()


FIELDS = {
    f"/{service.full_name}/{method.name}": method.input_type.fields_by_name
    for service in _services()
    for method in service.methods
}
PATHS = sorted(FIELDS)
_UNANSWERED = ("NotFoundError", "FieldError", "InputError", "FilterError")


@pytest.mark.slow
def test_every_method_of_every_proto_is_attacked(world):
    assert sorted(world.methods) == PATHS


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_what_another_tenant_has_cannot_be_told_from_what_never_was(world_of, path):
    world, other_world = world_of(path), world_of(path)
    method, invented = world.methods[path], other_world.names.invented()
    for request, control in zip(
        requests(method, world.names), requests(method, invented), strict=True
    ):
        answers = world.answer(path, request, BLUE), other_world.answer(path, control, BLUE)
        told, expected = (
            _without_names(answers[0], world.names),
            _without_names(answers[1], invented),
        )
        assert told == expected, text_format.MessageToString(request)
        assert HIDDEN.format(ACME) not in answers[0]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_under_a_name_that_both_use_each_finds_its_own(world_of, path):
    world, shared = world_of(path), Names({"traces": (f"{7:032x}",), "sessions": (SHARED,)})
    method = world.methods[path]
    for tenant, other in ((ACME, BLUE), (BLUE, ACME)):
        for request in requests(method, shared):
            assert HIDDEN.format(other) not in world.answer(path, request, tenant)


@pytest.mark.slow
def test_nothing_that_a_tenant_asks_changes_what_another_has(new_world):
    world = new_world()
    before = world.seen_by(ACME)
    for path, method in world.methods.items():
        for request in requests(method, world.names) if method.has_side_effects else ():
            world.answer(path, request, BLUE)
    assert world.seen_by(ACME) == before


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_the_tenant_itself_is_answered(world_of, path):
    """Else the other tests would show nothing: they would ask for what nobody gets."""
    world = world_of(path)
    is_of_all = path.rpartition("/")[2] in OF_ALL
    for request in requests(world.methods[path], world.names):
        own = world.answer(path, request, ACME)
        if not own.startswith(_UNANSWERED) and (
            is_of_all or own != world.answer(path, request, BLUE)
        ):
            return
    pytest.fail("no request is answered, or each as another tenant's is")


PAGED = [path for path, fields in FIELDS.items() if "page_token" in fields]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGED)
def test_the_page_token_of_another_tenant_is_refused(world, path):
    name = path.rpartition("/")[2]
    request = world.methods[path].request_class(
        page_size=1, **world.parents.get(name, NEEDED.get(name, {}))
    )
    request.page_token = world.message(path, request, ACME).next_page_token
    assert request.page_token
    assert world.answer(path, request, BLUE).startswith(
        ("FieldError: page_token: is of another request", "NotFound")
    )
