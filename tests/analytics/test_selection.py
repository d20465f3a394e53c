"""A figure rests on the scores that are selected, and on nothing that others have."""

import re
from dataclasses import replace

import pytest

from spanscore.analytics import cells, summary
from spanscore.analytics.figures import corrected
from spanscore.analytics.selection import Selection, select
from spanscore.calibration import Calibration
from spanscore.model.score import Evaluator
from spanscore.stats import Confusion, moments
from spanscore.store.selections import Procedure

RARELY = {
    "sampling": 0.01,
    "scale": (-10.0, 10.0),
    "evaluator": Evaluator("LLM", "task_completion", "0", model="old"),
}
OF_THESE = [{"filter": "version = 1 OR version = 2"}, {"end_ns": 2 * 10**18}]


def summarize(population, selection, group_by=()):
    return population.store.read(
        lambda connection: summary.summarize(connection, Selection(**selection), group_by)
    )


def in_twelve_digits(summaries):
    """What they print: PostgreSQL sums rows in the order of a plan that may change meanwhile."""
    return re.sub(r"\d+\.\d{12,}", lambda x: f"{float(x[0]):.12f}", repr(summaries))


@pytest.mark.slow
@pytest.mark.parametrize("selection", OF_THESE, ids=["filter", "time"])
def test_what_is_not_selected_changes_no_figure(population, selection):
    before = in_twelve_digits(summarize(population, selection))
    resource = {"service.name": "shop", "service.version": "3"}
    target = replace(population.traces[0].target, resource=resource, start_ns=2 * 10**18)
    population.measure(999, "task_completion", 0.0, target=target, **RARELY)
    assert in_twelve_digits(summarize(population, selection)) == before


@pytest.mark.slow
def test_a_service_that_comes_while_figures_are_made_changes_none(population):
    before = in_twelve_digits(summarize(population, {}, ["service"]))
    selected = population.store.read(
        lambda connection: select(connection, Selection(), ["service"])
    )
    for number in range(20):  # so that ids lie on all sides of those that are known
        population.measure(900 + number, "task_completion", 0.0, service_name=f"new {number}")

    def ask(connection):
        return [
            found
            for part in selected.parts
            for _, found in summary.summaries(
                connection, selected, part, cells.read(connection, selected, part), (), 0.95
            )
        ]

    assert in_twelve_digits(population.store.read(ask)) == before


def a_judge(number, **facts):
    made = Procedure(
        number,
        "",
        "trace",
        "m",
        None,
        "",
        "LLM",
        "m",
        "1",
        "judge",
        "p",
        None,
        0.5,
        None,
        0.0,
        1.0,
        1.0,
        "",
        "",
    )
    return made._replace(**facts)


BY_PROMPT = (
    "differ in prompt and threshold gave these scores; ask for a time in which one judge gave all"
)
BY_VERSION = (
    "differ in version and model and prompt gave these scores; group by evaluator_version and"
    " judge_model"
)


@pytest.mark.parametrize(
    ("others", "advice"),
    [
        (
            [{"judge_model": "b"}],
            "2 judges that differ in model gave these scores; group by judge_model",
        ),
        (
            [{"judge_model": "b"}, {"evaluator_version": "2", "prompt_hash": "q"}],
            f"3 judges that {BY_VERSION}",
        ),
        ([{"prompt_hash": "q", "threshold": 0.7}], f"2 judges that {BY_PROMPT}"),
    ],
)
def test_where_several_judges_gave_the_scores_it_is_named_how_to_ask_for_those_of_one(
    others, advice
):
    kept = Calibration(("m", "m", "1", "judge", "p", None, 0.5), Confusion(45, 5, 10, 40), 10**18)
    judges = [a_judge(0), *(a_judge(n, **x) for n, x in enumerate(others, 1))]
    found = corrected(moments([1, 0, 1], [1, 1, 1]), judges, [kept], 0.95)
    assert found.note == f"not corrected: {advice}"
