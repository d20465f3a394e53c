"""Statistics with their intervals: pure functions of numbers, on numpy alone."""

from spanscore.stats.agreement import Confusion, agreement, confusion, kappa, kappa_standard_error
from spanscore.stats.anytime import DropTest, Evidence, confidence_sequence, lower_limit, watch
from spanscore.stats.clusters import connected, design_effect, effective_number
from spanscore.stats.corrected_difference import corrected_difference, difference_of_corrected
from spanscore.stats.correction import corrected_rate
from spanscore.stats.differences import paired_difference, unpaired_difference
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError
from spanscore.stats.finite import finite_rate
from spanscore.stats.means import mean, mean_from_sums, rescaled
from spanscore.stats.passing import (
    pass_at_k,
    pass_pow_k,
    posterior_pass_at_k,
    posterior_pass_pow_k,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
)
from spanscore.stats.prediction import prediction_powered_mean
from spanscore.stats.ranking import auc, best_threshold
from spanscore.stats.rates import rate
from spanscore.stats.tasks import over_tasks
from spanscore.stats.unsure import Unsure, unsure_scores
from spanscore.stats.weighted import (
    Crossed,
    Moments,
    corrected_mean,
    crossed,
    moments,
    population_mean,
    weighted_difference,
    weighted_mean,
    weighted_total,
)

__all__ = [
    "Confusion",
    "Crossed",
    "DropTest",
    "Estimate",
    "Evidence",
    "Interval",
    "Moments",
    "NotEstimableError",
    "Unsure",
    "agreement",
    "auc",
    "best_threshold",
    "confidence_sequence",
    "confusion",
    "connected",
    "corrected_difference",
    "corrected_mean",
    "corrected_rate",
    "crossed",
    "design_effect",
    "difference_of_corrected",
    "effective_number",
    "finite_rate",
    "kappa",
    "kappa_standard_error",
    "lower_limit",
    "mean",
    "mean_from_sums",
    "moments",
    "over_tasks",
    "paired_difference",
    "pass_at_k",
    "pass_pow_k",
    "population_mean",
    "posterior_pass_at_k",
    "posterior_pass_pow_k",
    "prediction_powered_mean",
    "rate",
    "rescaled",
    "unbiased_pass_at_k",
    "unbiased_pass_pow_k",
    "unpaired_difference",
    "unsure_scores",
    "watch",
    "weighted_difference",
    "weighted_mean",
    "weighted_total",
]
