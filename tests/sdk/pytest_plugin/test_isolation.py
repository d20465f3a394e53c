"""Tests at once do not mix: in processes of xdist, in tasks, in threads."""

import pytest

pytest_plugins = ["pytester"]

MANY = """
import asyncio
import threading

import pytest
from agent import agent

@pytest.mark.parametrize("number", range(12))
def test_it(spanscore, number):
    for turn in range(3):
        agent(f"question {number}-{turn}")
    assert [x.user_input for x in spanscore.turns()] == [f"question {number}-{x}" for x in range(3)]
    spanscore.expect("task_completion", at_least=0.7)
"""


@pytest.mark.slow
def test_processes_of_xdist_each_have_their_own_turns_and_cassettes(judged):
    judged.makepyfile(MANY)
    judged.runpytest_subprocess("-n2", "--spanscore-record=once").assert_outcomes(passed=12)
    judged.path.joinpath("conftest.py").unlink()
    judged.runpytest_subprocess("-n2", "--spanscore-record=none").assert_outcomes(passed=12)


@pytest.mark.slow
def test_trials_run_in_one_process_of_xdist(project):
    project.makepyfile("""
        import pytest
        from agent import agent

        @pytest.mark.parametrize("number", range(4))
        @pytest.mark.spanscore(trials=3)
        def test_it(spanscore, number):
            agent(f"question {number}")
            assert spanscore.turn().user_input == f"question {number}"
        """)
    run = project.runpytest_subprocess("-n2", "--junit-xml=junit.xml")
    run.assert_outcomes(passed=4)
    assert (project.path / "junit.xml").read_text().count('name="spanscore.pass_pow_3"') == 4


def test_an_agent_in_tasks_threads_and_its_own_loop_is_recorded(project):
    project.makepyfile("""
        import asyncio
        import threading
        from concurrent.futures import ThreadPoolExecutor

        from agent import agent

        async def several():
            await asyncio.gather(*(asyncio.to_thread(agent, f"task {x}") for x in range(2)))

        def test_it(spanscore):
            asyncio.run(several())
            with ThreadPoolExecutor() as pool:
                pool.submit(agent, "pool")
            thread = threading.Thread(target=lambda: asyncio.run(asyncio.to_thread(agent, \
"thread")))
            thread.start()
            thread.join()
            assert sorted(x.user_input for x in spanscore.turns()) == ["pool", "task 0", "task 1", \
"thread"]
        """)
    project.runpytest_inprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize("scope", ["function", "session"])
def test_asynchronous_tests_each_have_their_own_turns(project, scope):
    project.makepyfile(f"""
        import pytest
        from agent import agent

        @pytest.fixture(scope={scope!r})
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        @pytest.mark.parametrize("number", range(3))
        async def test_it(spanscore, number):
            agent(f"question {{number}}")
            assert [x.user_input for x in spanscore.turns()] == [f"question {{number}}"]
        """)
    project.runpytest_inprocess().assert_outcomes(passed=3)


def test_a_late_span_of_one_test_is_no_turn_of_the_next(project):
    project.makepyfile("""
        import contextvars
        from agent import agent

        left = []

        def test_one(spanscore):
            left.append(contextvars.copy_context())

        def test_other(spanscore):
            left[0].run(agent, "late")
            agent("mine")
            assert [x.user_input for x in spanscore.turns()] == ["mine"]
        """)
    project.runpytest_inprocess().assert_outcomes(passed=2)
