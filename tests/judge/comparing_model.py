"""A model that holds an answer against the expected one by their words, so that suites can be run
to any end.
"""

import re
from typing import Any

from scripted_server import Reply, answer

_WORD = re.compile(r"\w+")
_TITLES = ("Answer of the agent:", "Expected answer:")


def compare(request: dict[str, Any]) -> Reply:
    """The verdict on the texts in a request: the share of the expected words that the answer
    has.
    """
    _, given, expected = re.split(
        "|".join(_TITLES), request["messages"][1]["content"].partition("</untrusted-data")[0]
    )
    wanted = _WORD.findall(expected.casefold())
    found = set(_WORD.findall(given.casefold()))
    score = sum(x in found for x in wanted) / len(wanted)
    return answer({"reason": f"{score:.0%} of the expected words are there", "score": score})
