"""The outcome of a judged metric where no model judges."""

from functools import lru_cache

from spanscore.model.score import Skip


@lru_cache(maxsize=256)  # the same few for every trace
def no_judge(name: str) -> Skip:
    """The outcome of `name`, which asks a judge, where there is none: a Skip with how to get
    one.
    """
    return Skip(
        f"No model judges {name}: set judge.model or SPANSCORE_JUDGE_MODEL to one, such as"
        " openai/gpt-4o-mini, and give its provider's key. What can be seen without a model, the"
        " checks see (docs/checks.md).",
        cause="no_judge",
    )
