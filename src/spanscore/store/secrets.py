"""Keys that servers on one store share, so that what one has sealed another can open, also after a
restart.
"""

import logging
import secrets
from typing import Final

from sqlalchemy import select

from spanscore.errors import PermanentError, RetryableError
from spanscore.store import schema
from spanscore.store.database import Database
from spanscore.store.writing import put_rows

_log = logging.getLogger(__name__)

_BYTES: Final = 32


def secret(database: Database, name: str) -> bytes:
    """The key of this name, 32 bytes; drawn now where there is none.

    While the database cannot be used it is one that holds for this process alone.
    """
    try:
        return _kept(database, name)
    except (RetryableError, PermanentError) as error:
        _log.warning(
            "%s: no key can be kept, so a new one is used until the next start: %s", name, error
        )
        return secrets.token_bytes(_BYTES)


def _kept(database: Database, name: str) -> bytes:
    stored = select(schema.secrets.c.value).where(schema.secrets.c.name == name)
    with database.reading() as connection:
        found = connection.execute(stored).scalar_one_or_none()
    if found is None:
        with database.writing() as connection:
            put_rows(
                connection, schema.secrets, [(name, secrets.token_hex(_BYTES))], unless_there=True
            )
            found = connection.execute(stored).scalar_one()
    return bytes.fromhex(found)
