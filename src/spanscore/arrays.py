"""numpy, imported when something is first computed with it.

It takes 12 MB and 60 ms of CPU, which a server that has received nothing yet, and most commands,
need not spend.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _Numpy:
        """Takes each name from numpy at its first use, and keeps it."""

        def __getattr__(self, name: str) -> Any:
            import numpy  # noqa: PLC0415, ICN001 - what this module is for

            found = getattr(numpy, name)
            setattr(self, name, found)
            return found

    np = _Numpy()
    NDArray = Any


def is_loaded() -> bool:
    """Whether numpy was imported already, so that what can do without need not."""
    return "numpy" in sys.modules


__all__ = ["NDArray", "is_loaded", "np"]
