"""`spanscore doctor`: find what is wrong, with remedies."""

import argparse
import asyncio
import dataclasses
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spanscore.cli.options import add_config, argument
from spanscore.cli.terminal import assembled, branch, console, print_json, printable, styled

if TYPE_CHECKING:
    from spanscore.cli.doctor_machine import Finding
    from spanscore.config import Settings

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
    findings: list[Finding] = []
    show = None if args.json else _lines()
    async for finding in _examined(args):
        findings.append(finding)
        if show is not None:
            show(finding)
    failed = sum(x.status == "FAIL" for x in findings)
    if show is None:
        print_json({"ok": not failed, "checks": [dataclasses.asdict(x) for x in findings]})
    else:
        _sum_up(findings)
    return 1 if failed else 0


async def _examined(args: argparse.Namespace) -> "AsyncIterator[Finding]":
    from spanscore import config  # noqa: PLC0415 - the servers' libraries, which no other command needs
    from spanscore.cli.doctor_machine import cause_of, fail, ok  # noqa: PLC0415 - as above
    from spanscore.errors import ConfigError  # noqa: PLC0415 - as above

    name = str(args.config) if args.config else "the defaults"
    try:
        settings = config.load(args.config)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield fail(
                "configuration",
                cause_of(ConfigError(line)),
                "mend it; docs/configuration.md has all keys",
            )
        return
    yield ok("configuration", f"{name}: can be used")
    async for finding in _all(settings, args):
        yield finding


async def _all(settings: "Settings", args: argparse.Namespace) -> "AsyncIterator[Finding]":
    from spanscore.cli import doctor_machine, doctor_server  # noqa: PLC0415 - as above

    for finding in await asyncio.to_thread(lambda: list(doctor_machine.check_disk(settings))):
        yield finding
    state = await doctor_server.state_of(settings)
    async for finding in doctor_server.check_endpoints(settings, state):
        yield finding
    for finding in (
        []
        if state is None
        else [
            await doctor_server.check_senders(state),
            doctor_server.check_content(state),
            *doctor_machine.check_models_of_server(state),
        ]
    ):
        yield finding
    yield await doctor_server.check_rules(settings, state)
    probe = doctor_machine.Probe()
    # In inline mode the server sends the probe on itself; under the same ids it would be there
    # twice.
    async for finding in doctor_machine.check_backends(
        settings, probe if settings.mode == "branch" else doctor_machine.Probe()
    ):
        yield finding
    async for finding in doctor_machine.check_models(settings, ask=not args.no_judge):
        yield finding
    async for finding in doctor_machine.check_clocks(settings, judge=not args.no_judge):
        yield finding
    if not args.no_round_trip:
        takes_s = settings.assemble.complete_after / 1e9
        with _waiting(
            f"waiting for a span to come round, for {takes_s:.0f} s or more",
            really=state is not None,
        ):
            found = await doctor_server.check_round_trip(
                settings, state, probe, scored=not any(x.models for x in settings.judges)
            )
        yield found


def _lines() -> "Callable[[Finding], None]":
    output = console()

    def show(finding: "Finding") -> None:
        status, about = (
            (f"{finding.status:<4}", _STYLES[finding.status]),
            (f"{finding.about:<14}", "bold"),
        )
        head = assembled(status, "  ", about)
        output.print(branch(head, printable(finding.message)))
        if finding.fix is not None:
            output.print(
                branch(styled(" " * head.cell_len), styled(f"-> {printable(finding.fix)}", "dim"))
            )

    return show


def _sum_up(findings: "list[Finding]") -> None:
    counts = [(word, sum(x.status == word for x in findings)) for word in _STYLES]
    print("\n" + ", ".join(f"{count} {word}" for word, count in counts if count))


@contextmanager
def _waiting(what: str, *, really: bool) -> Iterator[None]:
    """Say on a terminal what takes so long."""
    if not really or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it

    with Console(stderr=True).status(what):
        yield
