"""What others gave counts in the session metrics, where the configuration says as what."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import ValidationError

from spanscore.evaluation import Config
from spanscore.model.score import Annotation, Evaluation, Evaluator
from spanscore.model.trace import Session, Target


@pytest.fixture
def session(make_trace):
    return Session("s1", tuple(make_trace(x, session_id="s1") for x in range(3)))


def given(
    trace,
    value=1.0,
    *,
    name="helpful",
    passed=None,
    source="human",
    scale=None,
    author="ada",
    label=None,
):
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric=name,
        outcome=Annotation(value, label, "", {}, passed),
        threshold=None,
        scale=scale,
        evaluator=Evaluator(None, source, "", source=source, author=author),
        target=Target(trace.trace_ids[0], "", 0, 0),
        session_id="s1",
    )


def reliability(make_engine, session, scores, **signals):
    """The metadata of agent_reliability where nothing but the external scores is a signal."""
    weights = {"confidence": 0, "loop_detection": 0, "tool_correctness": 0, "coherence": 0}
    engine = make_engine(external_signals=signals, signal_weights=weights)
    found = asyncio.run(engine.evaluate_session(session, {}, external=scores))
    return next(x for x in found if x.metric == "agent_reliability")


def test_a_thumbs_down_is_the_riskiest_trace(make_engine, session):
    scores = [given(x, float(n != 1), passed=n != 1) for n, x in enumerate(session.traces)]
    found = reliability(make_engine, session, scores, helpful={})
    assert found.value == 0.0
    assert found.outcome.metadata["flagged_traces"] == [session.traces[1].trace_ids[0]]
    assert found.outcome.metadata["rests_on"] == ["helpful"]


def test_a_rating_counts_by_its_scale(make_engine, session):
    found = reliability(
        make_engine, session, [given(session.traces[0], 4.0)], helpful={"scale": [1, 5]}
    )
    assert found.value == pytest.approx(0.75)


def test_a_rating_counts_by_the_scale_that_is_recorded_with_it(make_engine, session):
    found = reliability(
        make_engine, session, [given(session.traces[0], 4.0, scale=(1.0, 5.0))], helpful={}
    )
    assert found.value == pytest.approx(0.75)


def test_a_number_on_a_scale_that_is_not_known_does_not_count(make_engine, session):
    assert (
        reliability(make_engine, session, [given(session.traces[0], 4.0)], helpful={}).status
        == "skipped"
    )


def test_of_several_people_the_mean_counts(make_engine, session):
    scores = [
        given(session.traces[0], passed=x, value=float(x), author=str(x)) for x in (True, False)
    ]
    assert reliability(make_engine, session, scores, helpful={}).value == pytest.approx(0.5)


def test_what_is_of_a_whole_trace_with_several_turns_is_a_signal_of_none(make_engine, session):
    whole = replace(
        given(session.traces[0], passed=False), subject_id=session.traces[0].trace_ids[0]
    )
    assert reliability(make_engine, session, [whole], helpful={}).value is None


def test_it_may_weigh_less(make_engine, session):
    found = reliability(
        make_engine, session, [given(session.traces[0], 0.0, passed=False)], helpful={"weight": 0.4}
    )
    assert found.value == pytest.approx(0.6)


def test_only_its_source_counts(make_engine, session):
    scores = [given(session.traces[0], passed=False, value=0.0, source="deepeval")]
    assert reliability(make_engine, session, scores, helpful={}).status == "skipped"
    assert reliability(make_engine, session, scores, helpful={"source": "any"}).value == 0.0


def test_it_may_take_the_place_of_a_signal(make_engine, session):
    signals = {"relevance": {"counts_as": "coherence", "source": "any", "scale": [0, 1]}}
    engine = make_engine(
        external_signals=signals, signal_weights={"confidence": 0, "loop_detection": 0}
    )
    scores = [given(x, 0.25, name="relevance", source="deepeval") for x in session.traces]
    found = {
        x.metric: x for x in asyncio.run(engine.evaluate_session(session, {}, external=scores))
    }
    assert found["agent_reliability"].outcome.metadata["rests_on"] == ["coherence"]
    assert found["agent_reliability"].value == pytest.approx(0.25)


def test_what_is_not_configured_does_not_count(make_engine, session):
    assert (
        reliability(make_engine, session, [given(session.traces[0], passed=False)]).status
        == "skipped"
    )


@pytest.mark.parametrize(
    ("signals", "why"),
    [
        (
            {"helpful": {"counts_as": "coherance"}},
            "'coherance' is no signal of the session metrics",
        ),
        (
            {"coherence": {}},
            "'coherence' is a signal that spanscore measures; say so by counts_as: coherence",
        ),
        ({"helpful": {"scale": [1, 1]}}, "give two different values"),
        ({"helpful": {"weight": 2}}, "less than or equal to 1"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(signals, why):
    with pytest.raises(ValidationError, match=why):
        Config.model_validate({"external_signals": signals})
