"""What a tracing UI brings to be tried with: one file in `tools/`, named as the tool, with a class
`Tool`.

`run.py NAME` then does the rest. In this order:

1. `Tool(processes, folder)` installs the pinned version where it is not cached
   (`harness.installed`) and starts it on free loopback ports with its data in `folder`, without
   waiting for it; `is_ready` is asked until it says True. With `--check` there are two of them: one
   that never hears of spanscore, to compare with. So its process is to have the folder's name.
2. A real collector and `spanscore serve` are started (`harness.line`). The collector sends to
   `Tool.backend`, else as it is shipped; spanscore sends scores back through the collector, and
   files them with `Tool.sinks`.
3. The recordings are sent: through the collector, and with `--check` straight to the second tool.
4. The address is printed and all keeps running until Ctrl-C; or, with `--check`, `facts` of both
   tools are compared for each trace, and `look` has its say.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.browser import Browser
from harness.findings import Findings
from harness.line import Run
from harness.processes import Processes
from spanscore.cli.one_run import Backend


class Tool(Protocol):
    """One running UI."""

    has_pages: bool
    """Whether `look` opens pages of it, and so needs a browser; a class attribute."""

    address: str
    """What a person opens."""

    backend: Backend
    """Where it takes OTLP: a gRPC or HTTP endpoint, with headers where it needs some."""

    sinks: Mapping[str, Any]
    """Further entries of spanscore's `export.exporters`: its own API, where scores are filed as it
    shows them.
    """

    def __init__(self, processes: Processes, folder: Path) -> None:
        """Start it with `processes`, its data in `folder`, which exists, under that folder's name.

        Does not wait.
        """
        ...

    def is_ready(self) -> bool:
        """Whether it takes spans and answers."""
        ...

    def facts(self, trace_id: str) -> Mapping[str, object]:
        """What it says of a trace, by its API: `duration_ms`, `status`, `tokens`, `cost`, as far as
        it has them.

        Spanscore must not change any of it. Raises LookupError while it has not got the trace.
        """
        ...

    def look(self, run: Run, browser: Browser, findings: Findings) -> None:
        """Open its pages (or ask its API, where it has no page), say what holds, and leave
        pictures.
        """
        ...
