"""Whatever happens to scores, in whatever order, figures are those of the scores that are there."""

import random

import pytest
from sqlalchemy import select

from spanscore.store.schema import COUNTED, score_procedures, scores


def change(population, rng, revision):
    """One thing that may happen to a store."""
    traces = population.traces
    match rng.randrange(5):
        case 0:
            population.add(rng.randrange(1, 4))
        case 1:
            some = rng.sample(traces, min(len(traces), 3))
            population.commit(some, revision=revision)
        case 2:
            population.commit(
                rng.sample(traces, min(len(traces), 2)), run="b" * 32, revision=revision
            )
        case 3:
            one = rng.choice(traces)
            population.give(
                one, rng.choice(["ada", "bob"]), rng.random(), rng.randrange(10**18, 2 * 10**18)
            )
        case _:
            gone = rng.choice(traces)
            traces.remove(gone)
            population.store.commit([], [], gone=[gone.id])
            population.newest = {
                place: x
                for place, x in population.newest.items()
                if place[0] != gone.id or place[3]
            }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_facts_are_those_of_the_newest_scores(population, seed):
    rng = random.Random(seed)
    for step in range(25):
        change(population, rng, 10 + step)
    expected = sorted(
        ((x.metric, x.run, x.value, x.label, x.at_ns) for x in population.newest.values()), key=repr
    )
    joined = (
        select(
            score_procedures.c.metric,
            score_procedures.c.run,
            scores.c.value,
            scores.c.label,
            scores.c.happened_ns,
        )
        .join(score_procedures, score_procedures.c.id == scores.c.procedure)
        .where(COUNTED)
    )
    found = population.store.read(lambda connection: connection.execute(joined).all())
    assert sorted(map(tuple, found), key=repr) == expected
