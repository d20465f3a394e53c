"""What a server answers, printed for people by a function of the command's, or as JSON, one message
a line.
"""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf import json_format

from spanscore.cli.terminal import print_json


def print_one(args: argparse.Namespace, message: Any, show: Callable[[Any], None]) -> None:
    """Print a message: as JSON with `--json`, else by `show`."""
    if args.json:
        print_json(as_json(message))
    else:
        show(message)


def print_all(
    args: argparse.Namespace, found: Iterable[Any], show: Callable[[list[Any]], None]
) -> None:
    """Print messages: with `--json` each as soon as it is there, else all by `show`."""
    if args.json:
        for message in found:
            print_json(as_json(message))
    else:
        show(list(found))


def as_json(message: Any) -> dict[str, Any]:
    """A message as JSON, with the names of fields as the proto has them."""
    found: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return found
