"""Pages of the health server, light to import."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Page:
    """An answer: its body, its HTTP status and the type of its content."""

    body: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Pages: TypeAlias = Callable[[str, str], Page]
"""Answers a request by its method and path."""
