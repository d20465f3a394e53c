"""By which names a measured embedding is known, and what a similarity is worth in the session
metrics.
"""

import pytest

from spanscore.metrics.trace import coherence
from spanscore.metrics.trace.coherence import MEASURED, Coherence, Scale, scale_of


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(coherence, "MEASURED", {"all-minilm": Scale(0.2)})


@pytest.mark.parametrize(
    "name",
    [
        "litellm/ollama/all-minilm",
        "litellm/ollama/All-MiniLM:latest",
        "model2vec/all-minilm@0123456789ab",
    ],
)
@pytest.mark.usefixtures("measured")
def test_a_model_is_known_whoever_provides_it(name):
    assert scale_of(name) == Scale(0.2)


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "ngrams-1",
        "litellm/all-minilm-l12",
        "litellm/ollama/all-minilm:33m",
        "model2vec/all@minilm",
    ],
)
@pytest.mark.usefixtures("measured")
def test_another_model_is_not_known(name):
    assert scale_of(name) is None


@pytest.mark.parametrize("scale", MEASURED.values())
def test_a_threshold_lies_where_similarities_do(scale):
    assert 0 < scale.threshold < 1


@pytest.mark.parametrize("similarity", [-1.0, 0.0, 0.1, 0.2, 1.0])
def test_a_similarity_by_itself_is_a_doubt_at_most(similarity):
    assert 0.5 <= Scale(0.2).signal(similarity) <= 1.0


@pytest.mark.parametrize(
    "name",
    [
        "litellm/ollama/all-minilm",
        "litellm/huggingface/sentence-transformers/all-MiniLM-L6-v2",
        "model2vec/wordllama-l2-supercat-256@0123456789ab",
    ],
)
def test_the_embeddings_that_were_measured_bring_their_threshold(name):
    assert Coherence().threshold_for(name) == scale_of(name).threshold
