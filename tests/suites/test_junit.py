"""A run as JUnit XML: valid whatever happened, with what kept a case from passing."""

from junit_schema import parsed, problems

from spanscore import suites


def test_a_document_with_every_result_is_valid(suite, said, run_of):
    traces = [
        said(1, answer="sunny", case="a"),
        said(2, answer="rain", case="b"),
        said(3, answer=None, case="c"),
    ]
    document = suites.to_junit(run_of(suite("a", "b", "c", "d"), traces, skip_unmatched=True))
    assert problems(document) == []


def test_the_check_itself_finds_what_is_wrong():
    broken = (
        '<testsuites><testsuite id="0" tests="2"><testcase'
        ' name="x"/><properties/></testsuite></testsuites>'
    )
    assert {
        "testsuite lacks hostname",
        "testsuite/@tests is not the number of testcase elements",
    } <= {*problems(broken)}


def test_each_result_has_its_element(suite, said, run_of):
    traces = [
        said(1, answer="sunny", case="a"),
        said(2, answer="rain", case="b"),
        said(3, answer=None, case="c"),
    ]
    root = parsed(suites.to_junit(run_of(suite("a", "b", "c", "d"), traces, skip_unmatched=True)))
    assert {x.get("name"): [y.tag for y in x] for x in root.iter("testcase")} == {
        "a": [],
        "b": ["failure"],
        "c": ["error"],
        "d": ["skipped"],
    }


def test_what_a_trace_says_cannot_break_the_document(suite, said, run_of):
    bad = "rain \x00\x1b]]>&<x/>\ud800 \ufffe"
    case = {"id": 'a<"&', "expected_tools": [{"tool_name": bad}]}
    document = suites.to_junit(
        run_of(suite(case, name="\x07n", tools=[bad]), [said(1, case='a<"&')])
    )
    assert problems(document) == []


def test_the_attributes_of_the_run_are_properties(suite, said, run_of):
    run = run_of(suite("a"), [said(1, case="a")])
    root = parsed(suites.to_junit(run))
    named = {x.get("name"): x.get("value") for x in root.iter("property")}
    assert named == {"test.suite.name": "weather", "test.suite.run.id": run.run_id}
