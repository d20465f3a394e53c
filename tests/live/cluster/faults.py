"""Faults of a cluster, drawn by a seed, each begun and healed beside the load."""

import contextlib
import random
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from parts import Cluster

_RECOVERY_S = 120
_HELD_S = (1.0, 8.0)
_PAUSED_S = (5.0, 40.0)
_FULL_DISK_BYTES = 1024


@dataclass
class Fault:
    """One fault: what happens to which part, and for how long. Times are in seconds."""

    number: int
    kind: str
    part: str
    at_s: float
    held_s: float
    began_s: float = 0.0
    healed_s: float = 0.0
    recovered_s: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        when = f"{self.began_s:7.1f} s  {self.kind} {self.part} for {self.held_s:.1f} s"
        after = f"worked again after {self.recovered_s - self.healed_s:.1f} s"
        return f"{self.number:3} {when}, {self.problem or after}"


class Kind:
    """One kind of fault: `parts` are those of a cluster that it can befall."""

    held_s = _HELD_S

    def parts(self, cluster: Cluster) -> list[str]:
        return [f"replica-{x.number}" for x in cluster.replicas]

    def begin(self, cluster: Cluster, part: str) -> None:
        raise NotImplementedError

    def heal(self, cluster: Cluster, part: str) -> None:
        raise NotImplementedError


def _number(part: str) -> int:
    return int(part.rpartition("-")[2])


class Kill(Kind):
    """`kill -9` of a replica, which comes back with its journal and ports."""

    def begin(self, cluster, part):
        cluster.replicas[_number(part)].kill()

    def heal(self, cluster, part):
        cluster.replicas[_number(part)].start()


class Upgrade(Kill):
    """A replica ends in order and is started again."""

    held_s = (0.0, 2.0)

    def begin(self, cluster, part):
        cluster.replicas[_number(part)].terminate()


class Pause(Kind):
    """A replica stands still for longer than its leases, and goes on as if nothing had been."""

    held_s = _PAUSED_S

    def begin(self, cluster, part):
        cluster.replicas[_number(part)].signal(signal.SIGSTOP)

    def heal(self, cluster, part):
        cluster.replicas[_number(part)].signal(signal.SIGCONT)


class FullDisk(Kind):
    """A replica's journal cannot grow."""

    def begin(self, cluster, part):
        self._limit(cluster, part, _FULL_DISK_BYTES)

    def heal(self, cluster, part):
        self._limit(cluster, part, resource.RLIM_INFINITY)

    def _limit(self, cluster, part, most):
        pid = cluster.replicas[_number(part)].process.pid
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


class Silence(Kind):
    """Nothing passes between a replica and PostgreSQL, and connections stay open."""

    toxic = "timeout", {"timeout": 0}

    def parts(self, cluster):
        return [f"store-{x.number}" for x in cluster.replicas]

    def begin(self, cluster, part):
        kind, attributes = self.toxic
        cluster.links[_number(part)].poison(kind, **attributes)

    def heal(self, cluster, part):
        cluster.links[_number(part)].cure(self.toxic[0])


class Reset(Silence):
    """Connections between a replica and PostgreSQL are reset."""

    toxic = "reset_peer", {"timeout": 0}


class Latency(Silence):
    """PostgreSQL is far away."""

    toxic = "latency", {"latency": 150, "jitter": 100}


class Narrow(Silence):
    """Little passes between a replica and PostgreSQL."""

    toxic = "bandwidth", {"rate": 50}


class Cut(Silence):
    """PostgreSQL's port refuses a replica."""

    def begin(self, cluster, part):
        cluster.links[_number(part)].set_enabled(enabled=False)

    def heal(self, cluster, part):
        cluster.links[_number(part)].set_enabled(enabled=True)


class Crash(Kind):
    """PostgreSQL crashes, and recovers when it is started again."""

    def parts(self, cluster):
        return ["postgresql"]

    def begin(self, cluster, part):
        cluster.postgresql.crash()

    def heal(self, cluster, part):
        cluster.postgresql.start()


class Restart(Crash):
    """PostgreSQL is restarted in order."""

    held_s = (0.0, 2.0)

    def begin(self, cluster, part):
        cluster.postgresql.shut_down()


class NoBackend(Kind):
    """What scores are sent to is killed."""

    def parts(self, cluster):
        return ["backend"]

    def begin(self, cluster, part):
        cluster.backend.kill()

    def heal(self, cluster, part):
        cluster.backend.start()


class KillBroker(Kind):
    """`kill -9` of a broker, which comes back with its data."""

    def parts(self, cluster):
        return [f"broker-{x.node}" for x in cluster.kafka.brokers] if cluster.kafka else []

    def begin(self, cluster, part):
        cluster.kafka.brokers[_number(part)].kill()

    def heal(self, cluster, part):
        cluster.kafka.brokers[_number(part)].start()


class SilentBroker(KillBroker):
    """Nothing passes between a broker and its clients, among them the other brokers."""

    toxic = "timeout", {"timeout": 0}

    def begin(self, cluster, part):
        kind, attributes = self.toxic
        cluster.kafka.links[_number(part)].poison(kind, **attributes)

    def heal(self, cluster, part):
        cluster.kafka.links[_number(part)].cure(self.toxic[0])


class SlowBroker(SilentBroker):
    """A broker is far away."""

    toxic = "latency", {"latency": 300, "jitter": 200}


KINDS: dict[str, Kind] = {
    "kill": Kill(),
    "upgrade": Upgrade(),
    "pause": Pause(),
    "full disk": FullDisk(),
    "silence": Silence(),
    "reset": Reset(),
    "latency": Latency(),
    "narrow": Narrow(),
    "cut": Cut(),
    "crash": Crash(),
    "restart": Restart(),
    "no backend": NoBackend(),
    "kill broker": KillBroker(),
    "silent broker": SilentBroker(),
    "slow broker": SlowBroker(),
}


def drawn(
    seed: int, count: int, over_s: float, cluster: Cluster, kinds: Sequence[str] = ()
) -> list[Fault]:
    """So many faults over a time, of each kind as many as of the others; where that can be, none
    befalls the part that the one before has befallen.
    """
    chance, found, names, last = random.Random(seed), [], [], ""
    possible = [x for x in kinds or KINDS if KINDS[x].parts(cluster)]
    for number in range(count):
        names = names or chance.sample(possible, len(possible))
        kind = names.pop()
        parts = KINDS[kind].parts(cluster)
        last = chance.choice([x for x in parts if x != last] or parts)
        at_s = (number + chance.uniform(0.2, 0.8)) * over_s / count
        low, high = KINDS[kind].held_s
        held_s = max(low, min(chance.uniform(low, high), over_s / 4))
        found.append(Fault(number + 1, kind, last, at_s, held_s))
    return found


@dataclass
class Course:
    """Faults as they happen: each is healed before the next but one begins."""

    cluster: Cluster
    faults: list[Fault]
    begun_s: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Have all happen, and wait until the last is healed."""
        under_way: list[threading.Thread] = []
        last = ""
        for fault in self.faults:
            while len(under_way) > (fault.part != last):
                under_way.pop(0).join()
            last = fault.part
            time.sleep(max(0.0, self.begun_s + fault.at_s - time.monotonic()))
            under_way.append(threading.Thread(target=self._happen, args=(fault,), daemon=True))
            under_way[-1].start()
        for thread in under_way:
            thread.join()

    def _happen(self, fault: Fault) -> None:
        kind = KINDS[fault.kind]
        try:
            self.cluster.faulty.add(fault.part)
            fault.began_s = self._now_s()
            kind.begin(self.cluster, fault.part)
            time.sleep(fault.held_s)
            fault.healed_s = self._now_s()
            kind.heal(self.cluster, fault.part)
        except (OSError, AssertionError, subprocess.SubprocessError) as error:
            fault.problem = f"{type(error).__name__}: {error}"
        finally:
            self.cluster.faulty.discard(fault.part)
        try:
            self.cluster.recover(_RECOVERY_S)
        except TimeoutError as error:
            fault.problem = fault.problem or str(error)
        fault.recovered_s = self._now_s()

    def _now_s(self) -> float:
        return time.monotonic() - self.begun_s
