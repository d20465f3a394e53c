"""One file a change of the tables: how a store of the version before becomes one of this version.

A file `vNNNN_what.py` is an Alembic revision "NNNN" after the one before it. Its `upgrade()` runs
in one transaction, which also writes the store's new version. Where much is to be written,
`fill(connection) -> bool` is called before it, in a transaction of its own each time, until it
returns False: it writes a bounded part and finds by itself what is already there, since a store is
opened again after a kill. `schema.py` has the tables as all these files leave them, and
`schema.VERSION` the number of the last. A file that was released is never changed: it spells out
its tables.
"""
