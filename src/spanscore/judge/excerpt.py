"""A few named texts as a judge reads them, where a question is about those alone and not about a
whole trace.
"""

from collections.abc import Mapping, Sequence

from spanscore.judge import redact
from spanscore.judge.marks import defused
from spanscore.judge.passage import Passage
from spanscore.judge.redaction.rule import Rule
from spanscore.judge.transcript import Marked, Transcript


def excerpt(
    texts: Mapping[str, str | None], *, max_tokens: int, rules: Sequence[Rule] = redact.RULES
) -> Transcript:
    """`texts` by what they are, in at most `max_tokens` estimated tokens, redacted and fenced; a
    pure function.

    What is redacted has the same marker in all of them, so that two texts can still be compared. Of
    texts that are too long the middle is left out.
    """
    return Marked([Passage(_section(title, text)) for title, text in texts.items()], rules).fitted(
        max_tokens
    )


def _section(title: str, text: str | None) -> str:
    """No line of a text begins where the excerpt's own lines begin, so none can pass for one."""
    return (
        f"{title}: (not recorded)"
        if text is None
        else "\n  ".join([f"{title}:", *defused(text).splitlines()])
    )
