"""Reading tasks share what connections there are."""

from threading import Barrier

from spanscore.store.connections import in_threads


def test_of_tasks_that_are_done_together_the_callers_connection_does_its_part(store, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    both = Barrier(2, timeout=30)

    def task(connection):
        both.wait()
        return connection

    with store._database.reading() as connection:
        assert connection in in_threads(connection, [task, task])
