"""How often `check.arguments_grounded` finds a value that was changed, and cries wolf over others.

    .venv/bin/python bench/grounding.py FILE...   (make grounding-study FILES="...")

FILE is a file of labelled trajectories in a format of bench/trajectories.py. *False alarms* are
unchanged runs that passed and have a finding. For *found* one argument of one call is changed, for
each kind of value in each run that has one, and has to be found at that very call:

- identifier: 5 to 24 letters, digits, `#`, `_`, `-`, at least one a digit: another digit;
- date, 20YY-MM-DD, alone or before a time: another day of the two weeks around it;
- amount, a number of 20 or more whose argument is an amount, price or total: 7 % more;
- address: an e-mail address: another letter before the `@`.

A changed value occurs nowhere in the run. Prints Markdown; `--show` prints each miss and
each false alarm besides.
"""

import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from trajectories import Trajectory, read

from spanscore.metrics.check.arguments_grounded import ArgumentsGrounded
from spanscore.model.json import dumps
from spanscore.model.score import Score
from spanscore.model.trace import AgentTrace

_IDENTIFIER = re.compile(r"(?=.*\d)[A-Za-z0-9#_\-]{5,24}")
_DATE = re.compile(r"(20\d\d-\d\d-\d\d)([ T].*)?")
_AMOUNT = re.compile(r"amount|price|total", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_LEAST_AMOUNT = 20
_CHECK = ArgumentsGrounded()


class Place(NamedTuple):
    """Where a value is: the turn, the call in it, and the keys that lead to it."""

    turn: int
    call: int
    keys: tuple[Any, ...]
    value: Any


def _identifier(_: str, value: Any, rnd: random.Random) -> Any:
    text = str(value)
    if isinstance(value, bool | float) or not _IDENTIFIER.fullmatch(text) or _DATE.fullmatch(text):
        return None
    at = rnd.choice([place for place, sign in enumerate(text) if sign.isdigit()])
    changed = text[:at] + rnd.choice([x for x in "123456789" if x != text[at]]) + text[at + 1 :]
    return int(changed) if isinstance(value, int) else changed


def _date(_: str, value: Any, rnd: random.Random) -> Any:
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    days = rnd.choice([x for x in range(-7, 8) if x])
    return (date.fromisoformat(found[1]) + timedelta(days)).isoformat() + (found[2] or "")


def _amount(name: str, value: Any, _: random.Random) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _AMOUNT.search(name):
        return None
    if value < _LEAST_AMOUNT:
        return None
    return round(value * 1.07, 2) if isinstance(value, float) else round(value * 1.07)


def _address(_: str, value: Any, rnd: random.Random) -> Any:
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        return None
    at = rnd.randrange(value.index("@"))
    return value[:at] + rnd.choice("kqwxz") + value[at + 1 :]


_KINDS: dict[str, Callable[[str, Any, random.Random], Any]] = {
    "identifier": _identifier,
    "date": _date,
    "amount": _amount,
    "address": _address,
}


def _places(run: Trajectory) -> Iterator[Place]:
    for turn, trace in enumerate(run.session.traces):
        for place, call in enumerate(trace.tool_calls or ()):
            for keys, value in _leaves(call.arguments, ()):
                yield Place(turn, place, keys, value)


def _leaves(value: Any, keys: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if not isinstance(value, dict | list):
        yield keys, value
        return
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(member, (*keys, key))


def _with(value: Any, keys: tuple[Any, ...], changed: Any) -> Any:
    if not keys:
        return changed
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[keys[0]] = _with(value[keys[0]], keys[1:], changed)
    return copy


def _changed(run: Trajectory, kind: str) -> tuple[Place, Any] | None:
    """A place in a run, and another value for it; None where there is none of the kind."""
    rnd = random.Random(f"{run.corpus} {run.task} {run.trial} {kind}")  # noqa: S311 - no secret
    traces = run.session.traces
    said = dumps(
        [
            [[x.system_instructions, x.user_input, x.final_output] for x in traces],
            [[c.arguments, c.result, c.error] for x in traces for c in x.tool_calls or ()],
        ]
    )
    places = list(_places(run))
    rnd.shuffle(places)
    for place in places:
        names = [x for x in place.keys if isinstance(x, str)]
        for _ in range(10):
            changed = _KINDS[kind](names[-1] if names else "", place.value, rnd)
            if changed is None:
                break
            if str(changed) not in said:
                return place, changed
    return None


def _found(trace: AgentTrace, earlier: Sequence[AgentTrace]) -> list[dict[str, Any]]:
    outcome = _CHECK.unmeasurable(trace) or _CHECK.measure_after(trace, earlier)
    return outcome.metadata["findings"] if isinstance(outcome, Score) else []


def _finds(run: Trajectory, place: Place, changed: Any) -> bool:
    trace = run.session.traces[place.turn]
    calls = list(trace.tool_calls or ())
    call = calls[place.call]
    calls[place.call] = replace(call, arguments=_with(call.arguments, place.keys, changed))
    found = _found(replace(trace, tool_calls=tuple(calls)), run.session.traces[: place.turn])
    return any(x["call"] == place.call + 1 and str(changed).strip('"') in x["text"] for x in found)


def _alarms(run: Trajectory) -> list[str]:
    traces = run.session.traces
    return [x["text"] for at in range(len(traces)) for x in _found(traces[at], traces[:at])]


def row(runs: Sequence[Trajectory], show: bool) -> str:
    """A line of the table."""
    counts: Counter[str] = Counter()
    for run in runs:
        alarms = _alarms(run)
        counts[f"runs {run.passed}"] += 1
        counts[f"alarms {run.passed}"] += bool(alarms)
        if show and alarms:
            print(f"alarm: {run.task} {run.trial} passed={run.passed} {alarms[:3]}")
        for kind in _KINDS:
            change = _changed(run, kind)
            if change is not None:
                found = _finds(run, *change)
                counts[kind] += 1
                counts[f"{kind} found"] += found
                if show and not found:
                    place, changed = change
                    print(f"missed: {run.task} {run.trial} {place.keys} {place.value} {changed}")
    cells = [f"{counts[f'{x} found']} of {counts[x]}" if counts[x] else "-" for x in _KINDS]
    cells += [f"{counts[f'alarms {x}']} of {counts[f'runs {x}']}" for x in (True, False)]
    return f"| {runs[0].corpus} | {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> None:
    """Print the table over the files."""
    paths = [x for x in arguments if x != "--show"]
    if not paths:
        sys.exit("name files of labelled trajectories; bench/trajectories.py says in which formats")
    print(f"| corpus | {' | '.join(_KINDS)} | alarms in passed | in failed |")
    print("|---" * (len(_KINDS) + 3) + "|")
    for path in paths:
        try:
            runs = list(read(Path(path)))
        except (OSError, ValueError) as error:
            sys.exit(f"grounding: {error}")
        print(row(runs, "--show" in arguments), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
