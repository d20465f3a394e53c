"""`spanscore best-of`: a tournament of agents."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spanscore import suites
from spanscore.cli import measurement, terminal
from spanscore.cli.options import add_judge, argument
from spanscore.cli.score_summary import with_interval
from spanscore.cli.terminal import Columns, Output, console, counted, on_one_line, print_items
from spanscore.cli.test import recorded, require_models
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge import answers_file, open_judge
from spanscore.suites.best_of import Contest, Conversation, Mode, Tournament, best_of_async, plan
from spanscore.suites.matches import Recording

_SHOWN_CHARS = 300
_MODES: dict[str, Mode] = {"round-robin": "round_robin", "linear": "linear"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "suite SUITE", "the suite's YAML file", type=Path)
    argument(parser, "agent NAME=PATH", "two agents at least, and what was recorded", nargs="+")
    add_judge(parser)
    text = "who meets whom; default: %(default)s"
    argument(parser, "--mode", text, choices=tuple(_MODES), default="round-robin")
    argument(parser, "--dry-run", "print how many calls there would be and send nothing")
    argument(parser, "--skip-unmatched", "leave out cases that an agent has no recording of")
    argument(parser, "--output FILE", "write contests and ranking as JSON")


def run(args: argparse.Namespace) -> int:
    """Hold the tournament. Returns the exit code: 1 where no contest could be judged."""
    paths = _paths(args.agent)
    terminal.require_writable(args.output)
    suite = suites.load(args.suite)
    settings = measurement.configured(args)
    judge = open_judge(settings.judge, answers_file(settings.judge))
    if judge is None and not args.dry_run:
        how = "name one with --model, judge.model or SPANSCORE_JUDGE_MODEL"
        raise InputError(f"no model is configured that could compare two answers; {how}")
    by_agent = {agent: _recordings(suite, args, path, settings) for agent, path in paths.items()}
    conversations = []
    for case in suite.cases:
        recorded = {x: found[case.id] for x, found in by_agent.items() if case.id in found}
        traces = {agent: x.traces for agent, x in recorded.items()}
        conversations.append(Conversation(case.id, traces, _expected(case)))
    if not any(len(x.agents) > 1 for x in conversations):
        problem = "no case was recorded of two agents, so there is nothing to compare"
        raise InputError(f"{args.suite}: {problem}")
    _print_plan(console(), conversations, args.mode)
    if judge is None or args.dry_run:
        return 0
    require_models(settings, args.model)
    mode, models = _MODES[args.mode], (args.model,) if args.model else ()
    with terminal.progress("judging", plan(conversations, mode).contests) as done:
        options: dict[str, Any] = {"models": models, "mode": mode, "done": done}
        tournament = asyncio.run(best_of_async(conversations, judge, settings.judge, **options))
    _print(console(), tournament)
    terminal.write_file(
        args.output, lambda: suites.as_text({"suite": suite.name, **tournament.to_json()})
    )
    return int(all(x.error for x in tournament.contests))


def _paths(given: list[str]) -> dict[str, Path]:
    """Where each agent's recordings are, by its name."""
    found: dict[str, Path] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign or not name or not path:
            raise InputError(f"{text}: write NAME=PATH, such as gpt=recordings/gpt")
        if name in found:
            how = "call each agent by a name of its own"
            raise InputError(f"{text}: the name {name} is given twice; {how}")
        found[name] = Path(path)
    if len(found) < 2:
        raise InputError("give two agents at least, each as NAME=PATH")
    return found


def _recordings(
    suite: suites.Suite, args: argparse.Namespace, path: Path, settings: Settings
) -> dict[str, Recording]:
    """The first trial of each case in an agent's recordings, by the case's id."""
    traces, attributes = recorded([path], settings)
    how: Any = {"name": f"{args.suite} in {path}", "skip_unmatched": args.skip_unmatched}
    how["attributes_of"] = attributes
    prepared = suites.prepare(suite, traces, **how, only_match=True)
    return {case_id: found[0] for case_id, found in prepared.matched.recordings.items()}


def _expected(case: suites.Case) -> str | None:
    """The expected answers of a case, turn by turn."""
    found = [x.expected_answer for x in case.expectations if x.expected_answer is not None]
    return "\n".join(found) or None


def _print_plan(output: Output, conversations: Sequence[Conversation], mode: str) -> None:
    """How many calls the judge will get, and how many in the other modes."""
    calls = {name: plan(conversations, of) for name, of in _MODES.items()}
    others = ", ".join(f"{name}: {x.calls:,}" for name, x in calls.items() if name != mode)
    met = sum(len(x.agents) > 1 for x in conversations)
    output.print(
        f"{mode}: {calls[mode].contests:,} contests on {counted(met, 'case')}, each judged"
        f" both ways round: {calls[mode].calls:,} calls of the judge ({others}); fewer where"
        " answers are equal, and one more for each opinion that has to be repaired.\n"
    )


def _print(output: Output, tournament: Tournament) -> None:
    for contest in tournament.contests:
        _print_contest(output, contest)
    for case, agents in tournament.champions.items():
        names = ", ".join(on_one_line(agent, 40) for agent in agents)
        output.print(f"{on_one_line(case, 60)}: champion{'s' if len(agents) > 1 else ''}: {names}")
    output.print()
    _print_ranking(output, tournament)
    judged = [contest for contest in tournament.contests if not contest.error]
    disagreed = sum(not contest.agreed for contest in judged)
    winner = on_one_line(tournament.winner, 40) if tournament.winner else "nobody alone"
    output.print(f"\nwinner: {winner}, of n = {len(judged)} contests, each judged both ways round")
    if disagreed:
        output.print(f"In {disagreed} of them the order decided, and they are ties.")


def _print_contest(output: Output, contest: Contest) -> None:
    first, second = (on_one_line(agent, 40) for agent in contest.agents)
    tie = "tie" if contest.agreed else "tie: the order decided"
    result = on_one_line(contest.error or contest.winner or tie, 200)
    output.print(f"{on_one_line(contest.case, 60)}: {first} against {second}: {result}")
    for reason in contest.reasons:
        output.print(f"  {on_one_line(reason, _SHOWN_CHARS)}")


def _print_ranking(output: Output, tournament: Tournament) -> None:
    each = "points per case" if tournament.mode == "linear" else "points per contest"
    columns: Columns = (
        ("rank", lambda x: str(x.rank)),
        ("agent", lambda x: on_one_line(x.agent, 40)),
        ("points", lambda x: f"{x.points:.4g}"),
        ("won", lambda x: str(x.won)),
        ("tied", lambda x: str(x.tied)),
        ("lost", lambda x: str(x.lost)),
        (each, lambda x: with_interval(x.share)),
        ("cases", lambda x: str(x.share.n) if x.share else "-"),
    )
    texts = {"agent", each}
    numbers = {heading for heading, _ in columns} - texts
    print_items(columns, numbers, tournament.ranking, wrapped=texts, output=output)
