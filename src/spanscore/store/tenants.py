"""The rows of one tenant."""

from typing import Final

from sqlalchemy import ColumnElement, Table, literal_column

_NOBODY: Final[ColumnElement[str]] = literal_column("''")


def is_of(table: Table, tenant: str) -> tuple[ColumnElement[bool], ...]:
    """The conditions that find the rows of a tenant; "" is the one of a store without tenants.

    That it is not "" is written out, since only then a database uses the index of the rows that have a tenant.
    """
    if not tenant:
        return (table.c.tenant == _NOBODY,)
    return table.c.tenant == tenant, table.c.tenant != _NOBODY
