"""What others emit as scores is read as they gave it: value, label, comment, who, and of what."""

import json

import pytest

from spanscore.dialects import read as read_dialects
from spanscore.model.external import stand_in_span_id
from spanscore.model.span import Event, Link, LogRecord, Resource, Scope, Span
from spanscore.received_scores import may_hold, read_external

TRACE, AGENT, OWN = "a" * 32, "b" * 16, "c" * 16
SHOP = Resource({"service.name": "shop"})
EVENT = "gen_ai.evaluation.result"


def result(name="relevance", value=0.8, **more):
    given = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": value}
    return {key: x for key, x in given.items() if x is not None} | {
        f"gen_ai.evaluation.{k}": v for k, v in more.items()
    }


def log(
    attributes,
    *,
    scope="openlit.score",
    event=EVENT,
    body=None,
    trace_id=TRACE,
    span_id=AGENT,
    at_ns=7,
):
    return LogRecord(trace_id, span_id, at_ns, event, body, attributes, SHOP, Scope(scope))


def span(
    attributes,
    *,
    scope="my.evals",
    name="evaluation relevance",
    parent=AGENT,
    links=(),
    events=(),
    span_id=OWN,
):
    return Span(
        TRACE, span_id, parent, name, 1, 5, 9, 0, "", attributes, SHOP, Scope(scope), events, links
    )


def only(*items):
    spans = [x for x in items if isinstance(x, Span)]
    [found] = read_external(spans, [x for x in items if isinstance(x, LogRecord)])
    return found


def outcome(found):
    return found.outcome.value, found.outcome.label, found.outcome.passed


# In OpenTelemetry's own form


def test_an_evaluation_event_is_a_score_of_the_span_it_names():
    found = only(log(result(explanation="on topic")))
    assert (found.metric, found.value, found.reason) == ("relevance", 0.8, "on topic")
    assert (found.target.trace_id, found.target.span_id, found.evaluated_at_ns) == (TRACE, AGENT, 7)


def test_no_scale_is_made_up_for_it():
    assert only(log(result(value=71))).scale is None


def test_its_source_is_the_library_that_emitted_it():
    assert only(log(result())).evaluator.source == "openlit"
    assert only(log(result(), scope="acme.evals")).evaluator.source == "acme.evals"


def test_an_event_of_a_span_is_the_same():
    found = only(
        span({"gen_ai.operation.name": "chat"}, events=[Event(EVENT, 7, result())], span_id=AGENT)
    )
    assert (found.value, found.target.span_id, found.evaluated_at_ns) == (0.8, AGENT, 7)


def test_a_span_of_its_own_is_a_score_of_its_parent():
    assert only(span({"gen_ai.operation.name": "evaluation", **result()})).target.span_id == AGENT


def test_a_span_that_links_is_a_score_of_what_it_links_to():
    found = only(
        span(
            {"gen_ai.operation.name": "evaluation", **result()},
            parent="",
            links=[Link("d" * 32, "e" * 16)],
        )
    )
    assert (found.target.trace_id, found.target.span_id) == ("d" * 32, "e" * 16)


def test_attributes_on_the_evaluated_span_itself_are_a_score_of_it():
    assert (
        only(span({"gen_ai.operation.name": "chat", **result()}, span_id=AGENT)).target.span_id
        == AGENT
    )


@pytest.mark.parametrize(
    ("value", "label", "expected"),
    [
        (True, None, (1.0, None, True)),
        (0.0, "fail", (0.0, "fail", False)),
        ("0.8", "PASS", (0.8, "PASS", True)),
        (None, "formal", (None, "formal", None)),
        (4, None, (4.0, None, None)),
        (1.0, "true", (1.0, "true", True)),
        ("great", "good", (None, "good", None)),
    ],
)
def test_value_label_and_verdict_are_as_they_were_given(value, label, expected):
    more = {} if label is None else {"score.label": label}
    assert outcome(only(log(result(value=value, **more)))) == expected


@pytest.mark.parametrize("value", [None, "great", float("nan"), [1.0]])
def test_what_says_nothing_is_no_score(value):
    assert read_external([], [log(result(value=value))]) == []


def test_an_evaluation_that_went_wrong_is_a_failure():
    found = only(log({**result(value=None, explanation="no answer"), "error.type": "Timeout"}))
    assert (found.status, found.outcome.type, found.reason) == ("failed", "Timeout", "no answer")


def test_an_event_of_no_trace_is_of_the_session_it_names():
    found = only(
        log({**result(), "gen_ai.conversation.id": "chat-7"}, trace_id="", span_id="0" * 16)
    )
    assert (found.scope, found.session_id, found.subject_id) == ("session", "chat-7", "chat-7")


def test_an_event_that_names_only_a_response_is_of_that():
    found = only(log({**result(), "gen_ai.response.id": "resp-1"}, trace_id="", span_id=""))
    assert (found.scope, found.subject_id, found.target.response_id) == (
        "trace",
        "resp-1",
        "resp-1",
    )


def test_a_response_says_more_closely_what_an_event_is_of_than_its_session():
    named = {"gen_ai.response.id": "resp-1", "gen_ai.conversation.id": "chat-7"}
    found = only(log({**result(), **named}, trace_id="", span_id=""))
    assert (found.scope, found.target.response_id, found.session_id) == (
        "trace",
        "resp-1",
        "chat-7",
    )


def test_events_of_two_responses_at_one_moment_are_two_scores():
    logs = [
        log({**result(), "gen_ai.response.id": f"resp-{x}"}, trace_id="", span_id="") for x in "12"
    ]
    assert len(read_external([], logs)) == 2


def test_in_a_trace_that_names_a_session_it_stays_a_score_of_the_trace():
    found = only(log({**result(), "session.id": "chat-7"}))
    assert (found.scope, found.session_id) == ("trace", "chat-7")


def test_pydantics_evaluator_is_named_by_its_source():
    source = json.dumps({"name": "LLMJudge", "arguments": None})
    attributes = {
        **result(),
        "gen_ai.evaluation.evaluator.source": source,
        "gen_ai.evaluation.evaluator.version": "2",
    }
    found = only(log(attributes, scope="pydantic-evals"))
    assert (found.evaluator.source, found.evaluator.name, found.evaluator.version) == (
        "pydantic-evals",
        "LLMJudge",
        "2",
    )


def test_microsofts_property_bag_has_verdict_bounds_and_evaluator():
    bag = {
        "gen_ai.evaluation.threshold": "3",
        "gen_ai.evaluation.passed": "true",
        "gen_ai.evaluation.min_value": "1",
        "gen_ai.evaluation.max_value": "5",
        "gen_ai.evaluator.name": "builtin.coherence",
    }
    attributes = {
        **result("coherence", 4),
        "internal_properties": json.dumps(bag),
        "microsoft.custom_event.name": EVENT,
    }
    found = only(log(attributes, event="", scope="azure.ai.evaluation._evaluate._evaluate"))
    assert (found.scale, found.threshold, found.passed) == ((1.0, 5.0), 3.0, True)
    assert (found.evaluator.source, found.evaluator.name) == (
        "azure-ai-evaluation",
        "builtin.coherence",
    )


def test_splunks_event_has_several_results():
    body = {
        "gen_ai.evaluations": [
            result("bias", 0.1),
            {**result("toxicity", 0.0), "gen_ai.evaluation.passed": True},
        ]
    }
    found = read_external([], [log({}, event="gen_ai.evaluation.results", body=body)])
    assert sorted((x.metric, x.value, x.passed) for x in found) == [
        ("bias", 0.1, None),
        ("toxicity", 0.0, True),
    ]


def test_a_result_that_splunks_emitters_send_in_two_events_is_one_score():
    scope, bare = "opentelemetry.util.genai.handler", result("bias", 0.1)
    single = log(bare | {"gen_ai.evaluation.score.label": "unknown"}, scope=scope, at_ns=7)
    body = {"gen_ai.evaluations": [bare, result("toxicity", 0.1)]}
    several = log({}, event="gen_ai.evaluation.results", body=body, scope=scope, at_ns=8)
    for both in ([single, several], [several, single]):
        found = read_external([], both)
        assert sorted((x.metric, x.value, x.label) for x in found) == [
            ("bias", 0.1, None),
            ("toxicity", 0.1, None),
        ]
    [alone] = read_external([], [single])
    assert alone.uid in {x.uid for x in read_external([], [several])}


def test_results_of_splunks_emitters_that_differ_in_label_alone_are_scores_of_their_own():
    scope, name = "opentelemetry.util.genai.handler", {"gen_ai.evaluation.name": "bias"}
    logs = [
        log(name | {"gen_ai.evaluation.score.label": label}, scope=scope, at_ns=at_ns)
        for at_ns, label in enumerate(("biased", "not biased"))
    ]
    assert [x.label for x in read_external([], logs)] == ["biased", "not biased"]


def test_results_of_splunks_emitters_that_differ_are_scores_of_their_own():
    scope = "opentelemetry.util.genai.handler"
    logs = [log(result("bias", x), scope=scope, at_ns=n) for n, x in enumerate((0.1, 0.2))]
    assert [x.value for x in read_external([], logs)] == [0.1, 0.2]


# What the SDK of this project writes


def recorded(**more):
    return {
        "gen_ai.operation.name": "evaluation",
        "openinference.span.kind": "EVALUATOR",
        **result("helpful", 1.0),
        **more,
    }


def test_a_persons_score_has_who_gave_it():
    attributes = recorded(**{"spanscore.score.source": "human", "spanscore.score.author": "ada"})
    found = only(span(attributes, scope="spanscore.sdk"))
    assert (found.evaluator.kind, found.evaluator.source, found.evaluator.author) == (
        "HUMAN",
        "human",
        "ada",
    )


def test_a_score_of_a_session_is_of_no_trace():
    attributes = recorded(**{"spanscore.scope": "session", "session.id": "chat-7"})
    found = only(span(attributes, scope="spanscore.sdk"))
    assert (found.scope, found.subject_id, found.target.trace_id) == ("session", "chat-7", "")


def test_a_score_of_a_trace_of_which_no_span_is_known_names_none():
    found = only(span(recorded(), scope="spanscore.sdk", parent=stand_in_span_id(TRACE)))
    assert (found.target.trace_id, found.target.span_id) == (TRACE, "")


# In other forms


def annotated(prefix, **facts):
    kind = prefix.split(".")[-1].removesuffix("s")
    return {f"{prefix}.0.{kind}.{key}": value for key, value in facts.items()}


@pytest.mark.parametrize("prefix", ["annotations", "evaluations"])
def test_openinferences_annotations_are_scores_of_the_span_they_are_on(prefix):
    facts = annotated(
        prefix,
        name="tone",
        score=0.5,
        label="polite",
        explanation="says please",
        annotator_kind="LLM",
    )
    found = only(span({"openinference.span.kind": "LLM", **facts}, span_id=AGENT, scope="phoenix"))
    assert (found.metric, *outcome(found), found.reason) == (
        "tone",
        0.5,
        "polite",
        None,
        "says please",
    )
    assert (found.target.span_id, found.evaluator.kind, found.evaluator.source) == (
        AGENT,
        "LLM",
        "phoenix",
    )


@pytest.mark.parametrize(("kind", "source"), [("HUMAN", "human"), ("CODE", "programmatic")])
def test_the_kind_of_annotator_is_the_source(kind, source):
    facts = annotated("annotations", name="tone", score=1, annotator_kind=kind, identifier="ada")
    assert only(span(facts, span_id=AGENT)).evaluator.source == source


def test_annotations_of_trace_and_session_are_of_these():
    facts = {
        **annotated("trace.annotations", name="a", score=1),
        **annotated("session.evaluations", name="b", score=1),
        "session.id": "chat-7",
    }
    found = {x.metric: x for x in read_external([span(facts, span_id=AGENT)])}
    assert (found["a"].scope, found["a"].target.span_id) == ("trace", "")
    assert (found["b"].scope, found["b"].subject_id) == ("session", "chat-7")


def test_an_evaluator_that_is_a_span_has_its_score_as_output():
    output = json.dumps({"score": 0, "label": "hallucinated", "explanation": "no such flight"})
    found = only(
        span({"openinference.span.kind": "EVALUATOR", "output.value": output}, name="hallucination")
    )
    assert (found.metric, found.value, found.label, found.target.span_id) == (
        "hallucination",
        0.0,
        "hallucinated",
        AGENT,
    )


def test_an_evaluator_that_is_a_span_may_have_several_scores_as_output():
    # as the evaluators of arize-phoenix-evals 3 write them
    results = [
        {"name": "short", "score": 1.0, "kind": "code", "metadata": {}},
        {"name": "polite", "label": "no", "explanation": "It swears.", "kind": "llm"},
        "no result",
    ]
    attributes = {"openinference.span.kind": "EVALUATOR", "output.value": json.dumps(results)}
    found = {x.metric: x for x in read_external([span(attributes, name="evaluate")])}
    assert {name: outcome(x) for name, x in found.items()} == {
        "short": (1.0, None, None),
        "polite": (None, "no", False),
    }
    assert (found["short"].evaluator.kind, found["polite"].evaluator.kind) == ("CODE", "LLM")
    assert {x.target.span_id for x in found.values()} == {AGENT}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, (1.0, None, True)), (3, (3.0, None, None)), ("rude", (None, "rude", None))],
)
def test_logfires_feedback_is_a_score_of_its_parent(value, expected):
    attributes = {
        "logfire.feedback.name": "polite",
        "polite": value,
        "logfire.feedback.comment": "said please",
    }
    found = only(span(attributes, scope="logfire.feedback", name="feedback: polite"))
    assert outcome(found) == expected
    assert (found.metric, found.reason, found.target.span_id) == ("polite", "said please", AGENT)


def test_langwatchs_evaluation_span_is_a_score():
    output = json.dumps(
        {
            "type": "evaluation_result",
            "value": {"status": "processed", "passed": False, "score": 0.2},
        }
    )
    found = only(
        span({"langwatch.span.type": "evaluation", "langwatch.output": output}, name="pii")
    )
    assert (found.metric, *outcome(found)) == ("pii", 0.2, None, False)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"score": 0.2, "label": "poor"}, ("polite", 0.2, "poor", None)),
        ({"name": "tone", "value": 0.9, "comment": "kind"}, ("tone", 0.9, None, None)),
        ({"value": "good"}, ("polite", None, "good", None)),
        ({"passed": False}, ("polite", None, "fail", False)),
    ],
)
def test_langfuses_evaluator_is_a_score_of_what_it_lies_in(output, expected):
    attributes = {
        "langfuse.observation.type": "evaluator",
        "langfuse.observation.output": json.dumps(output),
    }
    found = only(span(attributes, name="polite"))
    assert (found.metric, *outcome(found)) == expected
    assert (found.target.span_id, found.evaluator.source) == (AGENT, "langfuse")


@pytest.mark.parametrize("output", ["null", '{"tokens": 3}', '"0.2"', "[0.2]", '{"value": []}'])
def test_langfuses_evaluator_without_an_outcome_is_no_score(output):
    attributes = {"langfuse.observation.type": "evaluator", "langfuse.observation.output": output}
    assert read_external([span(attributes)]) == []


def test_trulens_feedback_function_is_a_score():
    base = "ai.observability.eval_root"
    found = only(span({f"{base}.metric_name": "groundedness", f"{base}.score": 0.9}))
    assert (found.metric, found.value, found.evaluator.source) == ("groundedness", 0.9, "trulens")


# No circle, nothing evaluated, nothing hostile


@pytest.mark.parametrize("how", [{"scope": "spanscore"}, {"emitted": True}])
def test_what_a_spanscore_exported_is_not_anothers(how):
    attributes = {"gen_ai.operation.name": "evaluation", **result()}
    attributes |= {"spanscore.emitted": True} if "emitted" in how else {}
    scope = how.get("scope", "a.collector.that.renames")
    assert read_external([span(attributes, scope=scope)], [log(attributes, scope=scope)]) == []


def test_what_a_spanscore_wrote_on_the_agents_span_is_not_anothers():
    facts = annotated("evaluations", name="task_completion", score=1, identifier="spanscore")
    assert (
        read_external([span({"spanscore.task_completion.score": 1.0, **facts}, span_id=AGENT)])
        == []
    )


@pytest.mark.parametrize(
    "attributes",
    [
        recorded(),
        result(),
        {"openinference.span.kind": "EVALUATOR", "output.value": "{}"},
        {"logfire.feedback.name": "polite", "polite": True},
        {"ai.observability.eval_root.score": 1.0},
    ],
)
def test_an_evaluation_span_is_no_step_of_the_agent(attributes):
    assert read_dialects([span(attributes)]).spans == ()


def test_a_step_that_a_score_was_put_on_stays_a_step():
    step = span(
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", **result()},
        span_id=AGENT,
    )
    assert [x.span.span_id for x in read_dialects([step]).steps] == [AGENT]


def test_what_is_delivered_twice_is_one_score():
    assert len(read_external([span(recorded())] * 2, [log(result())] * 2)) == 2


def test_what_is_given_again_later_is_another_score():
    assert len(read_external([], [log(result(), at_ns=1), log(result(), at_ns=2)])) == 2


@pytest.mark.parametrize(
    "attributes",
    [
        {**result(), "gen_ai.evaluation.name": 5},
        {**result(), "gen_ai.evaluation.name": ""},
        {**result(), "internal_properties": "[1"},
        {**result(), "internal_properties": '{"gen_ai.evaluation.threshold": []}'},
        {**result(), "gen_ai.evaluation.explanation": "x" * 10**6},
        {**result(), "gen_ai.evaluation.score.value": 10**400},
        {**result(), "gen_ai.evaluation.score.value": "9" * 5000},
        {"annotations.999999.annotation.name": "a", "annotations.999999.annotation.score": []},
        {"openinference.span.kind": "EVALUATOR", "output.value": "[" * 5000},
        {
            "langwatch.span.type": "evaluation",
            "langwatch.output": '{"type": "evaluation_result", "value": 3}',
        },
        {"logfire.feedback.name": "logfire.feedback.name"},
    ],
)
def test_hostile_attributes_raise_nothing_and_are_bounded(attributes):
    for found in read_external([span(attributes)], [log(attributes)]):
        assert len(found.reason) <= 32_768


def test_hostile_bodies_raise_nothing():
    for body in (
        None,
        3,
        "x",
        {"gen_ai.evaluations": 3},
        {"gen_ai.evaluations": [3, {}, {"gen_ai.evaluation.name": []}]},
    ):
        assert read_external([], [log({}, event="gen_ai.evaluation.results", body=body)]) == []


@pytest.mark.parametrize(
    "mark",
    [
        b"gen_ai.evaluation.name",
        b"annotations.0.annotation.name",
        b"EVALUATOR",
        b"logfire.feedback.name",
        b"langwatch.span.type evaluation",
        b"langfuse.observation.type evaluator",
        b"ai.observability.eval_root.score",
    ],
)
def test_a_request_with_any_of_these_may_hold_one(mark):
    assert may_hold(b"..." + mark + b"...")


@pytest.mark.parametrize(
    ("value", "given"),
    [
        ("85%", (0.85, None, None)),
        (" 85 % ", (0.85, None, None)),
        ("true", (1.0, None, True)),
        ("False", (0.0, None, False)),
    ],
)
def test_a_value_that_came_as_text_is_read(value, given):
    assert outcome(only(log(result(value=value)))) == given


def test_a_value_that_came_as_text_leaves_the_label_as_it_is():
    given = result(value="85%", **{"score.label": "good"})
    assert outcome(only(log(given))) == (0.85, "good", None)
