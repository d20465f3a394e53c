import asyncio
from dataclasses import replace

import numpy as np
import pytest

from spanscore.embed.ngrams import Ngrams
from spanscore.errors import EmbeddingError
from spanscore.metrics.trace.coherence import Coherence
from spanscore.model.score import Skip
from spanscore.model.trace import AgentTrace, Target

TRACE = AgentTrace(
    trace_ids=("a" * 32,),
    root_span_id="b" * 16,
    target=Target("a" * 32, "b" * 16, 0, 1),
    opening_span_id="b" * 16,
    started_ns=0,
    ended_ns=1,
    user_input="question",
    final_output="answer",
)


class Table:
    """An embedder with a vector of length 1 for each text it knows."""

    name = "table-1"

    def __init__(self, **vectors):
        self.vectors = {
            text: np.array(v, dtype=np.float32) / (np.linalg.norm(v) or 1)
            for text, v in vectors.items()
        }

    async def embed(self, texts):
        return np.stack([self.vectors[text] for text in texts])


class Unreachable(Table):
    async def embed(self, texts):
        raise EmbeddingError("no vectors today")


def measured(embedder, trace=TRACE, **changes):
    return asyncio.run(Coherence().measure(replace(trace, **changes), (), embedder))


def cosine(one, other):
    return np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other))


QUESTION, ANSWER = [0.3, 0.5, -0.2], [0.4, 0.1, 0.7]


def test_the_score_is_the_cosine_rounded_to_four_places():
    assert measured(Table(question=QUESTION, answer=ANSWER)).value == round(
        cosine(QUESTION, ANSWER), 4
    )


def test_the_gap_is_the_cosine_distance():
    outcome = measured(Table(question=QUESTION, answer=ANSWER))
    assert outcome.metadata == {"coherence_gap": round(1 - cosine(QUESTION, ANSWER), 4)}


def test_the_same_text_scores_one():
    assert measured(Table(question=QUESTION, answer=QUESTION)).value == 1.0


def test_an_opposite_answer_scores_zero_and_keeps_its_gap():
    outcome = measured(Table(question=[1, 0], answer=[-1, 0]))
    assert (outcome.value, outcome.metadata["coherence_gap"]) == (0.0, 2.0)


@pytest.mark.parametrize("fact", ["user_input", "final_output"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_leaves_nothing_to_compare(fact, text):
    assert Coherence().unmeasurable(replace(TRACE, **{fact: text})).cause == "not_applicable"


def test_the_reason_names_all_that_is_empty():
    outcome = Coherence().unmeasurable(replace(TRACE, user_input="", final_output=""))
    assert outcome.reason == "The input and the output are empty: there is nothing to compare."


@pytest.mark.parametrize("fact", ["user_input", "final_output"])
def test_a_text_that_was_not_recorded_is_a_skip(fact):
    assert isinstance(Coherence().unmeasurable(replace(TRACE, **{fact: None})), Skip)


def test_a_text_that_was_cut_is_a_skip():
    assert isinstance(Coherence().unmeasurable(replace(TRACE, damaged=("final_output",))), Skip)


def test_a_text_that_the_embedding_knows_nothing_of_is_a_skip():
    assert measured(Table(question=QUESTION, answer=[0, 0, 0])) == Skip(
        "table-1 knows no word of the output.", "no_words"
    )


def test_an_embedding_that_fails_is_not_made_a_score():
    with pytest.raises(EmbeddingError):
        measured(Unreachable())


def test_the_reason_names_the_embedding():
    assert "table-1" in measured(Table(question=QUESTION, answer=ANSWER)).reason


def test_the_reason_says_what_is_usual_where_no_model_embeds():
    assert "good answers mostly reach 0.09 to 0.34" in measured(Ngrams()).reason


def test_a_threshold_may_be_given_for_each_embedding():
    metric = Coherence(threshold={"ngrams": 0.15, "litellm": 0.4})
    assert [metric.threshold_for(x) for x in ("ngrams-1", "litellm/small", "model2vec/x")] == [
        0.15,
        0.4,
        None,
    ]


def test_n_grams_have_no_threshold_of_their_own():
    assert Coherence().threshold_for(Ngrams.name) is None
