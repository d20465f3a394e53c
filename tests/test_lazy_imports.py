"""Packages that import their names when they are first used."""

from importlib import import_module

import pytest

from spanscore import dialects, turns
from spanscore.lazy_names import lazy_names


@pytest.mark.parametrize("package", [dialects, turns], ids=lambda x: x.__name__)
def test_every_public_name_has_a_home(package):
    assert package._HOMES
    for name, home in package._HOMES.items():
        assert getattr(package, name) is getattr(import_module(home), name)


def test_a_name_that_there_is_not_is_an_attribute_error_of_the_package():
    find = lazy_names("json", {})
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'nothing'"):
        find("nothing")


def test_a_module_of_the_package_can_be_imported_from_it():
    from spanscore.turns import basis

    assert basis.__name__ == "spanscore.turns.basis"
