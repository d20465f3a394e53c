"""Effects of tools, guessed from their names."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

Effect: TypeAlias = Literal["reads", "changes", "works"]
"""`works`: it computes or thinks, of what it was given; it changes nothing, and what it looks up
nobody knows.
"""

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAMESPACE = re.compile(r"__|[./:]")
_MAX_NAME_CHARS = 200
_MAX_NAME_WORDS = 20

_READING_VERBS_WORDS = (
    "analyze browse calculate check compute count describe explore fetch find finder fetcher get"
    " inspect list load locate lookup monitor peek preview query read reader retrieve retriever"
    " scan search searcher show view"
)
READING_VERBS = frozenset(_READING_VERBS_WORDS.split())
"""Verbs by which the name of a tool says that it only looks something up, before or after the
thing.
"""

_ONLY_VERBS_WORDS = (
    "browse describe fetch fetcher find finder get inspect locate lookup peek read reader retrieve"
    " retriever search searcher"
)
_ONLY_VERBS = frozenset(_ONLY_VERBS_WORDS.split())
"""Those of them that say so behind a thing that is named as a deed, too: `email_search`."""

_LOOKS_WORDS = "list query search view"
_LOOKS = frozenset(_LOOKS_WORDS.split())
"""Those of them that name a thing as well."""

_STATES_WORDS = "forecast info information stat status weather"
_STATES = frozenset(_STATES_WORDS.split())
"""What is looked up of a thing whose name has no verb, or begins with one of `_THINGS`:
`order_status`.
"""

_CHANGING_VERBS_WORDS = (
    "accept activate add append apply approve archive assign authorize ban block book buy cancel"
    " change charge clear close commit confirm convert create deactivate debit decline delete"
    " deploy destroy disable dispatch drop edit email enable enroll erase execute exchange file"
    " forward grant hire insert install invite issue kill launch log lock merge modify move notify"
    " open order pay place post publish purchase purge push put record redeem refund register"
    " reject release remove rename renew reopen replace reply report request resend reserve reset"
    " resolve restart return revoke run save schedule send set ship start stop submit subscribe"
    " suspend terminate transfer trigger uninstall unsubscribe update upgrade upload upsert wipe"
    " withdraw write"
)
CHANGING_VERBS = frozenset(_CHANGING_VERBS_WORDS.split())
"""Verbs by which a tool's name says that it changes something."""

_THINGS_WORDS = (
    "block book charge exchange issue launch lock order place purchase refund release schedule ship"
    " transfer"
)
_THINGS = frozenset(_THINGS_WORDS.split())
"""Those of them that name a thing as well, which has a state."""

_TEXTS_WORDS = "email file invite log notice post record reply report request"
_TEXTS = frozenset(_TEXTS_WORDS.split())
"""Those of them that name something written as well."""

_WORKING_VERBS_WORDS = (
    "ask classify compare convert detect diff display download evaluate explain extract filter"
    " geocode glob grep head look ls match measure navigate open parse ping plan print recall"
    " recommend scrape see select sort suggest summarize tail think translate validate verify wait"
)
_WORKING_VERBS = frozenset(_WORKING_VERBS_WORDS.split())
_JOINING_WORDS = "and or then"
_JOINING = frozenset(_JOINING_WORDS.split())
_OUTWARD_WORDS = "in out off"
_OUTWARD = frozenset(_OUTWARD_WORDS.split())
_WAITING_WORDS = "await check monitor ping poll progress sleep state status wait"
_WAITING = frozenset(_WAITING_WORDS.split())
_VARYING_WORDS = (
    "card cards clock coin date dice die flip joke now price quote sample sensor shuffle spin"
    " temperature time today toss"
)
_VARYING = frozenset(_VARYING_WORDS.split())
"""What may be another each time that it is asked for."""

_STEPPING_WORDS = (
    "advance back click continue decrease decrement down drag forward go hover increase increment"
    " key left lower move navigate next page pan press random redo right roll rotate scroll skip"
    " sleep step swipe tab tap think tick turn type undo up zoom"
)
_STEPPING = frozenset(_STEPPING_WORDS.split())


@lru_cache(maxsize=1024)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a tool's name, in lower case.

    >>> name_words("searchFlights_v2"), name_words("get-HTTP-status")
    (('search', 'flights', 'v', '2'), ('get', 'http', 'status'))
    """
    return tuple(
        word.lower() for word in _NAME_PART.findall(name[:_MAX_NAME_CHARS])[-_MAX_NAME_WORDS:]
    )


@lru_cache(maxsize=1024)
def effect(name: str) -> Effect | None:
    """What a tool does, by the verb in its name, wherever that stands; None where the name has no
    verb.

    The name's last part, without the server or namespace before it, counts where it has a verb. Of
    several deeds that are joined, as by "and", one that changes something decides.

    >>> [
    ...     effect(x)
    ...     for x in ("orders_search", "orderSearch", "mcp__order__get_order", "order.cancel")
    ... ]
    ['reads', 'reads', 'reads', 'changes']
    >>> [effect(x) for x in ("search_and_book", "create_list", "translate", "invoice_tool")]
    ['changes', 'changes', 'works', None]
    """
    parts = [name_words(x) for x in _NAMESPACE.split(name[-_MAX_NAME_CHARS:])]
    found = next((x for x in map(_of_words, reversed([x for x in parts if x])) if x), None)
    return found if found or len(parts) == 1 else _of_words(name_words(name))


def changes(name: str) -> bool:
    """Whether a tool, by its name, changes something.

    >>> changes("delete_invoice"), changes("invoice_lookup")
    (True, False)
    """
    return effect(name) == "changes"


def only_reads(name: str) -> bool:
    """Whether a tool, by its name, only looks something up.

    >>> (
    ...     only_reads("weather_lookup"),
    ...     only_reads("getOrder"),
    ...     only_reads("invoice_tool"),
    ...     only_reads("search_and_book"),
    ... )
    (True, True, False, False)
    """
    return effect(name) == "reads"


def may_change(name: str) -> bool:
    """Whether a tool's name does not say that it only looks something up, or works on what it was
    given.

    >>> [
    ...     may_change(x)
    ...     for x in (
    ...         "get_user",
    ...         "listFiles",
    ...         "update_reservation",
    ...         "book",
    ...         "user_search",
    ...         "fs.write",
    ...     )
    ... ]
    [False, False, True, True, False, True]
    """
    return effect(name) in {None, "changes"}


@lru_cache(maxsize=1024)
def is_polled(name: str) -> bool:
    """Whether a tool is one that is called again with the same arguments for good reason: it waits,
    polls or steps.

    >>> (is_polled("get_job_status"), is_polled("scroll_down"), is_polled("get_weather"))
    (True, True, False)
    """
    return not (_WAITING | _STEPPING).isdisjoint(name_words(name))


@lru_cache(maxsize=1024)
def varies(name: str) -> bool:
    """Whether a tool, by its name, may return something else each time: it draws at random, or
    reads a clock, a sensor or a price.

    >>> varies("flip_coin"), varies("read_sensor"), varies("get_weather")
    (True, True, False)
    """
    return not _VARYING.isdisjoint(name_words(name))


@lru_cache(maxsize=1024)
def bare(name: str) -> str:
    """A tool's name without the server or namespace in front of it, in lower case.

    >>> bare("mcp__files__read_file"), bare("files.readFile"), bare("read-file")
    ('read_file', 'readfile', 'read-file')
    """
    for separator in ("__", "/", ".", ":"):
        name = name.rpartition(separator)[2] or name
    return name.lower()


def _of_words(words: Sequence[str]) -> Effect | None:
    found = {x for x in map(_of_deed, _deeds(words)) if x}
    order: tuple[Effect, ...] = ("changes", "reads", "works")
    return next((x for x in order if x in found), None)


def _deeds(words: Sequence[str]) -> Iterator[Sequence[str]]:
    start = 0
    for at, word in enumerate(words):
        if word in _JOINING:
            yield words[start:at]
            start = at + 1
    yield words[start:]


def _of_deed(words: Sequence[str]) -> Effect | None:
    """By the first verb that is none of a thing's name; else by what is looked up of a thing."""
    works = False
    for at, word in enumerate(words):
        behind = words[at + 1 :]
        if word in READING_VERBS:
            return "changes" if _is_no_look_up(word, behind) else "reads"
        if word in _WORKING_VERBS:
            works = True
        elif word in CHANGING_VERBS and not works:  # the order in validate_order is a thing
            return "reads" if _is_thing(word, behind) else "changes"
    if works:
        return "works"
    return "reads" if words and words[-1] in _STATES else None


def _is_no_look_up(word: str, behind: Sequence[str]) -> bool:
    """Whether a word for reading is part of another deed, as in `check_out` and
    `search_index_update`.
    """
    if word == "check" and behind and behind[0] in _OUTWARD:
        return True
    return word in _LOOKS and bool(behind) and behind[-1] in CHANGING_VERBS - _THINGS - _TEXTS


def _is_thing(word: str, behind: Sequence[str]) -> bool:
    """Whether what may be a deed is the thing that the words behind it look up, as in
    `order_search`.
    """
    if not behind or word not in _THINGS | _TEXTS:
        return False
    if behind[-1] in READING_VERBS or behind[0] in _ONLY_VERBS:
        return True
    return word in _THINGS and behind[-1] in _STATES
