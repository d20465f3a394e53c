"""What one run measures: the metrics, the rubric and the weights of signals, as configured or as a
run changes them.
"""

from collections.abc import Mapping, Sequence

from spanscore.embed.port import Embedder
from spanscore.errors import FieldError
from spanscore.evaluation.config import Config, Overrides, model_named
from spanscore.evaluation.rubric import Rubric
from spanscore.evaluation.signals import check_signals, needed, usual_weights
from spanscore.metrics import Metric


class Selection:
    """The configuration, and for each of its runs what `Overrides` change of it; None: nothing."""

    def __init__(
        self,
        config: Config,
        embedder: Embedder | None,
        *,
        has_judge: bool,
        beside: Sequence[Metric] = (),
    ) -> None:
        """`embedder` None: no embedding is configured.

        `beside` are metrics that run where a run names them.
        """
        self._config = config
        self.has_judge = has_judge
        self.configured = config.build()
        self._known = [*beside, *self.configured]
        embedding = embedder.name if embedder else None
        self._usual_weights = usual_weights(embedding)
        self._given_weights = config.weights()

    def metrics(self, overrides: Overrides | None) -> list[Metric]:
        """The metrics of a run.

        Raises InputError on one that there is not, or a model where there is no judge.
        """
        if overrides is None:
            return self.configured
        selected = overrides.applied(self.configured if overrides.metrics is None else self._known)
        rubric = self.rubric(overrides)
        if not self.has_judge and (
            model := model_named((*selected, *self.signals(selected, overrides)), rubric)
        ):
            raise FieldError(
                "model",
                f"{model!r} cannot judge: judge.model names none, so there is no judge to ask it",
            )
        return selected

    def rubric(self, overrides: Overrides | None) -> Rubric | None:
        """What a run scores by the rubric; None: nothing.

        Raises InputError on a criterion that there is not.
        """
        return (overrides or Overrides()).rubric(self._config.rubric)

    def signals(self, run: Sequence[Metric], overrides: Overrides | None) -> list[Metric]:
        """The metrics of the signals that the session metrics of a run rest on, as that run
        measures them.
        """
        names = needed(run, self.weights(overrides), external=self._config.external_names)
        return Overrides(names, overrides.model if overrides else None).applied(self._known)

    def weights(self, overrides: Overrides | None) -> dict[str, float]:
        """The weights of all signals, by name. Raises FieldError on what is no signal."""
        return {**self._usual_weights, **self.given_weights(overrides)}

    def given_weights(self, overrides: Overrides | None) -> Mapping[str, float]:
        """The weights of signals that the configuration or the run gives.

        Raises FieldError on what is no signal.
        """
        changed = (overrides.signal_weights if overrides else None) or {}
        try:
            check_signals(changed, self._config.external_names)
        except ValueError as error:
            raise FieldError("signal_weights", str(error)) from None
        return {**self._given_weights, **changed}

    def ranking(self) -> dict[str, float]:
        """The weights by which the metrics of a configured run are put in order: of signals, and of
        criteria.
        """
        rubric = self.rubric(None)
        criteria = {x.criterion.metric: x.weight for x in rubric.weighted} if rubric else {}
        return self.weights(None) | criteria
