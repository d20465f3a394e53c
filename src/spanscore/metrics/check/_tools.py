"""What a tool's name says of it: whether it only looks something up, and whether it changes what is hard to undo."""

from functools import lru_cache

from spanscore.metrics._evidence import READING_VERBS, name_words

_CHANGING = (
    "accept activate add append apply approve archive assign authorize ban block book buy cancel change "
    "charge clear close commit confirm convert create deactivate debit decline delete deploy disable "
    "dispatch drop edit email enable enroll erase execute exchange file forward grant hire insert install "
    "invite issue kill launch log lock merge modify move notify open order pay place post publish "
    "purchase purge push put record redeem refund register reject release remove rename renew reopen "
    "replace reply report request resend reserve reset resolve restart return revoke run save schedule "
    "send set ship start stop submit subscribe suspend terminate transfer trigger uninstall unsubscribe "
    "update upgrade upload wipe withdraw write"
)
_DESTRUCTIVE = (
    "cancel charge debit delete deactivate drop erase kill pay purchase purge refund remove revoke "
    "terminate transfer uninstall wipe withdraw"
)
_ALSO_READING_WORDS = "explore finder fetcher info information locate lookup monitor peek preview scan status"
_WAITING_WORDS = "await check monitor ping poll progress sleep state status wait"
_STEPPING_WORDS = (
    "back click down drag forward go hover key left move navigate next page press random right roll "
    "scroll sleep step swipe tab tap think tick turn type up"
)
CHANGING_VERBS = frozenset(_CHANGING.split())
"""Verbs by which a tool's name says that it changes something."""

DESTRUCTIVE_VERBS = frozenset(_DESTRUCTIVE.split())
"""Those of them whose effect a user misses or pays for."""

_ALSO_READING = frozenset(_ALSO_READING_WORDS.split())
_WAITING = frozenset(_WAITING_WORDS.split())
_STEPPING = frozenset(_STEPPING_WORDS.split())


@lru_cache(maxsize=1024)
def changes(name: str) -> bool:
    """Whether a tool, by its name, changes something.

    >>> changes("delete_invoice"), changes("invoice_lookup")
    (True, False)
    """
    words = name_words(name)
    if not words or (words[0] in READING_VERBS and "and" not in words):  # the order in get_order is a thing
        return False
    return not CHANGING_VERBS.isdisjoint(words)


@lru_cache(maxsize=1024)
def only_reads(name: str) -> bool:
    """Whether a tool, by its name, only looks something up: the verb stands first or last, and none changes anything.

    >>> only_reads("weather_lookup"), only_reads("getOrder"), only_reads("invoice_tool"), only_reads("search_and_book")
    (True, True, False, False)
    """
    words = name_words(name)
    verbs = READING_VERBS | _ALSO_READING
    return bool(words) and (words[0] in verbs or words[-1] in verbs) and not changes(name)


@lru_cache(maxsize=1024)
def destroys(name: str) -> bool:
    """Whether a tool, by the first verb in its name, does what a user misses or pays for.

    >>> destroys("delete_invoice"), destroys("get_cancelled_orders")
    (True, False)
    """
    words = name_words(name)
    verbs = [word for word in words if word in CHANGING_VERBS or word in READING_VERBS]
    if not verbs or verbs[0] not in DESTRUCTIVE_VERBS:
        return False
    return words[words.index(verbs[0]) + 1 :][:1] != ("to",)  # transfer_to_agent hands the conversation over


@lru_cache(maxsize=1024)
def is_asked_again(name: str) -> bool:
    """Whether a tool is one that is called again with the same arguments for good reason: it waits, polls or steps.

    >>> is_asked_again("get_job_status"), is_asked_again("scroll_down"), is_asked_again("get_weather")
    (True, True, False)
    """
    return not (_WAITING | _STEPPING).isdisjoint(name_words(name))


@lru_cache(maxsize=1024)
def bare(name: str) -> str:
    """A tool's name without the server or namespace in front of it, in lower case.

    >>> bare("mcp__files__read_file"), bare("files.readFile"), bare("read-file")
    ('read_file', 'readfile', 'read-file')
    """
    for separator in ("__", "/", ".", ":"):
        name = name.rpartition(separator)[2] or name
    return name.lower()
