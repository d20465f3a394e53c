"""Shows the scores of recorded agents in a real tracing UI: `python run.py TOOL [--check]
[--recordings FOLDER]`.

Without `--check` it keeps running until Ctrl-C. With it, it looks at the pages itself in a headless
browser, compares with a second server of the tool that got the same spans without spanscore, leaves
pictures, and ends with 0 or 1.
"""

import argparse
import importlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import line
from harness.browser import browser, chromium
from harness.findings import Findings
from harness.processes import Processes
from harness.recordings import load
from harness.tool import Tool

from spanscore.cli import demo
from spanscore.cli.demo import recorded_judge
from spanscore.errors import SpanscoreError

HERE = Path(__file__).resolve().parent
_FACTS_WITHIN_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tool", choices=sorted(x.stem for x in (HERE / "tools").glob("[a-z]*.py")))
    parser.add_argument("--check", action="store_true", help="look at the pages, and end")
    parser.add_argument(
        "--recordings", type=Path, help="other recordings than the demo's: a file or folder of OTLP"
    )
    args = parser.parse_args()
    # the first is ignored in what a script starts with `&`
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix=f"spanscore-ui-{args.tool}-"))
    pictures = line.ROOT / "out/ui" / args.tool
    recordings = args.recordings or demo.recordings() / "pydantic-ai"
    try:
        with Processes(folder) as processes:
            failed = _run(
                args.tool, processes, folder, recordings, pictures if args.check else None
            )
    except KeyboardInterrupt:
        print("\nended")
        failed = args.check
    except (SpanscoreError, OSError) as error:
        print(f"{args.tool}: {error}; logs are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


def _run(
    name: str, processes: Processes, folder: Path, recordings: Path, pictures: Path | None
) -> bool:
    make = importlib.import_module(f"tools.{name}").Tool
    load(recordings, time.time_ns())  # what is not there is rather said now than after minutes
    if pictures and make.has_pages:
        chromium()
    tool = _started(make, name, processes, folder)
    plain = _started(make, f"{name}-without", processes, folder) if pictures else None
    for one, its_name in ((tool, name), (plain, f"{name}-without")):
        if one is not None:
            processes.wait(its_name, one.is_ready)
    judge = recorded_judge() if recordings == demo.recordings() / "pydantic-ai" else None
    with line.running(processes, folder, tool.backend, tool.sinks, judge) as running:
        run = running.send(recordings, plain and plain.backend, pictures or Path())
        print(f"{len(run.traces)} agent traces and their scores are at {tool.address}", flush=True)
        if pictures is None or plain is None:
            print("Ctrl-C ends everything", flush=True)
            while True:
                time.sleep(3600)
        findings = Findings()
        for trace_id in dict.fromkeys(
            x for trace in run.traces for x in trace.trace_ids if x in run.sent_ids
        ):
            _compare(trace_id, tool, plain, findings)
        with browser() as opened:
            tool.look(run, opened, findings)
    print(f"pictures are in {pictures}" if make.has_pages else "it has no pages to look at")
    print(
        f"{findings.failed} of {findings.count} do not hold"
        if findings.failed
        else f"all {findings.count} hold"
    )
    return findings.failed > 0


def _started(make: type[Tool], name: str, processes: Processes, folder: Path) -> Tool:
    own = folder / name
    own.mkdir()
    return make(processes, own)


def _compare(trace_id: str, tool: Tool, plain: Tool, findings: Findings) -> None:
    """Note what the tool says of a trace with scores and without; until both have stored all of it
    they may differ.
    """
    deadline_s = time.monotonic() + _FACTS_WITHIN_S
    while True:
        with_scores, without = _facts(tool, trace_id), _facts(plain, trace_id)
        if (without and with_scores == without) or time.monotonic() > deadline_s:
            break
        time.sleep(0.5)
    findings.holds(f"{trace_id}: is there", true=bool(with_scores and without))
    for name in without:
        findings.same(f"{trace_id}: {name}", with_scores.get(name), without[name])


def _facts(tool: Tool, trace_id: str) -> Mapping[str, object]:
    try:
        return tool.facts(trace_id)
    except LookupError:
        return {}


if __name__ == "__main__":
    sys.exit(main())
