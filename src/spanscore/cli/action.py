"""An action of a command: a word after it, with options of its own."""

import argparse
from collections.abc import Callable
from typing import NamedTuple


class Action(NamedTuple):
    """What an action does, in a phrase for its help; its options; and what runs it and gives the
    exit code.
    """

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
