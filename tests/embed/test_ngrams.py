import asyncio
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from spanscore.embed.ngrams import DIMENSIONS, Ngrams


def vectors(*texts):
    return asyncio.run(Ngrams().embed(texts))


def cosine(one, other):
    first, second = vectors(one, other)
    return float(first @ second)


def by_hand(text):
    """The documented method, with dicts and Python's integers instead of arrays."""
    data = f" {' '.join(text.casefold().split())} ".encode()
    grams = {data[i : i + size] for size in (3, 5) for i in range(len(data) - size + 1)}
    counts = Counter()
    for gram in grams:
        for _ in range(sum(data[i : i + len(gram)] == gram for i in range(len(data)))):
            mixed = int.from_bytes(gram, "little") * 0x9E3779B97F4A7C15 % 2**64
            mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 % 2**64
            slot = mixed >> 52
            counts[slot % DIMENSIONS] += 1 if slot < DIMENSIONS else -1
    vector = np.sign([counts[i] for i in range(DIMENSIONS)])
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    "text", ["a", "Hello", "Where is my order 42?", "naïve Ünïcode", "机票改签", "🛫🛬"]
)
def test_a_vector_is_what_the_method_gives_by_hand(text):
    np.testing.assert_allclose(vectors(text)[0], by_hand(text), atol=1e-6)


@given(st.text())
def test_a_vector_has_length_one_or_no_feature(text):
    length = float(np.linalg.norm(vectors(text)[0]))
    assert length == pytest.approx(1.0 if text.split() else 0.0, abs=1e-5)


@pytest.mark.slow
def test_another_process_with_another_hash_seed_gives_the_same_vector():
    code = "import asyncio; from spanscore.embed.ngrams import Ngrams; "
    code += "print(asyncio.run(Ngrams().embed(['Where is my order?'])).tobytes().hex())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == vectors("Where is my order?").tobytes().hex()


def test_case_and_white_space_make_no_difference():
    assert cosine("Refund  the\nORDER ", "refund the order") == pytest.approx(1.0)


def test_a_repeated_text_is_the_same_as_the_text_once():
    assert cosine("refund the order " * 5, "refund the order order refund") > 0.8


def test_texts_that_share_words_are_nearer_than_texts_that_do_not():
    asked = "Cancel my flight from Paris to Rome"
    assert (
        cosine(asked, "Your flight to Rome was cancelled")
        > cosine(asked, "Bake it for an hour at low heat") + 0.2
    )


def test_no_texts_give_no_rows():
    assert vectors().shape == (0, DIMENSIONS)
