"""A test that is run several times has one verdict, fixtures made anew, and what each trial
recorded.
"""

import pytest

pytest_plugins = ["pytester"]

FLAKY = """
import itertools
import pytest
from agent import agent

numbers = itertools.count(1)

@pytest.mark.spanscore({options})
def test_it(spanscore):
    agent("a")
    assert next(numbers) != 2
"""


def run(project, options, *arguments):
    project.makepyfile(FLAKY.format(options=options))
    return project.runpytest_inprocess(*arguments)


def test_all_trials_must_pass(project):
    result = run(project, "trials=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["2 of 3 trials passed; pass rate 0.67 [[]*], pass^3 *", "trial 2: fail: *"]
    )


def test_a_smaller_share_of_them_may_be_required(project):
    run(project, "trials=3, required_pass_rate=0.6").assert_outcomes(passed=1)


def test_the_failure_begins_with_how_many_passed(project):
    run(project, "trials=3").stdout.fnmatch_lines(["FAILED * - 2 of 3 *"])


def test_a_run_may_have_another_number_of_trials(project):
    run(project, "trials=3", "--spanscore-trials=1").assert_outcomes(passed=1)


def test_fixtures_are_made_anew_for_each_trial_and_those_of_modules_are_not(project):
    project.makepyfile(
        """
        import pytest

        made = {"function": 0, "module": 0, "ended": 0}

        @pytest.fixture
        def of_function():
            made["function"] += 1
            yield
            made["ended"] += 1

        @pytest.fixture(scope="module")
        def of_module():
            made["module"] += 1

        @pytest.mark.spanscore(trials=3)
        def test_it(of_function, of_module, tmp_path):
            assert not list(tmp_path.iterdir())
            (tmp_path / "left").touch()

        def test_after(of_module):
            assert made == {"function": 3, "module": 1, "ended": 3}
        """
    )
    project.runpytest_inprocess().assert_outcomes(passed=2)


def test_a_test_of_a_class_has_an_instance_of_its_own_in_each_trial(project):
    project.makepyfile(
        """
        import pytest

        class TestIt:
            @pytest.mark.spanscore(trials=2)
            def test_it(self):
                assert not hasattr(self, "left")
                self.left = True
        """
    )
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_turns_of_one_trial_are_not_those_of_the_next(project):
    project.makepyfile(
        """
        import pytest
        from agent import agent

        @pytest.mark.spanscore(trials=3)
        def test_it(spanscore):
            agent("a")
            assert len(spanscore.turns()) == 1
        """
    )
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_trial_that_cannot_be_told_is_no_failure_of_the_agent(project):
    project.makepyfile(
        """
        import pytest
        from agent import agent

        @pytest.mark.spanscore(trials=2)
        def test_it(spanscore):
            agent("a")
            spanscore.expect("task_completion", at_least=0.5)
        """
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["0 of 2 trials passed (2 cannot be told); no trial came out either way"]
    )


def test_a_fixture_that_fails_makes_an_error(project):
    project.makepyfile(
        """
        import pytest

        @pytest.fixture
        def broken():
            raise OSError("no such thing")

        @pytest.mark.spanscore(trials=2)
        def test_it(broken):
            pass
        """
    )
    project.runpytest_inprocess().assert_outcomes(errors=1)


def test_trials_that_are_all_skipped_are_a_skip(project):
    project.makepyfile(
        """
        import pytest

        @pytest.mark.spanscore(trials=2)
        def test_it():
            pytest.skip("not here")
        """
    )
    project.runpytest_inprocess().assert_outcomes(skipped=1)


def test_an_expected_failure_is_one_over_all_trials(project):
    project.makepyfile(
        """
        import pytest

        @pytest.mark.xfail
        @pytest.mark.spanscore(trials=2)
        def test_it():
            assert False
        """
    )
    project.runpytest_inprocess().assert_outcomes(xfailed=1)


def test_a_junit_file_has_pass_pow_k_and_its_interval(project):
    run(project, "trials=3, k=2", "--junit-xml=junit.xml")
    text = (project.path / "junit.xml").read_text()
    for name in (
        "trials",
        "trials.passed",
        "pass_rate",
        "pass_pow_2",
        "pass_pow_2.low",
        "pass_pow_2.high",
    ):
        assert f'name="spanscore.{name}"' in text


def test_a_junit_file_has_the_scores(judged):
    judged.makepyfile(
        """
        from agent import agent

        def test_it(spanscore):
            agent("a")
            spanscore.expect("task_completion", at_least=0.5)
        """
    )
    judged.runpytest_inprocess("--junit-xml=junit.xml")
    text = (judged.path / "junit.xml").read_text()
    assert '<property name="spanscore.task_completion" value="0.8"' in text
    assert '<property name="spanscore.task_completion.label" value="pass"' in text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("trails=3", "unknown option 'trails'; there are trials, k, required_pass_rate"),
        ("trials=0", "trials=0; give a number from 1 to 1000"),
        ("trials=3, required_pass_rate=60", "required_pass_rate=60; give a share above 0, up to 1"),
        ("3", "options are given by name"),
    ],
)
def test_a_marker_that_cannot_be_used_is_refused(project, options, told):
    result = run(project, options)
    assert told in result.stdout.str() + result.stderr.str()
    assert result.ret != 0
