"""Labels recorded as scores, in telemetry or a store."""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spanscore.calibration import Label, Verdict, label_of
from spanscore.cli import trace_files
from spanscore.cli.options import argument
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.evaluation.rubric import is_rubric
from spanscore.metrics import available
from spanscore.model import external
from spanscore.model.score import Evaluation, reaches
from spanscore.model.trace import in_scope
from spanscore.offline import metric_of
from spanscore.offline.recordings import external_notices
from spanscore.rebuild import rebuild_all
from spanscore.received_scores import read_external

if TYPE_CHECKING:
    from spanscore.store.listing import Page
    from spanscore.store.ordering import Place

_PAGE = 1000
_ANYBODY = "any"
_PREFIX = "scores:"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say which recorded scores are labels."""
    argument(
        parser,
        "--labels-from NAME",
        "in place of LABELS: scores of this name, in files or the store",
    )
    argument(parser, "--label-source SOURCE", "who gave these; default: human; any: everybody")
    argument(parser, "--pass-from X", "of these: from which value on a number is a pass")


def require_usable(args: argparse.Namespace) -> None:
    """Refuse options that do not go together. Raises InputError."""
    if not args.labels_from:
        if args.label_source or args.pass_from is not None:
            raise InputError("--label-source and --pass-from: go with --labels-from")
        return
    args.labels_from = args.labels_from.removeprefix(_PREFIX)
    if not args.metric and args.labels_from not in available():
        raise InputError(
            f"--labels-from {args.labels_from}: give --metric NAME too, the metric that these"
            " labels are held against"
        )


def read(
    args: argparse.Namespace, settings: Settings, telemetry: Sequence[Path]
) -> tuple[list[Label], dict[str, str]]:
    """The labels in these files, or without any in the store; and the OTel trace of each agent
    trace among them.

    Scores that are no pass and no fail are counted on standard error. Raises InputError where no
    label is left.
    """
    metric = _metric(args)
    given = _given(args, settings, telemetry)
    wanted = [x for x in given.scores if _is_wanted(args, x)]
    for notice in external_notices([x for x in given.of_no_turn if _is_wanted(args, x)]):
        print(f"spanscore: left out: {notice}", file=sys.stderr)
    labels = [
        x
        for number, score in enumerate(wanted, 1)
        if (x := label_of(score, metric, number, args.pass_from))
    ]
    if len(labels) < len(wanted):
        what = (
            f"{len(wanted) - len(labels)} of {len(wanted)} scores named {args.labels_from} are no"
            " pass and no fail"
        )
        how = (
            ""
            if args.pass_from is not None
            else "; --pass-from X says from which number on one is a pass"
        )
        print(f"spanscore: left out: {what}{how}", file=sys.stderr)
    if not labels:
        who = args.label_source or external.HUMAN
        where = "the files contain" if args.path else "the store contains"
        raise InputError(
            f"--labels-from {args.labels_from}: {where} no such label"
            + (
                ""
                if who == _ANYBODY
                else f" from the source {who}; --label-source any takes everybody's"
            )
        )
    return labels, {x.subject_id: x.target.trace_id for x in wanted if x.scope == "trace"}


def verdicts(
    args: argparse.Namespace, settings: Settings
) -> tuple[list[Verdict], list[tuple[str, bool, str]]]:
    """The newest scores of the metric in the store, and everything that was to be scored."""
    from spanscore.store import listing  # noqa: PLC0415 - SQLAlchemy, which files do not need

    metric = _metric(args)
    query = listing.ScoreQuery(metric=metric, source="spanscore", skipped=True)
    found, seen = [], []

    def page(connection: object, after: "Place | None") -> "Page[Evaluation]":
        return listing.scores(connection, query, _PAGE, after)  # type: ignore[arg-type]  # a Connection, by pages

    for score in listing.pages(settings.store, page):
        if score.metric != metric:
            continue
        is_session = score.scope == "session"
        names = (score.subject_id,) if is_session else (score.subject_id, score.target.trace_id)
        seen += [(name, is_session, metric) for name in names]
        if verdict := Verdict.of(score):
            passed = (
                verdict.passed if args.threshold is None else reaches(verdict.value, args.threshold)
            )
            threshold = verdict.threshold if args.threshold is None else args.threshold
            found.append(replace(verdict, passed=passed, judge=(*verdict.judge[:-1], threshold)))
    return found, seen


def matching(
    labels: Sequence[Label],
    also_named: Mapping[str, str],
    scored: Iterable[Verdict],
    seen: Iterable[tuple[str, bool, str]],
) -> list[Label]:
    """Those labels that are of one thing that was to be scored; how many are not is said on
    standard error.
    """
    known = set(seen)
    units: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
    for verdict in scored:
        for name in verdict.names:
            units[name, verdict.is_session].add(verdict.unit)
            known.add((name, verdict.is_session, verdict.metric))
    kept, left_out = [], Counter[str]()
    for label in (_known_as(x, also_named, known) for x in labels):
        subject = (label.subject, label.is_session)
        if (*subject, label.metric) not in known:
            left_out["of what was not scored"] += 1
        elif len(units[subject]) > 1:
            left_out["of a trace with several turns, and of none of them"] += 1
        else:
            kept.append(label)
    for why, count in left_out.items():
        print(f"spanscore: left out: {count} of {len(labels)} labels, {why}", file=sys.stderr)
    if not kept:
        raise InputError(
            f"none of the {len(labels)} labels is of what has a score of {labels[0].metric}"
        )
    return kept


def _known_as(
    label: Label, also_named: Mapping[str, str], known: Container[tuple[str, bool, str]]
) -> Label:
    """The label by the name that scores have: those in files name the OTel trace, and not the agent
    trace in it.
    """
    if (label.subject, label.is_session, label.metric) in known:
        return label
    return replace(label, subject=also_named.get(label.subject, label.subject))


def _metric(args: argparse.Namespace) -> str:
    name = args.metric or args.labels_from
    return str(name) if is_rubric(name) else metric_of(name).name


def _given(
    args: argparse.Namespace, settings: Settings, telemetry: Sequence[Path]
) -> external.Joined:
    if not telemetry:
        from spanscore.store import (  # noqa: PLC0415 - SQLAlchemy, which files do not need
            external as stored,
        )

        return stored.named(settings.store, args.labels_from)
    scope = settings.assemble.session_scope
    loaded = trace_files.loaded(telemetry)
    scores = read_external(loaded.spans, loaded.logs, session_scope=scope)
    traces = rebuild_all(loaded.spans, loaded.logs, stitch_off=settings.assemble.stitch_off)
    return external.join(scores, in_scope(traces, scope))


def _is_wanted(args: argparse.Namespace, score: Evaluation) -> bool:
    source = args.label_source or external.HUMAN
    return score.metric == args.labels_from and source in {_ANYBODY, score.evaluator.source}
