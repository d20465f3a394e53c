"""Scheduling of turns: which traces are read when."""

from spanscore.turn_scheduling.jobs import JobKind, JobReader, ReadJob, ReadResult, Source
from spanscore.turn_scheduling.scheduler import TurnScheduler
from spanscore.turn_scheduling.trace_states import State

__all__ = ["JobKind", "JobReader", "ReadJob", "ReadResult", "Source", "State", "TurnScheduler"]
