"""A suite file is read strictly: what is wrong is told in a line, with the file, the line and the
key.
"""

import json

import jsonschema
import pytest
import yaml

from spanscore import suites
from spanscore.errors import InputError
from spanscore.metrics.expected import ToolWeights

CASE = "name: x\ncases:\n- id: a\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "s.yaml: empty; a suite has a name and cases"),
        ("- 1", "s.yaml: expected keys such as `cases:` at the top, found a list"),
        ("name: x\ncases: []", "s.yaml:2: cases: there are none; a suite has at least one"),
        ("name: x", "s.yaml: cases: is missing"),
        (
            f"{CASE}  expectd_answer: z\n",
            "s.yaml:4: cases.0.expectd_answer: unknown key; did you mean expected_answer?",
        ),
        (
            f"{CASE}- id: a\n",
            "s.yaml:2: cases: two cases have the id 'a'; give each an id of its own",
        ),
        (
            f"{CASE}agentic: {{treshold: 2}}",
            "s.yaml:4: agentic.treshold: unknown key; did you mean threshold?",
        ),
        (
            "name: x\ncases:\n- id: no\n",
            "s.yaml:3: cases.0.id: false is no text here; put it in quotes",
        ),
        (
            "name: x\ncases: [\n",
            "s.yaml:3: not YAML: while parsing a flow node, expected the node content",
        ),
        (
            "name: x\ncases:\n",
            "s.yaml:2: cases: is a list, each item on a line under it that begins with `- `",
        ),
        ('name: x\ncases:\n- id: " "\n', "s.yaml:3: cases.0.id: must not be empty"),
        (f"{CASE}  k: 2\n  k: 3\n", "s.yaml:5: the key 'k' is there twice; keep one"),
        (
            f"{CASE}thresholds: {{rubric: 3}}",
            "thresholds: rubric is many scores; name one, such as rubric.overall",
        ),
        (
            f"{CASE}thresholds: {{rubric.tone: 60}}",
            "s.yaml:4: thresholds: 60 is off the scale of rubric.tone",
        ),
        ("name: 2024-99-99", "s.yaml: not YAML: month must be in 1..12"),
        (
            "name: 2024-09-09\ncases: [{id: a}]",
            "s.yaml:1: name: 2024-09-09 is no text here; put it in quotes",
        ),
        ("name: {a: 1}\ncases: [{id: a}]", "s.yaml:1: name: is a mapping; write a text"),
        (
            f"{CASE}  session_id: [s, no]\n",
            "s.yaml:4: cases.0.session_id: false is no text here; put it in quotes",
        ),
        (
            "name: x\ncases:\n\t- id: a\n",
            "s.yaml:3: not YAML: while scanning for the next token, found character '\\t'",
        ),
        ("name: " + "[" * 5000, "s.yaml: nested too deeply; this is no suite"),
        (
            f"{CASE}thresholds: {{task_compl: 1}}",
            "s.yaml:4: thresholds: there is no metric 'task_compl'",
        ),
        (
            f"{CASE}thresholds: {{confidence: 2}}",
            "s.yaml:4: thresholds: 2 is off the scale of confidence",
        ),
        (
            f"{CASE}agentic: {{tool_weights: {{selection: 0.5}}}}",
            (
                "s.yaml:4: agentic.tool_weights: the weights of the four aspects add up to 1.25;"
                " let them add up to 1"
            ),
        ),
        (
            f"{CASE}  expected_answer: z\n  turns: [{{input: q}}]\n",
            (
                "s.yaml:3: cases.0: input, expected_answer and expected_tools stand in the turns of"
                " a case that has turns"
            ),
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(text, told):
    with pytest.raises(InputError) as raised:
        suites.parse(text, "s.yaml")
    [line] = str(raised.value).splitlines()
    assert told in line


def test_each_thing_that_is_wrong_has_its_line():
    with pytest.raises(InputError) as raised:
        suites.parse("name: x\ncases:\n- id: a\n  trails: 2\n- id: b\n  k: 0\n", "s.yaml")
    assert [x.partition(": ")[0] for x in str(raised.value).splitlines()] == [
        "s.yaml:4",
        "s.yaml:6",
    ]


def test_anchors_that_multiply_are_refused_before_they_are_written_out():
    rows = [
        f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    ]
    with pytest.raises(InputError, match="anchors stand for more than"):
        suites.parse("\n".join(["a: &a [1]", *rows]))


def test_an_anchor_shares_what_cases_have_in_common():
    suite = suites.parse(
        "name: x\ncases:\n- id: a\n  turns: &t [{input: q}]\n- {id: b, turns: *t}\n"
    )
    assert suite.cases[0].turns == suite.cases[1].turns


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.yaml: No such file"):
        suites.load(tmp_path / "nowhere.yaml")


def test_text_that_is_not_utf_8_is_told_with_what_to_do(tmp_path):
    (tmp_path / "s.yaml").write_bytes(b"name: \xff")
    with pytest.raises(
        InputError,
        match=r"s\.yaml: not UTF-8 text \(invalid start byte at byte 6\); save it as UTF-8",
    ):
        suites.load(tmp_path / "s.yaml")


def test_a_tab_is_told_with_what_to_do():
    with pytest.raises(InputError, match="indent with spaces, not with tabs"):
        suites.parse("name: x\ncases:\n\t- id: a\n")


@pytest.mark.parametrize(
    ("text", "sessions"), [("s", ("s",)), ("[s, 7, s]", ("s", "7")), ("null", ()), ("7", ("7",))]
)
def test_a_session_may_be_one_or_a_list(text, sessions):
    assert suites.parse(f"{CASE}  session_id: {text}\n").cases[0].session_id == sessions


def test_a_number_may_be_written_where_a_text_is_meant():
    assert (
        suites.parse("name: x\ncases: [{id: 7, expected_answer: 42}]").cases[0].expected_answer
        == "42"
    )


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("trials: yes", "trials: true is no whole number; write one such as 3, without quotes"),
        ("k: '3'", "k: '3' is no whole number"),
        ("k: 2.0", "k: 2.0 is no whole number"),
        (
            "required_pass_rate: true",
            "required_pass_rate: true is no number; write one such as 0.8, without quotes",
        ),
        ("required_pass_rate: '0.8'", "required_pass_rate: '0.8' is no number"),
        ("required_pass_rate: .nan", "required_pass_rate: nan is no number that can be used"),
        ("required_pass_rate: .inf", "required_pass_rate: inf is no number that can be used"),
        ("thresholds: {confidence: true}", "thresholds.confidence: true is no number"),
        ("thresholds: {confidence: '0.8'}", "thresholds.confidence: '0.8' is no number"),
        ("thresholds: {confidence: .nan}", "thresholds: nan is off the scale of confidence"),
        ("agentic: {threshold: true}", "agentic.threshold: true is no number"),
        ("agentic: {threshold: '0.8'}", "agentic.threshold: '0.8' is no number"),
        ("agentic: {tool_threshold: true}", "agentic.tool_threshold: true is no number"),
        ("agentic: {k: true}", "agentic.k: true is no whole number"),
        ("agentic: {prior: [true, 1]}", "agentic.prior.0: true is no number"),
        ("agentic: {tools_decide: 'no'}", "agentic.tools_decide: 'no' is neither true nor false"),
        (
            "agentic: {tool_weights: {selection: true}}",
            "agentic.tool_weights.selection: true is no number",
        ),
    ],
)
def test_what_stands_where_a_number_belongs_is_refused_with_what_to_write(key, told):
    with pytest.raises(InputError) as raised:
        suites.parse(f"{CASE}{key}\n", "s.yaml")
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("{day: 2024-05-01}", "2024-05-01 is a date, which JSON has not; put it in quotes"),
        ("{a: [{b: .nan}]}", "nan is no number that JSON has"),
        ("{a: {1: x}}", "the key 1 is no text; put it in quotes"),
    ],
)
def test_expected_parameters_that_no_call_can_have_are_refused(parameters, told):
    with pytest.raises(InputError) as raised:
        suites.parse(f"{CASE}  expected_tools: [{{tool_name: a, parameters: {parameters}}}]\n")
    assert told in str(raised.value)


def test_expected_parameters_may_be_any_json():
    given = {"a": [None, 1, 2.5, True, {"b": "c"}]}
    suite = suites.parse(
        f"{CASE}  expected_tools: [{{tool_name: a, parameters: {json.dumps(given)}}}]\n"
    )
    assert suite.cases[0].expected_tools[0].parameters == given


@pytest.mark.parametrize("spelling", ["utilisation", "utilization"])
def test_a_weight_may_be_spelled_in_both_ways(spelling):
    weights = f"{{selection: 0.7, parameters: 0.1, sequence: 0.1, {spelling}: 0.1}}"
    suite = suites.parse(f"{CASE}agentic: {{tool_weights: {weights}}}")
    assert suite.agentic.tool_weights == ToolWeights(0.7, 0.1, 0.1, 0.1)


def test_a_weight_that_is_there_in_both_spellings_is_refused():
    with pytest.raises(InputError, match="utilization"):
        suites.parse(f"{CASE}agentic: {{tool_weights: {{utilisation: 0.25, utilization: 0.25}}}}")


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["utilisation", "utilization"])
def test_the_schema_accepts_both_spellings(spelling):
    validator = jsonschema.Draft202012Validator(suites.json_schema())
    weights = {"selection": 0.7, "parameters": 0.1, "sequence": 0.1, spelling: 0.1}
    assert validator.is_valid(
        {"name": "x", "agentic": {"tool_weights": weights}, "cases": [{"id": "a"}]}
    )


def test_the_schema_accepts_a_suite_and_refuses_an_unknown_key():
    validator = jsonschema.Draft202012Validator(suites.json_schema())
    data = yaml.safe_load(
        "name: x\nagentic: {tool_weights: {selection: 1}}\ncases: [{id: a, turns: [{input: q}]}]"
    )
    assert validator.is_valid(data)
    assert not validator.is_valid({**data, "casess": []})


@pytest.mark.parametrize("session_id", ["s", ["s", "t"]])
def test_the_schema_accepts_a_session_and_a_list_of_them(session_id):
    validator = jsonschema.Draft202012Validator(suites.json_schema())
    assert validator.is_valid({"name": "x", "cases": [{"id": "a", "session_id": session_id}]})
