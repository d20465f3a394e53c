"""Evaluation runs in the store: what finds their scores."""

import pytest
from sqlalchemy import select

from spanscore.store.config import Config
from spanscore.store.runs import is_of_run
from spanscore.store.schema import scores
from spanscore.store.store import Store


@pytest.mark.parametrize(
    ("run", "plan"), [("8f14", "USING COVERING INDEX scores_by_run"), ("", "SCAN")]
)
def test_the_scores_of_a_run_are_found_by_an_index(tmp_path, run, plan):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    query = select(scores.c.number).where(*is_of_run(run)).order_by(scores.c.number)
    with store._database.reading() as connection:
        asked = query.compile(connection)
        explained = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {asked}", tuple(asked.params.values())
        )
        [found] = [x.detail for x in explained]
    store.close()
    assert plan in found


@pytest.mark.parametrize(("run", "values"), [("8f14", [0.2]), ("", [0.1]), ("other", [])])
def test_the_scores_of_one_run_are_found(store, make, run, values):
    trace = make.trace()
    store.commit(
        [make.stored(trace)],
        [make.score(trace, value=0.1), make.score(trace, value=0.2, run="8f14")],
    )
    with store._database.reading() as connection:
        numbers = connection.execute(select(scores.c.number).where(*is_of_run(run))).scalars().all()
    assert [x / 10 for x in numbers] == values
