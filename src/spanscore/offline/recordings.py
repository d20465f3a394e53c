"""The agent traces in files of recorded telemetry, and what is to be said about these files."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from spanscore.content import ContentWatch
from spanscore.errors import InputError
from spanscore.model import external
from spanscore.model.score import Evaluation
from spanscore.model.session_scope import DEFAULT_SCOPE, in_scope
from spanscore.model.trace import AgentTrace, Session
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all, unread_traces
from spanscore.received_scores import read_external


class Recordings:
    """The agent traces in files and folders of OTLP, or in what was loaded from them."""

    def __init__(
        self,
        paths: Sequence[Path],
        session_scope: Sequence[str] = DEFAULT_SCOPE,
        warn: Callable[[str], None] = lambda _: None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        """`session_scope` is that of the configuration. `warn` is told what was left out and what is not recorded.

        `progress` is told how many bytes were read, of how many. Both are called in the thread that reads.
        """
        self._progress = progress
        self._is_stopped = False
        self._paths = paths
        self._session_scope = session_scope
        self._warn = warn
        self._loaded: files.Telemetry | None = None
        self._external: defaultdict[str, list[Evaluation]] = defaultdict(list)

    @classmethod
    def of(
        cls,
        telemetry: files.Telemetry,
        session_scope: Sequence[str] = DEFAULT_SCOPE,
        warn: Callable[[str], None] = lambda _: None,
    ) -> "Recordings":
        """The agent traces in what was loaded; arguments as for files."""
        made = cls((), session_scope, warn)
        made._loaded = telemetry
        return made

    def stop(self) -> None:
        """Read no further; what was read is given."""
        self._is_stopped = True

    def given_to(self, subject: AgentTrace | Session) -> list[Evaluation]:
        """What others gave to a trace, or to a session and its traces, as far as `batches` has read."""
        if isinstance(subject, Session):
            names = [subject.id, *(x for trace in subject.traces for x in (trace.id, *trace.trace_ids))]
        else:
            names = [subject.id, *subject.trace_ids]
        return [score for name in dict.fromkeys(names) for score in self._external.get(name, ())]

    def batches(self) -> Iterator[list[AgentTrace]]:
        """The agent traces, by their start.

        Raises InputError when a file cannot be read, or none of them contains an agent trace.
        """
        telemetry = files.load(self._paths) if self._loaded is None else self._loaded
        for refused in telemetry.refused:
            self._warn(f"warning: left out {refused}")
        watch = ContentWatch()
        traces = in_scope(rebuild_all(telemetry.spans, telemetry.logs, watch=watch), self._session_scope)
        scores = read_external(telemetry.spans, telemetry.logs, session_scope=self._session_scope)
        for score in external.join(scores, traces):
            self._external[score.subject_id].append(score)
        if not traces:
            raise none_found(self._paths, len(telemetry.spans), len(telemetry.logs))
        yield traces
        for silent in watch.silent:
            self._warn(str(silent))
        if unread := unread_traces(telemetry.spans, telemetry.logs, traces):
            self._warn(unread_notice(unread))


def none_found(paths: Sequence[Path], spans: int, logs: int) -> InputError:
    """The error where files contain no agent trace."""
    places = ", ".join(str(path) for path in paths) or "telemetry"
    if not spans and not logs:
        return InputError(f"{places}: there is no span and no log record in it; give what an agent's telemetry sent")
    return InputError(
        f"{places}: no agent trace in {spans} spans and {logs} log records; "
        "is the agent's instrumentation one of GenAI spans? `spanscore inspect --unread` shows what is there"
    )


def unread_notice(count: int) -> str:
    """How many traces contain nothing that is read, and how to see them."""
    contain = "1 trace contains" if count == 1 else f"{count:,} traces contain"
    return f"{contain} nothing that was read; `spanscore inspect --unread` lists them"
