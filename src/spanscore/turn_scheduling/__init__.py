"""Decide which traces are read when: each by itself, or the traces of one turn together."""

from spanscore.turn_scheduling.jobs import JobKind, JobReader, ReadJob, ReadResult, Source
from spanscore.turn_scheduling.scheduler import TurnScheduler
from spanscore.turn_scheduling.trace_states import State

__all__ = ["JobKind", "JobReader", "ReadJob", "ReadResult", "Source", "State", "TurnScheduler"]
