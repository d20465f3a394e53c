"""Read the jobs of a batch from the journal, in a worker process."""

import logging
from dataclasses import replace

from spanscore import dialects, turns
from spanscore.assemble.requests import Requests
from spanscore.assemble.units import Units
from spanscore.content import ContentNotes
from spanscore.errors import RetryableError
from spanscore.model.session_scope import in_scope
from spanscore.store.journal_reader import JournalReader
from spanscore.telemetry import about
from spanscore.turn_scheduling import JobKind, JobReader, ReadResult
from spanscore.workers.evaluating import Evaluating
from spanscore.workers.messages import Answers, Batch, Failed, Setup, Task

_log = logging.getLogger(__name__)

_MAX_DECODED_BYTES = 32 * 2**20
"""Decoded requests that are kept: the traces of a batch are in the same few."""


class Answering:
    """Reads batches of jobs. Not thread-safe."""

    def __init__(self, setup: Setup, evaluating: Evaluating | None = None) -> None:
        """`evaluating` makes the scores of what was read, where that needs nothing else.

        Raises sqlite3.Error where the journal cannot be opened.
        """
        self._evaluating = evaluating
        self._session_scope = setup.session_scope
        self._journal = JournalReader(setup.journal)
        self._notes = ContentNotes()
        units = Units(dialects.unit_scopes, dialects.unit_of, dialects.goes_on)
        requests = Requests(self._journal.read, _MAX_DECODED_BYTES, units=units)
        self._reader = JobReader(
            lambda cut: requests.load(cut.key, cut.rows),
            turns.Stitching(setup.stitch_off),
            attributes=setup.attributes,
            watch=self._notes,
        )

    def answers(self, batch: Batch) -> Answers:
        """What became of each task."""
        self._journal.checksums = batch.checksums
        answered = [(self._answer(task), self._notes.take()) for task in batch.tasks]
        return Answers([read for read, _ in answered], [notes for _, notes in answered])

    def _answer(self, task: Task) -> ReadResult | Failed:
        job = task.job
        with about(trace_id=job.trace_id, tenant=job.tenant):
            try:
                result = self._reader.read(job, lambda *_: task.is_referred_to)
                return self._scored(
                    replace(result, traces=in_scope(result.traces, self._session_scope))
                )
            except RetryableError as error:
                _log.warning("%s", error)
                return Failed(type(error).__name__, "", is_for_server=True)
            except Exception as error:  # noqa: BLE001 - one trace must not stop the others
                return Failed.by(error)

    def _scored(self, result: ReadResult) -> ReadResult:
        """What was read with the scores of its agent traces.

        Of a turn the server may change them, a trace that is tied to others may wait for these, and
        one that was read early is read again unless it shows that it is whole.
        """
        if self._evaluating is None or result.fragment is not None:
            return result
        if result.job.kind is JobKind.TURN or _is_read_again(result):
            return result
        return replace(result, first_scores=self._evaluating.traces(result.traces))


def _is_read_again(result: ReadResult) -> bool:
    return result.job.kind is JobKind.EARLY and not turns.shows_whole(result.traces)
