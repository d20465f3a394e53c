"""What a run of pytest shows of its tests' turns and scores: at its end, and as a page."""

import base64
import gzip
import re

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from agent import agent

@pytest.mark.parametrize("question", ["I want my money back", "Where is it?"])
def test_scored(spanscore, question):
    agent(question)
    spanscore.expect("task_completion", at_least=0.7)

def test_missed(spanscore):
    agent("I want two")
    spanscore.expect("task_completion", at_least=0.9)

@pytest.mark.spanscore(trials=3)
def test_trials(spanscore):
    agent("And again")

def test_other():
    pass
"""


@pytest.fixture(scope="module")
def known():
    """What was printed and the page, by the number of processes: several tests look at one run."""
    return {}


@pytest.fixture(params=[0, pytest.param(2, marks=pytest.mark.slow)])
def tested(judged, known, request):
    if request.param not in known:
        judged.makepyfile(test_shop=TESTS)
        start = judged.runpytest_subprocess if request.param else judged.runpytest_inprocess
        run = start(f"-n{request.param}", "--spanscore-report=out.html")
        known[request.param] = run.stdout, (judged.path / "out.html").read_text()
    return known[request.param]


def content_of(page):
    """The texts in a report, which are compressed."""
    packed = re.findall(r"[A-Za-z0-9+/=]{60,}", page)
    found = []
    for block in packed:
        try:
            found.append(gzip.decompress(base64.b64decode(block)).decode())
        except (OSError, ValueError, EOFError):
            continue
    return page + "".join(found)


@pytest.mark.slow
def test_the_section_at_the_end_has_scores_trials_and_the_judges_calls(tested):
    stdout, _ = tested
    stdout.fnmatch_lines(
        [
            "*= spanscore =*",
            "task_completion  mean 0.80, n = 3, lowest 0.80 in test_shop.py::test_*",
            "test_shop.py::test_trials: 3 of 3 trials passed; pass rate 1.00 [[]*], pass^3 * [[]*]",
            "judge: 3 calls",
        ]
    )


def test_a_run_without_the_fixture_has_no_such_section(project):
    project.makepyfile("def test_it(): pass")
    assert "spanscore =" not in project.runpytest_inprocess().stdout.str()


def test_the_page_has_each_test_with_its_turns_and_scores(tested):
    _, page = tested
    text = content_of(page)
    for told in (
        "test_shop.py::test_missed",
        "I want two",
        "find_order",
        "task_completion is 0.8",
        "pass^3",
    ):
        assert told in text


def test_the_page_is_named_at_the_end(tested):
    stdout, _ = tested
    stdout.fnmatch_lines(["report: out.html"])


def test_a_test_whose_fixture_fails_is_on_the_page(project):
    project.makepyfile("""
        import pytest

        @pytest.fixture
        def broken(spanscore):
            raise OSError("no such thing")

        def test_it(broken):
            pass
        """)
    project.runpytest_inprocess("--spanscore-report=out.html")
    assert "no such thing" in content_of((project.path / "out.html").read_text())


def test_content_that_is_not_recorded_is_named_with_what_turns_it_on(judged):
    judged.makepyfile("""
        from opentelemetry import trace

        def test_it(spanscore):
            with \
trace.get_tracer("opentelemetry.instrumentation.openai_v2").start_as_current_span("chat m") as \
span:
                span.set_attribute("gen_ai.operation.name", "chat")
                span.set_attribute("gen_ai.request.model", "m")
            spanscore.expect("task_completion", at_least=0.5)
        """)
    run = judged.runpytest_inprocess()
    run.stdout.fnmatch_lines(
        ["E * To record them, *OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT*"]
    )


def test_a_score_that_the_test_records_is_shown_beside_the_others(project):
    project.makepyfile("""
        from agent import agent

        def test_it(spanscore):
            agent("a")
            spanscore.record_score("words", 5, comment="counted")
            assert len(spanscore.turns()) == 1
        """)
    project.runpytest_inprocess("--junit-xml=junit.xml").assert_outcomes(passed=1)
    assert '<property name="spanscore.words" value="5"' in (project.path / "junit.xml").read_text()
