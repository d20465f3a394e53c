import asyncio
from dataclasses import replace

import numpy as np
import pytest

from spanscore.embed.ngrams import Ngrams
from spanscore.errors import EmbeddingError
from spanscore.metrics.trace.loop_detection import LoopDetection, similarity, words
from spanscore.model.score import Skip
from spanscore.model.trace import AgentTrace, Target

REFUND = "Refund granted to your card today"
REFUND_AGAIN = "Refund granted again to your card"
WEATHER = "Sunny weather tomorrow"
VECTORS = {REFUND: [0.9, 0.1, 0.2], REFUND_AGAIN: [0.8, 0.3, 0.2], WEATHER: [-0.1, 0.2, 0.9]}


class Table:
    """An embedder with a vector of length 1 for each text it knows, which remembers what it was
    asked.
    """

    name = "table-1"

    def __init__(self):
        self.asked = []

    async def embed(self, texts):
        self.asked += texts
        return np.array(
            [np.array(VECTORS[x]) / np.linalg.norm(VECTORS[x]) for x in texts], dtype=np.float32
        )


class Unreachable:
    name = "unreachable-1"

    async def embed(self, texts):
        raise EmbeddingError("no vectors today")


def trace(output):
    return AgentTrace(
        trace_ids=("a" * 32,),
        root_span_id="b" * 16,
        target=Target("a" * 32, "b" * 16, 0, 1),
        opening_span_id="b" * 16,
        started_ns=0,
        ended_ns=1,
        session_id="s",
        final_output=output,
    )


def measured(output, *earlier, embedder=None, window=3):
    traces = [x if isinstance(x, AgentTrace) else trace(x) for x in earlier]
    return asyncio.run(
        LoopDetection(window=window).measure(trace(output), traces, embedder or Table())
    )


def cosine(one, other):
    one, other = np.array(VECTORS[one]), np.array(VECTORS[other])
    return one @ other / (np.linalg.norm(one) * np.linalg.norm(other))


def test_the_score_is_one_minus_cosine_times_jaccard():
    # {refund, granted, again, card} and {refund, granted, card, today}: "again", "to" and "your"
    # are stop words.
    assert measured(REFUND_AGAIN, REFUND).value == pytest.approx(
        1 - cosine(REFUND, REFUND_AGAIN) * 3 / 4
    )


def test_the_nearest_of_the_earlier_outputs_counts():
    assert measured(REFUND_AGAIN, REFUND, WEATHER).value == measured(REFUND_AGAIN, REFUND).value


def test_the_same_output_again_scores_zero():
    assert measured(REFUND, REFUND).value == pytest.approx(0.0, abs=1e-6)


def test_other_words_are_no_loop_however_near_the_meaning():
    assert measured(WEATHER, REFUND).value == 1.0


def test_each_comparison_is_in_the_metadata():
    comparison = measured(REFUND_AGAIN, WEATHER, REFUND).metadata["comparisons"][1]
    assert comparison == {
        "trace_index": 1,
        "cosine_similarity": pytest.approx(cosine(REFUND, REFUND_AGAIN)),
        "jaccard_similarity": 0.75,
        "hybrid_score": pytest.approx(cosine(REFUND, REFUND_AGAIN) * 0.75),
    }


def test_the_highest_product_is_in_the_metadata():
    metadata = measured(REFUND_AGAIN, WEATHER, REFUND).metadata
    assert metadata["max_hybrid"] == max(x["hybrid_score"] for x in metadata["comparisons"])


def test_only_the_window_is_compared():
    assert measured(REFUND, REFUND, WEATHER, WEATHER, WEATHER).value == 1.0


def test_the_window_can_be_set():
    assert measured(REFUND, REFUND, WEATHER, WEATHER, WEATHER, window=4).value == pytest.approx(
        0.0, abs=1e-6
    )


def test_the_window_is_in_the_metadata():
    assert measured(REFUND, WEATHER, window=2).metadata["window_size"] == 2


def test_an_index_is_the_place_in_the_session():
    comparisons = measured(REFUND, WEATHER, WEATHER, REFUND, WEATHER).metadata["comparisons"]
    assert [x["trace_index"] for x in comparisons] == [1, 2, 3]


def test_a_reason_counts_traces_from_one():
    assert "that of trace 2 of the session" in measured(REFUND_AGAIN, WEATHER, REFUND).reason


def test_a_trace_without_output_keeps_its_place_and_is_not_compared():
    comparisons = measured(REFUND, WEATHER, "", REFUND_AGAIN).metadata["comparisons"]
    assert [x["trace_index"] for x in comparisons] == [0, 2]


def test_all_texts_are_embedded_together():
    table = Table()
    measured(REFUND, WEATHER, REFUND_AGAIN, embedder=table)
    assert table.asked == [REFUND, WEATHER, REFUND_AGAIN]


@pytest.mark.parametrize("earlier", [[], ["", " "]])
def test_without_an_earlier_output_it_does_not_apply(earlier):
    assert measured(REFUND, *earlier, embedder=Unreachable()) == Skip(
        "The session has no earlier output: there is nothing to repeat.", "not_applicable"
    )


def test_an_empty_output_cannot_repeat_anything():
    assert measured(" ", REFUND, embedder=Unreachable()).cause == "not_applicable"


def test_an_output_that_was_not_recorded_is_a_skip():
    assert isinstance(LoopDetection().unmeasurable(trace(None)), Skip)


def test_earlier_outputs_that_were_not_recorded_are_a_skip():
    assert isinstance(measured(REFUND, None, None), Skip)


def test_earlier_outputs_that_were_redacted_are_a_skip():
    assert isinstance(
        measured(REFUND, replace(trace("[redacted]"), damaged=("final_output",))), Skip
    )


def test_recorded_outputs_count_beside_ones_that_were_not():
    assert measured(REFUND, None, REFUND).value == pytest.approx(0.0, abs=1e-6)


def test_the_same_output_of_stop_words_alone_is_a_loop():
    assert (
        measured(
            "It is that.", "It is that.", "It is that.", "It is that.", embedder=Ngrams()
        ).value
        == 0.0
    )


def test_the_same_output_without_any_word_is_a_loop():
    assert measured("👍", "👍", embedder=Ngrams()).value == 0.0


def test_an_embedding_that_does_not_know_a_repeated_output_does_not_hide_the_loop():
    class Ignorant:
        name = "ignorant-1"

        async def embed(self, texts):
            return np.zeros((len(texts), 2), dtype=np.float32)

    assert measured("zzyx", "zzyx", embedder=Ignorant()).value == 0.0
    assert measured("zzyx", "abba", embedder=Ignorant()).cause == "no_words"


@pytest.mark.parametrize("again", ["it is THAT", "It  is\nthat", "It is that"])
def test_case_and_white_space_make_no_difference_to_equality(again):
    assert measured(again, "It is that", embedder=Ngrams()).value == 0.0


def test_other_answers_of_stop_words_alone_are_no_loop():
    assert measured("Yes.", "No.", embedder=Ngrams()).value == 1.0


@pytest.mark.parametrize(
    ("text", "repeated", "other"),
    [
        (
            "您的退款已经处理完毕,三天内到账。",
            "您的退款已经处理完毕,五天内到账。",
            "明天巴黎有雨,气温十二度。",
        ),
        (
            "ご予約を確認しました。明日の十時です。",
            "ご予約を確認しました。明日の九時です。",
            "パスワードを再設定しました。",
        ),
        ("คืนเงินให้คุณแล้ววันนี้", "คืนเงินให้คุณแล้วเมื่อวาน", "พรุ่งนี้ฝนจะตกที่ปารีส"),
    ],
    ids=["Chinese", "Japanese", "Thai"],
)
def test_scripts_without_spaces_are_compared_by_characters(text, repeated, other):
    assert similarity(text, repeated) > 0.5
    assert similarity(text, other) < 0.2


def test_a_nearly_repeated_chinese_output_scores_below_a_new_one():
    again = measured(
        "您的退款已经处理完毕,五天内到账。", "您的退款已经处理完毕,三天内到账。", embedder=Ngrams()
    )
    new = measured(
        "明天巴黎有雨,气温十二度。", "您的退款已经处理完毕,三天内到账。", embedder=Ngrams()
    )
    assert again.value < 0.5 < new.value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the x is a plane; i like planes", {"plane", "planes"}),
        ("été déjà à l'avion", {"été", "déjà", "avion"}),
        ("नमस्ते, दुनिया", {"नमस्ते", "दुनिया"}),
        ("예약이 확인되었습니다", {"예약이", "확인되었습니다"}),
        ("iphone 15を買う", {"iphone", "15", "を買", "買う"}),
        ("水", {"水"}),
    ],
)
def test_the_words_of_a_text(text, found):
    assert words(text) == found


def test_an_embedding_that_fails_is_not_made_a_score():
    with pytest.raises(EmbeddingError):
        measured(REFUND, REFUND, embedder=Unreachable())
