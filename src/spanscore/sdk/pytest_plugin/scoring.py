"""Scores the turns of tests: one judge, one budget and one event loop for a whole run of pytest."""

import functools
from collections.abc import Mapping, Sequence

from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.embed.port import PROVIDER, Embedder
from spanscore.evaluation import Engine, Overrides
from spanscore.evaluation.rubric import is_rubric
from spanscore.judge import Judge, answers_file, open_judge, redactor
from spanscore.looping import Loop
from spanscore.metrics import available
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.sdk.cassettes import Cassette, CassetteJudge, Mode
from spanscore.sdk.recorded_embeddings import CassetteEmbedder
from spanscore.suites import Case, Suite, Trial
from spanscore.suites.matches import Recording
from spanscore.suites.trial import Answers, Trying


class Scoring:
    """What scores the tests of a run.

    Its methods may be called from any thread, also within an event loop.
    """

    def __init__(self, settings: Settings, mode: Mode, judge: Judge | None = None) -> None:
        """`judge` is asked in place of the one that `settings` describe."""
        self.settings = settings
        self.mode = mode
        self._given = judge

    @property
    def can_ask(self) -> bool:
        """Whether there is a judge besides what is recorded."""
        return self._given is not None or bool(self.settings.judge.models)

    def evaluated(
        self, turns: Sequence[AgentTrace], metrics: Sequence[str] | None, cassette: Cassette
    ) -> list[Evaluation]:
        """The scores of these turns and of their sessions, by `metrics` or as configured.

        Raises InputError on a metric that there is not.
        """
        return self._loop.run(
            _evaluated(self._engine(self._judge_of(cassette), cassette), turns, metrics)
        )

    def tried(self, turn: AgentTrace, case: Case, cassette: Cassette) -> Trial:
        """A turn held against what a case expects of it, as `spanscore test` does.

        Raises InputError as `evaluated`.
        """
        judge = self._judge_of(cassette)
        suite = Suite(name=case.id, cases=(case,))
        trying = Trying(suite, self._engine(judge, cassette), Answers(judge, self.settings.judge))
        return self._loop.run(trying.score(Recording(case, (turn,), is_session=False)))

    def close(self) -> None:
        """Stop the event loop."""
        if "_loop" in self.__dict__:
            self._loop.close()

    @functools.cached_property
    def _loop(self) -> Loop:
        return Loop()

    @functools.cached_property
    def _judge(self) -> Judge | None:
        if self._given is not None:
            return self._given
        kept = None if self.mode == "all" else answers_file(self.settings.judge)
        return open_judge(self.settings.judge, kept)

    @functools.cached_property
    def _embedder(self) -> Embedder | None:
        return open_embedder(self.settings.embedding, redact=redactor(self.settings.judge))

    def _judge_of(self, cassette: Cassette) -> Judge | None:
        """Who answers the questions of a test; None where nobody can."""
        if not (self.can_ask or cassette.entries or self.mode == "none"):
            return None
        return CassetteJudge(
            cassette, self.mode, lambda: self._judge, self.settings.judge.redact.rules
        )

    def _embedder_of(self, cassette: Cassette) -> Embedder | None:
        """What embeds the texts of a test: of a provider's embeddings those that are recorded,
        without asking it.
        """
        config, recorded = self.settings.embedding, {x.embedding for x in cassette.vectors.values()}
        if config.chosen == "litellm":
            name = f"{PROVIDER}{config.model}"
        elif config.chosen is None and len(recorded) == 1:
            [name] = recorded
        else:
            return self._embedder
        rules = self.settings.judge.redact.rules
        return CassetteEmbedder(cassette, self.mode, name, lambda: self._embedder, rules)

    def _engine(self, judge: Judge | None, cassette: Cassette) -> Engine:
        evaluation = self.settings.evaluation.without_rules()  # a test says itself what is measured
        return Engine(
            evaluation, judge, self._embedder_of(cassette), judge_config=self.settings.judge
        )


async def _evaluated(
    engine: Engine, turns: Sequence[AgentTrace], names: Sequence[str] | None
) -> list[Evaluation]:
    if names is None:
        return await _by_metrics(engine, turns, None)
    criteria = tuple(name for name in names if is_rubric(name))
    found = await _by_metrics(engine, turns, tuple(x for x in names if not is_rubric(x)))
    if criteria:
        for session in sessions(turns):
            found += await engine.evaluate_rubric(_subject(session), Overrides(criteria))
    return [score for score in found if score.metric in names]


async def _by_metrics(
    engine: Engine, turns: Sequence[AgentTrace], names: tuple[str, ...] | None
) -> list[Evaluation]:
    """The scores by these metrics, none of them of the rubric; None: by those configured."""
    overrides = None if names is None else Overrides(names)
    found: list[Evaluation] = []
    by_turn: dict[str, Mapping[str, Evaluation]] = {}
    for place, turn in enumerate(turns):
        scores = await engine.evaluate_trace(
            turn, overrides, earlier=_in_session(turn, turns[:place])
        )
        by_turn[turn.id] = {score.metric: score for score in scores}
        found += scores
    if names is None or any(available()[name].run == "session" for name in names):
        for session in sessions(turns):
            found += await engine.evaluate_session(session, by_turn, overrides)
    return found


def _in_session(turn: AgentTrace, others: Sequence[AgentTrace]) -> list[AgentTrace]:
    """Those of the other turns that are in the session of `turn`."""
    key = turn.session_key
    return [] if key is None else [other for other in others if other.session_key == key]


def _subject(session: Session) -> AgentTrace | Session:
    """What the rubric scores: the session, or its turn where that is in none."""
    first = session.traces[0]
    return session if first.session_id or len(session.traces) > 1 else first


def sessions(turns: Sequence[AgentTrace]) -> list[Session]:
    """The sessions of a test's turns; those without an id are one conversation."""
    members: dict[str | None, list[AgentTrace]] = {}
    for turn in turns:
        members.setdefault(turn.session_key, []).append(turn)
    return [Session(those[0].session_id or those[0].id, tuple(those)) for those in members.values()]
