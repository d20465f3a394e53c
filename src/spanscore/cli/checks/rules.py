"""Which rules decide what is evaluated, and how many traces each has taken in the running
server.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import aiohttp

from spanscore.cli.checks.finding import Finding, ok, warn
from spanscore.cli.checks.senders import page_of_metrics
from spanscore.config import Settings
from spanscore.evaluation.rules import DEFAULT, Rule
from spanscore.telemetry import declared, prometheus

_ABOUT = "rules"
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_MANY = 1000
"""Traces after which a rule that has taken none may be one that is written wrong."""


async def check(settings: Settings, state: Mapping[str, Any] | None) -> Finding:
    """`state` is what the health check of the running server gave; None where none answers."""
    evaluation = settings.evaluation
    if not evaluation.rules:
        return ok(
            _ABOUT, f"none: all traces are treated alike, with the share {evaluation.sampling:g}"
        )
    taken = None if state is None else await _taken(state)
    shown = [
        *(
            f"{x.name} ({_share(x, evaluation.sampling)}{_of(taken, x.name)})"
            for x in evaluation.rules
        ),
        f"no rule (share {evaluation.sampling:g}{_of(taken, DEFAULT)})",
    ]
    idle = [] if taken is None else [x.name for x in evaluation.rules if not taken[x.name]]
    if taken is not None and idle and taken.total() >= _MANY:
        return warn(
            _ABOUT,
            f"of {taken.total():,} traces none was taken by {', '.join(idle)}; in their order:"
            f" {', '.join(shown)}",
            "see with `spanscore inspect -c FILE PATH` which rule takes which trace",
        )
    return ok(_ABOUT, f"in their order: {', '.join(shown)}")


async def _taken(state: Mapping[str, Any]) -> Counter[str] | None:
    """How many traces each rule has taken since the start; None where the server does not say."""
    try:
        page = await page_of_metrics(state)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None
    line = re.compile(prometheus.name(declared.RULES_DECISIONS) + r"\{(.*)\} (\S+)")
    found: Counter[str] = Counter()
    for labels, count in line.findall(page):
        named = dict(_LABEL.findall(labels))
        if named.get("scope") == "trace":
            found[named.get("rule", "")] += int(float(count))
    return found


def _share(rule: Rule, usual: float) -> str:
    if not rule.measures:
        return "nothing is measured"
    return f"share {usual if rule.sampling is None else rule.sampling:g}"


def _of(taken: Counter[str] | None, name: str) -> str:
    return "" if taken is None else f", took {taken[name]:,}"
