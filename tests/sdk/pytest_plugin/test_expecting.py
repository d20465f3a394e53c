"""Scores that a test expects: reached, missed, and not to be had."""

import pytest

pytest_plugins = ["pytester"]

TEST = """
from agent import agent

def test_it(spanscore):
    agent("I want my money back")
    spanscore.expect({expectation})
"""


def lines_of(project, expectation, *options):
    project.makepyfile(TEST.format(expectation=expectation))
    return project.runpytest_inprocess(*options)


def test_a_score_that_is_reached_passes(judged):
    lines_of(judged, '"task_completion", at_least=0.7').assert_outcomes(passed=1)


def test_a_score_that_is_missed_fails_with_the_reason_and_the_turn(judged):
    run = lines_of(judged, '"task_completion", at_least=0.9')
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(
        [
            "E * task_completion is 0.8 by a-model; expected is at least 0.9",
            "E * reason: reason: *",
            "E * input:  I want my money back",
            "E * tools:  find_order, refund",
            "E * answer: You get your money back.",
        ]
    )


def test_the_traceback_ends_in_the_line_of_the_test(judged):
    run = lines_of(judged, '"task_completion", at_least=0.9')
    run.stdout.fnmatch_lines([">       spanscore.expect(*", "*test_*.py:5: NotReachedError"])


def test_without_a_bound_the_threshold_of_the_metric_decides(judged):
    lines_of(judged, '"task_completion"').assert_outcomes(passed=1)


def test_a_score_may_be_bounded_above(judged):
    run = lines_of(judged, '"task_completion", at_most=0.5')
    run.stdout.fnmatch_lines(["E * task_completion is 0.8 by a-model; expected is at most 0.5"])


def test_without_a_judge_it_fails_and_says_how_to_name_one(project):
    run = lines_of(project, '"task_completion", at_least=0.7')
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(
        ["E * task_completion has no score: *; name a judge with --spanscore-judge MODEL *"]
    )


@pytest.mark.slow
def test_a_metric_that_there_is_not_is_named_with_the_nearest(project):
    run = lines_of(project, '"task_completon", at_least=0.7')
    run.stdout.fnmatch_lines(["E * there is no metric 'task_completon'; *task_completion*"])


def test_each_turn_must_reach_it(judged):
    judged.makeconftest(
        """
        import pytest
        from judge import Obliging

        class Falling(Obliging):
            async def ask(self, *args, **kwargs):
                self.score -= 0.3
                return await super().ask(*args, **kwargs)

        @pytest.fixture
        def spanscore_judge():
            return Falling(1.2)
        """
    )
    judged.makepyfile(
        """
        from agent import agent

        def test_it(spanscore):
            agent("a")
            agent("b")
            spanscore.expect("task_completion", at_least=0.5, turn=spanscore.turns()[0])
            spanscore.expect("task_completion", at_least=0.7)
        """
    )
    run = judged.runpytest_inprocess()
    run.assert_outcomes(failed=1)


def test_what_was_measured_is_not_measured_again(judged):
    judged.makepyfile(
        """
        from agent import agent

        def test_it(spanscore, spanscore_judge):
            agent("a")
            spanscore.evaluate(["task_completion"])
            asked = spanscore_judge.asked
            spanscore.expect("task_completion", at_least=0.5)
            spanscore.expect("task_completion", at_most=0.9)
            assert asked == spanscore_judge.asked > 0
        """
    )
    judged.runpytest_inprocess().assert_outcomes(passed=1)


def test_within_an_event_loop_it_is_the_same(judged):
    judged.makepyfile(
        """
        import asyncio
        from agent import agent

        def test_it(spanscore):
            async def work():
                await asyncio.to_thread(agent, "a")
                return spanscore.expect("task_completion", at_least=0.5)

            assert asyncio.run(work()).value == 0.8
        """
    )
    judged.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_session_metric_is_measured_on_the_whole_conversation(judged):
    judged.makepyfile(
        """
        from agent import agent

        def test_it(spanscore):
            agent("a")
            agent("b")
            [score] = spanscore.evaluate("conversation_completion")
            assert score.scope == "session"
        """
    )
    judged.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_metric_of_ones_own_may_be_expected_by_name_or_as_it_is(project):
    project.makepyfile(
        """
        import spanscore as library
        from agent import agent

        @library.metric
        def brevity(trace):
            return 1 / len(trace.final_output.split())

        def test_it(spanscore):
            agent("a", answer="In four words then.")
            assert spanscore.expect("brevity", at_least=0.2).value == 0.25
            spanscore.expect(brevity, at_most=0.3)
        """
    )
    project.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "expectation",
    [
        'tools=["find_order", "refund"]',
        'tools=["refund", "find_order"], in_order=False',
        'tools=[("find_order", {"order": 7}), "refund"]',
        'answer="The money comes back."',
    ],
)
def test_what_a_turn_is_to_come_to_may_be_stated(judged, expectation):
    lines_of(judged, expectation).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("expectation", "told"),
    [
        (
            'tools=["refund", "find_order"]',
            "*the turn is not what is expected: interaction 0: tools *",
        ),
        ('tools=["find_order"]', "*the turn is not what is expected: interaction 0: tools *"),
        (
            'tools=[("find_order", {"order": 8}), "refund"]',
            "*the turn is not what is expected: interaction 0: tools *",
        ),
        (
            '"task_completion", tools=["refund"]',
            "*expect either a metric, such as task_completion, or an answer, *",
        ),
        ("", "*expect either a metric, such as task_completion, or an answer, *"),
    ],
)
def test_a_turn_that_came_to_something_else_fails(judged, expectation, told):
    run = lines_of(judged, expectation)
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines([f"E {told}"])


@pytest.mark.slow
def test_tool_calls_need_no_judge_and_an_answer_does(project):
    lines_of(project, 'tools=["find_order", "refund"]').assert_outcomes(passed=1)
    run = lines_of(project, 'answer="The money comes back."')
    run.stdout.fnmatch_lines(
        ["E * whether the turn is as expected cannot be told: *; name a judge with *"]
    )


OUTCOMES = "outcomes=['the order is refunded', 'the user knows when']"


def test_outcomes_that_a_judge_finds_to_hold_pass(judged):
    lines_of(judged, OUTCOMES).assert_outcomes(passed=1)


def test_an_outcome_that_a_judge_finds_not_to_hold_fails_with_its_words(project):
    project.makeconftest(
        "import pytest\nfrom judge import Obliging\n\n"
        "@pytest.fixture\ndef spanscore_judge(): return Obliging(passed=False)\n"
    )
    run = lines_of(project, OUTCOMES)
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["E *the order is refunded*"])


@pytest.mark.slow
def test_outcomes_are_replayed_without_a_judge(judged):
    lines_of(judged, OUTCOMES, "--spanscore-record=once").assert_outcomes(passed=1)
    judged.path.joinpath("conftest.py").unlink()
    judged.runpytest_inprocess("--spanscore-record=none").assert_outcomes(passed=1)


def test_outcomes_without_a_judge_cannot_be_told(project):
    run = lines_of(project, OUTCOMES)
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["E *--spanscore-judge MODEL*"])


def test_several_metrics_are_required_at_once_and_named(judged):
    run = lines_of(judged, '"check.answer_present", "task_completion", at_least=0.9')
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["E * task_completion is 0.8 by a-model; expected is at least 0.9"])


def test_several_metrics_give_the_lowest_score_of_each(judged):
    judged.makepyfile(
        """
        def test_it(spanscore):
            found = spanscore.expect(
                "task_completion", "check.answer_present", input="hello", output="Good day."
            )
            assert [x.metric for x in found] == ["task_completion", "check.answer_present"]
        """
    )
    judged.runpytest_inprocess().assert_outcomes(passed=1)


def test_two_texts_are_scored_in_place_of_a_turn(project):
    project.makepyfile(
        """
        def test_texts(spanscore):
            spanscore.expect("check.answer_present", input="hello", output="Good day.")
            spanscore.expect("check.answer_present", input="hello", output="")
        """
    )
    run = project.runpytest_inprocess()
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["E * check.answer_present is 0*", "E * input:  hello"])


def test_an_answer_is_expected_of_two_texts(judged):
    judged.makepyfile(
        """
        def test_texts(spanscore):
            spanscore.expect(answer="Good day.", input="hello", output="Good day.")
        """
    )
    judged.runpytest_inprocess().assert_outcomes(passed=1)


def test_one_text_without_the_other_is_refused(project):
    run = lines_of(project, '"check.answer_present", input="hello"')
    run.stdout.fnmatch_lines(["E * expect: give input and output together*"])
