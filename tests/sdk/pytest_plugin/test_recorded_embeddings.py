"""A provider's embeddings are recorded beside the tests, and replayed without the provider."""

import hashlib
import json

import numpy as np
import pytest

from spanscore.embed.litellm import LiteLLM
from spanscore.sdk.cassettes import rounded, unit

pytest_plugins = ["pytester"]

TEST = """
from agent import agent

def test_it(spanscore):
    agent("Where is my order?", answer="It is on its way to you.")
    agent("And when will it be here?", answer="It will be here tomorrow.")
    value = spanscore.expect("coherence", at_least=0).value
    print(f"coherence: {value!r}")
"""


async def embed(_self, texts):
    """What the provider would answer."""
    seeds = [int(hashlib.sha256(x.encode()).hexdigest()[:8], 16) for x in texts]
    found = np.array([np.random.default_rng(x).normal(size=64) for x in seeds], dtype=np.float32)
    found += 1
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def recording():
    """What the first test records, which the others are given."""
    return {}


@pytest.fixture
def recorded(project, recording, monkeypatch):
    """A project whose provider's embeddings are recorded and that cannot reach it any more; and
    what it scored.
    """
    project.makefile(".yaml", spanscore="embedding: {model: text-embedding-3-small}")
    project.makeini("[pytest]\naddopts = -p no:cacheprovider -s\nspanscore_config = spanscore.yaml")
    project.makepyfile(test_shop=TEST)
    if not recording:
        with monkeypatch.context() as patched:
            patched.setattr(LiteLLM, "embed", embed)
            run = project.runpytest_inprocess("--spanscore-record=once")
        run.assert_outcomes(passed=1)
        recording.update(score=_score(run), cassette=_path(project).read_text())
    _path(project).parent.mkdir(parents=True, exist_ok=True)
    _path(project).write_text(recording["cassette"])
    project.makeconftest("import sys; sys.modules['litellm'] = None")
    return project, recording["score"]


def _score(run):
    return [x.partition("coherence: ")[2] for x in run.outlines if "coherence: " in x]


def _path(project):
    return project.path / "cassettes" / "test_shop" / "test_it.json"


@pytest.mark.slow
def test_a_score_is_the_same_without_the_provider(recorded):
    project, scored = recorded
    run = project.runpytest_inprocess("--spanscore-record=none")
    run.assert_outcomes(passed=1)
    assert _score(run) == scored != []


def test_it_is_the_same_where_no_embedding_is_configured(recorded):
    project, scored = recorded
    project.makefile(".yaml", spanscore="{}")
    assert _score(project.runpytest_inprocess()) == scored


def test_a_file_names_the_embedding_and_the_text(recorded):
    found = json.loads(_path(recorded[0]).read_text())["embeddings"]
    assert {x["embedding"] for x in found} == {"litellm/text-embedding-3-small"}
    assert "Where is my order?" in " ".join(x["text"] for x in found)


def test_a_text_that_is_not_recorded_fails_with_what_to_do(recorded):
    project, _ = recorded
    project.makepyfile(test_shop=TEST.replace("tomorrow", "on Monday"))
    run = project.runpytest_inprocess("--spanscore-record=none")
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(
        ["E *has no embedding by litellm/text-embedding-3-small of *--spanscore-record=new*"]
    )


def test_a_written_vector_keeps_its_cosines():
    vectors = np.random.default_rng(1).normal(size=(20, 1536)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    written = np.stack([unit(x) for x in rounded(vectors)])
    assert np.abs(written @ written.T - vectors @ vectors.T).max() < 1e-4


def test_a_vector_of_zeros_stays_one():
    assert not unit(rounded(np.zeros((1, 4), dtype=np.float32))[0]).any()
