"""A server with monitors that start runs, and a clock that is moved by hand."""

from spanscore.control.monitors import Monitors
from spanscore.export.config import Alerting
from spanscore.model.options import read_spec
from spanscore.specs import Monitor, MonitorSpec
from spanscore.store.listing import ScoreQuery

MINUTE = 60 * 10**9
START = 1_790_000_000 * 10**9 // MINUTE * MINUTE
METRICS = {"measure": {"metrics": ["task_completion"]}}


class World:
    """A server with one monitor `m` that ticks each minute, by a clock that stands until it is put
    on.
    """

    def __init__(self, server, receivers=None):
        self.server, self.now_ns = server, START
        self.alerting = Alerting(receivers=receivers or {})
        self.restart()

    def restart(self, **configured):
        """Have other objects go on with what is stored, as another process does, with these
        monitors of its configuration.
        """
        store = self.server.store.monitors
        monitors = {name: Monitor.model_validate(x) for name, x in configured.items()}
        self.monitors = Monitors(
            monitors, self.alerting, store, self.server.runs, clock_ns=lambda: self.now_ns
        )

    def do(self, awaitable):
        return self.server.do(awaitable)

    def create(self, tenant="", watch=None, *, catch_up=True, **run):
        schedule = {"every": "1m", "catch_up": catch_up}
        given = {"run": {**METRICS, **run}, "schedule": schedule}
        if watch is not None:
            given["watch"] = {"metric": "task_completion", "heaviest": 1, **watch}
        known = self.do(self.monitors.create(tenant, read_spec(MonitorSpec, given), "m"))
        self.do(self.monitors.look())
        return known

    def known(self):
        return self.do(self.monitors.get("", "m"))

    def later(self, minutes=1):
        """Put the clock on, and do what is due then."""
        self.now_ns += minutes * MINUTE
        self.do(self.monitors.look())
        return self.ticks()[0]

    def ticks(self, limit=100):
        return [x.tick for x in self.do(self.monitors.ticks(self.known(), limit))]

    def worked_off(self, tick):
        """The tick once its run has come to its end and was looked at."""
        self.do(self.server.ended(tick.run))
        self.do(self.monitors.look())
        return next(x for x in self.ticks() if x.due_ns == tick.due_ns)

    def run(self, run_id):
        return self.do(self.server.runs.get("", run_id))

    def subjects(self, tick):
        found = self.server.store.list_scores(ScoreQuery(run=tick.run, skipped=True), 100_000).items
        return sorted(x.subject_id for x in found)
