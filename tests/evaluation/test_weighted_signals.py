"""Any metric of traces can be a signal of the session metrics, by a weight."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

import pytest
from pydantic import ValidationError

from spanscore.evaluation import Config, Overrides
from spanscore.evaluation.signals import check_signals
from spanscore.metrics import Computed
from spanscore.metrics.own import registry
from spanscore.model.score import Annotation, Evaluation, Evaluator, Score, Skip
from spanscore.model.trace import Session

NO_OTHERS = dict.fromkeys(("confidence", "loop_detection", "tool_correctness", "coherence"), 0)


@dataclass(frozen=True)
class Stars(Computed):
    """As many as the answer has; without an answer it does not apply."""

    name: ClassVar[str] = "stars"
    summary: ClassVar[str] = "How many stars has the answer?"
    scale: ClassVar[tuple[float, float]] = (1.0, 5.0)
    threshold: float = 3.0

    def measure(self, trace):
        answer = trace.final_output
        return (
            Skip("no answer", "not_applicable")
            if answer is None
            else Score(float(answer.count("*")), "counted")
        )


@dataclass(frozen=True)
class Faults(Stars):
    """The same, of which fewer are better."""

    name: ClassVar[str] = "faults"
    better: ClassVar[str] = "lower"


@dataclass(frozen=True)
class Endless(Stars):
    """Seconds, of which there is no most."""

    name: ClassVar[str] = "endless"
    scale: ClassVar[tuple[float, float]] = (0.0, float("inf"))


@pytest.fixture(autouse=True)
def own_metrics(monkeypatch):
    known = {x.name: (registry.Origin("tests", "", x.name), x) for x in (Stars, Faults, Endless)}
    monkeypatch.setattr(registry, "_registered", known)


@pytest.fixture
def session(make_trace):
    """Three turns with four stars, two, and without an answer."""
    answers = ("****", "**", None)
    return Session(
        "s1", tuple(make_trace(x, session_id="s1", final_output=y) for x, y in enumerate(answers))
    )


async def scored(engine, session, overrides=None, external=()):
    signals = {x.id: {e.metric: e for e in await engine.evaluate_trace(x)} for x in session.traces}
    found = await engine.evaluate_session(session, signals, overrides, external=external)
    return {x.metric: x for x in found}


def reliability(engine, session, overrides=None, external=()):
    return asyncio.run(scored(engine, session, overrides, external))["agent_reliability"]


def risks(found, signal):
    return [x.get(f"{signal}_risk") for x in found.outcome.metadata["per_trace_signals"].values()]


def test_its_risk_is_one_less_its_place_on_its_scale(make_engine, session):
    found = reliability(make_engine(signal_weights={**NO_OTHERS, "stars": 1}), session)
    assert risks(found, "stars") == [0.25, 0.75]
    assert found.outcome.metadata["rests_on"] == ["stars"]


def test_where_lower_is_better_the_lowest_value_is_without_risk(make_engine, session):
    found = reliability(make_engine(signal_weights={**NO_OTHERS, "faults": 0.5}), session)
    assert risks(found, "faults") == [0.75, 0.25]
    assert found.outcome.metadata["raw_risk"] == pytest.approx(0.5 * 0.75)


def test_it_is_measured_though_nobody_names_it_among_the_metrics(make_engine):
    names = [x.name for x in make_engine(signal_weights={"stars": 1}).selection().metrics]
    assert "stars" in names


def test_with_weight_0_it_is_not(make_engine):
    assert "stars" not in [
        x.name for x in make_engine(signal_weights={"stars": 0}).selection().metrics
    ]


def test_where_it_does_not_apply_the_trace_has_no_such_signal(make_engine, session):
    only = Session("s1", session.traces[2:])
    found = reliability(make_engine(signal_weights={**NO_OTHERS, "stars": 1}), only)
    assert found.reason.startswith("No trace of the session has the signals to evaluate")


def test_a_check_counts_as_its_own_metric_says(make_engine, session):
    found = reliability(
        make_engine(signal_weights={**NO_OTHERS, "check.answer_present": 1}), session
    )
    assert found.outcome.metadata["rests_on"] == ["check.answer_present"]


def test_a_run_gives_weights_of_its_own(make_engine, session):
    found = reliability(make_engine(), session, Overrides(signal_weights={**NO_OTHERS, "stars": 1}))
    assert risks(found, "stars") == [0.25, 0.75]


def helpful(trace):
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric="helpful",
        outcome=Annotation(0.0, passed=False),
        threshold=None,
        scale=None,
        evaluator=Evaluator("HUMAN", "human", "", source="human"),
        target=trace.target,
        session_id=trace.session_id,
    )


def test_the_weight_of_an_external_signal_can_be_given_there_too(make_engine, session):
    engine = make_engine(
        external_signals={"helpful": {}}, signal_weights={**NO_OTHERS, "helpful": 0.5}
    )
    found = reliability(engine, session, external=[helpful(session.traces[0])])
    assert found.outcome.metadata["raw_risk"] == pytest.approx(0.5)


def test_an_external_signal_with_the_name_of_a_metric_has_nothing_measured(make_engine):
    names = [x.name for x in make_engine(external_signals={"stars": {}}).selection().metrics]
    assert "stars" not in names


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("star", "'star' is no metric of traces and no external signal; did you mean 'stars'"),
        (
            "agent_reliability",
            "agent_reliability is measured of a session; give weights to metrics of its traces",
        ),
        ("rubric.overall", "rubric.overall is measured of a session"),
        ("endless", "endless has no scale with two ends"),
    ],
)
def test_what_can_be_no_signal_is_refused(name, why):
    with pytest.raises(ValidationError, match=why):
        Config.model_validate({"signal_weights": {name: 1}})


def test_an_external_score_that_is_no_signal_has_no_weight():
    with pytest.raises(ValueError, match="'helpful' is no metric of traces and no external signal"):
        check_signals({"helpful": 1}, ["relevant"])
