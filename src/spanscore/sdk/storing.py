"""The store of a process: in memory, or a file where one is asked for and no other process has
it.
"""

import logging

from spanscore.errors import ConfigError
from spanscore.sdk.in_process import IN_MEMORY
from spanscore.store.config import Config
from spanscore.store.connecting import MEMORY
from spanscore.store.store import Store

_log = logging.getLogger(__name__)


def open_store(config: Config) -> Store:
    """The store that is configured; where another process has its file, one in memory, and a
    warning.
    """
    if config.url == MEMORY:
        return Store.open(config)
    try:
        return Store.open(config, alone=True)
    except ConfigError as error:
        _log.warning("%s; scores of this process are kept in memory", error)
        return Store.open(IN_MEMORY)
