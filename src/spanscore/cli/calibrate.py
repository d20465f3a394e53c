"""`spanscore calibrate`: a judge against human labels."""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from spanscore import calibration
from spanscore.calibration import Calibration, Label, Matched, Measure, Verdict, bias, label_of
from spanscore.cli import score_files, terminal, trace_files
from spanscore.cli.measurement import configured, measured
from spanscore.cli.options import add_judge, argument
from spanscore.cli.score_summary import with_interval
from spanscore.cli.terminal import Columns, Output, console, counted, on_one_line, print_items, say
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.evaluation.rubric import is_rubric, require_on_scale
from spanscore.metrics import available
from spanscore.model import external
from spanscore.model.json import dumps
from spanscore.model.score import Evaluation, reaches
from spanscore.model.trace import AgentTrace, in_scope
from spanscore.offline import metric_of
from spanscore.offline.recordings import external_notices
from spanscore.rebuild import rebuild_all
from spanscore.received_scores import read_external
from spanscore.stats import Estimate, NotEstimableError, Unsure
from spanscore.store import calibrations, external as stored, listing
from spanscore.store.config import Config

_Seen = list[tuple[str, bool, str]]

_LEVEL = 0.95
_MOST_WRONG = 0.05
"""Scores are unsure where people contradict more of the verdicts than this share."""

TAKES = ("json",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    argument(parser, "labels LABELS", "what people say, as JSON Lines or CSV", type=Path, nargs="?")
    text = f"scores, or what to score: {trace_files.PATH_HELP}"
    argument(parser, "path PATH", text, type=Path, nargs="*")
    add_judge(parser)
    argument(parser, "--metric NAME", "the metric of labels that name none")
    argument(parser, "--threshold X", "the score from which on the judge passes")
    text = "in place of LABELS: scores of this name, in files or the store"
    argument(parser, "--labels-from NAME", text)
    argument(parser, "--label-source SOURCE", "who gave these; default: human; any: everybody")
    argument(parser, "--pass-from X", "of these: from which value on a number is a pass")
    argument(parser, "--unsure FILE", "write each metric's unsure scores as JSON")
    argument(parser, "--no-store", "keep nothing: only report")
    argument(parser, "--bias", "ask about traces as they are and changed; no labels are needed")
    argument(parser, "--list", "list the calibrations in the store and do nothing else")


def run(args: argparse.Namespace) -> int:
    """Compare, report and keep. Returns the exit code."""
    settings = configured(args)
    if args.list:
        return listed(settings.store, as_json=args.json)
    if args.bias:
        return _biased(args, settings)
    _require_usable(args)
    labels, also_named, source = _labels(args, settings)
    if args.threshold is not None:
        require_on_scale("--threshold", args.threshold, dict.fromkeys(x.metric for x in labels))
    verdicts, seen = _verdicts(args, settings, labels)
    if args.labels_from:
        labels = _matching(labels, also_named, verdicts, seen)
    found = calibration.match(source, labels, verdicts, seen)
    if not any(x.pairs for x in found):
        problem = "the judge passed or failed nothing that is labelled"
        raise InputError(f"{source}: {problem}; there is nothing to compare")
    _print_all(args, found)
    if not args.no_store:
        lines = _keep(settings, found)
        for line in () if args.json else lines:
            console().print(line)
    return 0


def _biased(args: argparse.Namespace, settings: Settings) -> int:
    """Print how many verdicts flip with what should not matter. Returns the exit code."""
    paths = [x for x in (args.labels, *args.path) if x is not None]
    if not paths:
        raise InputError("--bias: give the traces that the judge is asked about")
    traces = trace_files.agent_traces(paths, settings)
    metrics = [args.metric] if args.metric else None

    def asked(of: Sequence[AgentTrace]) -> list[Evaluation]:
        how = {"metrics": metrics, "model": args.model, "threshold": args.threshold}
        return measured(settings, of, **how).evaluations if of else []

    before = asked(traces)
    after = {name: asked(bias.changed_by(name, traces)) for name in bias.CHANGES}
    found = bias.flips(before, after, _LEVEL)
    if not found:
        raise InputError("no model passed or failed anything; name one with --model")
    if args.json:
        for one in found:
            terminal.print_json(one.to_json())
        return 0
    print_items(_FLIPS, ("n",), found)
    return 0


_FLIPS: Columns = (
    ("metric", lambda x: on_one_line(x.metric, 40)),
    ("change", lambda x: x.change),
    ("flips", lambda x: "-" if x.share is None else f"{x.share:.2f}"),
    ("beyond placebo", lambda x: with_interval(x.beyond)),
    ("n", lambda x: str(x.n)),
)


def _labels(
    args: argparse.Namespace, settings: Settings
) -> tuple[list[Label], dict[str, str], Path]:
    """The labels, further names of what they are of, and what errors call the place where they
    are.
    """
    if not args.labels_from:
        return calibration.read_labels(args.labels, args.metric), {}, args.labels
    paths = ([args.labels] if args.labels else []) + args.path
    scored = [path for path in paths if score_files.holds_scores(path)]
    telemetry = [path for path in paths if path not in scored]
    args.path = scored or telemetry
    labels, also_named = _recorded(args, settings, telemetry)
    return labels, also_named, Path(f"scores named {args.labels_from}")


def _require_usable(args: argparse.Namespace) -> None:
    if args.labels_from:
        args.labels_from = args.labels_from.removeprefix(_PREFIX)
        if not args.metric and args.labels_from not in available():
            what = "the metric that these labels are held against"
            raise InputError(f"--labels-from {args.labels_from}: give --metric NAME too, {what}")
    elif args.label_source or args.pass_from is not None:
        raise InputError("--label-source and --pass-from: go with --labels-from")
    elif args.labels is None or not args.path:
        how = "give labels and what they are about: spanscore calibrate LABELS PATH..."
        raise InputError(f"{how}; see spanscore calibrate --help")
    terminal.require_writable(args.unsure)


def _print_all(args: argparse.Namespace, found: Sequence[Matched]) -> None:
    """What the labels show of each judge, and where to write it the scores on which it is
    unsure.
    """
    if args.unsure and len({x.metric for x in found}) < len(found):
        problem = "a metric was scored by several judges; give the scores of one"
        raise InputError(f"--unsure {args.unsure}: {problem}")
    by_metric = {}
    for matched in found:
        measures, scores = calibration.measures(matched, _LEVEL), unsure_of(matched)
        by_metric[matched.metric] = scores
        if args.json:
            unsure = {"why_not": scores} if isinstance(scores, str) else scores.to_json()
            terminal.print_json({**_as_json(matched, measures), "unsure": unsure})
        else:
            _print(console(), matched, measures)
            console().print(f"{unsure_line(scores)}\n")
    # where it cannot be told which scores are unsure, the metric is not in the file
    limits = {name: list(x.limits) for name, x in by_metric.items() if isinstance(x, Unsure)}
    terminal.write_file(args.unsure, lambda: f"{dumps(limits)}\n")


def _keep(settings: Settings, found: Sequence[Matched]) -> list[str]:
    """Keep the calibrations; lines that say so, and of each judge whether it is certified now."""
    now_ns, labelled = time.time_ns(), [x for x in found if x.pairs]
    known = [x.record for x in calibrations.kept(settings.store) if not x.tenant]
    made = calibration.calibrations(labelled, now_ns, settings.judge.required, known)
    calibrations.keep(settings.store, made, now_ns)
    where = f"Kept in {shown(settings.store.url)}; pass rates by the same judge are now corrected."
    certificates = calibration.certificates_in(settings.store, settings.judge)
    if certificates is None:
        return [where]
    why_not = {x.judge: certificates.why_not(x.judge) for x in labelled}
    of_judges = {x: f"not certified: {why}" if why else "certified" for x, why in why_not.items()}
    return [where, *(f"{judge[0]} is {what}." for judge, what in of_judges.items())]


def _verdicts(
    args: argparse.Namespace, settings: Settings, labels: Sequence[Label]
) -> tuple[list[Verdict], _Seen]:
    """The verdicts in score files, or of what the other files hold; and everything that was to be
    scored.

    Without any file those in the store.
    """
    if not args.path:
        return _stored_verdicts(args, settings)
    are_scores = [score_files.holds_scores(path) for path in args.path]
    if not any(are_scores):
        return _scored_now(args, settings, list(dict.fromkeys(x.metric for x in labels)))
    if not all(are_scores):
        other = args.path[are_scores.index(False)]
        what = "not scores as `spanscore eval --jsonl` prints them, as the other files are"
        raise InputError(f"{other}: {what}; give one kind")
    verdicts, seen = [], []
    for path in args.path:
        for score in filter(score_files.is_measured, score_files.scores(path)):
            verdict, key = _read(path, score)
            verdicts += [_at(verdict, args.threshold)] if verdict else []
            seen.append(key)
    return verdicts, seen


def _scored_now(
    args: argparse.Namespace, settings: Settings, metrics: list[str]
) -> tuple[list[Verdict], _Seen]:
    traces = trace_files.agent_traces(args.path, settings)
    ids = {trace.id: (trace.id, *trace.trace_ids) for trace in traces}
    scored = measured(settings, traces, metrics=metrics, model=args.model, threshold=args.threshold)
    return _held(scored.evaluations, lambda x: ids[x.subject_id])


def _held(
    scores: Iterable[Evaluation],
    names_of: Callable[[Evaluation], tuple[str, ...]],
    threshold: float | None = None,
) -> tuple[list[Verdict], _Seen]:
    """The verdicts of scores, and what was to be scored; a trace has the names that `names_of`
    gives.
    """
    verdicts: list[Verdict] = []
    seen: _Seen = []
    for score in scores:
        is_session = score.scope == "session"
        names = (score.subject_id,) if is_session else names_of(score)
        seen += [(name, is_session, score.metric) for name in names]
        if (verdict := Verdict.of(score)) is not None:
            own = verdict if is_session else replace(verdict, aliases=names)
            verdicts.append(_at(own, threshold))
    return verdicts, seen


def _at(verdict: Verdict, threshold: float | None) -> Verdict:
    """The verdict by another threshold, as `eval --threshold` would have given it."""
    if threshold is None:
        return verdict
    judge = (*verdict.judge[:-1], threshold)
    return replace(verdict, judge=judge, passed=reaches(verdict.value, threshold))


def _read(path: Path, score: dict[str, Any]) -> tuple[Verdict | None, tuple[str, bool, str]]:
    try:
        is_session = score["scope"] == "session"
        of_session = (score.get("session_key") or score["session_id"]) if is_session else ""
        verdict, subject = Verdict.of_json(score), of_session if is_session else score["trace_id"]
        if verdict is not None:
            score_files.number(verdict.value, *verdict.scale)
        return verdict, (str(subject), is_session, str(score["metric"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"no score as `spanscore eval --jsonl` prints it ({error})"
        raise InputError(f"{path}: {problem}") from None


def _as_json(matched: Matched, measures: Sequence[Measure]) -> dict[str, Any]:
    names = ("metric", "name", "version", "model", "prompt_hash", "embedding", "threshold")
    table = asdict(calibration.counted_pairs(matched))
    return {
        "judge": dict(zip(names, matched.judge, strict=True)),
        "n": len(matched.pairs),
        "scored": len(matched.pairs) + len(matched.others),
        "tied": matched.tied,
        "unscored": matched.unscored,
        "annotators": sorted(matched.annotators),
        "confusion": table,
        "measures": {
            x.name: x.estimate.to_json() if x.estimate else {"why_not": x.why_not} for x in measures
        },
    }


def _print(output: Output, matched: Matched, measures: Sequence[Measure]) -> None:
    output.print(terminal.styled(on_one_line(_title(matched), 300), "bold"))
    output.print(_counts(matched))
    wrapped = ("", " ")
    print_items(_MEASURES, ("value, 95 %", "n"), measures, wrapped=wrapped, output=output)


def _title(matched: Matched) -> str:
    metric, name, version, model, prompt_hash, _, threshold = matched.judge
    by = model or name
    prompt = f", prompt {prompt_hash[:12]}" if prompt_hash else ""
    passes = f", passes from {threshold:g}" if threshold is not None else ""
    return f"{metric} by {by} (version {version}{prompt}){passes}"


def _counts(matched: Matched) -> str:
    table = calibration.counted_pairs(matched)
    counts = ((matched.tied, "on which annotators tie"), (matched.unscored, "not scored"))
    left_out = ", ".join(f"{n} {what}" for n, what in counts if n)
    passed, failed = table.true_pass + table.false_fail, table.false_pass + table.true_fail
    return (
        f"{counted(int(table.n), 'label')}: people pass {passed}, of which the judge"
        f" passes {table.true_pass}; people fail {failed}, of which it fails {table.true_fail}"
        + (f"; left out: {left_out}" if left_out else "")
        + _clustered(matched)
    )


def _clustered(matched: Matched) -> str:
    """That what is labelled is not all independent, where it is so."""
    clusters = calibration.clusters_of([x.verdict for x in matched.pairs])
    if clusters is None:
        return ""
    sessions = counted(len(set(clusters)), "session")
    return f"; of {sessions}, whose turns are not independent, so n counts the sessions"


_MEASURES: Columns = (
    ("", lambda x: on_one_line(x.name, 60)),
    ("value, 95 %", lambda x: with_interval(x.estimate)),
    ("n", lambda x: str(x.estimate.n) if x.estimate else ""),
    (" ", lambda x: x.estimate.note if x.estimate else f"cannot be told: {x.why_not}"),
)


def listed(store: Config, *, as_json: bool) -> int:
    """Print all calibrations, the newest first. Returns the exit code."""
    kept = calibrations.kept(store)
    found = [(x.tenant, one) for x in kept if (one := Calibration.from_json(x.record)) is not None]
    if as_json:
        for tenant, one in found:
            terminal.print_json({"tenant": tenant or None, **one.to_json()})
    elif found:
        wrapped = [heading for heading, _ in _KEPT[2:-1]]
        print_items(_KEPT, ("passes from", "labels"), found, wrapped=wrapped)
    else:
        how = "`spanscore calibrate LABELS PATH...` makes one."
        print(f"{shown(store.url)} holds no calibration; {how}")
    return 0


def shown(url: str) -> str:
    """A database URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


def _rate(measure: Callable[[float, float], Estimate], design_effect: float) -> str:
    try:
        return with_interval(measure(_LEVEL, design_effect))
    except NotEstimableError:
        return "-"


def _by(kept: tuple[str, Calibration]) -> str:
    _, name, version, model, *_ = kept[1].judge
    return on_one_line(f"{model or name} {version}", 40)


_KEPT: Columns = (
    ("date", lambda x: x[1].date),
    ("metric", lambda x: on_one_line(x[1].judge[0], 40)),
    ("judge", _by),
    ("prompt", lambda x: (x[1].judge[4] or "-")[:8]),
    ("passes from", lambda x: "-" if x[1].judge[-1] is None else f"{x[1].judge[-1]:g}"),
    ("labels", lambda x: f"{x[1].confusion.n:.0f}"),
    ("sensitivity", lambda x: _rate(x[1].confusion.sensitivity, x[1].design_effects[0])),
    ("specificity", lambda x: _rate(x[1].confusion.specificity, x[1].design_effects[1])),
    ("tenant", lambda x: on_one_line(x[0], 40) or "-"),
)


def unsure_of(matched: Matched) -> Unsure | str:
    """The unsure scores of a judge, or why they are not known."""
    try:
        return calibration.unsure(matched, _LEVEL, _MOST_WRONG)
    except NotEstimableError as reason:
        return str(reason)


def unsure_line(unsure: Unsure | str) -> str:
    """As the output has it."""
    if isinstance(unsure, str):
        return f"unsure scores: cannot be told: {unsure}"
    low, high = unsure.limits
    if low == high:
        return "unsure scores: none"
    wrong = "no score is sure"
    if unsure.wrong is not None:
        wrong = f"of the verdicts on the others people contradict {with_interval(unsure.wrong)}"
    which = f"from {low:.3g} to {high:.3g}, which are {with_interval(unsure.share)} of all"
    return f"unsure scores: {which}; {wrong} (cross-validated)"


_PAGE = 1000
_ANYBODY = "any"
_PREFIX = "scores:"


def _recorded(
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
        say(f"left out: {notice}")
    found = [label_of(x, metric, number, args.pass_from) for number, x in enumerate(wanted, 1)]
    labels = [x for x in found if x is not None]
    if len(labels) < len(wanted):
        which = f"{len(wanted) - len(labels)} of {len(wanted)} scores named {args.labels_from}"
        how = "; --pass-from X says from which number on one is a pass"
        how = how if args.pass_from is None else ""
        say(f"left out: {which} are no pass and no fail{how}")
    if not labels:
        raise _no_label(args)
    return labels, {x.subject_id: x.target.trace_id for x in wanted if x.scope == "trace"}


def _no_label(args: argparse.Namespace) -> InputError:
    who = args.label_source or external.HUMAN
    where = "the files contain" if args.path else "the store contains"
    how = f" from the source {who}; --label-source any takes everybody's"
    how = "" if who == _ANYBODY else how
    return InputError(f"--labels-from {args.labels_from}: {where} no such label{how}")


def _stored_verdicts(args: argparse.Namespace, settings: Settings) -> tuple[list[Verdict], _Seen]:
    """The newest scores of the metric in the store, and everything that was to be scored."""
    metric = _metric(args)
    query = listing.ScoreQuery(metric=metric, source="spanscore", skipped=True)
    found = listing.pages(settings.store, lambda *x: listing.scores(x[0], query, _PAGE, x[1]))
    own = (x for x in found if x.metric == metric)
    return _held(own, lambda x: (x.subject_id, x.target.trace_id), args.threshold)


def _matching(
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
        say(f"left out: {count} of {len(labels)} labels, {why}")
    if not kept:
        metric = labels[0].metric
        raise InputError(f"none of the {len(labels)} labels is of what has a score of {metric}")
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
        return stored.named(settings.store, args.labels_from)
    scope = settings.assemble.session_scope
    loaded = trace_files.loaded(telemetry)
    scores = read_external(loaded.spans, loaded.logs, session_scope=scope)
    traces = rebuild_all(loaded.spans, loaded.logs, stitch_off=settings.assemble.stitch_off)
    return external.join(scores, in_scope(traces, scope))


def _is_wanted(args: argparse.Namespace, score: Evaluation) -> bool:
    source = args.label_source or external.HUMAN
    return score.metric == args.labels_from and source in {_ANYBODY, score.evaluator.source}
