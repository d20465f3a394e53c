"""Scoring of recorded agent traces."""

from spanscore.offline.scoring import OfflineScoring, Scored
from spanscore.offline.selection import measurable, metric_names, metric_of

__all__ = ["OfflineScoring", "Scored", "measurable", "metric_names", "metric_of"]
