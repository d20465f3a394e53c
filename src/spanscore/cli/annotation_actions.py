"""`spanscore scores queue|agreement`: what people should label next, and how far a judge agrees
with them.
"""

import argparse
from typing import TYPE_CHECKING, Any

from spanscore.cli import sources
from spanscore.cli.action import Action
from spanscore.cli.messages import as_json
from spanscore.cli.score_actions import DEFAULT_SERVER
from spanscore.cli.terminal import console, on_one_line, print_json, printable
from spanscore.errors import InputError

if TYPE_CHECKING:
    from spanscore.api.v1.annotation_service_pb2 import (
        AgreementTable,
        AnnotationItem,
        JudgeAgreement,
    )

_STRATEGIES = ("random", "uncertain", "disagreeing")


def _declare_queue(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "--author", metavar="NAME", required=True, help="who labels, the author of the labels"
    )
    parser.add_argument(
        "--strategy", metavar="NAME", choices=_STRATEGIES, default="random", help="what comes first"
    )
    parser.add_argument(
        "--sessions", action="store_true", help="sessions, where the metric scores both"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="another seed, another random order"
    )
    parser.add_argument(
        "--threshold", metavar="X", type=float, help="uncertain: in place of the scores' threshold"
    )
    parser.add_argument(
        "--against", metavar="NAME", action="append", help="disagreeing: what may contradict it too"
    )
    parser.add_argument(
        "--labels-wanted",
        metavar="N",
        type=int,
        default=1,
        help="how many people label each; default: 1",
    )
    parser.add_argument(
        "--lease",
        metavar="N",
        type=int,
        help="take so many, so that nobody else gets them meanwhile",
    )
    parser.add_argument(
        "--lease-s", metavar="S", type=int, default=600, help="for so many seconds; default: 600"
    )
    parser.add_argument(
        "--release", metavar="ID", help="give back an item, by its trace id or session key"
    )
    parser.add_argument(
        "--skip", action="store_true", help="with --release: do not ask this author again"
    )
    parser.add_argument(
        "-n", "--limit", metavar="N", type=int, default=50, help="show so many at most, 0 for all"
    )


def _declare_agreement(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    parser.add_argument(
        "--pass-from", metavar="X", type=float, help="the value from which on a number is a pass"
    )
    parser.add_argument(
        "--level", metavar="SHARE", type=float, default=0.95, help="the level of all intervals"
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="keep the judge's error, as spanscore calibrate does",
    )
    parser.add_argument("--all-labels", action="store_true", help="with --calibrate: by all labels")


def _add_common(parser: argparse.ArgumentParser) -> None:
    sources.add_server_arguments(parser, default=DEFAULT_SERVER)
    parser.add_argument(
        "--metric",
        metavar="NAME",
        required=True,
        help="the metric that people's labels are held against",
    )
    parser.add_argument(
        "--label-name", metavar="NAME", help="the name of the labels, where it is not the metric's"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")


def _queue(args: argparse.Namespace) -> int:
    from spanscore.api.v1 import (  # noqa: PLC0415 - as above
        annotation_service_pb2 as pb,
    )
    from spanscore.api.v1.annotation_service_pb2_grpc import (  # noqa: PLC0415 - --help needs no gRPC
        AnnotationServiceStub,
    )
    from spanscore.api.v1.score_pb2 import (  # noqa: PLC0415 - as above
        SCOPE_SESSION,
        SCOPE_TRACE,
        SCOPE_UNSPECIFIED,
    )

    if args.skip and not args.release:
        raise InputError("--skip: goes with --release ID")
    queue = pb.AnnotationQueue(
        metric=args.metric,
        label=args.label_name or "",
        author=args.author,
        strategy=pb.AnnotationStrategy.Value(f"ANNOTATION_STRATEGY_{args.strategy.upper()}"),
        scope=SCOPE_SESSION if args.sessions else SCOPE_UNSPECIFIED,
        seed=args.seed,
        threshold=args.threshold,
        against=args.against or (),
        labels_wanted=args.labels_wanted,
    )
    with sources.service(args, AnnotationServiceStub) as ask:
        if args.release:
            scope = SCOPE_SESSION if args.sessions else SCOPE_TRACE
            given_back = pb.ReleaseAnnotationItemRequest(
                queue=queue, scope=scope, subject_id=args.release, skip=args.skip
            )
            ask("ReleaseAnnotationItem", given_back)
            return 0
        if args.lease is not None:
            request = pb.LeaseAnnotationItemsRequest(
                queue=queue, max_items=args.lease, lease_s=args.lease_s
            )
            items = list(ask("LeaseAnnotationItems", request).items)
        else:
            listing = pb.ListAnnotationItemsRequest(queue=queue)
            items = list(sources.pages(ask, "ListAnnotationItems", listing, "items", args.limit))
    _print_items(args, items)
    return 0


def _agreement(args: argparse.Namespace) -> int:
    from spanscore.api.v1 import annotation_service_pb2 as pb  # noqa: PLC0415 - as above
    from spanscore.api.v1.annotation_service_pb2_grpc import (  # noqa: PLC0415 - as above
        AnnotationServiceStub,
    )

    if args.all_labels and not args.calibrate:
        raise InputError("--all-labels: goes with --calibrate")
    named: dict[str, Any] = {
        "metric": args.metric,
        "label": args.label_name or "",
        "pass_from": args.pass_from,
    }
    with sources.service(args, AnnotationServiceStub) as ask:
        if args.calibrate:
            found = ask(
                "CalibrateJudge", pb.CalibrateJudgeRequest(**named, all_labels=args.all_labels)
            )
        else:
            found = ask("GetAgreement", pb.GetAgreementRequest(**named, level=args.level))
    if args.json:
        print_json(as_json(found))
        return 0
    for judge in found.judges:
        _print_judge(judge)
    if not found.judges:
        print(f"no labels of what {printable(args.metric)} has scored")
    if args.calibrate:
        print("Kept in the server's store; pass rates by the same judge are now corrected.")
    return 0


def _print_items(args: argparse.Namespace, items: "list[AnnotationItem]") -> None:
    for item in items:
        if args.json:
            print_json(as_json(item))
        else:
            print(f"{printable(item.subject)}  {printable('; '.join(item.reasons))}")
    if not items and not args.json:
        print("nothing is to be labelled")


def _print_judge(judge: "JudgeAgreement") -> None:
    threshold = f", passes from {judge.threshold:g}" if judge.HasField("threshold") else ""
    print(f"{printable(judge.metric)} by {printable(judge.model or judge.evaluator)}{threshold}")
    if judge.HasField("at_random"):
        _print_table("labels of the random order", judge.at_random)
    else:
        print("  no label of the random order: `spanscore scores queue` gives what to label")
    _print_table("all labels", judge.all)
    for point in judge.history:
        kappa = f", kappa {point.kappa.value:.2f}" if point.kappa.HasField("value") else ""
        print(f"  after {point.n:>5,} labels: agreement {point.agreement.value:.2f}{kappa}")


def _print_table(title: str, table: "AgreementTable") -> None:
    from rich.table import Table  # noqa: PLC0415 - --json needs no rich

    passed, failed = table.true_pass + table.false_fail, table.false_pass + table.true_fail
    print(
        f"  {title}: {passed + failed:,}; people pass {passed:,}, of which the judge passes"
        f" {table.true_pass:,}; people fail {failed:,}, of which it fails {table.true_fail:,}"
    )
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="dim")
    for heading in ("", "value", "interval", "n", ""):
        shown.add_column(heading, justify="right" if heading in {"value", "n"} else "left")
    for measure in table.measures:
        if measure.HasField("value"):
            interval = f"[{measure.low:.2f}, {measure.high:.2f}]" if measure.HasField("low") else ""
            shown.add_row(
                on_one_line(measure.name, 60),
                f"{measure.value:.2f}",
                interval,
                str(measure.n),
                measure.note,
            )
        else:
            shown.add_row(
                on_one_line(measure.name, 60), "-", "", "", f"cannot be told: {measure.why_not}"
            )
    if table.measures:
        console().print(shown)


ACTIONS = {
    "queue": Action("list what a person should label next, or take it", _declare_queue, _queue),
    "agreement": Action(
        "say how far a judge agrees with the stored labels", _declare_agreement, _agreement
    ),
}
