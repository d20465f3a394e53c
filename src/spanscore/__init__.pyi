from spanscore.api.client import AsyncClient as AsyncClient, Client as Client
from spanscore.metrics.own import criterion as criterion, metric as metric
from spanscore.model.score import (
    Evaluation as Evaluation,
    Failure as Failure,
    Outcome as Outcome,
    Score as Score,
    Skip as Skip,
)
from spanscore.model.trace import AgentTrace as AgentTrace, Session as Session
from spanscore.otlp.files import load as load
from spanscore.rebuild import rebuild_all as rebuild_all
from spanscore.sdk.authoring.record_score import record_score as record_score
from spanscore.sdk.authoring.steps import (
    ModelCall as ModelCall,
    call_id as call_id,
    model_call as model_call,
    tool as tool,
)
from spanscore.sdk.authoring.turn import (
    Turn as Turn,
    expect as expect,
    plan as plan,
    session as session,
    turn as turn,
)
from spanscore.sdk.experiment import (
    Experiment as Experiment,
    experiment as experiment,
    experiment_async as experiment_async,
)
from spanscore.sdk.instrumentation import (
    Instrumentation as Instrumentation,
    instrument as instrument,
)
from spanscore.sdk.pytest_plugin.recorder import (
    NotReachedError as NotReachedError,
    NotScoredError as NotScoredError,
    NoTurnError as NoTurnError,
    Recorder as Recorder,
)
from spanscore.sdk.score_report import (
    Report as Report,
    evaluate as evaluate,
    evaluate_async as evaluate_async,
)
from spanscore.sdk.scoring_exporter import ScoringExporter as ScoringExporter
from spanscore.stats import pass_at_k as pass_at_k, pass_pow_k as pass_pow_k
from spanscore.suites import (
    Suite as Suite,
    run_suite as run_suite,
    run_suite_async as run_suite_async,
)
from spanscore.suites.best_of import best_of as best_of, best_of_async as best_of_async

__version__: str
