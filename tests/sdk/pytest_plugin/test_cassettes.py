"""A judge's answers are recorded beside the tests, and replayed without a judge."""

import json

import pytest

pytest_plugins = ["pytester"]

TEST = """
from agent import agent

def test_it(spanscore):
    agent({question!r})
    spanscore.expect("task_completion", at_least=0.7)
"""


@pytest.fixture
def recorded(judged):
    """A project whose judge's answers are recorded, and that has no judge any more."""
    judged.makepyfile(test_shop=TEST.format(question="I want my money back"))
    judged.runpytest_inprocess("--spanscore-record=once").assert_outcomes(passed=1)
    judged.path.joinpath("conftest.py").unlink()
    return judged


def cassette(project):
    return project.path / "cassettes" / "test_shop" / "test_it.json"


@pytest.mark.slow
def test_recorded_answers_need_no_judge(recorded):
    recorded.runpytest_inprocess("--spanscore-record=none").assert_outcomes(passed=1)


@pytest.mark.slow
def test_they_are_replayed_without_any_option(recorded):
    recorded.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.slow
def test_replay_needs_no_litellm(recorded):
    recorded.makeconftest("import sys; sys.modules['litellm'] = None")
    recorded.runpytest_subprocess("--spanscore-record=none").assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_file_names_the_model_the_question_and_the_answer(recorded):
    entry = json.loads(cassette(recorded).read_text())["answers"][0]
    assert entry["model"] == "a-model"
    assert any("I want my money back" in x for x in entry["asked"])
    assert isinstance(entry["answer"], dict)


@pytest.mark.slow
def test_what_is_written_of_an_answer_is_redacted(recorded):
    assert "anna@example.com" not in cassette(recorded).read_text()


@pytest.mark.slow
def test_recording_again_writes_the_same_file(recorded):
    before = cassette(recorded).read_bytes()
    recorded.makeconftest(
        "import pytest\nfrom judge import Obliging\n\n@pytest.fixture\ndef spanscore_judge():"
        " return Obliging()\n"
    )
    recorded.runpytest_inprocess("--spanscore-record=all").assert_outcomes(passed=1)
    assert cassette(recorded).read_bytes() == before


@pytest.mark.slow
def test_a_question_that_is_not_recorded_fails_with_what_has_changed(recorded):
    recorded.makepyfile(test_shop=TEST.format(question="I want a new one"))
    run = recorded.runpytest_inprocess("--spanscore-record=none")
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(
        [
            (
                "E *: cassettes/test_shop/test_it.json has no answer to this question;"
                " *--spanscore-record=new*"
            ),
            "E *-*my money back*",
            "E *+*a new one*",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "asked"), [("none", 0), ("once", 0), ("replay", 1), ("new", 1), ("all", 1)]
)
def test_a_mode_says_whether_a_new_question_is_asked(recorded, mode, asked):
    recorded.makeconftest("""
        import pytest
        from judge import Obliging

        judge = Obliging()

        @pytest.fixture
        def spanscore_judge():
            return judge

        def pytest_sessionfinish():
            print("asked:", judge.asked)
        """)
    recorded.makepyfile(test_shop=TEST.format(question="I want a new one"))
    run = recorded.runpytest_inprocess("-s", f"--spanscore-record={mode}")
    run.stdout.fnmatch_lines([f"*asked: {asked}*"])


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "entries"), [("once", 1), ("replay", 1), ("new", 2), ("all", 1)])
def test_a_mode_says_what_is_kept(recorded, mode, entries):
    recorded.makeconftest(
        "import pytest\nfrom judge import Obliging\n\n@pytest.fixture\ndef spanscore_judge():"
        " return Obliging()\n"
    )
    recorded.makepyfile(test_shop=TEST.format(question="I want a new one"))
    recorded.runpytest_inprocess(f"--spanscore-record={mode}")
    assert len(json.loads(cassette(recorded).read_text())["answers"]) == entries


@pytest.mark.slow
def test_a_damaged_file_is_named(recorded):
    cassette(recorded).write_text("{")
    recorded.runpytest_inprocess().stdout.fnmatch_lines(
        ["*test_it.json: no file of recorded answers *"]
    )


def test_tests_of_any_name_have_a_file_of_their_own(judged):
    judged.makepyfile("""
        import pytest
        from agent import agent

        @pytest.mark.parametrize("question", ["a/b", "a?b", "x" * 300])
        def test_it(spanscore, question):
            agent(question)
            spanscore.expect("task_completion", at_least=0.7)
        """)
    judged.runpytest_inprocess("--spanscore-record=once").assert_outcomes(passed=3)
    assert len(list(judged.path.glob("cassettes/*/*.json"))) == 3


def test_the_configuration_may_name_mode_and_folder(judged):
    judged.makeini("[pytest]\nspanscore_record = once\nspanscore_cassettes = answers")
    judged.makepyfile(test_shop=TEST.format(question="q"))
    judged.runpytest_inprocess().assert_outcomes(passed=1)
    assert (judged.path / "answers" / "test_shop" / "test_it.json").exists()


@pytest.mark.slow
def test_all_keeps_the_answers_of_the_whole_test(judged):
    judged.makepyfile(
        test_shop="""
        from agent import agent

        def test_it(spanscore):
            agent("a")
            spanscore.expect("task_completion", at_least=0.7)
            spanscore.expect(answer="The money comes back.")
        """
    )
    judged.runpytest_inprocess("--spanscore-record=all").assert_outcomes(passed=1)
    judged.path.joinpath("conftest.py").unlink()
    judged.runpytest_inprocess("--spanscore-record=none").assert_outcomes(passed=1)


@pytest.mark.slow
def test_all_leaves_a_file_for_which_no_new_answer_was_given(recorded):
    before = cassette(recorded).read_bytes()
    recorded.runpytest_inprocess("--spanscore-record=all").assert_outcomes(failed=1)
    assert cassette(recorded).read_bytes() == before
