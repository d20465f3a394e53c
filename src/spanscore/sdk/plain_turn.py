"""A turn of which nothing but two texts is known."""

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from spanscore.errors import InputError
from spanscore.model.trace import AgentTrace, Target


def plain_turn(
    user_input: str,
    final_output: str | None,
    *,
    seed: str,
    session_id: str | None = None,
    started_ns: int | None = None,
) -> AgentTrace:
    """The turn of an input and an output; the same `seed` gives the same ids."""
    ended_ns = time.time_ns()
    started_ns = ended_ns if started_ns is None else started_ns
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
    trace_id, span_id = digest[:32], digest[32:48]
    return AgentTrace(
        trace_ids=(trace_id,),
        root_span_id=span_id,
        target=Target(trace_id, span_id, started_ns, ended_ns),
        opening_span_id=span_id,
        started_ns=started_ns,
        ended_ns=ended_ns,
        session_id=session_id,
        user_input=user_input,
        final_output=final_output,
    )


def of_texts(given: Mapping[str, Any], number: int = 0) -> AgentTrace:
    """The turn of `{"input": text, "output": text}`; `number` tells equal ones apart.

    Raises InputError on other keys, and on what is no text.
    """
    if set(given) != {"input", "output"}:
        raise InputError(
            f"traces: item {number} has the keys {', '.join(map(str, given)) or '-'}; two texts"
            " without spans are {'input': ..., 'output': ...}"
        )
    for key, text in given.items():
        if not isinstance(text, str):
            raise InputError(
                f"traces: item {number}: {key} is of type {type(text).__name__}; give a text"
            )
    texts = (given["input"], given["output"])
    return plain_turn(*texts, seed="\0".join((str(number), *texts)))
