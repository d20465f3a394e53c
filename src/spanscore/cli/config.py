"""`spanscore config`: write, check and describe a configuration."""

import argparse
import json
from pathlib import Path

from spanscore import config, local_files
from spanscore.cli.options import argument
from spanscore.cli.terminal import require_writable
from spanscore.errors import ConfigError, InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "write a configuration file to start from, with a comment at each choice"
    init = actions.add_parser("init", help=text)
    text = "where; `-` prints it; default: %(default)s"
    argument(init, "file FILE", text, nargs="?", default=Path("spanscore.yaml"))
    text = "say whether a file can be used, and if not, what is wrong with which key"
    check = actions.add_parser("check", help=text)
    argument(check, "file FILE", "the configuration")
    actions.add_parser("schema", help="print the JSON schema of the configuration file")


def run(args: argparse.Namespace) -> int:
    """Write a file, check one or print the schema. Returns the exit code."""
    if args.action == "init":
        return _init(args.file)
    if args.action == "schema":
        print(json.dumps(config.json_schema(), indent=2, ensure_ascii=False))
        return 0
    return _check(args.file)


def _check(path: Path) -> int:
    settings = config.load(path)
    try:
        settings.refuse_models()
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    print(f"{path}: can be used")
    return 0


def _init(path: Path) -> int:
    text = example().read_text(encoding="utf-8")
    if str(path) == "-":
        print(text, end="")
        return 0
    require_writable(path)
    if path.exists():
        raise InputError(f"{path}: is there already; name another file, or delete it")
    local_files.write(path, text.encode())
    print(f"{path}: written; change it, then start it with: spanscore serve -c {path}")
    return 0


def example() -> Path:
    """The configuration to start from: in the package or, in a checkout, among the examples."""
    packaged = Path(__file__).with_name("spanscore.yaml")
    return packaged if packaged.exists() else Path(__file__).parents[3] / "examples" / packaged.name
