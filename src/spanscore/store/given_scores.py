"""The store's scores that others gave, as the API creates, changes and deletes them: each call one
transaction.
"""

from collections.abc import Callable, Sequence

from spanscore.model.score import Evaluation
from spanscore.store import given
from spanscore.store.database import Database
from spanscore.store.given import Draft, Given, SubjectState


class GivenScores:
    """Every method may be called from any thread, and raises as those of `Store`."""

    def __init__(
        self, database: Database, grew: Callable[[int], None], clock_ns: Callable[[], int]
    ) -> None:
        """`grew` is called with the bytes by which the store has grown."""
        self._database = database
        self._grew = grew
        self._clock_ns = clock_ns
        self.created: Callable[[Sequence[Evaluation]], None] = lambda _scores: None
        """Called with the scores that are new, once they are committed."""

    def create(self, tenant: str, drafts: Sequence[Draft]) -> list[Given]:
        """Keep scores, all or none; those that were created by the same requests before are
        returned as they are.

        Raises ExistsError where something else was created under a request id.
        """
        # decoding their traces keeps no writer waiting
        with self._database.reading() as connection:
            subjects = given.Subjects.of(connection, tenant, [x.score for x in drafts])
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                found, added_bytes = given.create(
                    connection, drafts, subjects, tenant, self._clock_ns()
                )
            self._grew(added_bytes)
        self.created([x.score for x in found if x.is_new])
        return found

    def change(self, tenant: str, uid: str, changed: Callable[[Evaluation], Evaluation]) -> Given:
        """Keep what `changed` makes of a score, and raise what it raises.

        Raises NotFoundError, StateError.
        """
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                found, added_bytes = given.change(connection, tenant, uid, changed)
            self._grew(added_bytes)
        return found

    def remove(self, tenant: str, uid: str, checked: Callable[[Evaluation], object]) -> None:
        """Delete a score, unless `checked` raises. Raises NotFoundError, StateError."""
        with self._database.one_at_a_time:
            with self._database.writing() as connection:
                freed_bytes = given.remove(connection, tenant, uid, checked, self._clock_ns())
            self._grew(-freed_bytes)

    def subject_state(self, tenant: str, score: Evaluation) -> SubjectState:
        """Whether what a score is of is stored."""
        with self._database.reading() as connection:
            return given.state_of(connection, tenant, score)
