"""What others gave to the turns in recordings, also where that is recorded far from the turn."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from spanscore.model import external
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session

_MAX_NAMES = 3


class GivenScores:
    """External scores by what they are of, as windows of a recording are read: all traces of a turn
    come in one.
    """

    def __init__(self) -> None:
        self._turns = external.Turns()
        self._of_subject: defaultdict[str, list[Evaluation]] = defaultdict(list)
        self._of_no_turn: list[Evaluation] = []
        self._waiting: list[Evaluation] = []
        self._shown: set[str] = set()

    def add(self, scores: Iterable[Evaluation], turns: Iterable[AgentTrace]) -> None:
        """Take in what a window contains; what is of a turn that has not been read yet waits for
        it.
        """
        for turn in turns:
            self._turns.add(external.Turn.of(turn))
        joined = self._turns.join([*self._waiting, *scores])
        self._waiting = []
        for score in joined.scores:
            is_waiting = score.scope == "trace" and not self._turns.knows(score)
            (self._waiting if is_waiting else self._of_subject[score.subject_id]).append(score)
        self._of_no_turn += joined.of_no_turn

    def of(self, subject: AgentTrace | Session) -> list[Evaluation]:
        """What was given to a trace, or to a session and its traces, as far as was read; of each
        source the last.
        """
        names = [subject.id]
        if isinstance(subject, Session):
            names += [trace.id for trace in subject.traces]
        return external.newest(
            score for name in dict.fromkeys(names) for score in self._of_subject.get(name, ())
        )

    def show(self, subject: AgentTrace | Session) -> list[Evaluation]:
        """What was given to a trace or a session itself, from here on no longer among those not
        `shown`.
        """
        found = external.newest(self._of_subject.get(subject.id, ()))
        self._shown.update(x.uid for x in self._of_subject.get(subject.id, ()))
        return found

    @property
    def not_shown(self) -> list[Evaluation]:
        """What was read after its turn was shown, and what is of no single turn, in the order in
        which it was given.
        """
        late = [
            x
            for own in self._of_subject.values()
            for x in external.newest(own)
            if x.uid not in self._shown
        ]
        return external.newest([*late, *self._of_no_turn])

    @property
    def notices(self) -> list[str]:
        """What is to be said of scores that are of no turn."""
        return external_notices(self._of_no_turn, self._waiting)


def external_notices(
    of_no_turn: Sequence[Evaluation], of_unknown: Sequence[Evaluation] = ()
) -> list[str]:
    """What is to be said of external scores that count for no turn; `of_unknown` are of traces that
    are not there.
    """
    found = []
    if of_no_turn:
        where = "a trace with several turns without a span of one of them"
        found.append(f"{_counted(of_no_turn)} of {where}, and counted for none")
    if of_unknown:
        found.append(f"{_counted(of_unknown)} of a trace or a response that is not in these files")
    return found


def _counted(scores: Sequence[Evaluation]) -> str:
    names = [name for name, _ in Counter(x.metric for x in scores).most_common()]
    listed = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    return (
        f"1 external score ({listed}) is"
        if len(scores) == 1
        else f"{len(scores):,} external scores ({listed}) are"
    )
