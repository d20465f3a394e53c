"""What is wrong with rules is said, with the place."""

import pytest

from spanscore import config
from spanscore.errors import ConfigError
from spanscore.evaluation import Config
from spanscore.model.trace import TAGS


def rules(*given, **evaluation):
    return Config.model_validate({"rules": list(given), **evaluation})


def problem(text):
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "file")
    return str(caught.value)


def of_rule(lines):
    return "evaluation:\n  rules:\n    - name: a\n" + "".join(
        f"      {x}\n" for x in lines.splitlines()
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "when: {agnet: x}",
            "file: evaluation.rules.0.when.agnet: unknown key; did you mean agent?",
        ),
        ("wen: {}", "file: evaluation.rules.0.wen: unknown key; did you mean when?"),
        (
            "when: {tokens: {totl: {above: 3}}}",
            "evaluation.rules.0.when.tokens.totl: unknown key; did you mean total?",
        ),
        (
            "when: {any: [{servce: x}]}",
            "evaluation.rules.0.when.any.0.servce: unknown key; did you mean service?",
        ),
        (
            "when: {not: {servce: x}}",
            "evaluation.rules.0.when.not.servce: unknown key; did you mean service?",
        ),
        (
            "when: {not: {tokens: {totl: {above: 3}}}}",
            "rules.0.when.not.tokens.totl: unknown key; did you mean total?",
        ),
        ("when: {any: []}", "nothing can be met"),
        (
            "when: {duration: {over: 3s}}",
            "rules.0.when.duration: unknown key 'over'; did you mean 'above'?",
        ),
        ("when: {duration: {above: 3}}", "rules.0.when.duration: 3 is no duration"),
        ("when: {duration: 3s}", "rules.0.when.duration: write bounds, such as {at_least: 60s}"),
        ("when: {duration: {above: 3s, below: 2s}}", "would never match"),
        ("when: {duration: {above: 3s, at_most: 3s}}", "would never match"),
        ("when: {duration: {above: 3s, at_least: 2s}}", "the same bound"),
        ("when: {service: []}", "rules.0.when.service: the list is empty"),
        ("when: {service: {exist: true}}", "write a text, a list of texts, or"),
        ("when: {service: [[a]]}", "['a'] is no text, number or truth value"),
        ("when: {attributes: {x: {above: big}}}", "rules.0.when.attributes.x: 'big' is no number"),
        (
            "metrics: {coherance: {}}",
            "rules.0 (a): there is no metric 'coherance'; did you mean 'coherence'?",
        ),
        ("metrics: {coherence: {windw: 3}}", "coherence has no option 'windw'"),
        ("metrics: all", "rules.0.metrics: write the metrics, by name"),
        (
            "thresholds: {coherance: 0.5}",
            "thresholds: 'coherance' does not run here; did you mean 'coherence'?",
        ),
        (
            "thresholds: {coherence: 5}",
            "thresholds: 5 is off the scale of coherence, which is 0 to 1",
        ),
        (
            "metrics: none\nthresholds: {coherence: 0.5}",
            "nothing is measured, so no threshold holds",
        ),
        ("sampling: 2", "evaluation.rules.0.sampling"),
        (
            "default_metrics: false",
            "rules.0 (a): nothing is left to be measured; write `metrics: none`",
        ),
        ("rubric: true", "rules.0 (a): rubric: evaluation.rubric is not set up; add it"),
        (
            "sampling: half",
            "evaluation.rules.0.sampling: 'half' is no number; write one such as 0.8",
        ),
        ("when: &w {any: [*w]}", "file: nested too deeply, or an alias"),
    ],
)
def test_an_error_names_the_place_and_what_to_write(lines, expected):
    assert expected in problem(of_rule(lines))


def test_a_rule_needs_a_name():
    assert "evaluation.rules.0.name: is missing" in problem("evaluation: {rules: [{sampling: 1}]}")


def test_a_name_that_cannot_be_is_answered_with_one_that_can():
    assert "'my rule!': write a name of letters, digits" in problem(
        "evaluation: {rules: [{name: my rule!}]}"
    )


def test_a_key_with_nothing_under_it_is_as_if_it_were_not_there():
    parsed = config.parse(of_rule("when:\nmetrics:\nthresholds:\njudge:"))
    assert (
        parsed.evaluation.rules == config.parse("evaluation: {rules: [{name: a}]}").evaluation.rules
    )


def test_no_rule_can_be_called_default():
    with pytest.raises(ValueError, match="choose another name"):
        rules({"name": "default"})


def test_two_rules_cannot_have_one_name():
    with pytest.raises(ValueError, match=r"rules\.1 \(a\): an earlier rule has this name"):
        rules({"name": "a", "when": {"user": "x"}}, {"name": "a"})


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({}, {"error": True}),
        ({"service": "shop"}, {"service": "shop"}),
        ({"service": "shop"}, {"service": "shop", "error": True}),
        ({"tokens": {"total": {"above": 10}}}, {"tokens": {"total": {"above": 10}}, "user": "a"}),
        ({"attributes": {"a": 1}}, {"attributes": {"a": 1, "b": 2}}),
        ({"any": [{"user": "a"}, {"user": "b"}]}, {"user": "b"}),
        (
            {"any": [{"user": "a"}, {"user": "b"}]},
            {"any": [{"user": "a"}, {"user": "b"}], "error": True},
        ),
        ({"not": {"user": "a"}}, {"not": {"user": "a"}, "error": True}),
    ],
)
def test_a_rule_that_can_never_match_is_refused(wide, narrow):
    with pytest.raises(
        ValueError, match=r"rules\.1 \(b\): can never match, since the earlier rule a takes"
    ):
        rules({"name": "a", "when": wide}, {"name": "b", "when": narrow})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"error": True}, {}),
        ({"error": True}, {"error": False}),
        ({"service": "shop"}, {"service": "s*"}),
        ({"service": "shop", "error": True}, {"service": "shop"}),
        ({"service": "shop"}, {"agent": "shop"}),
        ({"resource": {"a": 1}}, {"attributes": {"a": 1}}),
        ({"duration": {"above": "10s"}}, {"duration": {"at_least": "10s"}}),
        ({"not": {"user": ["a", "b"]}}, {"not": {"user": "a"}}),
        ({"any": [{"user": "a"}]}, {"user": "b"}),
        ({"service": {"exists": False}}, {"service": "shop"}),
    ],
)
def test_rules_of_which_each_can_match_are_taken(one, other):
    assert len(rules({"name": "a", "when": one}, {"name": "b", "when": other}).rules) == 2


def test_an_example_of_every_key_can_be_written_as_yaml():
    text = """
evaluation:
  sampling: 0.1
  rules:
    - name: health-checks
      when: {attributes: {http.route: /healthz}}
      metrics: none
    - name: failed
      when: {error: true}
      sampling: 1
      thresholds: {task_completion: 0.9}
    - name: long
      when:
        any:
          - duration: {at_least: 60s}
          - tokens: {total: {above: 50000}}
        not: {environment: staging}
      sampling: 0.5
      default_metrics: false
      metrics: {task_completion: {}, confidence: }
"""
    assert [x.name for x in config.parse(text).evaluation.rules] == [
        "health-checks",
        "failed",
        "long",
    ]


def test_the_attributes_that_rules_read_and_tags_are_wanted():
    found = rules(
        {"name": "a", "when": {"attributes": {"x": 1}, "any": [{"attributes": {"y": 1}}]}},
        {"name": "b", "when": {"not": {"error": True}}},
    )
    assert found.span_attributes == {"x", "y", "otel.status_code", *TAGS}


def test_without_rules_tags_alone_are_wanted():
    assert Config().span_attributes == frozenset(TAGS)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, 75.0),
        ({"thresholds": {"rubric.overall": 90}}, 90.0),
        ({"default_metrics": False, "rubric": True, "thresholds": {"rubric.overall": 90}}, 90.0),
        ({"rubric": False}, None),
        ({"default_metrics": False, "metrics": {"coherence": {}}}, None),
    ],
)
def test_a_rule_decides_whether_the_rubric_runs_and_from_where_on_it_is_passed(rule, expected):
    found = rules({"name": "a", **rule}, rubric={})
    rubric = found.under(found.rules[0]).rubric
    assert (None if rubric is None else rubric.pass_threshold) == expected
