"""spanscore's own metrics, declared as data.

Names follow the collector's own (`otelcol_receiver_accepted_spans`) with `spanscore_` in front;
units are UCUM, as OpenTelemetry writes them. On `/metrics` the unit and `_total` are added, as
Prometheus and the collector's exporter do. The judge's calls and tokens are not `gen_ai.client.*`:
they would be added to those of the agents under evaluation.
"""

from dataclasses import dataclass
from typing import Final, Literal

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """One metric. `bounds` are the upper bounds of a histogram's buckets."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def section(self) -> str:
        """The part of spanscore that it is about: `receiver`, say."""
        return self.name.removeprefix("spanscore_").partition("_")[0]


def _counter(name: str, unit: str, about: str, *labels: str) -> Declared:
    return Declared(f"spanscore_{name}", "counter", unit, about, labels)


def _gauge(name: str, unit: str, about: str, *labels: str) -> Declared:
    return Declared(f"spanscore_{name}", "gauge", unit, about, labels)


def _durations(name: str, about: str, *labels: str) -> Declared:
    return Declared(f"spanscore_{name}", "histogram", "s", about, labels, _SECONDS)


RECEIVER_REQUESTS = _counter(
    "receiver_requests",
    "{request}",
    "Export requests that were acknowledged.",
    "transport",
    "signal",
)
RECEIVER_ACCEPTED_SPANS = _counter(
    "receiver_accepted_spans", "{span}", "Spans that were acknowledged.", "transport"
)
RECEIVER_ACCEPTED_LOG_RECORDS = _counter(
    "receiver_accepted_log_records",
    "{log_record}",
    "Log records that were acknowledged.",
    "transport",
)
RECEIVER_REFUSED_REQUESTS = _counter(
    "receiver_refused_requests",
    "{request}",
    "Export requests that were not taken, most of which their senders send again.",
    "transport",
    "signal",
    "reason",
)
RECEIVER_REFUSED_ITEMS = _counter(
    "receiver_refused_items",
    "{item}",
    "Spans, log records and metrics that were damaged and taken out of a request that was"
    " acknowledged.",
    "transport",
    "signal",
)
RECEIVER_QUARANTINED_REQUESTS = _counter(
    "receiver_quarantined_requests",
    "{request}",
    "Requests that cannot be decoded, acknowledged and put aside: see `spanscore quarantine`.",
    "transport",
    "signal",
)
RECEIVER_CLOSED_CONNECTIONS = _counter(
    "receiver_closed_connections",
    "{connection}",
    "Connections that were closed since no request came over them, or since there were too many.",
    "transport",
    "reason",
)
RECEIVER_BYTES_IN_FLIGHT = _gauge(
    "receiver_bytes_in_flight", "By", "Bytes of requests that are being received or worked on."
)
RECEIVER_HTTP_CONNECTIONS = _gauge(
    "receiver_http_connections", "{connection}", "HTTP connections that are open."
)
RECEIVER_KAFKA_LAG = _gauge(
    "receiver_kafka_lag",
    "{message}",
    "Messages of a partition of this server that are not read yet.",
    "topic",
    "partition",
)
RECEIVER_KAFKA_REKEYED_MESSAGES = _counter(
    "receiver_kafka_rekeyed_messages",
    "{message}",
    "Messages that were not keyed by their one trace, and were written again keyed.",
    "signal",
)
RECEIVER_ARRIVING = _gauge("receiver_arriving", "{request}", "Requests that have begun to arrive.")

JOURNAL_SIZE = _gauge("journal_size", "By", "Bytes of the requests in the journal.")
JOURNAL_CAPACITY = _gauge(
    "journal_capacity", "By", "Bytes that the journal may hold (journal.max_bytes)."
)
JOURNAL_REQUESTS = _gauge("journal_requests", "{request}", "Requests in the journal.")
JOURNAL_OLDEST_AGE = _gauge("journal_oldest_age", "s", "Age of the oldest request in the journal.")
JOURNAL_REPLAYED_REQUESTS = _counter(
    "journal_replayed_requests",
    "{request}",
    "Requests that were taken up from the journal at the start.",
)
JOURNAL_LOST_REQUESTS = _counter(
    "journal_lost_requests",
    "{request}",
    "Requests that were acknowledged and are gone: missing in the journal at its start, or"
    " damaged.",
    "reason",
)

TRACES_OPEN = _gauge("traces_open", "{trace}", "Traces that are waited for.")
TRACES_WAITING = _gauge("traces_waiting", "{trace}", "Cut traces that wait for a worker.")
TRACES_WAITING_CAPACITY = _gauge(
    "traces_waiting_capacity", "{trace}", "Cut traces that may wait for a worker."
)
TRACES_WAITING_PARTS = _gauge(
    "traces_waiting_parts",
    "{trace}",
    "Traces that wait for the rest of their turn, or for what was cut of them before.",
)
TRACES_CUT = _counter(
    "traces_cut",
    "{trace}",
    "Traces that were complete, fell idle, or were cut at a limit.",
    "completeness",
)
TRACES_REOPENED = _counter(
    "traces_reopened", "{trace}", "Traces that were cut again since late spans came."
)
TRACES_LATE_ITEMS = _counter(
    "traces_late_items", "{item}", "Spans and log records that came too late to be read.", "signal"
)
TRACES_FINISHED = _counter("traces_finished", "{trace}", "Traces that were dealt with.")
TRACES_WITHOUT_GENAI = _counter(
    "traces_without_genai", "{trace}", "Traces that were let go unread: no GenAI in them."
)
TRACES_QUARANTINED = _counter(
    "traces_quarantined",
    "{trace}",
    "Traces that cannot be scored, put aside: see `spanscore quarantine`.",
)
WORKERS_CONFIGURED = _gauge(
    "workers_configured", "{process}", "Worker processes that there are to be (workers)."
)
WORKERS_RUNNING = _gauge("workers_running", "{process}", "Worker processes that take jobs.")
WORKERS_BATCHES = _gauge(
    "workers_batches", "{batch}", "Batches of traces or sessions that worker processes have to do."
)
WORKERS_ENDED = _counter(
    "workers_ended", "{process}", "Worker processes that died and were started again."
)
AGENT_TRACES = _counter(
    "agent_traces", "{trace}", "Agent traces that were rebuilt and stored, new or changed."
)
AGENT_TRACES_UNCHANGED = _counter(
    "agent_traces_unchanged", "{trace}", "Agent traces that were evaluated just so before."
)
AGENT_TRACES_WITHOUT_CONTENT = _counter(
    "agent_traces_without_content",
    "{trace}",
    "Agent traces whose instrumentation records no questions, answers or arguments, each time they"
    " are read.",
)
EXTERNAL_SCORES = _counter(
    "external_scores",
    "{score}",
    "Scores that others gave, each when it is first stored; source is human, programmatic or"
    " evaluator.",
    "source",
)
SESSIONS_OPEN = _gauge("sessions_open", "{session}", "Sessions that have not fallen quiet.")
SESSIONS_EVALUATED = _counter(
    "sessions_evaluated", "{session}", "Sessions that fell quiet and were evaluated."
)

RULES_DECISIONS = _counter(
    "rules_decisions",
    "{decision}",
    "Traces and sessions by the rule of evaluation.rules that took them (default: none did), and"
    " what came of it: evaluated, left_out of the sample, or not_measured.",
    "rule",
    "scope",
    "outcome",
)
EVALUATIONS_SCORED = _counter(
    "evaluations_scored",
    "{evaluation}",
    "Scores that were committed, but for those of evaluation runs.",
    "metric",
    "label",
)
EVALUATIONS_SKIPPED = _counter(
    "evaluations_skipped",
    "{evaluation}",
    "Metrics that could not be measured, for nobody's fault; evaluation runs are left out.",
    "metric",
    "reason",
)
EVALUATIONS_FAILED = _counter(
    "evaluations_failed",
    "{evaluation}",
    "Metrics that went wrong: the judge's faults mostly; evaluation runs are left out.",
    "metric",
    "error_type",
)
EVALUATIONS_UNANSWERED = _gauge(
    "evaluations_unanswered",
    "{evaluation}",
    "Scores that are missing since nobody answered, and are asked for again.",
)
EVALUATIONS_ASKED_AGAIN = _counter(
    "evaluations_asked_again",
    "{evaluation}",
    "Scores that were asked for again: answered, unanswered once more, or given_up.",
    "outcome",
)
EVALUATIONS_DURATION = _durations(
    "evaluations_duration",
    "From taking up cut traces to their committed scores, a batch of traces at a time.",
)

JUDGE_CALLS = _counter(
    "judge_calls", "{call}", "Calls of a model, each retry a call.", "model", "outcome"
)
JUDGE_CALL_DURATION = _durations(
    "judge_call_duration", "How long calls of a model took.", "model", "outcome"
)
JUDGE_TOKENS = _counter("judge_tokens", "{token}", "Tokens that judging took.", "model", "type")
JUDGE_COST = _counter(
    "judge_cost_usd", "{USD}", "What judging cost, where the price is known.", "model"
)
JUDGE_UNPRICED_CALLS = _counter(
    "judge_unpriced_calls", "{call}", "Calls whose price is not known: see judge.prices.", "model"
)
JUDGE_RETRIES = _counter("judge_retries", "{call}", "Calls that were tried again.", "model")
JUDGE_REPAIRS = _counter(
    "judge_repairs",
    "{call}",
    "Answers that did not fit and were shown to the model again.",
    "model",
)
JUDGE_CACHE_HITS = _counter(
    "judge_cache_hits", "{answer}", "Answers that were kept from before.", "model"
)
JUDGE_CACHE_MISSES = _counter(
    "judge_cache_misses", "{answer}", "Answers that a model had to be asked for.", "model"
)
JUDGE_UP = _gauge(
    "judge_up",
    "",
    "Whether a model answered when it was last tried: 1 or 0; nothing before that.",
    "model",
)
JUDGE_BUDGET_LIMIT = _gauge(
    "judge_budget_limit",
    "",
    "What may be spent in an hour or day (judge.budget), by unit: tokens, usd.",
    "unit",
)
JUDGE_BUDGET_LEFT = _gauge(
    "judge_budget_left",
    "",
    "What is left of it in this hour or day, for all servers that share it.",
    "unit",
)

EXPORTER_SENT_REQUESTS = _counter(
    "exporter_sent_requests", "{request}", "Requests that a backend took.", "exporter", "signal"
)
EXPORTER_FAILED_SENDS = _counter(
    "exporter_failed_sends",
    "{request}",
    "Tries that failed; what failed is sent again.",
    "exporter",
    "signal",
)
EXPORTER_DROPPED_REQUESTS = _counter(
    "exporter_dropped_requests",
    "{request}",
    "Requests that will never arrive: refused for good, given up, or of a signal that the backend"
    " does not know.",
    "exporter",
    "signal",
    "reason",
)
EXPORTER_PARTIAL_REQUESTS = _counter(
    "exporter_partial_requests",
    "{request}",
    "Requests that a backend took a part of.",
    "exporter",
    "signal",
)
EXPORTER_SENT_SCORES = _counter(
    "exporter_sent_scores", "{score}", "Scores that were sent, or filed.", "exporter"
)
EXPORTER_DROPPED_SCORES = _counter(
    "exporter_dropped_scores",
    "{score}",
    "Scores that an exporter gave up. But for those that retention deleted, they are listed as"
    " undelivered.",
    "exporter",
    "reason",
)
EXPORTER_UNDELIVERED_SCORES = _gauge(
    "exporter_undelivered_scores",
    "{score}",
    "Scores that could not be delivered, not even in part or not wholly: see `spanscore scores"
    " --undelivered`.",
    "exporter",
)
EXPORTER_WAITING_SCORES = _gauge(
    "exporter_waiting_scores",
    "{score}",
    "Scores that are committed and not sent or filed yet.",
    "exporter",
)
EXPORTER_OLDEST_AGE = _gauge(
    "exporter_oldest_age",
    "s",
    "Age of the oldest score that waits, as far as memory tells it.",
    "exporter",
)
EXPORTER_QUEUE_SIZE = _gauge(
    "exporter_queue_size",
    "{request}",
    "Inline mode: received requests that wait to leave again.",
    "exporter",
)
EXPORTER_QUEUE_CAPACITY = _gauge(
    "exporter_queue_capacity",
    "{request}",
    "Inline mode: requests that may wait (sending_queue.queue_size).",
    "exporter",
)
INLINE_HELD_ROOTS = _gauge(
    "inline_held_roots", "{span}", "Inline mode: root spans that wait for their scores."
)
INLINE_RELEASED_ROOTS = _counter(
    "inline_released_roots",
    "{span}",
    "Inline mode: root spans that left, by whether their scores were there.",
    "reason",
)

STORE_UP = _gauge("store_up", "", "Whether the store could be used when it last was tried: 1 or 0.")
STORE_SIZE = _gauge("store_size", "By", "Bytes of the records in the store.")
STORE_DAMAGED_RECORDS = _gauge(
    "store_damaged_records",
    "{record}",
    "Damaged records that were met since the start: the log names them, and each is left out.",
)
SDK_DROPPED_ITEMS = _counter(
    "sdk_dropped_items",
    "{item}",
    "Spans and log records of an agent's own process that were not taken in: no memory was left, or"
    " others of the same trace had been dropped.",
    "reason",
)
SDK_DROPPED_TRACES = _counter(
    "sdk_dropped_traces",
    "{trace}",
    "Traces that are not scored in an agent's own process, since a span was dropped.",
)
STORE_PRUNED_TRACES = _counter(
    "store_pruned_traces", "{trace}", "Agent traces that retention deleted."
)
STORE_RETRIES = _counter(
    "store_retries",
    "{operation}",
    "Operations that the store could not do and that were tried again.",
)

MONITOR_TICKS = _counter(
    "monitor_ticks",
    "{tick}",
    "Ticks of monitors: looked at scores, run_started, queued behind a run, skipped, or failed.",
    "outcome",
)
MONITOR_ALERTS = _counter(
    "monitor_alerts",
    "{alert}",
    "Alerts that were sent or could not be (outcome: sent, failed), by receiver; status is firing"
    " or resolved.",
    "receiver",
    "status",
    "outcome",
)

PROCESS_UPTIME = _counter("process_uptime", "s", "Time since the start.")
PROCESS_CPU = _counter("process_cpu", "s", "CPU time, in user mode and in the kernel.")
PROCESS_MEMORY_RSS = _gauge(
    "process_memory_rss", "By", "Memory in use (resident set size); on Linux only."
)

METRICS: Final = tuple(x for x in list(globals().values()) if isinstance(x, Declared))
"""All of them, in the order of this file."""
