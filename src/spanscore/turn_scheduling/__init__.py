"""Decide which traces are read when: each by itself, or the traces of one turn together."""

from spanscore.turn_scheduling.job_reader import JobReader
from spanscore.turn_scheduling.jobs import JobKind, ReadJob, ReadResult, Source
from spanscore.turn_scheduling.trace_states import State
from spanscore.turn_scheduling.turn_scheduler import TurnScheduler

__all__ = ["JobKind", "JobReader", "ReadJob", "ReadResult", "Source", "State", "TurnScheduler"]
