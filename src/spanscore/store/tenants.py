"""The rows of one tenant."""

from typing import Any, Final

from sqlalchemy import Column, ColumnElement, String, Table, bindparam, literal_column, or_

_NOBODY: Final[ColumnElement[str]] = literal_column("''")


def is_of(table: Table, tenant: str | None) -> tuple[ColumnElement[bool], ...]:
    """The conditions that find the rows of a tenant; "" is the one of a store without tenants, None
    stands for all.

    That it is not "" is written out, since only then a database uses the index of the rows that
    have a tenant.
    """
    if tenant is None:
        return ()
    if not tenant:
        return (table.c.tenant == _NOBODY,)
    return table.c.tenant == tenant, table.c.tenant != _NOBODY


def is_parameter(column: Column[Any]) -> ColumnElement[bool]:
    """As `is_of`, for a statement that is built once, with the tenant as its parameter `tenant`."""
    tenant = bindparam("tenant", type_=String)
    return or_(tenant.is_(None), column == tenant)
