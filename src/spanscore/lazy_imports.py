"""Packages imported at first use.

numpy takes 12 MB and 60 ms of CPU, which a server that has received nothing yet, and most commands,
need not spend.
"""

import functools
import importlib.util
import logging
import os
from typing import TYPE_CHECKING, Any

from spanscore.errors import ConfigError

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


_HOW_TO_INSTALL = "pip install 'spanscore[judge]'"


def has_litellm() -> bool:
    """Whether litellm, an extra, is installed; does not import it."""
    return importlib.util.find_spec("litellm") is not None


def require_litellm(key: str, model: str) -> None:
    """Raise ConfigError where litellm is missing, with `key` of the configuration, its `model` and
    what to install.
    """
    if not has_litellm():
        raise ConfigError(
            f"{key}: {model} is called through litellm, which is not installed: {_HOW_TO_INSTALL}"
        )


@functools.cache
def load_litellm() -> Any:
    """Import litellm (seconds) so that it asks nobody for prices or headers, reads no `.env` file
    and says nothing.

    Raises ConfigError where it is not installed, or not with the versions of other packages that it
    needs.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    try:
        import litellm  # noqa: PLC0415 - seconds to import, and only who asks a model needs it
    except ImportError as error:
        raise ConfigError(
            f"models are called through litellm, whose import fails ({error}): {_HOW_TO_INSTALL}"
        ) from error

    # or it prints on standard output, where a command's own output goes
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        # its lines may quote prompts; our errors say what failed
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


__all__ = ["NDArray", "has_litellm", "load_litellm", "np", "require_litellm"]
