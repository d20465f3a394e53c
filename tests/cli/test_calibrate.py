"""Labels beside scores: what is reported and kept, and that later pass rates are corrected by
it.
"""

import json
import math
import random
from pathlib import Path

import pytest

from spanscore.cli.main import main
from spanscore.export import spans
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import Target
from spanscore.otlp.files import load
from spanscore.received_scores import read_external
from spanscore.store.config import Config as StoreConfig
from spanscore.store.store import Store

RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
JUDGE = {
    "kind": "LLM",
    "name": "judge",
    "version": "1",
    "model": "m",
    "prompt_hash": "0" * 16,
    "embedding": None,
}
METRIC = "task_completion"


def score(number, value, **fields):
    return {
        "scope": "trace",
        "status": "scored",
        "metric": METRIC,
        "value": value,
        "scale": [0, 1],
        "label": "pass" if value >= 0.5 else "fail",
        "threshold": 0.5,
        "metadata": {},
        "trace_id": f"{number:032x}",
        "span_id": "a" * 16,
        "session_id": None,
        "evaluator": JUDGE,
        "revision": 1,
        **fields,
    }


def label(number, said, **fields):
    return {"trace_id": f"{number:032x}", "metric": METRIC, "label": said, **fields}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to be in, on a terminal of 120 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def ran(place, capsys):
    """Run a command: exit code, standard output, standard error."""

    def run(*words):
        code = main([str(x) for x in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def files(place):
    """Labels of 80 traces and a lenient judge's scores of 200: 100 truly pass."""
    rng = random.Random(1)
    scores, labels = [], []
    for number in range(200):
        passes = number % 2 == 0
        is_right = rng.random() < (0.95 if passes else 0.7)
        value = rng.uniform(0.5, 1) if passes == is_right else rng.uniform(0, 0.49)
        scores.append(score(number, value))
        labels.append(label(number, "pass" if passes else "fail"))
    write(place / "scores.jsonl", scores)
    write(place / "labels.jsonl", labels[:80])
    write(place / "more.jsonl", scores[80:])
    return place


def write(path, rows):
    path.write_text("".join(f"{json.dumps(x)}\n" for x in rows), encoding="utf-8")


@pytest.mark.slow
def test_everything_is_reported_with_its_interval(ran, files):
    code, out, err = ran("calibrate", "labels.jsonl", "scores.jsonl", "--json")
    [found] = [json.loads(line) for line in out.splitlines()]
    wanted = [
        "agreement",
        "Cohen's kappa",
        "sensitivity",
        "specificity",
        "precision",
        "AUC",
        "best threshold",
    ]
    assert (code, err, found["n"], list(found["measures"])[:7]) == (0, "", 80, wanted)
    assert all(found["measures"][x]["low"] <= found["measures"][x]["value"] for x in wanted)


@pytest.mark.slow
def test_a_person_sees_the_judge_and_the_table(ran, files):
    out = ran("calibrate", "labels.jsonl", "scores.jsonl")[1]
    assert (
        out.splitlines()[0]
        == "task_completion by m (version 1, prompt 000000000000), passes from 0.5"
    )
    assert (
        out.splitlines()[-1]
        == "Kept in sqlite:///spanscore.db; pass rates by the same judge are now corrected."
    )


@pytest.mark.slow
def test_a_later_pass_rate_is_corrected_and_holds_the_truth(ran, files):
    ran("calibrate", "labels.jsonl", "scores.jsonl")
    [found] = json.loads(ran("compare", "more.jsonl", "more.jsonl", "--json")[1])[
        "corrected_pass_rates"
    ]["a"]
    assert found["judged"]["low"] > 0.5
    assert found["corrected"]["low"] <= 0.5 <= found["corrected"]["high"]


@pytest.mark.slow
def test_a_comparison_says_what_the_correction_rests_on(ran, files):
    ran("calibrate", "labels.jsonl", "scores.jsonl")
    out = " ".join(ran("compare", "more.jsonl", "more.jsonl")[1].split())
    assert "A: task_completion: pass rate by the judge" in out
    assert "80 labels; Rogan-Gladen)" in out


def test_scores_by_another_prompt_are_not_corrected(ran, files):
    ran("calibrate", "labels.jsonl", "scores.jsonl")
    write(
        files / "other.jsonl",
        [score(n, 0.7, evaluator={**JUDGE, "prompt_hash": "1" * 16}) for n in range(20)],
    )
    [found] = json.loads(ran("compare", "other.jsonl", "other.jsonl", "--json")[1])[
        "corrected_pass_rates"
    ]["a"]
    assert found["corrected"] is None
    assert found["note"].endswith("is of another prompt")


@pytest.mark.slow
def test_eval_corrects_what_was_calibrated_on_the_same_recording(ran, place):
    by_spelling = {
        "embedding": {"provider": "ngrams"},
        "evaluation": {"metrics": {"coherence": {"threshold": 0.15}}},
    }
    (place / "c.yaml").write_text(json.dumps(by_spelling))
    options = (RECORDING, "--metric", "coherence", "-c", "c.yaml")
    ran_eval = ran("eval", *options, "--jsonl")[1]
    found = [json.loads(line) for line in ran_eval.splitlines()]
    rows = [
        {"trace_id": x["trace_id"], "label": "fail" if n else "pass"} for n, x in enumerate(found)
    ]
    write(place / "labels.jsonl", rows)
    assert ran("calibrate", "labels.jsonl", *options)[0] == 0
    out = " ".join(ran("eval", *options)[1].split())
    assert "coherence: pass rate by the judge" in out
    assert f"{len(found)} labels, {len(found)} of them of these; prediction-powered)" in out


def test_without_a_calibration_nothing_is_said_and_no_store_is_made(ran, place):
    assert "pass rate by the judge" not in ran("eval", RECORDING, "--metric", "coherence")[1]
    assert list(place.iterdir()) == []


def test_nothing_is_kept_where_that_is_asked(ran, files):
    ran("calibrate", "labels.jsonl", "scores.jsonl", "--no-store")
    assert not (files / "spanscore.db").exists()


def test_the_configuration_says_where_it_is_kept(ran, files):
    (files / "spanscore.yaml").write_text("store: {url: sqlite:///elsewhere.db}")
    ran("calibrate", "labels.jsonl", "scores.jsonl", "-c", "spanscore.yaml")
    assert [(files / x).exists() for x in ("elsewhere.db", "spanscore.db")] == [True, False]


def test_what_is_kept_is_listed(ran, files):
    ran("calibrate", "labels.jsonl", "scores.jsonl")
    rows = ran("calibrate", "--list")[1].splitlines()
    assert rows[1].split()[1:6] == ["task_completion", "m", "1", "00000000", "0.5"]


def test_an_empty_list_makes_no_store(ran, place):
    code, out, _ = ran("calibrate", "--list")
    assert (code, "holds no calibration" in out, list(place.iterdir())) == (0, True, [])


def test_a_table_of_labels_is_read_too(ran, files):
    rows = "".join(f"{n:032x},{'pass' if n % 2 == 0 else 'fail'},ann\n" for n in range(80))
    (files / "labels.csv").write_text(f"trace_id,label,annotator\n{rows}")
    out = ran(
        "calibrate", "labels.csv", "scores.jsonl", "--metric", METRIC, "--json", "--no-store"
    )[1]
    assert json.loads(out)["n"] == 80


def test_two_annotators_are_compared(ran, files):
    rows = [label(n, "pass" if n % 2 else "fail", annotator="a") for n in range(20)]
    rows += [label(n, "pass" if n % 2 and n > 4 else "fail", annotator="b") for n in range(20)]
    write(files / "labels.jsonl", rows)
    measures = json.loads(ran("calibrate", "labels.jsonl", "scores.jsonl", "--json")[1])["measures"]
    assert (measures["agreement of a and b"]["value"], measures["kappa of a and b"]["n"]) == (
        0.9,
        20,
    )


def test_a_run_of_a_suite_holds_scores_too(ran, files):
    trials = [{"evaluations": [score(n, 0.9 if n % 2 else 0.1)]} for n in range(80)]
    run = {"schema": "spanscore.run/1", "suite": "s", "cases": [{"id": "c", "trials": trials}]}
    (files / "run.json").write_text(json.dumps(run))
    assert json.loads(ran("calibrate", "labels.jsonl", "run.json", "--json")[1])["n"] == 80


def test_another_threshold_gives_other_verdicts(ran, files):
    words = ("calibrate", "labels.jsonl", "scores.jsonl", "--json", "--no-store")
    strict = json.loads(ran(*words, "--threshold", "0.9")[1])
    assert strict["judge"]["threshold"] == 0.9
    assert strict["measures"]["sensitivity"]["value"] < 0.5


def test_labels_of_one_class_leave_out_what_they_cannot_tell(ran, files):
    write(files / "labels.jsonl", [label(n, "pass") for n in range(0, 20, 2)])
    code, out, _ = ran("calibrate", "labels.jsonl", "scores.jsonl", "--json")
    measures = json.loads(out)["measures"]
    assert (code, measures["specificity"]) == (0, {"why_not": "no label says fail"})
    assert measures["sensitivity"]["n"] == 10


@pytest.mark.parametrize(
    ("labels", "words", "why"),
    [
        ("", (), "labels.jsonl: the file is empty"),
        ("nonsense {", (), "labels.jsonl:1: no column label or score"),
        (
            '{"trace_id": "a", "metric": "task_completion", "label": "pass"}\n{',
            (),
            "labels.jsonl:2: not JSON",
        ),
        (
            '{"trace_id": "a", "metric": "task_completion", "label": "pass"}',
            (),
            "there is no trace 'a' with a score",
        ),
        (
            '{"trace_id": "a", "metric": "coherance", "label": "pass"}',
            (),
            "there is no score of 'coherance'",
        ),
        ('{"trace_id": "a", "label": "pass"}', (), "labels.jsonl:1: no metric"),
        (
            '{"trace_id": "a", "label": "pass"}',
            ("--metric", METRIC, "--threshold", "7"),
            "--threshold: 7 is off the scale of task_completion, which is 0 to 1",
        ),
    ],
)
def test_bad_labels_are_one_line_and_exit_code_2(ran, files, labels, words, why):
    (files / "labels.jsonl").write_text(labels)
    code, out, err = ran("calibrate", "labels.jsonl", "scores.jsonl", *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("calibrate",), "give labels and what they are about"),
        (("calibrate", "labels.jsonl"), "give labels and what they are about"),
        (("calibrate", "labels.jsonl", "nowhere.jsonl"), "nowhere.jsonl"),
        (("calibrate", "labels.jsonl", "scores.jsonl", RECORDING), "give one kind"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(ran, files, words, why):
    code, _, err = ran(*words)
    assert (code, len(err.splitlines())) == (2, 1)
    assert why in err


def test_an_unknown_metric_to_measure_is_named_before_anything_is_scored(ran, files):
    (files / "labels.jsonl").write_text('{"trace_id": "a", "metric": "coherance", "label": "pass"}')
    code, _, err = ran("calibrate", "labels.jsonl", RECORDING)
    assert (code, "did you mean coherence?" in err) == (2, True)


def test_a_store_that_cannot_be_read_leaves_rates_as_they_are(ran, files):
    (files / "spanscore.db").write_text(
        "no database at all, but long enough to be looked at as one" * 20
    )
    code, _, err = ran("compare", "more.jsonl", "more.jsonl")
    assert (code, "warning: pass rates are not corrected" in err) == (0, True)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (True, "True is no number"),
        ("0.8", "'0.8' is no number"),
        (math.nan, "nan is no number"),
        (1.5, "not within 0 and 1"),
    ],
)
def test_a_score_that_is_no_number_of_its_scale_is_refused(ran, place, value, why):
    write(place / "scores.jsonl", [{**score(0, 0.8), "value": value}])
    write(place / "labels.jsonl", [label(0, "pass")])
    code, _, err = ran("calibrate", "labels.jsonl", "scores.jsonl")
    assert (code, err.count("\n")) == (2, 1)
    assert why in err


@pytest.mark.slow
def test_the_scores_on_which_the_judge_is_unsure_are_reported(ran, files):
    out = ran("calibrate", "labels.jsonl", "scores.jsonl")[1]
    assert "unsure scores: " in out


@pytest.mark.slow
def test_the_unsure_scores_are_around_the_threshold(ran, place):
    said = [(0.1, "fail")] * 20 + [(0.6, "pass"), (0.6, "fail")] * 5 + [(0.9, "pass")] * 20
    write(place / "scores.jsonl", [score(x, value) for x, (value, _) in enumerate(said)])
    write(place / "labels.jsonl", [label(x, passes) for x, (_, passes) in enumerate(said)])
    out = ran("calibrate", "labels.jsonl", "scores.jsonl", "--json", "--unsure", "unsure.json")[1]
    assert json.loads(out)["unsure"]["limits"] == pytest.approx([0.35, 0.75])
    assert json.loads((place / "unsure.json").read_text()) == {METRIC: pytest.approx([0.35, 0.75])}


def test_unsure_scores_of_two_judges_of_one_metric_are_not_written(ran, place):
    by_other = {**score(1, 0.9), "evaluator": {**JUDGE, "model": "other"}}
    write(place / "scores.jsonl", [score(0, 0.9), by_other])
    write(place / "labels.jsonl", [label(0, "pass"), label(1, "pass")])
    code, _, err = ran("calibrate", "labels.jsonl", "scores.jsonl", "--unsure", "unsure.json")
    assert (code, "a metric was scored by several judges" in err) == (2, True)


def thumbs(number, value, *, name="helpful", at_ns=1, **more):
    """One line of OTLP: what somebody thinks of a trace."""
    attributes = {"gen_ai.evaluation.name": name, "spanscore.score.source": "human", **more}
    given = {"boolValue": value} if isinstance(value, bool) else {"doubleValue": value}
    record = {
        "traceId": f"{number:032x}",
        "spanId": "a" * 16,
        "timeUnixNano": str(at_ns),
        "eventName": "gen_ai.evaluation.result",
        "attributes": [
            {"key": "gen_ai.evaluation.score.value", "value": given},
            *({"key": key, "value": {"stringValue": x}} for key, x in attributes.items()),
        ],
    }
    return {"resourceLogs": [{"scopeLogs": [{"scope": {"name": "app"}, "logRecords": [record]}]}]}


@pytest.fixture
def liked(place):
    """Ten scores, the first five of which pass, and the telemetry of ten thumbs, the last of which
    disagrees.
    """
    (place / "scores.jsonl").write_text(
        "\n".join(json.dumps(score(n, 0.9 if n <= 5 else 0.1)) for n in range(1, 11))
    )
    lines = [thumbs(n, n <= 5 or n == 10) for n in range(1, 11)]
    (place / "thumbs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return place


RECORDED = (
    "calibrate",
    "--labels-from",
    "helpful",
    "--metric",
    METRIC,
    "thumbs.jsonl",
    "scores.jsonl",
    "--no-store",
)


def test_a_thumbs_up_is_a_label(liked, ran):
    code, out, err = ran(*RECORDED, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["confusion"] == {
        "true_pass": 5,
        "false_fail": 1,
        "false_pass": 0,
        "true_fail": 4,
    }


def test_a_rating_is_a_label_from_the_value_that_passes(liked, ran):
    ratings = [thumbs(n, 5.0 if n <= 5 else 2.0) for n in range(1, 11)]
    (liked / "thumbs.jsonl").write_text("\n".join(map(json.dumps, ratings)))
    code, out, _ = ran(*RECORDED, "--json", "--pass-from", "4")
    assert (code, json.loads(out)["n"]) == (0, 10)


def test_ratings_without_such_a_value_are_no_labels(liked, ran):
    (liked / "thumbs.jsonl").write_text(json.dumps(thumbs(1, 5.0)))
    code, _, err = ran(*RECORDED)
    assert code == 2
    assert "1 of 1 scores named helpful are no pass and no fail; --pass-from X" in err


def test_labels_of_what_was_not_scored_are_counted_and_left_out(liked, ran):
    with (liked / "thumbs.jsonl").open("a") as file:
        file.write("\n" + json.dumps(thumbs(77, True)))
    code, _, err = ran(*RECORDED)
    assert (code, err) == (0, "spanscore: left out: 1 of 11 labels, of what was not scored\n")


def test_who_changes_their_mind_counts_by_the_last_score(liked, ran):
    with (liked / "thumbs.jsonl").open("a") as file:
        file.write("\n" + json.dumps(thumbs(10, False, at_ns=2)))
    _, out, _ = ran(*RECORDED, "--json")
    assert json.loads(out)["confusion"]["false_fail"] == 0


def test_only_people_label_unless_another_source_is_named(liked, ran):
    lines = [thumbs(n, True, **{"spanscore.score.source": "programmatic"}) for n in range(1, 11)]
    (liked / "thumbs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    code, _, err = ran(*RECORDED)
    assert code == 2
    assert "no such label from the source human; --label-source any takes everybody's" in err
    assert ran(*RECORDED, "--label-source", "programmatic")[0] == 0


def test_which_metric_they_are_held_against_has_to_be_named(liked, ran):
    code, _, err = ran("calibrate", "--labels-from", "helpful", "thumbs.jsonl", "scores.jsonl")
    assert code == 2
    assert "--labels-from helpful: give --metric NAME too" in err


def test_scores_that_others_gave_are_no_verdicts(liked, ran):
    other = score(20, 1.0, evaluator={**JUDGE, "source": "deepeval"}, scale=None)
    with (liked / "scores.jsonl").open("a") as file:
        file.write("\n" + json.dumps(other))
    _, out, _ = ran(*RECORDED, "--json")
    assert json.loads(out)["scored"] == 10


@pytest.mark.parametrize(
    ("wrong", "last"),
    [
        (0, f"{METRIC} is certified."),
        (9, f"{METRIC} is not certified: sensitivity may be as low as 0.78, and 0.8 is required."),
    ],
)
def test_labels_in_the_store_earn_a_judge_its_certificate(place, ran, wrong, last):
    store = Store.open(StoreConfig(url=f"sqlite:///{place}/store.db"))
    found = [score(n, 0.1 if n <= wrong or n > 75 else 0.9) for n in range(1, 151)]
    lines = [json.dumps(thumbs(n, n <= 75)) for n in range(1, 151)]
    (place / "thumbs.jsonl").write_text("\n".join(lines))
    store.commit([], list(map(evaluation, found)))
    store.put_external(read_external([], load([place / "thumbs.jsonl"]).logs))
    store.close()
    (place / "server.yaml").write_text(
        f"store: {{url: 'sqlite:///{place}/store.db'}}\njudge: {{require: certified}}\n"
    )
    words = ("calibrate", "--labels-from", "helpful", "--metric", METRIC, "-c", "server.yaml")
    assert ran(*words)[1].splitlines()[-1] == last


def test_without_files_labels_and_scores_are_those_in_the_store(place, ran):
    store = Store.open(StoreConfig(url=f"sqlite:///{place}/store.db"))
    found = [score(n, 0.9 if n <= 5 else 0.1) for n in range(1, 11)]
    lines = [json.dumps(thumbs(n, n <= 5)) for n in range(1, 11)]
    (place / "thumbs.jsonl").write_text("\n".join(lines))
    store.commit([], list(map(evaluation, found)))
    store.put_external(read_external([], load([place / "thumbs.jsonl"]).logs))
    store.close()
    (place / "server.yaml").write_text(f"store: {{url: 'sqlite:///{place}/store.db'}}")
    words = (
        "calibrate",
        "--labels-from",
        "scores:helpful",
        "--metric",
        METRIC,
        "-c",
        "server.yaml",
        "--json",
    )
    code, out, err = ran(*words)
    assert (code, err) == (0, "")
    assert json.loads(out)["confusion"] == {
        "true_pass": 5,
        "false_fail": 0,
        "false_pass": 0,
        "true_fail": 5,
    }


def evaluation(found):
    return Evaluation(
        scope="trace",
        subject_id=found["trace_id"],
        metric=found["metric"],
        outcome=Score(found["value"], "because"),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator(**JUDGE),
        target=Target(found["trace_id"], found["span_id"], 1, 2),
        session_id=None,
    )


def test_scores_that_a_server_exported_are_read(place, ran):
    request = spans.request(
        [evaluation(score(n, 0.9 if n <= 5 else 0.1)) for n in range(1, 11)], "child", 8192
    )
    (place / "exported.pb").write_bytes(request)
    rows = [f"{n:032x},{METRIC},{'pass' if n <= 5 else 'fail'}" for n in range(1, 11)]
    (place / "labels.csv").write_text("\n".join(["trace_id,metric,label", *rows]))
    code, out, _ = ran("calibrate", "labels.csv", "exported.pb", "--no-store", "--json")
    assert (code, json.loads(out)["n"]) == (0, 10)
