"""`spanscore doctor`: find what is wrong, with remedies."""

import argparse
import asyncio
import dataclasses
import os
from typing import TYPE_CHECKING

from spanscore.cli.options import add_config, argument
from spanscore.cli.terminal import assembled, branch, console, print_json, printable, styled

if TYPE_CHECKING:
    from spanscore.cli.doctor_machine import Finding

_STYLES = {"ok": "green", "warn": "yellow", "FAIL": "bold red"}

TAKES = ("json",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_config(parser, "the server's configuration")
    argument(parser, "--no-judge", "ask no model, so that it costs nothing")
    argument(parser, "--no-round-trip", "send no span to the running server")


def run(args: argparse.Namespace) -> int:
    """Look at everything, a line each. Returns the exit code: 1 where something fails, else 0."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is printed in our words, once
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from spanscore.cli.doctor_server import examined  # noqa: PLC0415 - the servers' libraries, which no other command needs

    findings: list[Finding] = []
    async for finding in examined(args):
        findings.append(finding)
        if not args.json:
            _print(finding)
    counts = {word: sum(x.status == word for x in findings) for word in _STYLES}
    if args.json:
        checks = [dataclasses.asdict(x) for x in findings]
        print_json({"ok": not counts["FAIL"], "checks": checks})
    else:
        print("\n" + ", ".join(f"{count} {word}" for word, count in counts.items() if count))
    return 1 if counts["FAIL"] else 0


def _print(finding: "Finding") -> None:
    status = (f"{finding.status:<4}", _STYLES[finding.status])
    head = assembled(status, "  ", (f"{finding.about:<14}", "bold"))
    console().print(branch(head, printable(finding.message)))
    if finding.fix is not None:
        fix = styled(f"-> {printable(finding.fix)}", "dim")
        console().print(branch(styled(" " * head.cell_len), fix))
