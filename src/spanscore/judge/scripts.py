"""In which scripts a text is written: what can be known of its language without guessing."""

import functools
import unicodedata
from collections import Counter

_SCRIPTS = {
    "ARABIC": "Arabic",
    "ARMENIAN": "Armenian",
    "BENGALI": "Bengali",
    "CJK": "Chinese characters",
    "CYRILLIC": "Cyrillic",
    "DEVANAGARI": "Devanagari",
    "ETHIOPIC": "Ethiopic",
    "GEORGIAN": "Georgian",
    "GREEK": "Greek",
    "GUJARATI": "Gujarati",
    "GURMUKHI": "Gurmukhi",
    "HANGUL": "Hangul",
    "HEBREW": "Hebrew",
    "HIRAGANA": "Japanese kana",
    "KANNADA": "Kannada",
    "KATAKANA": "Japanese kana",
    "KHMER": "Khmer",
    "LAO": "Lao",
    "LATIN": "Latin",
    "MALAYALAM": "Malayalam",
    "MYANMAR": "Myanmar",
    "SINHALA": "Sinhala",
    "TAMIL": "Tamil",
    "TELUGU": "Telugu",
    "THAI": "Thai",
    "TIBETAN": "Tibetan",
}
_MAX_CHARACTERS = 4000
_LEAST_SHARE = 0.1


def scripts(text: str) -> tuple[str, ...]:
    """The scripts of at least a tenth of a text's letters, the most frequent first; of a long text,
    of its beginning.

    >>> scripts("Забронируй мне рейс на завтра"), scripts("予約をお願いします"), scripts("42")
    (('Cyrillic',), ('Japanese kana', 'Chinese characters'), ())
    """
    found = Counter(name for name in map(_script, text[:_MAX_CHARACTERS]) if name)
    least = found.total() * _LEAST_SHARE
    return tuple(name for name, count in found.most_common() if count >= least)


@functools.lru_cache(maxsize=4096)
def _script(character: str) -> str | None:
    if not character.isalpha():
        return None
    return _SCRIPTS.get(unicodedata.name(character, "").partition(" ")[0])
