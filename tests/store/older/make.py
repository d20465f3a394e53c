"""Made `store.sql`: run by a spanscore of tables version 1, on the folder that its `spanscore demo
--keep` had left.

    python make.py FOLDER >store.sql

To what that server had stored of the recorded traces in examples/recordings (two agents' turns with
a judge's answers and scores) it adds what no server writes by itself: scores from a person, a score
that could not be delivered, a metric that nobody answered, a judge's answer in the cache, and a
calibration.
"""

import sqlite3
import sys
from pathlib import Path

from spanscore.model.score import Annotation, Evaluation, Evaluator
from spanscore.model.undelivered import Undelivered
from spanscore.store import calibrations
from spanscore.store.config import Config
from spanscore.store.store import Missing, Store

NOW_NS = 1_795_000_000 * 10**9


def main(file: Path) -> None:
    config = Config(url=f"sqlite:///{file}")
    store = Store.open(config, clock_ns=lambda: NOW_NS)
    scored = [x for _, x in store.outbox(0, 10_000)]
    of_trace = next(x for x in scored if x.scope == "trace")
    of_session = next(x for x in scored if x.scope == "session")
    for found, value in ((of_trace, 0.0), (of_session, 1.0)):
        given = Evaluation(
            scope=found.scope,
            subject_id=found.subject_id,
            metric="helpful",
            outcome=Annotation(
                value, "fail" if found is of_trace else "pass", "as read by a person"
            ),
            threshold=None,
            scale=None,
            evaluator=Evaluator("HUMAN", "review", "1", source="human"),
            target=found.target,
            session_id=found.session_id,
            session_key=found.session_key,
            evaluated_at_ns=NOW_NS,
        )
        store.put_external([given])
    store.commit(
        [], [], missing=[Missing("trace", of_trace.subject_id, "task_completion", "no_key", 10**9)]
    )
    store.set_cursor(
        "otlp_grpc", 2, [Undelivered("otlp_grpc", 2, ("traces",), "fault", "UNAVAILABLE", NOW_NS)]
    )
    store.put("a question and its model", "its answer")
    store.close()
    calibrations.keep(config, {"judge": {"metric": "task_completion", "n": 12}}, NOW_NS)
    with sqlite3.connect(file) as database:
        print("\n".join(database.iterdump()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "store.db")
