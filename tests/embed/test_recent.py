import asyncio

import numpy as np
import pytest

from spanscore.embed.port import Recent, of_tenant
from spanscore.errors import EmbeddingError


class Counting:
    """An embedder that remembers what it was asked; a text's vector is its length and one."""

    name = "counting"

    def __init__(self):
        self.asked = []

    async def embed(self, texts):
        self.asked += texts
        return np.array([[len(text), 1] for text in texts], dtype=np.float32)


class Failing(Counting):
    async def embed(self, texts):
        raise EmbeddingError("no vectors today")


def embedded(recent, *calls):
    async def run():
        return [await recent.embed(texts) for texts in calls]

    return asyncio.run(run())


def opened(inner, *, max_texts=10, max_chars=100):
    return Recent(inner, max_texts=max_texts, max_chars=max_chars)


def test_what_one_tenant_had_embedded_is_embedded_again_for_another():
    inner = Counting()
    recent = opened(inner)

    async def run():
        for tenant in ("acme", "blue", "acme", ""):
            await of_tenant(recent, tenant).embed(["a"])

    asyncio.run(run())
    assert inner.asked == ["a", "a", "a"]


def test_a_text_is_embedded_once():
    inner = Counting()
    embedded(opened(inner), ["a", "bb"], ["bb", "a"])
    assert inner.asked == ["a", "bb"]


def test_a_text_given_twice_in_one_call_is_embedded_once():
    inner = Counting()
    embedded(opened(inner), ["a", "a"])
    assert inner.asked == ["a"]


def test_rows_are_in_the_order_of_the_texts():
    rows = embedded(opened(Counting()), ["bb"], ["ccc", "bb", "a"])[1]
    assert rows[:, 0].tolist() == [3, 2, 1]


def test_the_text_used_longest_ago_is_forgotten_first():
    inner = Counting()
    embedded(opened(inner, max_texts=2), ["a", "b"], ["a"], ["c"], ["a"], ["b"])
    assert inner.asked == ["a", "b", "c", "b"]


def test_more_texts_than_are_remembered_are_all_embedded():
    rows = embedded(opened(Counting(), max_texts=1), ["a", "bb", "ccc"])[0]
    assert rows[:, 0].tolist() == [1, 2, 3]


def test_a_text_is_cut_at_the_bound():
    inner = Counting()
    embedded(opened(inner, max_chars=3), ["abcdef"])
    assert inner.asked == ["abc"]


def test_no_texts_are_not_asked_for():
    assert len(embedded(opened(Failing()), [])[0]) == 0


def test_a_failure_is_passed_on():
    with pytest.raises(EmbeddingError, match="no vectors today"):
        embedded(opened(Failing()), ["a"])


def test_the_name_is_that_of_the_embedder_inside():
    assert opened(Counting()).name == "counting"
