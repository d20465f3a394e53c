"""`spanscore config`: a configuration file checked before it runs, and the schema that editors check it with."""

import argparse
import json
from pathlib import Path

from spanscore import config
from spanscore.errors import ConfigError
from spanscore.judge.config import RULES, warn_of_rules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    check = actions.add_parser("check", help="say whether a file can be used, and if not, what is wrong with which key")
    check.add_argument("file", metavar="FILE", type=Path)
    actions.add_parser("schema", help="print the JSON schema of the configuration file")


def run(args: argparse.Namespace) -> int:
    """Check a file or print the schema. Returns the exit code."""
    if args.action == "schema":
        print(json.dumps(config.json_schema(), indent=2, ensure_ascii=False))
        return 0
    settings = config.load(args.file)
    if settings.judge.model == RULES or settings.evaluation.names_rules():
        warn_of_rules()
    if not settings.judge.models:
        try:
            settings.evaluation.refuse_models()
        except ConfigError as error:
            raise ConfigError(f"{args.file}: {error}") from None
    print(f"{args.file}: can be used")
    return 0
