"""Threads that parse at the same time."""

import ast
import gc
import multiprocessing
import sched
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spanscore import syntax
from spanscore.syntax import syntax_tree, tree_of


@pytest.fixture
def collections_of_garbage_let_threads_run() -> Iterator[None]:
    """As the finalizer of any object may."""
    thresholds = gc.get_threshold()

    def let_others_run(*_: Any) -> None:
        time.sleep(0)

    gc.callbacks.append(let_others_run)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(let_others_run)


@pytest.mark.usefixtures("collections_of_garbage_let_threads_run")
def test_threads_that_parse_at_once_all_get_their_trees() -> None:
    source = "[" + ", ".join(f"({number}, [{number}])" for number in range(60)) + "]"
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(syntax_tree, [source] * 16))
    assert {ast.unparse(tree) for tree in trees} == {source}


@pytest.mark.slow
@pytest.mark.usefixtures("collections_of_garbage_let_threads_run")
def test_threads_that_read_the_source_of_a_class_and_parse_at_once_all_get_their_trees() -> None:
    source = "[" + ", ".join(f"({number}, [{number}])" for number in range(60)) + "]"

    def parse(number: int) -> ast.AST:
        tree = syntax_tree(source) if number % 2 else tree_of(sched.scheduler)
        return tree.body[0]

    with ThreadPoolExecutor(4) as threads:
        kinds = {type(x) for x in threads.map(parse, range(40))}
    assert kinds == {ast.Expr, ast.ClassDef}


def test_a_process_that_is_forked_while_a_thread_parses_can_parse() -> None:
    parsing, forked = threading.Event(), threading.Event()

    def parse_while_forking() -> None:
        with syntax._parsing:
            parsing.set()
            forked.wait(0.2)

    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=syntax_tree, args=("1",), daemon=True)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(parse_while_forking)
        parsing.wait()
        child.start()
        forked.set()
    child.join(30)
    assert child.exitcode == 0
