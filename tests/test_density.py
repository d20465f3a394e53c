"""The measure of density, on functions whose branch points can be counted by hand."""

import ast

import density
import pytest


def counted(body):
    tree = ast.parse(f"def f(a, b, c):\n    {body}\n")
    return dict(density.functions(tree, "m.py"))["m.py::f"]


@pytest.mark.parametrize(
    ("body", "points"),
    [
        ("return a", 0),
        ("return a and b and c", 2),
        ("return a if b else c", 1),
        ("return [x for x in a if x if x > b]", 3),
        ("return lambda: a or b", 1),
        ("while a: a = a or b", 2),
        ("try: return a\n    except OSError: return b", 1),
        ("match a:\n        case 1: return b\n        case _: return c", 2),
    ],
)
def test_each_branch_point_counts_once(body, points):
    assert counted(body) == points


def test_a_function_inside_another_is_counted_by_itself():
    tree = ast.parse(
        "def f(a):\n    if a: pass\n    def g(b):\n        return b or a or f\n    return g\n"
    )
    assert dict(density.functions(tree, "m.py")) == {"m.py::f": 1, "m.py::f.g": 2}


def test_a_method_is_named_with_its_class():
    tree = ast.parse("class C:\n    def f(self, a):\n        return a or self\n")
    assert dict(density.functions(tree, "m.py")) == {"m.py::C.f": 1}


def test_a_function_above_the_cap_is_a_problem():
    [problem] = density.problems({"m.py::f": 16, "m.py::g": 15})
    assert "m.py::f has 16 branch points" in problem
