"""Agent traces and external scores in recordings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from spanscore import dialects
from spanscore.errors import InputError
from spanscore.model import external
from spanscore.model.score import Evaluation
from spanscore.model.trace import DEFAULT_SCOPE, AgentTrace, Session, in_scope
from spanscore.offline.windows import (
    Options,
    Window,
    of_telemetry,
    recorded,
    stored_windows,
    truncated_notice,
    windows,
)
from spanscore.otlp import files
from spanscore.otlp.documents import Documents
from spanscore.sources import Location
from spanscore.sources.stored_traces import Stopped
from spanscore.watches import ContentWatch
from spanscore.worker_processes import WorkerPool

_WHOLE_BYTES = 32 * 2**20
"""Files that are larger together are not loaded at once."""


class Recordings:
    """The agent traces in files and folders of OTLP, at URLs of stored traces, or in what was
    loaded from them.
    """

    def __init__(
        self,
        places: Sequence[Path | Location],
        session_scope: Sequence[str] = DEFAULT_SCOPE,
        warn: Callable[[str], None] = lambda _: None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
        *,
        attributes: Collection[str] = (),
        stitch_off: Collection[str] = (),
        pool: WorkerPool | None = None,
    ) -> None:
        """`session_scope` and `stitch_off` are those of the configuration.

        `attributes` are those of spans that its rules read. Large files are read in the processes
        of `pool`.

        `warn` is told what was left out and what is not recorded; `progress` is told how many bytes
        of files were read, of how many. Both are called in the thread that reads.
        """
        self._progress = progress
        self._pool = pool
        self._attributes = attributes
        self._stitch_off = stitch_off
        self._stopped = Stopped()
        self._unread = self._read_bytes = 0
        self._paths = [x for x in places if isinstance(x, Path)]
        self._locations = [x for x in places if isinstance(x, Location)]
        self._session_scope = session_scope
        self._warn = warn
        self._loaded: files.Telemetry | None = None
        self._traces: list[AgentTrace] = []
        self.given = GivenScores()
        """What others gave, as far as `batches` has read."""

    @classmethod
    def of(
        cls,
        telemetry: files.Telemetry,
        session_scope: Sequence[str] = DEFAULT_SCOPE,
        warn: Callable[[str], None] = lambda _: None,
        *,
        attributes: Collection[str] = (),
        stitch_off: Collection[str] = (),
    ) -> "Recordings":
        """The agent traces in what was loaded; arguments as for files."""
        made = cls((), session_scope, warn, attributes=attributes, stitch_off=stitch_off)
        made._loaded = telemetry
        return made

    @classmethod
    def of_traces(
        cls, traces: Sequence[AgentTrace], given: Sequence[Evaluation] = ()
    ) -> "Recordings":
        """Agent traces that were rebuilt before, such as stored ones, and what others gave."""
        made = cls(())
        made._traces = sorted(traces, key=lambda x: x.started_ns)
        made.given.add(given, traces)
        return made

    @property
    def are_large(self) -> bool:
        """Whether files are so large together that they are read a part at a time, and worker
        processes pay.

        Raises InputError where one cannot be read.
        """
        return self._loaded is None and self._file_bytes > _WHOLE_BYTES

    @cached_property
    def _file_bytes(self) -> int:
        return files.content_bytes(self._paths)

    def stop(self) -> None:
        """Read no further; what was read is given."""
        self._stopped.set()

    def batches(self) -> Iterator[list[AgentTrace]]:
        """The agent traces, of each batch by their start.

        Of small files there is one batch. Large ones are read by the time of their documents; a
        turn that is spread over several traces is one where these are within 30 seconds, and 16
        MiB. So are stored traces.

        Raises InputError when a file or URL cannot be read, or none of the files, or a URL,
        contains an agent trace; RetryableError where what a URL names cannot be reached.
        """
        if self._traces:
            yield self._traces
            return
        watch = ContentWatch()
        options = Options(
            tuple(self._session_scope),
            tuple(self._attributes),
            tuple(self._stitch_off),
            dialects.configured(),
        )
        if self._loaded is not None or self._paths:
            yield from self._given(self._of_files(options, watch), self._paths)
        for location in self._locations:
            found = stored_windows(location, options, watch, self._stopped)
            yield from self._given(found, [location])
        for silent in watch.silent:
            self._warn(str(silent))
        if self._unread:
            self._warn(unread_notice(self._unread))
        for notice in self.given.notices:
            self._warn(notice)

    def _of_files(self, options: Options, watch: ContentWatch) -> Iterator[Window]:
        if self.are_large:
            given = recorded(Documents(self._paths))
            return windows(given, options, watch, self._go_on, self._pool)
        loaded = files.load(self._paths) if self._loaded is None else self._loaded
        return windows(of_telemetry(loaded), options, watch)

    def _given(
        self, found: Iterable[Window], places: Sequence[Path | Location]
    ) -> Iterator[list[AgentTrace]]:
        """The agent traces of windows as these are read."""
        spans = logs = count = 0
        for window in found:
            for what in window.refused:
                self._warn(f"warning: left out {what}")
            for trace_id, why in window.truncated.items():
                self._warn(truncated_notice(trace_id, why))
            spans, logs = spans + window.spans, logs + window.logs
            count += len(window.traces)
            self._unread += window.unread
            traces = in_scope(window.traces, self._session_scope)
            self.given.add(window.external, traces)
            yield traces
        if not count and not self._stopped:
            raise none_found(places, spans, logs)

    def _go_on(self, size_bytes: int) -> bool:
        self._read_bytes += size_bytes
        self._progress(self._read_bytes, max(self._file_bytes, self._read_bytes))
        return not self._stopped


def none_found(given: Sequence[Path | Location], spans: int, logs: int) -> InputError:
    """The error where files, or a URL, contain no agent trace."""
    places = ", ".join(str(x) for x in given) or "telemetry"
    if not spans and not logs and (searched := [x for x in given if isinstance(x, Location)]):
        return InputError(
            f"{places}: no trace there {searched[0].wanted}; ask for others, such as by since=7d"
        )
    if not spans and not logs:
        return InputError(
            f"{places}: there is no span and no log record in it; give what an agent's telemetry"
            " sent"
        )
    return InputError(
        f"{places}: no agent trace in {spans} spans and {logs} log records; is the agent's"
        " instrumentation one of GenAI spans? `spanscore inspect --unread` shows what is there"
    )


def unread_notice(count: int) -> str:
    """How many traces contain nothing that is read, and how to see them."""
    contain = "1 trace contains" if count == 1 else f"{count:,} traces contain"
    return f"{contain} nothing that was read; `spanscore inspect --unread` lists them"


_MAX_NAMES = 3


class GivenScores:
    """External scores by what they are of, as windows of a recording are read: all traces of a turn
    come in one.
    """

    def __init__(self) -> None:
        self._turns = external.Turns()
        self._of_subject: defaultdict[str, list[Evaluation]] = defaultdict(list)
        self._of_no_turn: list[Evaluation] = []
        self._waiting: list[Evaluation] = []
        self._shown: set[str] = set()

    def add(self, scores: Iterable[Evaluation], turns: Iterable[AgentTrace]) -> None:
        """Take in what a window contains; what is of a turn that has not been read yet waits for
        it.
        """
        for turn in turns:
            self._turns.add(external.Turn.of(turn))
        joined = self._turns.join([*self._waiting, *scores])
        self._waiting = []
        for score in joined.scores:
            is_waiting = score.scope == "trace" and not self._turns.knows(score)
            (self._waiting if is_waiting else self._of_subject[score.subject_id]).append(score)
        self._of_no_turn += joined.of_no_turn

    def of(self, subject: AgentTrace | Session) -> list[Evaluation]:
        """What was given to a trace, or to a session and its traces, as far as was read; of each
        source the last.
        """
        names = [subject.id]
        if isinstance(subject, Session):
            names += [trace.id for trace in subject.traces]
        return external.newest(
            score for name in dict.fromkeys(names) for score in self._of_subject.get(name, ())
        )

    def show(self, subject: AgentTrace | Session) -> list[Evaluation]:
        """What was given to a trace or a session itself, from here on no longer among those not
        `shown`.
        """
        found = external.newest(self._of_subject.get(subject.id, ()))
        self._shown.update(x.uid for x in self._of_subject.get(subject.id, ()))
        return found

    @property
    def not_shown(self) -> list[Evaluation]:
        """What was read after its turn was shown, and what is of no single turn, in the order in
        which it was given.
        """
        late = [
            x
            for own in self._of_subject.values()
            for x in external.newest(own)
            if x.uid not in self._shown
        ]
        return external.newest([*late, *self._of_no_turn])

    @property
    def notices(self) -> list[str]:
        """What is to be said of scores that are of no turn."""
        return external_notices(self._of_no_turn, self._waiting)


def external_notices(
    of_no_turn: Sequence[Evaluation], of_unknown: Sequence[Evaluation] = ()
) -> list[str]:
    """What is to be said of external scores that count for no turn; `of_unknown` are of traces that
    are not there.
    """
    found = []
    if of_no_turn:
        where = "a trace with several turns without a span of one of them"
        found.append(f"{_counted(of_no_turn)} of {where}, and counted for none")
    if of_unknown:
        found.append(f"{_counted(of_unknown)} of a trace or a response that is not in these files")
    return found


def _counted(scores: Sequence[Evaluation]) -> str:
    names = [name for name, _ in Counter(x.metric for x in scores).most_common()]
    listed = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    return (
        f"1 external score ({listed}) is"
        if len(scores) == 1
        else f"{len(scores):,} external scores ({listed}) are"
    )
