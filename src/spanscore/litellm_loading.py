"""The one import of litellm, so that judge and embedding find it in the same state whichever of them comes first."""

import functools
import logging
import os
from typing import Any


@functools.cache
def load_litellm() -> Any:
    """Import litellm (seconds) so that it asks nobody for prices or headers, reads no `.env` file and says nothing."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm  # noqa: PLC0415 - seconds to import, and only who asks a model needs it

    litellm.suppress_debug_info = True  # or it prints on standard output, where a command's own output goes
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # its lines may quote prompts; our errors say what failed
    return litellm
