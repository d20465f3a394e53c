"""A flipped bit anywhere in a store costs the rows of its page at most, and no answer."""

import random
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest

from spanscore.api.analytics import ANSWERS
from spanscore.api.servicer import Call
from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.store import connections, repair
from spanscore.store.config import Config
from spanscore.store.listing import ScoreQuery, TraceQuery
from spanscore.store.store import Store

pytestmark = pytest.mark.slow

TRACES, PAGE = 120, 16_384


@pytest.fixture(scope="module")
def sound(tmp_path_factory, make):
    """The file of a store, and in which of its pages what is; some records are longer than one."""
    file = tmp_path_factory.mktemp("sound") / "spanscore.db"
    store = Store.open(Config(url=f"sqlite:///{file}"))
    for number in range(1, TRACES + 1):
        text = "long " * (8000 if number % 40 == 0 else 300)
        trace = make.trace(number, session_id=f"s{number // 4}", user_input=text)
        scores = [make.score(trace, x, evaluated_at_ns=10**18 + number) for x in ("a", "b")]
        store.commit([make.stored(trace)], scores)
    store.put({f"question {n}": "answer " * 200 for n in range(100)})
    store.close()
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("DELETE FROM judge_answers WHERE row < 60")
        found = db.execute("SELECT name, pagetype, pageno FROM dbstat").fetchall()
    kinds = {}
    for name, of_type, page in found:
        kinds.setdefault((name, of_type), []).append(page)
    named = {page for _, _, page in found}
    kinds["free", ""] = [x for x in range(1, file.stat().st_size // PAGE + 1) if x not in named]
    kinds["header", ""] = [1]
    return file, kinds


def asked(store):
    """How many scores and traces are listed and sent, and that there are sums."""
    with store._database.reading() as connection:
        ANSWERS["SummarizeScores"](connection, pb.SummarizeScoresRequest(), Call())
    return (
        len(store.list_scores(ScoreQuery(), 1000).items),
        len(store.list_traces(TraceQuery(), 1000).items),
        len(store.outbox(0, 1000)),
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_bit_ends_no_answer_and_costs_a_page_at_most(sound, tmp_path, seed):
    file, kinds = sound
    chance = random.Random(seed)
    for number, kind in enumerate(chance.sample(sorted(kinds), 12)):
        copy = shutil.copy(file, tmp_path / f"{number}.db")
        page, places = chance.choice(kinds[kind]), 100 if kind[0] == "header" else PAGE
        at = (page - 1) * PAGE + chance.randrange(chance.choice((places, 100)))
        with copy.open("r+b") as opened:
            opened.seek(at)
            byte = opened.read(1)[0]
            opened.seek(at)
            opened.write(bytes([byte ^ 1 << chance.randrange(8)]))
        config = Config(url=f"sqlite:///{copy}")
        is_found = repair.fault_of(copy) is not None or repair.damaged_records(config)
        read_only = connections.connect_reading(config)
        with connections.snapshot(read_only) as connection:
            ANSWERS["SummarizeScores"](connection, pb.SummarizeScoresRequest(), Call())
        store = Store.open(config, alone=True)
        asked(store)
        for thread in threading.enumerate():
            if thread.name == "damage":
                thread.join()
        found = asked(store)
        store.close()
        lost = [x - y for x, y in zip((2 * TRACES, TRACES, 2 * TRACES), found, strict=True)]
        assert all(0 <= x <= 40 for x in lost), (kind, at, lost)
        assert is_found or not any(lost), (kind, at, lost)
