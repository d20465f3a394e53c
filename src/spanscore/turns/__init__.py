"""Steps to agent traces.

Names are imported when they are first used: a server that no trace has reached needs none of them.
"""

from spanscore.lazy_names import homes_of, lazy_names

_HOMES = homes_of(__file__)
__all__ = list(_HOMES)
__getattr__ = lazy_names(__name__, _HOMES)
