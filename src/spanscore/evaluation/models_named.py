"""How a score names the models of the judges whose answers it rests on."""

from collections.abc import Iterable

_BETWEEN = ", "


def named(models: Iterable[str]) -> str:
    """Each model once, in the order in which they answered, with a comma and a blank in between.

    >>> named(["openai/gpt-4o-mini", "openai/gpt-4o", "openai/gpt-4o-mini"])
    'openai/gpt-4o-mini, openai/gpt-4o'
    """
    return _BETWEEN.join(dict.fromkeys(models))
