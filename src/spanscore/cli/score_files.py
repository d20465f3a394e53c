"""Scores in files, alone or two to compare."""

import contextlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from spanscore.calibration import Verdict
from spanscore.errors import InputError
from spanscore.model.score import reaches
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all
from spanscore.received_scores import EMITTED, read_own

_MAX_BYTES = 512 * 2**20
_KIND = "spanscore.run"
_SCHEMA = f"{_KIND}/1"
_GZIP = b"\x1f\x8b"
_MAX_START_BYTES, _MAX_SCHEMA_CHARS = 2**24, 200
PROVENANCE = ("kind", "name", "version", "model", "prompt_hash", "embedding")
"""What says who scored, and how."""
Content: TypeAlias = dict[str, Any] | list[dict[str, Any]]
"""What a file contains: a run of a suite as its object, or scores."""

_A_RUN = "run of a suite as spanscore writes it"
_HOW = (
    "give what `spanscore test --output` or `spanscore eval --jsonl` wrote, or scores that a server"
    " exported by OTLP"
)


@dataclass(slots=True)
class Unit:
    """What is compared as one: a case of a suite, or a scored trace or session; a value for each
    trial that has one.

    `sessions` are those that it was recorded in; `is_turn`: it is one trace of a session, and not
    all of it.
    """

    passed: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    metrics: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    status: str = ""
    sessions: set[str] = field(default_factory=set)
    is_turn: bool = False


@dataclass(slots=True)
class Run:
    """A run: its units by what pairs them with those of another run.

    `evaluators` are those that scored each metric; `ambiguous` what could not be told apart from
    another unit; `verdicts` are the scores as calibrations know them.
    """

    name: str
    of_suite: bool
    units: dict[str, Unit] = field(default_factory=dict)
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    evaluators: dict[str, set[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(set))
    ambiguous: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def add(self, unit: Unit, score: Mapping[str, Any]) -> None:
        """Take in a score of `unit`. Raises KeyError, TypeError or ValueError where it is none."""
        evaluator = score["evaluator"]
        metric = str(score["metric"])
        if score["status"] != "scored":
            return
        if score["scale"] is None:
            why = "which a span that sums a trace up leaves out: give the exported log events, too"
            raise ValueError(f"a score of {metric} has no scale, {why}")
        low, high = (number(x) for x in score["scale"])
        unit.metrics[metric].append(number(score["value"], low, high))
        self.scales[metric] = (low, high)
        self.evaluators[metric].add(tuple(evaluator.get(name) for name in PROVENANCE))
        # a score made elsewhere may not say by whom; no calibration is of it
        with contextlib.suppress(KeyError):
            self.verdicts += [verdict] if (verdict := Verdict.of_json(score)) else []


def of_two(a: tuple[Path, Content], b: tuple[Path, Content]) -> tuple[Run, Run]:
    """Both runs of what `content` gave, each with its name; their units are under keys that pair
    them.

    Raises InputError where one cannot be used.
    """
    one, other = _measured(a[1]), _measured(b[1])
    if isinstance(one, dict) and isinstance(other, dict):
        return _suite_run(a[0], one), _suite_run(b[0], other)
    if isinstance(one, list) and isinstance(other, list):
        return _scores_paired((a[0], one), (b[0], other))
    problem = "one is a run of a suite and the other are scores; give two of a kind"
    raise InputError(f"{a[0]} and {b[0]}: {problem}")


def is_measured(score: Mapping[str, Any]) -> bool:
    """Whether spanscore measured a score, and nobody else gave it."""
    by = score.get("evaluator")
    return not isinstance(by, dict) or by.get("source") is None


def _measured(found: Content) -> Content:
    return [x for x in found if is_measured(x)] if isinstance(found, list) else found


def holds_scores(path: Path) -> bool:
    """Whether a file is of either kind, or OTLP with scores that spanscore exported and no agent's
    turn.
    """
    if is_readable(path):
        return True
    telemetry = _exported(path)
    if telemetry is None or not read_own(telemetry.spans, telemetry.logs):
        return False
    return not rebuild_all(telemetry.spans, telemetry.logs)


def scores(path: Path) -> list[dict[str, Any]]:
    """All scores in a file of either kind. Raises InputError where it cannot be used."""
    found = content(path)
    if isinstance(found, list):
        return found
    with _as_written(path, _A_RUN):
        trials = [trial for case in found["cases"] for trial in case["trials"]]
        return [score for trial in trials for score in trial["evaluations"]]


@contextlib.contextmanager
def _as_written(path: Path, what: str) -> Iterator[None]:
    """Raise InputError where what is read within is none of `what`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cause = f"{error} is missing" if isinstance(error, KeyError) else error
        raise InputError(f"{path}: no {what} ({cause}); {_HOW}") from None


def is_readable(path: Path) -> bool:
    """Whether a file begins as one of either kind does."""
    start = start_of(path)
    if start.lstrip().startswith("{") and f'"{_KIND}/' in start[:_MAX_SCHEMA_CHARS]:
        return True
    first = _parsed(start)
    return isinstance(first, dict) and {"metric", "status", "evaluator"} <= first.keys()


def start_of(path: Path) -> str:
    """The first line of a file that has anything in it; "" where it is no file of text."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:  # text would be decoded beyond the line
            lines = iter(lambda: file.readline(_MAX_START_BYTES), b"")
            return next(filter(bytes.strip, lines), b"").decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _exported(path: Path) -> "files.Telemetry | None":
    """The OTLP in a file where its bytes show anything that spanscore exported; what is compressed
    may have it.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        content = path.read_bytes()
    except OSError:
        return None
    is_exported = content.startswith(_GZIP) or EMITTED.encode() in content
    return files.load([path]) if is_exported else None


def content(path: Path) -> Content:
    """A run of a suite as its object, scores as a list.

    Raises InputError where the file contains neither.
    """
    telemetry = None if is_readable(path) else _exported(path)
    if telemetry and (found := read_own(telemetry.spans, telemetry.logs)):
        return [x.to_json() for x in found]
    text = _text(path)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise InputError(f"{path}: the file is empty; {_HOW}")
    whole = _parsed(text) if text.lstrip().startswith("{") else None
    if isinstance(whole, dict) and "schema" in whole:
        if whole["schema"] != _SCHEMA:
            problem = f"its schema is {whole['schema']!r}, and {_SCHEMA} is what can be read"
            raise InputError(f"{path}: {problem}; {_HOW}")
        return whole
    found_scores = {number: _parsed(line) for number, line in lines}
    for number, score in found_scores.items():
        if not isinstance(score, dict) or "metric" not in score:
            raise InputError(f"{path}:{number}: neither a run of a suite nor a score; {_HOW}")
    return list(found_scores.values())


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES >> 20} MiB; {_HOW}")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; {_HOW}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; {_HOW}") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def number(value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A value that is a number within limits. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    if not low <= value <= high:
        raise ValueError(f"{value:g} is not within {low:g} and {high:g}")
    return float(value)


def _yes_or_no(value: Any) -> float:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return float(value)


def _suite_run(path: Path, content: Mapping[str, Any]) -> Run:
    run = Run(str(path), of_suite=True)
    with _as_written(path, _A_RUN):
        for case in content["cases"]:
            if str(case["id"]) in run.units:
                raise InputError(f"{path}: case {case['id']!r} is there twice")
            if case["status"] != "unmatched":
                run.units[str(case["id"])] = _case(run, case)
    if not run.units:
        raise InputError(f"{path}: the run holds no case that anything was recorded for")
    return run


def _case(run: Run, case: Mapping[str, Any]) -> Unit:
    unit = Unit(status=str(case["status"]))
    for trial in case["trials"]:
        if trial["passed"] is not None:
            unit.passed.append(_yes_or_no(trial["passed"]))
        if trial["score"] is not None:
            unit.scores.append(number(trial["score"], 0, 100))
        if trial["latency_s"] is not None:
            unit.latencies_s.append(number(trial["latency_s"], 0))
        values: defaultdict[str, list[float]] = defaultdict(list)
        one = Unit(metrics=values)
        for score in trial["evaluations"]:
            run.add(one, score)
        if trial.get("session_id") is not None:
            unit.sessions.add(str(trial["session_id"]))
        for metric, found in values.items():  # a trial counts once, however many turns it has
            unit.metrics[metric].append(sum(found) / len(found))
    return unit


def _scores_paired(
    a: tuple[Path, list[dict[str, Any]]], b: tuple[Path, list[dict[str, Any]]]
) -> tuple[Run, Run]:
    """Runs of scores: a unit is known by its session or trace id; by its user input where the other
    has no such id.
    """
    ids = [{_id(path, x) for x in scores} for path, scores in (a, b)]
    shared = ids[0] & ids[1]
    metrics = {str(x["metric"]) for x in a[1]} & {str(x["metric"]) for x in b[1]}
    first, second = (_scored_run(path, scores, shared, metrics) for path, scores in (a, b))
    return first, second


def _id(path: Path, score: Mapping[str, Any]) -> str:
    try:
        name = score["session_key" if score["scope"] == "session" else "trace_id"]
        return f"{score['scope']} {name}"
    except KeyError as error:
        raise InputError(f"{path}: a score of {score['metric']} has no {error}; {_HOW}") from None


def _scored_run(
    path: Path, scores: Iterable[dict[str, Any]], shared: set[str], metrics: set[str]
) -> Run:
    run = Run(str(path), of_suite=False)
    by_id: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for score in scores:
        by_id[_id(path, score)].append(score)
    named = {x: x if x in shared else _input_of(found) or x for x, found in by_id.items()}
    counts = Counter(named.values())
    with _as_written(path, "scores as spanscore writes them"):
        for name, found in by_id.items():
            key = named[name]
            if counts[key] > 1:
                run.ambiguous.append(name)
            else:
                run.units[key] = _unit(run, found, metrics)
    return run


def _unit(run: Run, scores: Iterable[Mapping[str, Any]], metrics: set[str]) -> Unit:
    """It passes when every score of it does by those `metrics` that both runs have."""
    unit = Unit()
    passes: list[bool] = []
    for score in scores:
        run.add(unit, score)
        unit.is_turn = score["scope"] != "session"
        if score.get("session_key") is not None:
            unit.sessions.add(str(score["session_key"]))
        if score.get("latency_s") is not None:
            unit.latencies_s = [number(score["latency_s"], 0)]
        if score["status"] != "scored" or str(score["metric"]) not in metrics:
            continue
        if score["label"] in {"pass", "fail"}:
            passes.append(score["label"] == "pass")
        elif score["threshold"] is not None:
            passes.append(reaches(number(score["value"]), number(score["threshold"])))
    if passes:
        unit.passed.append(float(all(passes)))
    unit.status = "pass" if passes and all(passes) else "fail" if passes else "error"
    return unit


def _input_of(scores: Iterable[Mapping[str, Any]]) -> str | None:
    """What the user said, where the metadata of a score has it."""
    for score in scores:
        text = (score.get("metadata") or {}).get("user_input")
        if isinstance(text, str) and text.strip():
            return f"input {' '.join(text.split())[:500]}"
    return None
