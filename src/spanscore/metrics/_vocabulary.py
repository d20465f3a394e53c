"""The words of a text that grows: a look-up costs the same however much the text holds."""

from collections.abc import Iterable

from spanscore.metrics._words import DIGIT_WORDS, NUMBER_WORDS, STEM_CHARS, stem


class Vocabulary:
    """Words, and those of texts as `plain` gives them; each text is split once, when it is added."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words = set(words)
        self._unopened = self._words.copy()  # words whose beginnings are still to be taken
        self._openings: set[str] = set()

    def add(self, plain_text: str) -> None:
        """Add the words of another text."""
        new = set(plain_text.split()) - self._words
        self._words |= new
        self._unopened |= new

    def has_all(self, words: list[str]) -> bool:
        """Whether all of `words` are there, in this very form.

        >>> Vocabulary(["two", "flights"]).has_all(["flights", "two"])
        True
        """
        return self._words.issuperset(words)

    def holds(self, word: str) -> bool:
        """As `_words.holds`: some form of `word`, or a number that is written in the other way.

        >>> [Vocabulary(["two", "flights"]).holds(x) for x in ("flight", "2", "fly")]
        [True, True, False]
        """
        if word in self._words:
            return True
        number = NUMBER_WORDS.get(word) if word.isalpha() else DIGIT_WORDS.get(word)
        if number is not None or not word.isalpha():
            return number in self._words
        self._openings.update(x[:chars] for x in self._unopened for chars in range(1, STEM_CHARS + 1))
        self._unopened.clear()
        return stem(word) in self._openings
