"""How many worker processes there are."""

import pytest

from spanscore import config
from spanscore.errors import ConfigError


@pytest.mark.parametrize(("workers", "processes"), [(1, 0), (2, 2), (7, 7)])
def test_one_worker_is_the_server_itself(workers, processes):
    assert config.parse(f"workers: {workers}").worker_processes == processes


@pytest.mark.parametrize("workers", [-1, 65])
def test_a_number_that_cannot_be_is_refused(workers):
    with pytest.raises(ConfigError, match="workers"):
        config.parse(f"workers: {workers}")


def test_zero_is_one_for_each_cpu_where_there_are_several():
    assert config.parse("workers: 0").worker_processes != 1
