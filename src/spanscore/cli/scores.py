"""`spanscore scores`: scores of a server or of files."""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from spanscore import config
from spanscore.api.v1.run_service_pb2 import GetRunRequest
from spanscore.api.v1.score_service_pb2 import ListScoresRequest
from spanscore.cli import score_actions, server, stored, terminal
from spanscore.cli.options import PLACE, add_config, argument
from spanscore.cli.score_summary import number
from spanscore.cli.terminal import Columns, console, counted, on_one_line, print_json, styled, utc
from spanscore.errors import InputError
from spanscore.model.score import Evaluation
from spanscore.store import pending
from spanscore.store.pending import Listed
from spanscore.store.runs import RunTables

ACTIONS = score_actions.ACTIONS
"""What else the command does, by the word that follows it: `spanscore scores create`."""

TAKES = (*PLACE, "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the list."""
    parser.epilog = f"More: spanscore scores ({' | '.join(ACTIONS)}), each with --help."
    add_config(parser, "the server's configuration, for its store")
    argument(parser, "--failing", "only scores that do not pass or were not measured")
    server.add_selection(parser, "scores")
    argument(parser, "--trace ID", "only of this trace, also what was skipped, and why it has none")
    argument(parser, "--metric NAME", "only of this metric, or of a family of them such as rubric")
    argument(parser, "--source NAME", "only from spanscore, human, programmatic or another source")
    argument(parser, "--run ID", "only what this evaluation run scored", default="")
    argument(parser, "--skipped", "also what could not be measured for want of something")
    choice = parser.add_mutually_exclusive_group()
    argument(choice, "--undelivered", "list the scores that exporters could not deliver")
    argument(choice, "--resend", "have the server send them again")
    argument(choice, "--forget", "list them no more, and do not send them again")
    argument(parser, "--exporter NAME", "with these three: only of this exporter", repeated=True)


def run(args: argparse.Namespace) -> int:
    """List the scores. Returns the exit code."""
    server.require_place(args, elsewhere=bool(args.config))
    if args.undelivered or args.resend or args.forget:
        return run_undelivered(args)
    if args.exporter:
        raise InputError("--exporter: goes with --undelivered, --resend or --forget")
    if args.trace and args.session:
        raise InputError("--trace and --session: give one of them")
    args.skipped = args.skipped or bool(args.trace)
    count = _print_found(args)
    if args.run and not count:
        _require_run(args)
    if not (count or args.json):
        console().print(styled(terminal.printable(_why_none(args))))
    return 0


def _print_found(args: argparse.Namespace) -> int:
    """Print the scores that the options name, and return how many."""
    if not args.json:
        return stored.print_scores(_found(args), args.limit, server.trace_url(args))
    count = 0
    for score in _found(args):
        print_json({"uid": score.uid, **score.to_json()})
        count += 1
    return count


def _why_none(args: argparse.Namespace) -> str:
    """Why no score is listed. Raises InputError where there is no such trace."""
    if args.trace and not args.run and (reason := _unscored(args)):
        return f"No score: {reason}"
    if args.skipped or args.failing:
        return "No matching scores."
    wanted = argparse.Namespace(**{**vars(args), "skipped": True, "limit": _MAX_COUNTED})
    count = sum(1 for _ in _found(wanted))
    at_least = "at least " if count == _MAX_COUNTED else ""
    return f"No matching scores{f' ({at_least}{count:,} skipped: --skipped)' if count else ''}."


def _unscored(args: argparse.Namespace) -> str:
    """Why the trace has no score; "" where it has one that does not meet the conditions."""
    if args.server:
        with server.service(args, "Score") as ask:
            reason: str = ask("ListScores", ListScoresRequest(trace_id=args.trace)).unscored
            return reason
    return next((why for _, why in stored.turns_of(args) if why), "")


def _require_run(args: argparse.Namespace) -> None:
    """Raise InputError where there is no such run; the scores of one may be there without it."""
    run = args.run.removeprefix("runs/")
    if args.server:
        with server.service(args, "Run") as ask:
            ask("GetRun", GetRunRequest(name=f"runs/{run}"))
    elif server.read(args, lambda x: RunTables(x).get(server.tenant_of(args) or "", run)) is None:
        problem = "there is no such run; spanscore runs list has their ids"
        raise InputError(f"--run {args.run}: {problem}")


def _found(args: argparse.Namespace) -> Iterator[Evaluation]:
    are_sorted = not (args.server and (args.trace or args.session))
    found = stored.list_scores(
        args,
        args.limit if are_sorted else 0,
        trace_id=args.trace and args.trace.strip().lower(),
        session_id=args.session,
        since_ns=server.since_ns(args.since),
        run=args.run.removeprefix("runs/"),
        **{name: getattr(args, name) for name in _SAME},
    )
    if are_sorted:
        return found
    wanted = (x for x in found if args.skipped or x.status != "skipped")
    newest = sorted(wanted, key=lambda x: x.evaluated_at_ns, reverse=True)
    return islice(newest, args.limit or None)


_SAME = ("failing", "skipped", "service", "metric", "source")
"""Options that are called as the conditions that they are."""

_MAX_COUNTED = 1000
"""Skipped scores that are counted where no other is there."""

_MAX_SHOWN, _MAX_GROUPS = 50, 20
"""Scores of one exporter and reason that are shown, and such groups of them; --json lists all."""
_MAX_ERROR_CHARS = 300
_OF_LISTS = (
    *("store", "server", "token_file", "ca_file"),
    *("tenant", "failing", "skipped", "since", "service", "session", "metric", "source", "trace"),
)
"""Options of the lists of scores; taken for nothing here, they would have more forgotten than was
meant.
"""
_OF_NOTE = ("exporter", "forms", "reason", "error", "since_ns")
_REASONS = {
    "fault": "the backend failed at them",
    "refused": "the backend refused them",
    "given_up": "given up after max_elapsed_time",
    "unsupported": "the backend has no place for them",
    "no_span": "their spans have not come",
    "max_waiting": "too many waited for their spans",
}


def run_undelivered(args: argparse.Namespace) -> int:
    """List them, or note what is to become of them. Returns the exit code."""
    _refuse_unfit(args)
    settings = config.load(args.config)
    if args.resend:
        print(_resend(settings, args.exporter))
    elif args.forget:
        count = pending.forget_undelivered(settings.store, args.exporter)
        print(f"{_are(count)} forgotten as undelivered")
    elif args.json:
        for note, score, is_superseded in pending.undelivered(settings.store, args.exporter):
            known = {name: getattr(note, name) for name in _OF_NOTE}
            states = {"to_be_sent_again": note.to_resend, "superseded": is_superseded}
            print_json({**known, **states, "score": score.to_json()})
    else:
        _print(pending.undelivered(settings.store, args.exporter))
    return 0


def _refuse_unfit(args: argparse.Namespace) -> None:
    """Raise InputError where an option does not go with what is to be done."""
    others = [x for x in _OF_LISTS if getattr(args, x, None)]
    if others:
        name, which = others[0].replace("_", "-"), "--undelivered, --resend or --forget"
        what = "the store of the configuration (-c) and its exporters (--exporter)"
        raise InputError(f"--{name}: does not go with {which}, which are about {what}")
    if args.json and not args.undelivered:
        raise InputError("--json: goes with --undelivered, not with --resend or --forget")


def _resend(settings: config.Settings, exporters: Sequence[str]) -> str:
    """Have these exporters, else all that are configured, send again; what comes of it."""
    for name in exporters:
        if name not in settings.export.exporters:
            problem = "the configuration has no such exporter, so nothing would send"
            raise InputError(f"--exporter {name}: {problem}")
    names = exporters or list(settings.export.exporters)
    count = pending.resend(settings.store, names) if names else 0
    if not count:
        return "nothing is undelivered by the exporters of this configuration"
    when = "within seconds by a server that runs, else at its next start"
    what = "--undelivered lists what still does not arrive"
    return f"{_are(count)} to be sent again, {when}; {what}"


def _are(count: int) -> str:
    return counted(count, "score is", "scores are")


def _print(found: Iterator[Listed]) -> None:
    """Print the scores by exporter and by why they were not delivered, of each the oldest."""
    groups: defaultdict[tuple[str, str, str], list[Listed]] = defaultdict(list)
    counts: Counter[tuple[str, str, str]] = Counter()
    for one in found:
        why = (one.note.exporter, one.note.reason, one.note.error)
        counts[why] += 1
        if counts[why] <= _MAX_SHOWN and (why in groups or len(groups) < _MAX_GROUPS):
            groups[why].append(one)
    if not counts:
        print("nothing is undelivered")
        return
    output = console()
    for (exporter, reason, error), listed in groups.items():
        count = counts[exporter, reason, error]
        scores = counted(count, "score")
        title = f"{on_one_line(exporter, 60)}: {scores}, {_REASONS.get(reason, reason)}"
        output.print(styled(title, "bold"))
        output.print(styled(on_one_line(error, _MAX_ERROR_CHARS)))
        wrapped = ("metric", "trace or session")
        terminal.print_items(_COLUMNS, ("score",), listed, wrapped=wrapped, output=output)
        more = f"and {count - len(listed):,} more, which --json lists\n"
        output.print(more if count > len(listed) else "")
    if left := counts.total() - sum(counts[x] for x in groups):
        output.print(f"and {_are(left)} undelivered for other reasons; --json lists all\n")
    output.print("--resend has them sent again, --forget lists them no more.")


def _missing(listed: Listed) -> str:
    if listed.note.to_resend:
        return "to be sent again"
    return "superseded" if listed.is_superseded else ", ".join(listed.note.forms)


def _subject(score: Evaluation) -> str:
    subject = score.session_id if score.scope == "session" else score.target.trace_id
    return on_one_line(subject or score.subject_id, 64)


_COLUMNS: Columns = (
    ("since (UTC)", lambda x: f"{utc(x.note.since_ns):%Y-%m-%d %H:%M}"),
    ("metric", lambda x: on_one_line(x.evaluation.metric, 40)),
    ("score", lambda x: number(x.evaluation.value)),
    ("label", lambda x: on_one_line(x.evaluation.label or x.evaluation.status, 20)),
    ("trace or session", lambda x: _subject(x.evaluation)),
    ("missing", _missing),
)
