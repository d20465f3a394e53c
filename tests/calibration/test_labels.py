"""Labels are read from JSON Lines and CSV; what is wrong with them is said with its line."""

import pytest

from spanscore.calibration import Label, read_labels
from spanscore.errors import InputError


def test_json_lines_and_csv_say_the_same(written):
    lines = '{"trace_id": "A1", "metric": "m", "label": "pass", "annotator": "ann"}\n'
    table = 'trace_id,metric,label,annotator,comment\nA1,m,pass,ann,"good, really"\n'
    one, other = read_labels(written(lines)), read_labels(written(table, "labels.csv"))
    assert one == [Label("a1", is_session=False, metric="m", value=1.0, annotator="ann", line=1)]
    assert [(x.subject, x.metric, x.value, x.annotator) for x in other] == [("a1", "m", 1.0, "ann")]


@pytest.mark.parametrize("word", ['"pass"', '"TRUE"', '"yes"', '"1"', "1", "true"])
def test_words_that_pass(written, word):
    assert (
        read_labels(written(f'{{"session_id": "s", "metric": "m", "label": {word}}}'))[0].value == 1
    )


@pytest.mark.parametrize("word", ['"fail"', '"False"', '" no "', '"0"', "0", "false"])
def test_words_that_fail(written, word):
    assert (
        read_labels(written(f'{{"session_id": "s", "metric": "m", "label": {word}}}'))[0].value == 0
    )


def test_a_score_is_a_grade(written):
    [label] = read_labels(written("session_id,metric,score\nS,m,0.7\n"))
    assert (label.value, label.is_grade, label.is_session) == (0.7, True, True)


def test_a_metric_can_be_given_for_all(written):
    [label] = read_labels(written("trace_id,label\na,pass\n"), "coherence")
    assert label.metric == "coherence"


def test_a_byte_order_mark_is_no_part_of_a_heading(written):
    assert len(read_labels(written("\ufefftrace_id,metric,label\na,m,pass\n"))) == 1


@pytest.mark.parametrize("separator", [",", ", ", ";", "\t"])
def test_columns_are_parted_as_spreadsheets_do(written, separator):
    text = "Trace_ID,Metric,Label\na,m,pass\n,,\nb,m,FAIL\n".replace(",", separator)
    assert [(x.subject, x.value, x.line) for x in read_labels(written(text))] == [
        ("a", 1, 2),
        ("b", 0, 4),
    ]


def test_utf_16_is_read_where_it_says_so(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("trace_id,metric,label,annotator\na,m,pass,J\u00f6rg\n", encoding="utf-16")
    assert read_labels(path)[0].annotator == "J\u00f6rg"


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes("trace_id,metric,label,annotator\na,m,pass,J\u00f6rg\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8 text; save it as UTF-8"):
        read_labels(path)


def test_the_same_label_twice_counts_once(written):
    line = '{"trace_id": "a", "metric": "m", "label": "pass"}\n'
    assert len(read_labels(written(line * 2))) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "labels.jsonl: the file is empty"),
        ("\n \n", "labels.jsonl: the file is empty"),
        ("trace_id,metric,label\n", "a heading and no label"),
        ("trace_id,metric\na,m\n", ":1: no column label or score"),
        ('{"trace_id": "a", "metric": "m", "label": "pass"}\nhello', ":2: not JSON"),
        ('{"trace_id": "a", "metric": "m", "label": "pass"}\n[1]', ":2: not a JSON object"),
        ('[{"trace_id": "a"}]', ":1: a JSON array; write one JSON object a line"),
        ('{"metric": "m", "label": "pass"}', ":1: neither trace_id nor session_id"),
        (
            '{"trace_id": "a", "session_id": "b", "metric": "m", "label": "pass"}',
            ":1: both trace_id and session_id",
        ),
        (
            '{"trace_id": "a", "label": "pass"}',
            ":1: no metric; name it there, or give --metric NAME",
        ),
        (
            '{"trace_id": "a", "metric": "m", "label": "maybe"}',
            ":1: label 'maybe' is neither pass nor fail",
        ),
        (
            '{"trace_id": "a", "metric": "m", "label": 0.7}',
            ":1: label '0.7' is neither pass nor fail; a grade",
        ),
        ('{"trace_id": "a", "metric": "m", "score": "high"}', ":1: score 'high' is no number"),
        ('{"trace_id": "a", "metric": "m", "score": NaN}', ":1: score 'nan' is no number"),
        ('{"trace_id": "a", "metric": "m", "score": true}', ":1: score 'True' is no number"),
        (
            '{"trace_id": "a", "metric": "m", "score": "0.8"}',
            ":1: score '0.8' is no number; write it without quotes",
        ),
        (
            '{"trace_id": "a", "metric": "m", "label": 0.8}',
            ":1: label '0.8' is neither pass nor fail",
        ),
        ("trace_id,metric,score\na,m,nan\n", ":2: score 'nan' is no number"),
        ("trace_id,metric,score\na,m,inf\n", ":2: score 'inf' is no number"),
        ("trace_id,metric,score\na,m,1e999\n", ":2: score 'inf' is no number"),
        ("trace_id,metric,score\na,m,1_0\n", ":2: score '1_0' is no number"),
        ("trace_id,metric,score\na,m,true\n", ":2: score 'true' is no number"),
        (
            "trace_id;metric;score\na;m;0,8\n",
            ":2: score '0,8' is no number; write it with a point, as 0.8",
        ),
        ('{"trace_id": "a", "metric": "m"}', ":1: no label and no score"),
        (
            '{"trace_id": "a", "metric": "m", "label": "pass", "score": 1}',
            ":1: both a label and a score",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(written, text, why):
    with pytest.raises(InputError) as error:
        read_labels(written(text))
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_one_annotator_cannot_say_two_things(written):
    line = '{{"trace_id": "a", "metric": "m", "label": "{}", "annotator": "ann"}}\n'
    with pytest.raises(InputError, match=r":2: m of a: 'ann' says 0, and 1 on line 1; keep one"):
        read_labels(written(line.format("pass") + line.format("fail")))


def test_two_annotators_can(written):
    line = '{{"trace_id": "a", "metric": "m", "label": "{}", "annotator": "{}"}}\n'
    assert len(read_labels(written(line.format("pass", "ann") + line.format("fail", "bob")))) == 2


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.csv: No such file"):
        read_labels(tmp_path / "nowhere.csv")
