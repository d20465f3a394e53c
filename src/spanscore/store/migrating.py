"""A store of an older version is changed to this one's, a version at a time."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import update
from sqlalchemy.engine import Connection, Engine

from spanscore.store.schema import VERSION, versions
from spanscore.store.transactions import transaction

if TYPE_CHECKING:
    from alembic.script import Script, ScriptDirectory

_log = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).with_name("migrations")


def scripts() -> "ScriptDirectory":
    """The migrations as Alembic reads them."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - most stores are of this version, and need no Alembic

    return ScriptDirectory(str(MIGRATIONS), version_locations=[str(MIGRATIONS)])


def migrate(engine: Engine, shown: str) -> None:
    """Change the tables that `engine` reaches to those of `VERSION`.

    Nobody else may use the store meanwhile.

    Each version is one transaction: after a kill or a full disk the store is of the last version
    that was done, and the next call goes on from there. Raises RetryableError or PermanentError
    where the database refuses; `shown` is its URL, for the log.
    """
    from alembic.migration import MigrationContext  # noqa: PLC0415 - as above

    found = scripts()
    with transaction(engine) as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    for script in reversed(list(found.iterate_revisions("head", current or "base"))):
        _log.info(
            "%s: changing the tables to version %d of %d", shown, int(script.revision), VERSION
        )
        _apply(engine, found, script)


def _apply(engine: Engine, found: "ScriptDirectory", script: "Script") -> None:
    from alembic.migration import MigrationContext  # noqa: PLC0415 - as above
    from alembic.operations import Operations  # noqa: PLC0415 - as above

    fill: Callable[[Connection], bool] = getattr(script.module, "fill", _nothing_to_fill)
    is_filling = True
    while is_filling:
        with transaction(engine) as connection:
            is_filling = fill(connection)
    with transaction(engine) as connection:
        context = MigrationContext.configure(connection)
        with Operations.context(context):
            script.module.upgrade()
        context.stamp(found, script.revision)
        connection.execute(update(versions).values(version=int(script.revision)))


def _nothing_to_fill(_connection: Connection) -> bool:
    return False
