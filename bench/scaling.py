"""Simulate replicas, their PostgreSQL and a judge at up to 10,000 traces a second.

    python bench/scaling.py
    python bench/scaling.py --assume judged=0
    python bench/scaling.py --loads 50,200 --assume requests_per_minute=500 usd_per_day=20
    python bench/scaling.py --burst 4565 --cpus 2

What is needed for each load is worked out from utilisations, then simulated. Where one PostgreSQL
is not enough there are several groups of replicas, each with its own; they are alike, so one of
them is simulated. Docs: docs/scaling.md.
"""

import argparse
import math
import random
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from itertools import count
from statistics import NormalDist

import simpy

DAY_S = 86400
MOST_REPLICAS = 64  # on one PostgreSQL
Steps = Generator[simpy.Event, object, object]


def option(default: float, text: str) -> float:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Assumed:
    """Measured, or chosen; `--assume` has other values."""

    spans: float = option(10, "of a trace")
    span_bytes: float = option(1700, "")
    read_ms: float = option(3.5, "CPU of a replica for a trace, but for its commit and export")
    export_ms: float = option(0.9, "CPU of the replica that leads, for a trace of any")
    commit_ms: float = option(
        3.5, "how long a transaction has the writer's lock, whatever is in it"
    )
    commit_trace_ms: float = option(1.0, "and for each trace in it")
    own_share: float = option(0.55, "of that, CPU of the replica; the rest is PostgreSQL's")
    fsync_ms: float = option(1.0, "and until it is on PostgreSQL's disk")
    batch: float = option(256, "traces of a transaction at most; with a judge it is of one")
    readers: float = option(2, "batches at once, where there is no judge")
    judged_readers: float = option(32, "traces at once, where there is one")
    wait_s: float = option(2.0, "until a trace counts as whole (assemble.whole_after)")
    look_s: float = option(0.15, "how often traces that are whole are looked for")
    late_window_s: float = option(300, "how long the journal keeps a trace (assemble.late_window)")
    partition_mb_s: float = option(5, "what one partition of Kafka is given")
    judged: float = option(1, "share of traces that shall be judged; 0: no judge is configured")
    calls: float = option(2, "of a judge for a trace, one after the other")
    call_p50_s: float = option(2, "")
    call_p95_s: float = option(6, "")
    call_tokens: float = option(4600, "in and out")
    usd: float = option(0.0017, "for a judged trace")
    max_concurrent: float = option(32, "calls of a replica at once (judge.max_concurrent)")
    requests_per_minute: float = option(10_000, "what the provider allows")
    tokens_per_minute: float = option(10_000_000, "")
    refused: float = option(0.02, "share of calls answered 429, which are made again")
    usd_per_day: float = option(100, "judge.budget")
    use: float = option(0.7, "how busy each part may be")

    @property
    def call_log(self) -> tuple[float, float]:
        """Mean and deviation of the logarithm of how long a call takes."""
        sigma = math.log(self.call_p95_s / self.call_p50_s) / NormalDist().inv_cdf(0.95)
        return math.log(self.call_p50_s), sigma

    @property
    def call_s(self) -> float:
        mu, sigma = self.call_log
        return math.exp(mu + sigma**2 / 2)

    @property
    def call_interval_s(self) -> float:
        """Between two calls that the provider allows."""
        return max(60 / self.requests_per_minute, 60 * self.call_tokens / self.tokens_per_minute)

    def lock_s(self, traces: float) -> float:
        """How long a transaction has the writer's lock."""
        return (self.commit_ms + self.fsync_ms + self.commit_trace_ms * traces) / 1e3


@dataclass(frozen=True)
class Plan:
    """What a load needs; `rate` is that of one of `groups` that are alike."""

    load: float
    groups: int
    replicas: int
    share: float
    limits: str
    use: "Use"

    @property
    def rate(self) -> float:
        return self.load / self.groups


def judged_share(a: Assumed, load: float) -> tuple[float, str]:
    """Which share can be judged, and what keeps it from being more."""
    per_second = {
        "budget": a.usd_per_day / DAY_S / a.usd if a.usd else math.inf,
        "judge's rate": a.use * (1 - a.refused) / a.calls / a.call_interval_s,
    }
    limit = min(per_second, key=per_second.__getitem__)
    share = per_second[limit] / load
    return (share, limit) if share < a.judged else (a.judged, "")


@dataclass(frozen=True)
class Use:
    """How busy the parts of one group are, by name; more than 1 is too much."""

    parts: dict[str, float]
    lock_wait_s: float
    cpu_wait_s: float

    @property
    def most(self) -> str:
        return max(self.parts, key=self.parts.__getitem__)


def used(a: Assumed, rate: float, replicas: int, share: float) -> Use:
    """Utilisations, and the mean waits that follow from them (Pollaczek and Khinchine)."""
    own, read_s, export_s = rate / replicas, a.read_ms / 1e3, a.export_ms / 1e3
    if a.judged:
        batch, puts = 1.0, own * share * a.calls
    else:
        # at most what one look finds; more of them once all is busy
        batch, puts = min(max(1.0, own * a.look_s), a.batch), 0.0
    # of one replica: how often, and how long
    writes = [(own / batch, a.lock_s(batch)), (puts, a.lock_s(0))]
    work = [(own, read_s), (rate / replicas, export_s)]
    work += [(often, long_s * a.own_share) for often, long_s in writes]
    cpu = sum(often * long_s for often, long_s in work)
    cpu_wait_s = _wait_s(work, cpu)
    # who has the lock waits for its CPU like any other
    writes = [(replicas * often, long_s + cpu_wait_s) for often, long_s in writes]
    lock = sum(often * long_s for often, long_s in writes)
    parts = {
        "writer's lock": lock,
        "CPU": cpu + (rate - own) * export_s,  # of the replica that leads
        "export": 2 * rate * export_s,  # may take half of its CPU
        "calls at once": own * share * a.calls * a.call_s / min(a.max_concurrent, a.judged_readers),
    }
    return Use(parts, _wait_s(writes, lock), cpu_wait_s)


def _wait_s(work: Sequence[tuple[float, float]], use: float) -> float:
    if use >= 1:
        return math.inf
    return sum(often * long_s**2 for often, long_s in work) / 2 / (1 - use)


def planned(a: Assumed, load: float) -> Plan:
    """The cheapest groups of which no part is too busy; a PostgreSQL counts as four replicas."""
    share, judge_limit = judged_share(a, load) if a.judged else (0.0, "")
    best = None
    for groups in count(1):
        if best and groups * 5 > best[0] * (best[1] + 4):
            break
        for replicas in range(1, MOST_REPLICAS + 1):
            use = used(a, load / groups, replicas, share)
            if use.parts[use.most] <= a.use:
                if not best or groups * (replicas + 4) < best[0] * (best[1] + 4):
                    best = groups, replicas, use
                break
    groups, replicas, use = best
    limits = {judge_limit: None}
    if groups > 1:  # what is too busy in fewer groups, however many replicas they have
        fewer = (used(a, load / (groups - 1), x, share) for x in range(1, MOST_REPLICAS + 1))
        limits[min(fewer, key=lambda x: x.parts[x.most]).most] = None
    if replicas > 1:
        limits[used(a, load / groups, replicas - 1, share).most] = None
    return Plan(load, groups, replicas, share, ", ".join(filter(None, limits)), use)


def expected_s(a: Assumed, plan: Plan, *, judged: bool) -> tuple[float, float]:
    """p50 and p95 from a turn's end to its score, by the closed form."""
    fixed = a.wait_s + a.look_s / 2 + (a.read_ms + a.export_ms) / 1e3 + a.lock_s(1)
    waits_s = plan.use.lock_wait_s + 3 * plan.use.cpu_wait_s  # read, commit, export
    if not judged:
        return fixed + waits_s, fixed + a.look_s * 0.45 + 3 * waits_s
    # the sum of the calls as one log-normal of the same mean and variance (Fenton and Wilkinson)
    _, sigma = a.call_log
    mean = a.calls * a.call_s / (1 - a.refused)
    spread = math.log(1 + (math.exp(sigma**2) - 1) / a.calls)
    middle = math.log(mean) - spread / 2
    fixed += a.calls * a.lock_s(0) + (1 + a.calls) * waits_s
    p95 = math.exp(middle + math.sqrt(spread) * NormalDist().inv_cdf(0.95))
    return fixed + math.exp(middle), fixed + p95


class Group:
    """Replicas on one PostgreSQL, while `plan.rate` traces a second come."""

    def __init__(self, a: Assumed, plan: Plan, *, seed: int = 1, cpus: int = 0) -> None:
        """`cpus`: all share so many; 0: each replica has one, and PostgreSQL enough."""
        self.env = simpy.Environment()
        self.a, self.plan = a, plan
        self.took_s: dict[bool, list[float]] = {False: [], True: []}
        """By whether they were judged, from each turn's end to its score."""
        self.lock_busy_s = self.calls_s = 0.0
        self.cpu_s = [0.0] * plan.replicas
        self._chance = random.Random(seed)  # noqa: S311 - of a simulation
        self._cpus = simpy.Resource(self.env, cpus) if cpus else None
        self._own = [simpy.Resource(self.env, 1) for _ in range(plan.replicas)]
        self._lock = simpy.Resource(self.env, 1)
        self._calls = [simpy.Resource(self.env, int(a.max_concurrent)) for _ in self._own]
        self._next_call_s = 0.0
        self._ready = [simpy.Store(self.env) for _ in self._own]
        self._since_s = 0.0
        for replica in range(plan.replicas):
            for _ in range(int(a.judged_readers if a.judged else a.readers)):
                self.env.process(self._reader(replica))

    def run(self, warm_s: float, for_s: float) -> None:
        """Have traces come at random, and note what came of them once it is warm."""
        for replica in range(self.plan.replicas):
            self.env.process(self._arrivals(replica))
        self.env.run(warm_s)
        self._since_s, self.lock_busy_s, self.calls_s = warm_s, 0.0, 0.0
        self.env.run(warm_s + for_s)

    def burst(self, traces: int) -> float:
        """Have all traces be there at once; returns how long they take, in seconds."""
        for number in range(traces):
            self._ready[number % self.plan.replicas].put(0.0)
        while sum(map(len, self.took_s.values())) < traces:
            self.env.step()
        return self.env.now

    @property
    def waiting(self) -> int:
        """Traces that are whole and that nobody reads yet."""
        return sum(len(x.items) for x in self._ready)

    def _arrivals(self, replica: int) -> Steps:
        rate, look_s = self.plan.rate / self.plan.replicas, self.a.look_s
        phase_s = self._chance.random() * look_s
        while True:
            yield self.env.timeout(self._chance.expovariate(rate))
            whole_s = self.env.now + self.a.wait_s
            if look_s:
                whole_s = (math.floor((whole_s - phase_s) / look_s) + 1) * look_s + phase_s
            self.env.process(self._arrive(replica, self.env.now, whole_s - self.env.now))

    def _arrive(self, replica: int, ended_s: float, wait_s: float) -> Steps:
        yield self.env.timeout(wait_s)
        self._ready[replica].put(ended_s)

    def _reader(self, replica: int) -> Steps:
        ready, a = self._ready[replica], self.a
        most = 1 if a.judged else int(a.batch)
        while True:
            ended = [(yield ready.get())]
            while ready.items and len(ended) < most:
                ended.append((yield ready.get()))
            judged = {x for x in range(len(ended)) if self._chance.random() < self.plan.share}
            for number in range(len(ended)):
                yield from self._compute(replica, a.read_ms / 1e3)
                if number in judged:
                    yield from self._judge(replica)
            yield from self._commit(replica, len(ended))
            for number, ended_s in enumerate(ended):
                self.env.process(self._export(ended_s, judged=number in judged))

    def _export(self, ended_s: float, *, judged: bool) -> Steps:
        yield from self._compute(0, self.a.export_ms / 1e3)
        if ended_s >= self._since_s:
            self.took_s[judged].append(self.env.now - ended_s)

    def _judge(self, replica: int) -> Steps:
        left = int(self.a.calls)
        while left:
            with self._calls[replica].request() as place:
                yield place
                at_s = max(self.env.now, self._next_call_s)
                self._next_call_s = at_s + self.a.call_interval_s * self.plan.groups
                yield self.env.timeout(at_s - self.env.now)
                if self._chance.random() < self.a.refused:
                    continue
                took_s = self._chance.lognormvariate(*self.a.call_log)
                yield self.env.timeout(took_s)
                self.calls_s += took_s
            yield from self._commit(replica, 0)
            left -= 1

    def _commit(self, replica: int, traces: int) -> Steps:
        lock_s = self.a.lock_s(traces)
        own_s = (lock_s - self.a.fsync_ms / 1e3) * self.a.own_share
        with self._lock.request() as turn:
            yield turn
            begun_s = self.env.now
            yield from self._compute(replica, own_s)
            yield from self._use(self._cpus, lock_s - own_s - self.a.fsync_ms / 1e3)
            yield self.env.timeout(self.a.fsync_ms / 1e3)
            self.lock_busy_s += self.env.now - begun_s

    def _compute(self, replica: int, cpu_s: float) -> Steps:
        with self._own[replica].request() as place:
            yield place
            self.cpu_s[replica] += cpu_s
            yield from self._use(self._cpus, cpu_s)

    def _use(self, cpus: simpy.Resource | None, cpu_s: float) -> Steps:
        with ExitStack() as stack:
            if cpus is not None:
                yield stack.enter_context(cpus.request())
            yield self.env.timeout(cpu_s)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)] if values else math.nan


def show(a: Assumed, loads: Sequence[float], warm_s: float, for_s: float) -> None:
    plans = [planned(a, load) for load in loads]
    print(
        "traces/s  PostgreSQLs  replicas  partitions  judged  calls at once  USD a day"
        "  journal GiB a replica  limits"
    )
    for x in plans:
        replicas, bytes_s = x.groups * x.replicas, x.load * a.spans * a.span_bytes
        partitions = max(replicas, math.ceil(bytes_s / a.partition_mb_s / 1e6))
        judged = x.load * x.share
        print(
            f"{x.load:8,.0f}{x.groups:13}{replicas:10,}{partitions:12,}{x.share:8.2%}"
            f"{judged * a.calls * a.call_s:15.1f}{judged * a.usd * DAY_S:11.2f}"
            f"{bytes_s * a.late_window_s / replicas / 2**30:23.2f}  {x.limits}"
        )
    print(
        "\nclosed form | simulated, of one PostgreSQL and its replicas\ntraces/s       lock busy"
        "   calls at once           p50 s           p95 s   judged: p50 s           p95 s waiting"
    )
    for x in plans:
        group = Group(a, x)
        group.run(warm_s, for_s)
        row = [
            (x.use.parts["writer's lock"], group.lock_busy_s / for_s),
            (x.rate * x.share * a.calls * a.call_s, group.calls_s / for_s),
        ]
        for judged in (False, True):
            took = [percentile(group.took_s[judged], share) for share in (0.5, 0.95)]
            row += zip(expected_s(a, x, judged=judged), took, strict=True)
        pairs = "".join(f"{f'{known:.2f} | {found:.2f}':>16}" for known, found in row)
        pairs = pairs.replace("nan", "-")
        print(f"{x.load:8,.0f}{pairs}{group.waiting:8,}", flush=True)


def show_burst(a: Assumed, traces: int, replicas: Sequence[int], cpus: int) -> None:
    print(f"{traces} traces at once, {cpus or 'enough'} CPUs")
    print("replicas  traces/s  lock busy  CPU ms of the leader for a trace of its own, of others")
    for number in replicas:
        group = Group(a, Plan(1, 1, number, 0.0, "", Use({}, 0, 0)), cpus=cpus)
        took_s = group.burst(traces)
        cpu_ms = [x / traces * number * 1e3 for x in group.cpu_s]
        print(f"{number:8}{traces / took_s:10.1f}{group.lock_busy_s / took_s:11.0%}", end="")
        print("".join(f"{x:8.2f}" for x in (cpu_ms[0], *cpu_ms[1:2])))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    of_numbers = {"type": lambda x: [float(y) for y in x.split(",")], "metavar": "N,N"}
    parser.add_argument("--loads", default=[10, 100, 1000, 3000, 10_000], **of_numbers)
    parser.add_argument("--warm-s", type=float, default=30)
    parser.add_argument("--for-s", type=float, default=120)
    parser.add_argument("--burst", type=int, metavar="TRACES", help="all at once, by replicas")
    parser.add_argument("--replicas", default=[1, 2, 3], help="of --burst", **of_numbers)
    parser.add_argument("--cpus", type=int, default=0, help="of --burst, shared by all; 0: enough")
    known = {x.name: x for x in fields(Assumed)}
    parser.add_argument("--assume", nargs="+", default=[], metavar="NAME=N", help="see below")
    parser.epilog = "what is assumed:\n" + "\n".join(
        f"  {name:20} {x.default:<10g} {x.metadata['help']}" for name, x in known.items()
    )
    args = parser.parse_args()
    given = dict(x.split("=", 1) for x in args.assume)
    if unknown := given.keys() - known:
        parser.error(f"nothing is assumed of {', '.join(sorted(unknown))}")
    assumed = Assumed(**{name: float(x) for name, x in given.items()})
    if args.burst:
        show_burst(assumed, args.burst, [int(x) for x in args.replicas], args.cpus)
    else:
        show(assumed, args.loads, args.warm_s, args.for_s)
    return 0


if __name__ == "__main__":
    sys.exit(main())
