"""Every question of `spanscore analytics` against the rows that `spanscore scores` and `spanscore
traces` print, added up as a reader would in a data frame.
"""

import json
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from populations import DAY_NS, START_NS, Population, make_score

from spanscore.cli.main import main
from spanscore.model.score import Evaluator, Score
from spanscore.stats import moments, weighted_mean
from spanscore.store.config import Config
from spanscore.store.store import Store

BERLIN = ZoneInfo("Europe/Berlin")
RUN = "a" * 32
DRAFT = Evaluator("LLM", "task_completion", "2", model="judge-2", prompt_hash="def")


def fill(store):
    """Some 3,000 scores: revised, of sessions, of a run, of another judge, and given by people."""
    found = Population(store, seed=16)
    found.add(850)
    found.commit(found.traces[::7], revision=2)
    found.commit(found.traces[::9], run=RUN)
    rng = random.Random(5)
    sessions = {x.session_key: x for x in found.traces if x.session_id}
    store.commit(
        [],
        [
            make_score(
                x,
                "coherence",
                Score(rng.random(), ""),
                scope="session",
                subject_id=x.session_key,
                sampling=rng.choice([1.0, 0.5]),
                evaluator=rng.choice([DRAFT, make_score(x, "m", Score(1.0, "")).evaluator]),
            )
            for x in sessions.values()
        ],
    )
    for number, trace in enumerate(found.traces[::5]):
        at_ns = trace.ended_ns + 3600 * 10**9
        found.give(trace, "ada", rng.choice([0.0, 1.0, 3.5]), at_ns)
        found.give(trace, "bob", None if number % 2 else 2.0, at_ns, label="pass")
        if number % 3 == 0:
            found.give(trace, "ada", 0.25, at_ns + DAY_NS)
    return {x.id: x for x in found.traces}


class Exported:
    """A store as the command line prints it."""

    def __init__(self, url, traces):
        self.url, self.written = url, traces
        self.last_of = {x.session_key: x for x in traces.values()}
        self.trace_of = {t: x["id"] for x in self.ask("traces", "-n0") for t in x["trace_ids"]}
        listed = self.ask("scores", "--skipped", "-n0")
        self.measured_by_run = [self.row(x) for x in self.ask("scores", "-n0", "--run", RUN)]
        newest = {}
        for score in sorted(listed, key=lambda x: (x["evaluated_at_ns"], x["revision"])):
            by = score["evaluator"]
            place = by["source"], by["author"], score["span_id"] if by["source"] else None
            newest[score["scope"], score["subject_id"], score["metric"], place] = score
        self.rows = [self.row(x) for x in newest.values()]

    def ask(self, *words):
        printed = []
        with pytest.MonkeyPatch.context() as patch:
            for module in ("scores", "traces", "server"):
                patch.setattr(f"spanscore.cli.{module}.print_json", printed.append)
            patch.setattr("spanscore.cli.terminal.print_json", printed.append)
            assert main([*words, "--store", self.url, "--json"]) == 0
        return json.loads(json.dumps(printed))

    def analytics(self, question, *words):
        return self.ask("analytics", question, *words)

    def row(self, score):
        """A score with what is known of its trace."""
        of_trace = score["scope"] == "trace"
        id_ = self.trace_of[score["trace_id"]] if of_trace else score["subject_id"]
        trace = self.written[id_] if of_trace else self.last_of[id_]
        return score | {
            "source": score["evaluator"]["source"] or "spanscore",
            "subject": id_,
            "began_ns": trace.started_ns,
            "cluster": (trace.session_id or id_) if of_trace else id_,
            "weight": 1 / score["sampling"],
            "passed": {"pass": True, "fail": False}.get(score["label"]),
            "service": trace.service_name,
            "agent": trace.agent_name,
            "model": trace.model_calls[0].model if of_trace else None,
            "tools": sorted({x.name for x in trace.tool_calls}) or [None] if of_trace else [None],
            "version": trace.target.resource["service.version"],
            "tags": trace.attributes.get("langfuse.trace.tags", ()) if of_trace else (),
        }


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('rows')}/spanscore.db"
    store = Store.open(Config(url=url))
    traces = fill(store)
    store.close()
    found = Exported(url, traces)
    assert len(found.rows) > 3000
    return found


def by_metric(rows, group=lambda _row: [()]):
    found = defaultdict(list)
    for row in rows:
        for values in group(row):
            scope = f"SCOPE_{row['scope'].upper()}"
            found[row["metric"], scope, row["source"], values].append(row)
    return found


def key_of(found):
    values = tuple(x.get("value") for x in found.get("groups", ()))
    return found["metric"], found["scope"], found["source"], values


def require_figure(figure, rows, read, least, scale):
    if not rows:
        assert "value" not in figure
        assert figure["note"]
        return
    total = sum(x["weight"] for x in rows)
    mean = sum(x["weight"] * read(x) for x in rows) / total
    of_clusters = Counter()
    for row in rows:
        of_clusters[row["cluster"]] += row["weight"]
    assert figure["value"] == pytest.approx(mean, abs=1e-9)
    assert int(figure["scores"]) == len(rows)
    assert int(figure["sessions"]) == len(of_clusters)
    effective = total**2 / sum(x**2 for x in of_clusters.values())
    assert figure["effective_n"] == pytest.approx(effective)
    if len(of_clusters) > 1 and scale is not None:
        given = [read(x) for x in rows], [x["sampling"] for x in rows]
        own = moments(*given, clusters=[x["cluster"] for x in rows], bounds=scale)
        interval = weighted_mean(own, bounds=scale).interval
        assert figure["low"] == pytest.approx(interval.low, abs=1e-6)
        assert figure["high"] == pytest.approx(interval.high, abs=1e-6)


def require_summary(found, rows):
    scored = [x for x in rows if x["status"] == "scored"]
    assert int(found.get("scores", 0)) == len(scored)
    assert int(found.get("subjects", 0)) == len({x["subject"] for x in scored})
    assert int(found.get("sessions", 0)) == len({x["cluster"] for x in scored})
    causes = Counter(x["skip_cause"] or x["error"]["type"] for x in rows if x["status"] != "scored")
    assert {x["cause"]: int(x["count"]) for x in found.get("missing", ())} == causes
    least = found["least_sampling"]
    scale = (found["low"], found["high"]) if "low" in found else None
    values = [x for x in scored if x["value"] is not None]
    require_figure(found["mean"], values, lambda x: x["value"], least, scale)
    judged = [x for x in scored if x["passed"] is not None]
    require_figure(found["pass_rate"], judged, lambda x: float(x["passed"]), least, (0.0, 1.0))


def require_summaries(found, rows, group=lambda _row: [()]):
    expected = by_metric(rows, group)
    by_key = {key_of(x): x for x in found}
    assert by_key.keys() == expected.keys()
    for key, of_key in expected.items():
        require_summary(by_key[key], of_key)


GROUPS = {
    "service": lambda x: [(x["service"],)],
    "agent": lambda x: [(x["agent"],)],
    "model": lambda x: [(x["model"],)],
    "tool": lambda x: [(tool,) for tool in x["tools"]],
    "judge_model": lambda x: [(x["evaluator"]["model"],)],
}


@pytest.mark.slow
def test_a_summary_is_of_the_exported_rows(exported):
    require_summaries(exported.analytics("summary"), exported.rows)


@pytest.mark.slow
def test_a_run_has_the_rows_that_its_list_has(exported):
    scored = [x for x in exported.analytics("summary", "--run", RUN) if "scores" in x]
    assert sum(int(x["scores"]) for x in scored) == len(
        [x for x in exported.measured_by_run if x["status"] == "scored"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_those_of_the_exported_rows(exported, name):
    found = exported.analytics("summary", "--by", name)
    require_summaries(found, exported.rows, GROUPS[name])


FILTERS = {
    "tags:beta": lambda x: "beta" in x["tags"],
    "NOT tags:beta": lambda x: "beta" not in x["tags"],
    'service = "shop" AND tool:search': lambda x: x["service"] == "shop" and "search" in x["tools"],
    "source = human": lambda x: x["source"] == "human",
    "judge_model = judge-2": lambda x: x["evaluator"]["model"] == "judge-2",
    'model = "gpt-4o" AND scope = trace': lambda x: x["model"] == "gpt-4o",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_takes_the_exported_rows_that_meet_it(exported, text):
    found = exported.analytics("summary", "--where", text)
    require_summaries(found, [x for x in exported.rows if FILTERS[text](x)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "name"), [("day", "%Y-%m-%d"), ("month", "%Y-%m"), ("hour", "%Y-%m-%d %H %z")]
)
def test_a_trend_has_the_rows_of_each_time(exported, unit, name):
    def time_of(at_ns):
        return f"{datetime.fromtimestamp(at_ns // 10**9, UTC).astimezone(BERLIN):{name}}"

    since, until = START_NS, START_NS + 60 * DAY_NS
    limits = [
        f"{datetime.fromtimestamp(x // 10**9, UTC):%Y-%m-%dT%H:%M:%S}" for x in (since, until)
    ]
    found = exported.analytics(
        "trend", "--unit", unit, "--time-zone", "Europe/Berlin",
        "--since", limits[0], "--until", limits[1],
    )  # fmt: skip
    expected = by_metric(
        [x for x in exported.rows if since <= x["began_ns"] < until],
        lambda x: [(time_of(x["began_ns"]),)],
    )
    points = {
        (*key_of(trend)[:3], (time_of(int(point["start_ns"])),)): point["summary"]
        for trend in found
        for point in trend["points"]
    }
    assert points.keys() == expected.keys()
    for key, rows in expected.items():
        require_summary(points[key], rows)


def written(at_ns):
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}"


@pytest.mark.slow
def test_a_distribution_is_of_the_exported_rows(exported):
    expected = by_metric([x for x in exported.rows if x["status"] == "scored"])
    found = {key_of(x): x for x in exported.analytics("distribution")}
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        one = found[key]
        labels = {x.get("label"): int(x["scores"]) for x in one["labels"]}
        assert labels == Counter(x["label"] for x in rows)
        values = sorted((x for x in rows if x["value"] is not None), key=lambda x: x["value"])
        total = sum(x["weight"] for x in values)
        last = one["bins"][-1]["high"]
        for part in one["bins"]:
            low, high = part.get("low", 0.0), part.get("high", 0.0)
            inside = [
                x for x in values if low <= x["value"] and (x["value"] < high or high == last)
            ]
            assert int(part.get("scores", 0)) == len(inside)
            share = sum(x["weight"] for x in inside) / total
            assert part["share"]["value"] == pytest.approx(share, abs=1e-9)
        for quantile in one["quantiles"]:
            so_far, wanted = 0.0, quantile["share"] * total
            for row in values:
                so_far += row["weight"]
                if so_far >= wanted - 1e-6:
                    break
            assert quantile["value"]["value"] == row["value"]


@pytest.mark.slow
def test_two_periods_and_two_versions_differ_as_the_exported_rows_do(exported):
    middle = START_NS + 60 * DAY_NS
    of_periods = exported.analytics("compare", "--at", written(middle))
    require_compared(of_periods, exported.rows, lambda x: x["began_ns"] >= middle)
    versions = ("--before", 'version = "1"', "--after", 'version = "2"')
    found = exported.analytics("compare", *versions)
    require_compared(found, exported.rows, lambda x: x["version"] == "2")


def require_compared(found, rows, is_after):
    sides = [by_metric(x for x in rows if is_after(x) is side) for side in (False, True)]
    assert {key_of(x) for x in found} == {*sides[0], *sides[1]}
    for one in found:
        of_sides = [side.get(key_of(one), []) for side in sides]
        for name, those in zip(("before", "after"), of_sides, strict=True):
            assert (name in one) is bool(those)
            if those:
                require_summary(one[name], those)
        if not all(of_sides):
            continue
        before, after = (
            {x["cluster"] for x in those if x["status"] == "scored"} for those in of_sides
        )
        assert int(one.get("shared_sessions", 0)) == len(before & after)
        for name in ("mean", "pass_rate"):
            values = [one[side][name].get("value") for side in ("before", "after")]
            difference = one[f"{name}_difference"].get("value")
            expected = None if None in values else pytest.approx(values[1] - values[0], abs=1e-9)
            assert difference == expected


def test_sessions_are_ranked_by_the_exported_rows(exported):
    clusters = defaultdict(list)
    for row in exported.rows:
        if row["status"] == "scored":
            clusters[row["cluster"]].append(row)
    found = exported.analytics("sessions", "-n", "1000")
    assert len(found) == len(clusters)
    order = []
    for one in found:
        rows = clusters.pop(one.get("session_id") or one["name"].removeprefix("traces/"))
        judged = [x for x in rows if x["passed"] is not None]
        failing = [x for x in judged if not x["passed"]]
        counts = [int(one.get(x, 0)) for x in ("scores", "judged", "failing")]
        assert counts == [len(rows), len(judged), len(failing)]
        rate = share(failing, judged) if judged else None
        assert one.get("fail_rate") == (None if rate is None else pytest.approx(rate, abs=1e-9))
        scaled = [x for x in rows if x["scale"] and x["value"] is not None]
        mean = sum(x["weight"] * on_scale(x) for x in scaled) / (share(scaled) or 1)
        assert one.get("mean", 2) == pytest.approx(mean if scaled else 2, abs=1e-9)
        order.append((-round(one.get("fail_rate", -1), 9), round(one.get("mean", 2), 9)))
    assert order == sorted(order)


def share(rows, of=None):
    total = sum(x["weight"] for x in rows)
    return total if of is None else total / sum(x["weight"] for x in of)


def on_scale(row):
    low, high = row["scale"]
    return (row["value"] - low) / (high - low)


@pytest.mark.slow
def test_a_history_is_every_score_that_is_exported_of_a_trace(exported):
    of_runs = Counter((x["subject"], x["metric"]) for x in exported.measured_by_run)
    for row in exported.rows[::211]:
        if row["scope"] != "trace":
            continue
        found = exported.analytics("history", row["metric"], "--trace", row["subject"])
        times = [int(x["evaluated_at_ns"]) for x in found]
        assert times == sorted(times)
        newest = [x for x in found if x.get("value") == row["value"] and "run" not in x]
        assert newest
        place = row["subject"], row["metric"]
        assert sum("run" in x and x["status"] == "STATUS_SCORED" for x in found) == of_runs[place]
