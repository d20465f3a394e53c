"""What rules change of the evaluation of traces and sessions."""

import asyncio

import pytest

from spanscore import config
from spanscore.embed.ngrams import Ngrams
from spanscore.errors import ConfigError
from spanscore.evaluation import Config, Engine, Overrides
from spanscore.evaluation.procedure import RuleJudge, narrowed
from spanscore.evaluation.rules import draw
from spanscore.judge.config import Changes, Config as JudgeConfig
from spanscore.model.score import Skip
from spanscore.model.trace import Session
from spanscore.telemetry import Meter, declared

COHERENCE = {"metrics": {"coherence": {}}, "default_metrics": False}
FAILED = {"otel.status_code": ("ERROR",)}


def evaluate(engine, trace, overrides=None, **options):
    return {x.metric: x for x in asyncio.run(engine.evaluate_trace(trace, overrides, **options))}


def drawn(share, *, inside):
    """A session id whose place among all is below `share`, or is not."""
    return next(x for x in map(str, range(10_000)) if (draw(x) < share) == inside)


def test_the_first_rule_that_matches_decides(make_engine, make_trace):
    engine = make_engine(
        rules=[
            {"name": "a", "when": {"user": "x"}},
            {"name": "b", "when": {"user": "*"}, "sampling": 0},
            {"name": "c"},
        ],
        **COHERENCE,
    )
    assert [engine.rules.decide(make_trace(user_id=x)).rule for x in ("x", "y", None)] == [
        "a",
        "b",
        "c",
    ]


def test_a_score_has_the_name_of_the_rule_that_decided(make_engine, make_trace):
    engine = make_engine(rules=[{"name": "a", "when": {"user": "x"}}], **COHERENCE)
    assert evaluate(engine, make_trace(user_id="x"))["coherence"].rule == "a"
    assert evaluate(engine, make_trace(user_id="y"))["coherence"].rule is None


def test_a_trace_that_no_rule_takes_is_evaluated_as_without_rules(make_engine, make_trace):
    rules = [
        {"name": "a", "when": {"user": "x"}, "sampling": 0, "metrics": {"check.answer_present": {}}}
    ]
    with_rules, without = (
        evaluate(make_engine(**x, **COHERENCE), make_trace()) for x in ({"rules": rules}, {})
    )
    assert with_rules == without


@pytest.mark.parametrize(
    ("rule", "metrics"),
    [
        ({}, {"coherence"}),
        ({"metrics": {"check.answer_present": {}}}, {"coherence", "check.answer_present"}),
        ({"metrics": {"coherence": False, "check.answer_present": None}}, {"check.answer_present"}),
        (
            {"metrics": {"check.answer_present": {}}, "default_metrics": False},
            {"check.answer_present"},
        ),
        ({"metrics": "none"}, set()),
        ({"sampling": 0}, set()),
    ],
)
def test_a_rule_decides_which_metrics_run(make_engine, make_trace, rule, metrics):
    assert (
        set(evaluate(make_engine(rules=[{"name": "a", **rule}], **COHERENCE), make_trace()))
        == metrics
    )


def test_a_rule_decides_the_options_of_a_metric(make_engine, make_trace):
    engine = make_engine(
        rules=[{"name": "a", "metrics": {"coherence": {"threshold": 0.9}}}], **COHERENCE
    )
    assert evaluate(engine, make_trace())["coherence"].threshold == 0.9


def test_an_option_that_a_rule_does_not_name_stays_as_configured(make_engine, make_trace):
    rule = {"name": "a", "metrics": {"loop_detection": {"threshold": 0.4}}}
    engine = make_engine(metrics={"loop_detection": {"window": 2, "threshold": 0.3}}, rules=[rule])
    session = Session(
        "s", tuple(make_trace(x, session_id="s", final_output=f"Answer {x}.") for x in range(5))
    )
    [*_, last] = asyncio.run(engine.evaluate_session(session, {}))
    assert (last.threshold, len(last.outcome.metadata["comparisons"])) == (0.4, 2)


def test_a_rule_decides_thresholds(make_engine, make_trace):
    engine = make_engine(rules=[{"name": "a", "thresholds": {"coherence": 0.9}}], **COHERENCE)
    assert evaluate(engine, make_trace())["coherence"].threshold == 0.9


def test_who_asks_is_answered_by_the_rule_whatever_its_share(make_engine, make_trace):
    engine = make_engine(
        rules=[{"name": "a", "sampling": 0, "thresholds": {"coherence": 0.9}}], **COHERENCE
    )
    found = evaluate(engine, make_trace(), Overrides())["coherence"]
    assert (found.threshold, found.sampling, found.rule) == (0.9, 1.0, "a")


def test_who_asks_for_nothing_in_particular_gets_nothing_where_a_rule_has_nothing_measured(
    make_engine, make_trace
):
    engine = make_engine(rules=[{"name": "a", "metrics": "none"}], **COHERENCE)
    assert evaluate(engine, make_trace(), Overrides()) == {}


def test_who_names_a_metric_gets_it_where_a_rule_has_nothing_measured(make_engine, make_trace):
    engine = make_engine(rules=[{"name": "a", "metrics": "none"}], **COHERENCE)
    assert set(evaluate(engine, make_trace(), Overrides(("coherence",)))) == {"coherence"}


@pytest.mark.slow
def test_each_rule_has_its_own_share(make_engine, make_trace):
    engine = make_engine(
        sampling=0.1, rules=[{"name": "a", "when": {"error": True}, "sampling": 0.6}], **COHERENCE
    )
    traces = [make_trace(x) for x in range(400)]
    failed = [make_trace(x, attributes=FAILED) for x in range(400)]
    counts = [sum(bool(evaluate(engine, x)) for x in some) for some in (traces, failed)]
    assert 20 <= counts[0] <= 60
    assert 200 <= counts[1] <= 280


def test_a_score_has_the_chance_that_its_rule_gives(make_engine, make_trace):
    engine = make_engine(sampling=0.1, rules=[{"name": "a", "sampling": 0.9999999}], **COHERENCE)
    assert evaluate(engine, make_trace())["coherence"].sampling == 0.9999999


@pytest.mark.slow
def test_what_is_drawn_with_a_small_share_is_drawn_with_a_greater_one(make_engine, make_trace):
    traces = [make_trace(x) for x in range(300)]
    small, great = (
        {
            x.id
            for x in traces
            if evaluate(make_engine(rules=[{"name": "a", "sampling": share}], **COHERENCE), x)
        }
        for share in (0.2, 0.5)
    )
    assert small < great


def test_another_engine_decides_alike(make_engine, make_trace):
    traces = [make_trace(x) for x in range(50)]
    one, other = (
        [
            bool(evaluate(make_engine(rules=[{"name": "a", "sampling": 0.5}], **COHERENCE), x))
            for x in traces
        ]
        for _ in range(2)
    )
    assert one == other


class TestALaterRevision:
    RULES = (
        {"name": "failed", "when": {"error": True}, "sampling": 1.0},
        {
            "name": "vip",
            "when": {"tags": "vip"},
            "metrics": {"check.answer_present": {}},
            "default_metrics": False,
        },
        {"name": "idle", "when": {"user": "monitor"}, "metrics": "none"},
    )

    @pytest.fixture
    def engine(self, make_engine):
        return make_engine(sampling=0.5, rules=list(self.RULES), **COHERENCE)

    def revised(self, engine, first, second):
        before = [*evaluate(engine, first).values()]
        return before, evaluate(engine, second, revision=2, before=before)

    def test_what_was_drawn_stays_drawn(self, engine, make_trace):
        session = drawn(0.5, inside=False)
        _, now = self.revised(
            engine,
            make_trace(session_id=session, attributes=FAILED),
            make_trace(session_id=session),
        )
        assert (now["coherence"].sampling, now["coherence"].rule) == (1.0, None)

    def test_what_was_left_out_is_drawn_where_another_rule_gives_it_the_chance(
        self, engine, make_trace
    ):
        session = drawn(0.5, inside=False)
        before, now = self.revised(
            engine,
            make_trace(session_id=session),
            make_trace(session_id=session, attributes=FAILED),
        )
        assert (before, now["coherence"].sampling, now["coherence"].rule) == ([], 1.0, "failed")

    def test_what_was_left_out_by_a_greater_chance_stays_left_out(self, engine, make_trace):
        session = drawn(0.5, inside=False)
        assert self.revised(
            engine, make_trace(session_id=session), make_trace(session_id=session)
        ) == ([], {})

    def test_a_metric_that_the_other_rule_does_not_measure_is_withdrawn(self, engine, make_trace):
        session = drawn(0.5, inside=True)
        tagged = make_trace(session_id=session, attributes={"tag.tags": ("vip",)})
        _, now = self.revised(engine, make_trace(session_id=session), tagged)
        assert now["coherence"].outcome == Skip(
            "the rule vip takes it now, and coherence is not measured then", "not_applicable"
        )
        assert (now["coherence"].revision, now["coherence"].rule) == (2, "vip")

    def test_all_is_withdrawn_where_the_other_rule_has_nothing_measured(self, engine, make_trace):
        session = drawn(0.5, inside=True)
        _, now = self.revised(
            engine,
            make_trace(session_id=session),
            make_trace(session_id=session, user_id="monitor"),
        )
        assert {x.status for x in now.values()} == {"skipped"}

    def test_nothing_is_withdrawn_twice(self, engine, make_trace):
        session = drawn(0.5, inside=True)
        monitored = make_trace(session_id=session, user_id="monitor")
        _, now = self.revised(engine, make_trace(session_id=session), monitored)
        assert evaluate(engine, monitored, revision=3, before=[*now.values()]) == {}


class TestASession:
    @pytest.fixture
    def engine(self, make_engine):
        rules = [
            {"name": "failed", "when": {"error": True}, "sampling": 1.0},
            {"name": "idle", "when": {"user": "monitor"}, "metrics": "none"},
        ]
        return make_engine(
            sampling=0.5,
            rules=rules,
            metrics={"coherence": {}, "agent_reliability": {}, "loop_detection": {}},
            signal_weights={"coherence": 1, "confidence": 0, "tool_correctness": 0},
        )

    def turns(self, make_trace, *facts, inside=False):
        session_id = drawn(0.5, inside=inside)
        return Session(
            session_id,
            tuple(make_trace(x, session_id=session_id, **of_one) for x, of_one in enumerate(facts)),
        )

    def scored(self, engine, session):
        """The evaluations of its traces, by agent trace id and metric, and what the session
        adds.
        """

        async def run():
            signals = {
                x.id: {y.metric: y for y in await engine.evaluate_trace(x)} for x in session.traces
            }
            return signals, await engine.evaluate_session(session, signals)

        return asyncio.run(run())

    def test_it_has_the_greatest_chance_of_its_traces(self, engine, make_trace):
        session = self.turns(make_trace, {}, {"attributes": FAILED}, {})
        _, found = self.scored(engine, session)
        assert {(x.rule, x.sampling) for x in found} == {("failed", 1.0)}

    def test_it_is_left_out_where_all_its_traces_are(self, engine, make_trace):
        assert self.scored(engine, self.turns(make_trace, {}, {}))[1] == []

    def test_its_traces_that_were_left_out_count_in_it_all_the_same(self, engine, make_trace):
        session = self.turns(make_trace, {}, {"attributes": FAILED}, {})
        signals, found = self.scored(engine, session)
        [whole] = [x for x in found if x.scope == "session" and x.metric == "agent_reliability"]
        shown = whole.outcome.metadata["per_trace_signals"].values()
        assert [bool(signals[x.id]) for x in session.traces] == [False, True, False]
        assert [x["coherence_risk"] for x in shown].count(None) == 0

    def test_what_is_measured_for_it_alone_is_no_score_of_the_trace(self, engine, make_trace):
        _, found = self.scored(engine, self.turns(make_trace, {}, {"attributes": FAILED}, {}))
        assert {x.metric for x in found if x.scope == "trace"} == {"loop_detection"}

    def test_a_trace_of_which_nothing_is_measured_has_no_part_in_it(self, engine, make_trace):
        session = self.turns(make_trace, {}, {"user_id": "monitor"}, inside=True)
        _, found = self.scored(engine, session)
        assert [x.subject_id for x in found if x.metric == "loop_detection"] == [
            session.traces[0].id
        ]

    def test_it_is_not_measured_where_none_of_its_traces_is(self, engine, make_trace):
        session = self.turns(
            make_trace, {"user_id": "monitor"}, {"user_id": "monitor"}, inside=True
        )
        assert self.scored(engine, session)[1] == []


def test_what_rules_decide_is_counted(make_trace):
    meter = Meter()
    rules = [
        {"name": "a", "when": {"user": "x"}, "metrics": "none"},
        {"name": "b", "when": {"user": "y"}, "sampling": 0},
    ]
    engine = Engine(Config(rules=rules, **COHERENCE), None, None, meter=meter)
    for user in ("x", "x", "y", "z"):
        evaluate(engine, make_trace(user_id=user))
    evaluate(engine, make_trace(user_id="x"), Overrides())
    [counted] = [x.values for x in meter.collect() if x.metric is declared.RULES_DECISIONS]
    assert counted == {
        ("a", "trace", "not_measured"): 2,
        ("b", "trace", "left_out"): 1,
        ("default", "trace", "evaluated"): 1,
    }


class TestAJudgeOfARule:
    RULES = (
        {"name": "hard", "when": {"user": "x"}, "judge": {"model": "openai/gpt-4o", "samples": 2}},
        {"name": "soft", "when": {"user": "y"}, "judge": {"max_transcript_tokens": 500}},
    )
    CONFIDENCE = Config(metrics={"confidence": {}}, default_metrics=False, rules=list(RULES))

    def asked(self, scripted, make_trace, user, **options):
        usual, other = scripted(), scripted()
        judges = {"hard": RuleJudge(other, Changes(samples=2).applied(JudgeConfig()))}
        engine = Engine(self.CONFIDENCE, usual, None, judges=judges, **options)
        evaluate(engine, make_trace(user_id=user))
        return len(usual.asked), len(other.asked)

    def test_it_is_asked_about_the_traces_that_the_rule_takes(self, scripted, make_trace):
        assert self.asked(scripted, make_trace, "x") == (0, 2)

    def test_it_is_not_asked_about_others(self, scripted, make_trace):
        assert [self.asked(scripted, make_trace, x) for x in ("y", None)] == [(1, 0), (1, 0)]

    def test_where_a_rule_changes_parameters_alone_the_usual_judge_is_shown_what_they_say(
        self, scripted, make_trace
    ):
        usual = scripted()
        engine = Engine(self.CONFIDENCE, usual, None)
        for user in ("y", None):
            evaluate(engine, make_trace(user_id=user, final_output="A word. " * 2000))
        short, whole = (len(prompt.transcript) for prompt, _, _ in usual.asked)
        assert short < whole

    def test_a_rule_has_a_judge_where_there_is_none_else(self, scripted, make_trace):
        judge = scripted()
        engine = Engine(
            self.CONFIDENCE, None, None, judges={"hard": RuleJudge(judge, JudgeConfig())}
        )
        found = [evaluate(engine, make_trace(user_id=x))["confidence"].status for x in ("x", "z")]
        assert found == ["scored", "skipped"]


def test_settings_have_the_judge_of_each_rule():
    text = """
judge: {model: openai/gpt-4o-mini}
evaluation: {rules: [{name: hard, judge: {model: openai/gpt-4o}}]}
"""
    settings = config.parse(text, environ={})
    assert [x.models for x in settings.judges] == [("openai/gpt-4o-mini",), ("openai/gpt-4o",)]
    assert settings.models()["confidence"] == ("openai/gpt-4o-mini", "openai/gpt-4o")


def test_a_judge_that_cannot_be_is_refused_with_its_place():
    text = "evaluation: {rules: [{name: hard, judge: {samples: 3, temperature: 0}}]}"
    with pytest.raises(
        ConfigError, match=r"evaluation\.rules\.0 \(hard\): judge: samples: 3 with temperature: 0"
    ):
        config.parse(text)


def test_where_only_some_metrics_are_wanted_a_rule_says_how_these_are_measured(make_trace):
    rules = [
        {"name": "idle", "when": {"user": "monitor"}, "metrics": "none"},
        {
            "name": "gold",
            "metrics": {"check.answer_present": {}, "coherence": {"threshold": 0.9}},
            "thresholds": {"check.answer_present": 0.5},
            "sampling": 0.9999999,
        },
    ]
    engine = Engine(narrowed(Config(rules=rules), {"coherence": None}), None, Ngrams())
    found = evaluate(engine, make_trace())
    assert {x.metric: (x.threshold, x.sampling) for x in found.values()} == {
        "coherence": (0.9, 0.9999999)
    }
    assert evaluate(engine, make_trace(user_id="monitor")) == {}


def test_a_family_is_all_of_its_metrics():
    wanted = narrowed(Config(), {"check": None}).measured()
    assert {"check.answer_present", "check.errors_recovered"} <= set(wanted)
    assert all(x.startswith("check.") for x in wanted)


def test_what_is_turned_off_is_no_signal_where_only_some_metrics_are_wanted():
    rules = [{"name": "a", "metrics": {"coherence": False}}]
    given = Config(metrics={"confidence": False}, rules=rules)
    wanted = narrowed(given, {"agent_reliability": None})
    signals = [{x.name for x in variant.build()} for variant in wanted.variants()]
    assert ["confidence" in x for x in signals] == [False, False]
    assert ["coherence" in x for x in signals] == [True, False]


def test_who_names_a_metric_that_a_rule_leaves_out_gets_it_as_it_is_configured(
    make_engine, make_trace
):
    rule = {"name": "a", "metrics": {"check.answer_present": {}}, "default_metrics": False}
    engine = make_engine(metrics={"coherence": {"threshold": 0.3}}, rules=[rule])
    assert set(evaluate(engine, make_trace())) == {"check.answer_present"}
    assert evaluate(engine, make_trace(), Overrides(("coherence",)))["coherence"].threshold == 0.3


def test_where_the_rubric_is_not_wanted_a_rule_cannot_have_it_run():
    rule = {
        "name": "a",
        "rubric": True,
        "default_metrics": False,
        "thresholds": {"rubric.overall": 90},
    }
    found = narrowed(Config(rubric={}, rules=[rule]), {"coherence": None})
    assert [x.rubric for x in found.variants()] == [None, None]
