"""What the engine does with metrics, errors, overrides and samples."""

import asyncio
import gc
import weakref
from dataclasses import dataclass
from typing import ClassVar

import pytest
from pydantic import ValidationError

from spanscore import metrics
from spanscore.errors import ConfigError, EmbeddingError, InputError
from spanscore.evaluation import Config, Overrides
from spanscore.metrics import Computed
from spanscore.model.score import Failure, Score

TRACE_METRICS = {
    "task_completion",
    "tool_correctness",
    "argument_correctness",
    "step_efficiency",
    "confidence",
    "plan_adherence",
    "plan_quality",
    "check.arguments_grounded",
    "check.errors_recovered",
    "check.repeated_calls",
    "coherence",
}


@dataclass(frozen=True)
class Broken(Computed):
    name: ClassVar[str] = "broken"
    summary: ClassVar[str] = "Does it break?"

    def measure(self, trace):
        raise ZeroDivisionError("by zero")


@dataclass(frozen=True)
class Silent(Computed):
    name: ClassVar[str] = "silent"
    summary: ClassVar[str] = "Does it say anything?"

    def measure(self, trace):
        return None


@dataclass(frozen=True)
class Boundless(Computed):
    name: ClassVar[str] = "boundless"
    summary: ClassVar[str] = "Has it a threshold?"

    def measure(self, trace):
        return Score(1.0, "fine")

    def threshold_for(self, embedding):
        raise KeyError("no threshold")


@dataclass(frozen=True)
class Sure(Computed):
    name: ClassVar[str] = "sure"
    summary: ClassVar[str] = "Is it so?"

    def measure(self, trace):
        return Score(value=True, reason="it is so")


@pytest.fixture
def broken(monkeypatch):
    found = {
        **metrics.available(),
        "broken": Broken,
        "silent": Silent,
        "boundless": Boundless,
        "sure": Sure,
    }
    monkeypatch.setattr(metrics, "available", lambda: found)


def evaluate(engine, trace, overrides=None, **options):
    return {x.metric: x for x in asyncio.run(engine.evaluate_trace(trace, overrides, **options))}


def test_by_default_all_metrics_of_a_trace_run_but_loop_detection(make_engine, make_trace):
    assert set(evaluate(make_engine(), make_trace())) == TRACE_METRICS


def test_without_a_judge_a_judged_metric_is_a_skip_that_says_how_to_get_one(
    make_engine, make_trace
):
    found = evaluate(make_engine(), make_trace())["confidence"]
    assert (found.status, found.outcome.cause) == ("skipped", "no_judge")
    assert (
        "set judge.model or SPANSCORE_JUDGE_MODEL to one, such as openai/gpt-4o-mini"
        in found.reason
    )


def test_a_fact_that_was_not_recorded_is_told_before_the_judge_that_is_missing(
    make_engine, make_trace
):
    found = evaluate(make_engine(), make_trace(user_input=None))["task_completion"]
    assert found.outcome.cause == "not_recorded"


def test_a_model_judges_as_llm(make_engine, make_trace, scripted):
    evaluator = evaluate(make_engine(scripted()), make_trace())["confidence"].evaluator
    assert (evaluator.kind, evaluator.model) == ("LLM", "scripted")
    assert len(evaluator.prompt_hash) == 16


def test_an_embedded_metric_says_which_embedding(make_engine, make_trace):
    assert evaluate(make_engine(), make_trace())["coherence"].evaluator.embedding == "flat-1"


def test_a_threshold_for_an_embedding_is_the_one_that_counts(make_engine, make_trace):
    engine = make_engine(metrics={"coherence": {"threshold": {"flat": 0.9, "other": 0.1}}})
    assert evaluate(engine, make_trace())["coherence"].threshold == 0.9


def test_an_evaluation_carries_target_session_agent_and_time(make_engine, make_trace):
    trace = make_trace(session_id="s1", agent_name="guide", service_name="travel")
    found = evaluate(make_engine(), trace, revision=3)["confidence"]
    assert (found.target, found.subject_id, found.session_id) == (trace.target, trace.id, "s1")
    assert (found.agent_name, found.service_name) == ("guide", "travel")
    assert (found.revision, found.evaluated_at_ns) == (3, 42)


@pytest.mark.usefixtures("broken")
def test_a_metric_that_raises_fails_alone(make_engine, make_trace, scripted):
    found = evaluate(
        make_engine(scripted(), metrics={"broken": {}, "confidence": {}}), make_trace()
    )
    assert found["broken"].outcome == Failure("ZeroDivisionError", "by zero")
    assert isinstance(found["confidence"].outcome, Score)


@pytest.mark.usefixtures("broken")
def test_a_metric_that_gives_no_outcome_fails(make_engine, make_trace):
    assert evaluate(make_engine(metrics={"silent": {}}), make_trace())["silent"].status == "failed"


@pytest.mark.usefixtures("broken")
def test_a_threshold_that_cannot_be_had_is_a_failure_of_that_metric(
    make_engine, make_trace, scripted
):
    found = evaluate(
        make_engine(scripted(), metrics={"boundless": {}, "confidence": {}}), make_trace()
    )
    assert found["boundless"].outcome == Failure("KeyError", "'no threshold'")
    assert found["confidence"].status == "scored"


def test_an_embedding_that_cannot_be_had_is_a_failure(
    make_engine, make_trace, scripted, flat_embedder
):
    engine = make_engine(scripted(), embedder=flat_embedder(EmbeddingError("the provider is down")))
    found = evaluate(engine, make_trace())
    assert found["coherence"].outcome == Failure("EmbeddingError", "the provider is down")
    assert found["confidence"].status == "scored"


def test_without_an_embedding_coherence_is_a_skip_that_says_how_to_get_one(
    make_unembedded, make_trace
):
    outcome = evaluate(make_unembedded(), make_trace())["coherence"].outcome
    assert outcome.cause == "no_embedding"
    assert "embedding.model" in outcome.reason
    assert "embedding.local_model" in outcome.reason


def test_without_an_embedding_a_skip_names_none(make_unembedded, make_trace):
    assert evaluate(make_unembedded(), make_trace())["coherence"].evaluator.embedding is None


def test_a_judge_looks_back(make_engine, scripted):
    found = [
        make_engine(x, metrics={"confidence": {}}, default_metrics=False)
        for x in (None, scripted())
    ]
    assert [x.looks_back for x in found] == [False, True]


def test_a_transcript_that_was_cut_is_said_on_the_score(make_engine, make_trace, scripted):
    found = evaluate(
        make_engine(scripted(), metrics={"confidence": {}}),
        make_trace(final_output="long " * 100_000),
    )
    assert found["confidence"].outcome.metadata["transcript_elided"] is True


def test_a_run_can_name_its_metrics(make_engine, make_trace):
    engine = make_engine(metrics={"confidence": {}})
    assert list(evaluate(engine, make_trace(), Overrides(metrics=("coherence",)))) == ["coherence"]


def test_a_run_can_have_a_threshold_of_its_own(make_engine, make_trace):
    found = evaluate(make_engine(), make_trace(), Overrides(threshold=0.99))
    assert {x.threshold for x in found.values()} == {0.99}


def test_a_run_can_have_a_model_of_its_own(make_engine, make_trace, scripted):
    judge = scripted()
    evaluate(make_engine(judge, metrics={"confidence": {}}), make_trace(), Overrides(model="big"))
    assert judge.asked[0][2] == ("big",)


def test_a_run_cannot_name_a_model_without_a_judge(make_engine, make_trace):
    with pytest.raises(InputError, match="no judge to ask"):
        evaluate(make_engine(), make_trace(), Overrides(model="big"))


def test_a_metric_cannot_name_a_model_without_a_judge(make_engine):
    with pytest.raises(ConfigError, match="no judge to ask"):
        make_engine(metrics={"confidence": {"model": "big"}})


def test_an_unknown_metric_of_a_run_is_refused_with_the_nearest(make_engine, make_trace):
    with pytest.raises(InputError, match="did you mean 'confidence'"):
        evaluate(make_engine(), make_trace(), Overrides(metrics=("confidense",)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"metrics": {"coherance": {}}}, "did you mean 'coherence'"),
        ({"metrics": {"coherence": {"treshold": 1}}}, "did you mean 'threshold'"),
        ({"metrics": {"coherence": {"threshold": "high"}}}, "coherence.threshold"),
        ({"signal_weights": {"confidense": 1}}, "did you mean 'confidence'"),
        ({"signal_weights": {"confidence": -1}}, "greater than or equal to 0"),
        ({"sampling": 2}, "less than or equal to 1"),
    ],
)
def test_a_wrong_configuration_is_refused(config, message):
    with pytest.raises(ValidationError, match=message):
        Config(**config)


def test_a_sample_of_nothing_evaluates_nothing(make_engine, make_trace):
    assert evaluate(make_engine(sampling=0), make_trace()) == {}


def test_who_asks_is_answered_whatever_the_sample(make_engine, make_trace):
    assert evaluate(make_engine(sampling=0), make_trace(), Overrides())


def test_a_sample_has_about_the_share_asked_for(make_engine, make_trace):
    engine = make_engine(sampling=0.3, metrics={"confidence": {}})
    assert 60 <= sum(bool(evaluate(engine, make_trace(x))) for x in range(300)) <= 120


@pytest.mark.parametrize(("overrides", "share"), [(None, 0.9999999), (Overrides(), 1.0)])
def test_a_score_says_with_what_chance_its_trace_was_drawn(
    make_engine, make_trace, overrides, share
):
    engine = make_engine(sampling=0.9999999, metrics={"confidence": {}})
    assert evaluate(engine, make_trace(), overrides)["confidence"].sampling == share


def test_a_sample_takes_an_id_that_is_no_text(make_engine, make_trace):
    engine = make_engine(sampling=0.5, metrics={"confidence": {}})
    assert len(evaluate(engine, make_trace(session_id="\ud800"))) <= 1


def test_a_sample_takes_all_traces_of_a_session_or_none(make_engine, make_trace):
    engine = make_engine(sampling=0.5, metrics={"confidence": {}})
    for session in "abcdef":
        assert (
            len({bool(evaluate(engine, make_trace(x, session_id=session))) for x in range(5)}) == 1
        )


def test_the_published_schema_names_the_options_of_every_metric():
    schema = Config.model_json_schema()["properties"]["metrics"]
    known = {
        name
        for name, metric in metrics.available().items()
        if not issubclass(metric, metrics.RubricMetric)
    }
    assert set(schema["properties"]) == known
    assert "window" in schema["properties"]["loop_detection"]["anyOf"][0]["properties"]


def test_a_metric_that_gives_a_truth_value_has_failed(make_engine, make_trace, broken):
    outcome = evaluate(make_engine(metrics={"sure": {}}), make_trace())["sure"].outcome
    assert outcome.type == "InvalidScoreError"


class Text(str):  # noqa: SLOT000 - a text that can be referred to weakly
    """What a user asked."""


@pytest.mark.slow
def test_nothing_is_kept_of_a_trace_whose_checks_are_done(make_engine, make_trace):
    text = Text("Book a flight")
    trace = make_trace(user_input=text, final_output="Booked.", tool_calls=())
    asked = weakref.ref(text)
    engine = make_engine(None, metrics={"check.answer_present": {}, "check.repeated_calls": {}})
    found = asyncio.run(engine.evaluate_trace(trace))
    assert {x.metric for x in found} >= {"check.answer_present", "check.repeated_calls"}
    del text, trace
    gc.collect()
    assert asked() is None
