"""The threads in which the API's requests read and write the store: slow ones hold up each other, and nothing else."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

AnswerT = TypeVar("AnswerT")
AskedP = ParamSpec("AskedP")

_AT_ONCE: Final = 6  # beside the threads of all else, they leave some of the store's connections free

_threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="request")


async def in_thread(ask: Callable[AskedP, AnswerT], *arguments: AskedP.args, **options: AskedP.kwargs) -> AnswerT:
    """What a function that blocks returns, as `asyncio.to_thread`, whose threads exporters and monitors need."""
    asked = partial(contextvars.copy_context().run, ask, *arguments, **options)
    return await asyncio.get_running_loop().run_in_executor(_threads, asked)
