"""Have questions of a judge answered by hand, through files.

    python bench/agreement.py --questions asked
    python bench/agreement.py --answers asked --model NAME --questions more

The first writes each question that has no recorded answer as `asked/NUMBER-ID.md`. The second takes
each answer, a JSON object in `asked/NUMBER-ID.json`, into the recorded answers, as one that NAME
gave, and writes the questions that only these answers let one ask.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from spanscore.errors import JudgeUnavailableError
from spanscore.judge import Judge, Prompt
from spanscore.judge.answer import schema_of
from spanscore.judge.cache import question_key
from spanscore.judge.port import Answer, AnswerT
from spanscore.model.json import dumps
from spanscore.model.score import JudgeUsage

_ID_DIGITS = 12


class JudgeByHand:
    """A `Judge` that gives recorded answers, else those in a folder, and notes what has neither."""

    def __init__(self, recorded: Judge, answers: Path | None, model: str) -> None:
        self._recorded = recorded
        self._model = model
        files = sorted(answers.glob("*.json")) if answers else ()
        self._files = {x.stem.partition("-")[2]: x for x in files}
        self._unanswered: dict[str, str] = {}

    async def ask(
        self, prompt: Prompt, schema: type[AnswerT], *, models: Sequence[str] = ()
    ) -> Answer[AnswerT]:
        """See `Judge.ask`."""
        try:
            return await self._recorded.ask(prompt, schema, models=models)
        except JudgeUnavailableError:
            name = question_key(prompt, schema_of(schema))[:_ID_DIGITS]
            self._unanswered[name] = (
                f"# System message\n\n{prompt.instructions}\n\n# User message\n\n"
                f"{prompt.transcript}\n\n{prompt.question}\n\n# JSON schema of the answer\n\n"
                f"{dumps(schema_of(schema))}\n"
            )
            if name not in self._files:
                raise
        try:
            value = schema.model_validate_json(self._files[name].read_bytes(), strict=True)
        except ValidationError as error:
            print(f"{self._files[name]}: {error}", file=sys.stderr)
            raise JudgeUnavailableError(f"{self._files[name]} does not fit its schema") from None
        del self._unanswered[name]
        return Answer(value, self._model, JudgeUsage(calls=1))

    def write_questions(self, folder: Path) -> int:
        """Write each question without an answer to a file in `folder`; returns how many."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, (name, text) in enumerate(self._unanswered.items(), 1):
            (folder / f"{number:04}-{name}.md").write_text(text)
        return len(self._unanswered)
