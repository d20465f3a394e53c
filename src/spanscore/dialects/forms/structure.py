"""Structure in attributes: JSON, maps, reprs, indexed keys."""

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, cast

import orjson

from spanscore.dialects.forms.repeats import lately
from spanscore.model.json import Json, dumps, exact, loads
from spanscore.model.span import Attributes, Value
from spanscore.model.step import Ending, Message, Part, StepFact, StepKind
from spanscore.model.trace import Expected, Tool
from spanscore.syntax import syntax_tree

_MAX_CHARS = 64 * 1024
REPR_CONTAINERS = ("{", "[", "(")
"""How containers begin that Python printed."""

_REPRS_WORDS = frozenset({"True", "False", "None"})
# Possessive, and up to the end where the closing quote is missing: so no text is scanned from each
# of its quotes.
STRING = r"""'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)"""
WHOLE_STRING = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""
_INNER = r"<[^<>'\"]*+>"
_OBJECT = rf"<(?:[^<>'\"]|{STRING}|<(?:[^<>'\"]|{STRING}|{_INNER})*+>)*+>"
"""What Python prints of an object by `<…>`: three deep, as a method of an object of a class inside
of a function is.
"""

_TOKEN = re.compile(rf"({STRING})|<[\w.]+: ({STRING}|-?\d+)>|{_OBJECT}", re.DOTALL)
_ADDRESS = re.compile(r"<[\w.]+(?: object)?(?: [\w.<>]+)? at 0x[0-9a-fA-F]+>")
_MAX_ADDRESS_CHARS = 500
_QUOTED = re.compile(STRING, re.DOTALL)


def opened_repr(text: object) -> Any:
    """The value that `text` prints; None for what is no value that Python prints.

    An object becomes a dict of its named fields, a member of an enumeration its value, and an
    object that prints as nothing but its address None.

    >>> opened_repr(
    ...     "Part(role=<Role.USER: 'user'>, sizes=[Size(a='<hi>', b=-1)], at=<object at 0x7f>)"
    ... )
    {'role': 'user', 'sizes': [{'a': '<hi>', 'b': -1}], 'at': None}
    """
    if not isinstance(text, str) or len(text) > _MAX_CHARS:
        return None
    try:
        return _value(syntax_tree(_TOKEN.sub(_plain, text.strip()), mode="eval").body, 0)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def is_address(text: str) -> bool:
    """Whether it is an object as Python prints it by its address alone, and no text of a message.

    >>> (
    ...     is_address("<groq.Stream object at 0x7fa7cd29e810>"),
    ...     is_address("<coroutine object answer at 0x7fa7>"),
    ... )
    (True, True)
    >>> is_address("<b>at 0x7fa7</b>")
    False
    """
    return (
        text[:1] == "<" and len(text) <= _MAX_ADDRESS_CHARS and _ADDRESS.fullmatch(text) is not None
    )


def unprinted(value: Any) -> Json:
    """What a tool returned, where its framework makes text of it by str().

    >>> (
    ...     unprinted("{'result': None}"),
    ...     unprinted("False"),
    ...     unprinted("00042"),
    ...     unprinted("None left"),
    ... )
    ({'result': None}, False, '00042', 'None left')
    """
    return evaluated(opened(value))


def evaluated(value: Json) -> Json:
    """`value`, or where it is text that str() made of a container or a word such as True, what that
    was.
    """
    if isinstance(value, str) and (value in _REPRS_WORDS or value.startswith(REPR_CONTAINERS)):
        return literal(value)
    return value


def quoted(text: str, start: int) -> tuple[str, int] | None:
    """The string literal at `start` of a printed object, as its value, and where it ends; None
    where there is none.
    """
    found = _QUOTED.match(text, start)
    value = opened_repr(found[0]) if found else None
    return (value, found.end()) if found and isinstance(value, str) else None


def _plain(found: re.Match[str]) -> str:
    return found[1] or found[2] or "None"


def _value(node: ast.expr, depth: int) -> Any:
    """The value of a node; raises ValueError for syntax that no printed value has."""
    if depth > MAX_DEPTH:
        raise ValueError
    if isinstance(node, ast.Constant):
        is_plain = isinstance(node.value, (str, bool, int, float, type(None)))
        return node.value if is_plain else repr(node.value)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_value(x, depth + 1) for x in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(_value(k, depth + 1)): _value(v, depth + 1) for k, v in pairs if k is not None}
    if isinstance(node, ast.Call):
        return {x.arg: _value(x.value, depth + 1) for x in node.keywords if x.arg}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand, depth + 1)
        return -number if isinstance(number, (int, float)) else None
    if isinstance(node, ast.Name):  # nan, inf
        return node.id
    raise ValueError


MAX_DEPTH = 100
"""Deeper JSON is not read: it would overrun the recursion limits of whoever prints it."""

_MAX_REPR_CHARS = 64 * 1024
_MAX_REPEATED_CHARS = 4096
_MAX_NUMBER_CHARS = 40
_MAX_ELEMENTS = 10_000  # of an array that was cut; the parts of no conversation are more
_WORDS = frozenset({"true", "false", "null"})
_FIRST_OF_WORDS = "tfnNI"  # NaN and Infinity too
_MAX_WORD_CHARS = max(map(len, _WORDS))
_ESCAPE, _ESCAPED = re.compile(r"\\(.)", re.DOTALL), frozenset("\n\\'\"abfnrtvxuUN01234567")
_MEMBER = re.compile(r'[\s,]*"([^"\\]{1,256})"\s*:\s*(?=\S)')
_ENDS_OF_MARKS = frozenset("]>_* \n")
_MAX_MARK_CHARS = 200
_HIDDEN = re.compile(
    r"""\s*(?:
    \*{3,}  # as the Collector's redaction processor masks
    | \*{2,3}(?:REDACTED|MASKED)\*{2,3} | __REDACTED__
    # in brackets, also with the kind or the reason
    | [\[<](?:REDACTED|FILTERED|MASKED|ELIDED)(?![^\W_])[^\]>]*[\]>]
    | \[Scrubbed\ due\ to\ [^\]]*\]  # Logfire's, with what it saw
    | <fully\ masked\ due\ to\ failed\ mask\ function>  # Langfuse's
    )\s*""",
    re.IGNORECASE | re.VERBOSE,
)
"""What instrumentations and pipelines put in the place of hidden content."""


class Parsed(NamedTuple):
    """A JSON value, and whether some of it was cut or redacted on the way.

    A value of None: nothing could be read.
    """

    value: Any
    damaged: bool = False


def is_redacted(text: object) -> bool:
    """Whether `text` stands for hidden content.

    >>> (
    ...     is_redacted("[REDACTED]"),
    ...     is_redacted("[Scrubbed due to 'password']"),
    ...     is_redacted("****"),
    ...     is_redacted("[1]"),
    ... )
    (True, True, True, False)
    """
    if not isinstance(text, str) or text[-1:] not in _ENDS_OF_MARKS or len(text) > _MAX_MARK_CHARS:
        return False
    return _HIDDEN.fullmatch(text) is not None


def structure(value: Value) -> Parsed:
    """The JSON array or object that an attribute contains.

    Of an array that was cut, the elements that are whole are kept. Text that is no JSON and does
    not look as if it had been is kept as text.
    """
    return Parsed(*plain_structure(value))


def plain_structure(value: Value) -> tuple[Any, bool]:
    """What `structure` gives, as a plain tuple: messages are read by the hundred thousand."""
    if not isinstance(value, str):
        return None if isinstance(value, bytes) else value, False
    return lately(_plain_structure, value)


def _plain_structure(value: str) -> tuple[Any, bool]:
    if value[:1].isalpha() and value[0] not in _FIRST_OF_WORDS:  # to fail to parse it takes longer
        return _not_json(value)
    try:
        parsed = loads(value)
    except ValueError:
        return _not_json(value)
    return (None, True) if _too_deep(value, parsed) else (parsed, False)


def literal(text: str) -> Json:
    """The value of a Python literal such as `{'city': 'Paris'}`; `text` itself where it is none.

    >>> literal("{'city': 'Paris', 'days': (1, 2)}")
    {'city': 'Paris', 'days': [1, 2]}
    >>> literal("['shared']") is literal("['shared']")
    False
    """
    if len(text) > _MAX_REPR_CHARS:
        return text
    encoded = _literal(text) if len(text) > _MAX_REPEATED_CHARS else _repeated_literal(text)
    # each gets a value of its own, which it may change
    return text if encoded is None else json.loads(encoded)


# every model call of an agent repeats those of the calls before it, and they are slow to read
@lru_cache(maxsize=256)
def _repeated_literal(text: str) -> str | None:
    return _literal(text)


def _literal(text: str) -> str | None:
    """The value of a literal as JSON; None where `text` is none."""
    if "\\" in text:
        text = _ESCAPE.sub(_as_python_reads, text)
    try:
        encoded = json.dumps(ast.literal_eval(text.strip()))
        return None if _too_deep(text.replace("(", "["), json.loads(encoded)) else encoded
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _as_python_reads(escape: re.Match[str]) -> str:
    """A backslash that escapes nothing stands for itself, of which Python would warn."""
    return escape[0] if escape[1] in _ESCAPED else f"\\{escape[0]}"


def opened(value: Any, *, scalars: bool = True) -> Json:
    """What a recorded value stands for: JSON in text becomes the value, any other text stays as it
    is.

    With `scalars` False only arrays and objects are opened, for text that is known not to be
    JSON-encoded. JSON text inside JSON text is opened when it is an array or object.

    >>> (
    ...     opened('{"a": 1}'),
    ...     opened("22C, sunny"),
    ...     opened('"yes"'),
    ...     opened("0"),
    ...     opened("0", scalars=False),
    ... )
    ({'a': 1}, '22C, sunny', 'yes', 0, '0')
    >>> opened("00042"), opened("0.10"), opened("98765432109876543210")
    ('00042', '0.10', '98765432109876543210')
    """
    if not isinstance(value, str):
        return None if isinstance(value, bytes) else value
    return lately(_opened if scalars else _opened_structure, value)


def _opened_structure(value: str) -> Json:
    return _opened(value, scalars=False)


def _opened(value: str, *, scalars: bool = True) -> Json:
    stripped = value.strip()
    if not stripped or not _may_be_json(stripped, scalars=scalars):
        return value
    try:
        parsed: Json = orjson.loads(stripped)
    except ValueError:
        return value
    if isinstance(parsed, str):
        return opened(parsed, scalars=False)
    if isinstance(parsed, float) and dumps(parsed) != stripped:
        return value  # a price such as 0.10, or a number too long for one: as text it is exact
    return value if _too_deep(value, parsed) else exact(stripped, parsed)


def _may_be_json(stripped: str, *, scalars: bool) -> bool:
    """A quick look that spares most texts the parser."""
    first, last = stripped[0], stripped[-1]
    if first in "{[":
        return last in "}]"
    if not scalars:
        return False
    if first == '"':
        return last == '"' and len(stripped) > 1
    if first in "-0123456789":
        return len(stripped) <= _MAX_NUMBER_CHARS
    return len(stripped) <= _MAX_WORD_CHARS and stripped in _WORDS


def _not_json(text: str) -> Parsed:
    if is_redacted(text):
        return Parsed(None, damaged=True)
    start = text.lstrip()[:2]
    if start[:1] not in ("[", "{"):
        return Parsed(text)
    if (value := literal(text)) is not text:
        return Parsed(value)
    return Parsed(_whole_elements(text) if start[0] == "[" else None, damaged=True)


def _whole_elements(text: str) -> list[Json]:
    """The elements of a JSON array before the place where it was cut."""
    return json_values(text, text.index("[") + 1)[0]


def json_values(text: str, start: int = 0, between: str = " \t\r\n,") -> tuple[list[Json], int]:
    """The JSON values in a text from `start` on, before each any of the characters `between`; and
    where begins what is none.
    """
    decoder, at, values = json.JSONDecoder(), start, list[Json]()
    while len(values) < _MAX_ELEMENTS:
        while at < len(text) and text[at] in between:
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
    return values, at


def whole_members(text: str) -> tuple[dict[str, Json], str | None]:
    """The members of a JSON object before the place where it was cut, and the one that was cut.

    Of that one, where it is an array, the elements that are whole are kept.

    >>> whole_members('{"a": 1, "b": [1, 2, {"c"')
    ({'a': 1, 'b': [1, 2]}, 'b')
    """
    decoder, at, members = json.JSONDecoder(), text.find("{") + 1, dict[str, Json]()
    while (key := _MEMBER.match(text, at)) is not None:
        try:
            members[key[1]], at = decoder.raw_decode(text, key.end())
        except (ValueError, RecursionError):
            if text[key.end()] == "[":
                members[key[1]] = _whole_elements(text[key.end() :])
            return members, key[1]
    return members, None


def _too_deep(text: str, parsed: object) -> bool:
    """Whether `parsed` is nested beyond MAX_DEPTH; the text is counted first, since few have
    brackets enough.
    """
    if len(text) <= 2 * MAX_DEPTH or text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level, depth = [parsed] if isinstance(parsed, dict | list) else [], 0
    while level and depth < MAX_DEPTH:
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        depth += 1
    return any(level)


_MAX_PATH = 12  # the deepest key of any dialect has seven parts


def indexed(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """The objects `prefix.0`, `prefix.1`, … by index.

    An index is only sorted by, so a huge one costs nothing.

    >>> indexed({"p.1.a.x": 2, "p.0.a": 1, "p.999999999.a": 3, "p.z": 4}, "p.")
    [{'a': 1}, {'a': {'x': 2}}, {'a': 3}]
    """
    root: dict[str, Any] = {}
    start = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix):
            path = key[start:].split(".", _MAX_PATH)
            if len(path) > 1 and path[0].isdigit():
                _put(root, path, value)
    return elements(root)


def elements(node: object) -> list[Any]:
    """The values of an object whose keys are indices, by index; empty for anything else."""
    if not isinstance(node, dict):
        return []
    numbered = [(key, value) for key, value in node.items() if key.isascii() and key.isdigit()]
    return [
        value
        for _, value in sorted(numbered, key=lambda x: (len(x[0].lstrip("0")), x[0].lstrip("0")))
    ]


def _put(node: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        child = node.get(part)
        if not isinstance(child, dict):
            # a value and objects below the same key: hostile or broken, the first one stays
            if part in node:
                return
            child = node[part] = {}
        node = child
    node.setdefault(path[-1], value)


Side: TypeAlias = Literal["input", "output"]
"""The facts that are messages: what a model or agent was given, and what it produced."""

TokenCount: TypeAlias = Literal["input_tokens", "output_tokens"]
"""The facts that are numbers of tokens."""

TokenDetail: TypeAlias = Literal["cache_read_tokens", "cache_write_tokens", "reasoning_tokens"]
"""The facts that are parts of those numbers."""


class Facts(TypedDict, total=False):
    """The fields of a `Step` that a span records: `kind` always, any of the others."""

    kind: StepKind
    agent_name: str | None
    session_id: str | None
    user_id: str | None
    other_session_id: str | None
    other_user_id: str | None
    input: tuple[Message, ...] | None
    input_is_part: bool
    output: tuple[Message, ...] | None
    input_text: str | None
    output_text: str | None
    output_json: str | None
    system: str | None
    tools: tuple[Tool, ...] | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    response_id: str | None
    previous_response_id: str | None
    finish_reasons: tuple[str, ...]
    call_id: str | None
    tool_name: str | None
    arguments: Json
    positional: tuple[Json, ...]
    result: Json
    has_result: bool
    error: str | None
    ending: Ending | None
    runs_agent: str | None
    query: str | None
    documents: tuple[Json, ...]
    plan: str | None
    expected: Expected | None
    damaged: frozenset[StepFact]
    part: Part | None


class GivenFacts(Facts, total=False):
    """Facts with the session and user that whoever started a program gave it; they rank above all
    others.
    """

    given_session_id: str | None
    given_user_id: str | None


NO_CONTENT: Final[Facts] = {
    "input": None,
    "output": None,
    "input_text": None,
    "output_text": None,
    "output_json": None,
}
"""Replaces what a span records as given and produced, where a turn was not given and did not
produce it.
"""

NOT_RECORDED: Final = (None, (), False)
"""The values of a Step's fields where the span did not record any."""


def pop_given(facts: Facts) -> tuple[str | None, str | None]:
    """Take the session and user that were given out of `facts`, which are then the fields of a
    Step.
    """
    given = cast("GivenFacts", facts)
    return given.pop("given_session_id", None), given.pop("given_user_id", None)


def step_facts(names: Iterable[str]) -> frozenset[StepFact]:
    """The facts of these names, for `damaged`; each has to be one."""
    return frozenset(cast("Iterable[StepFact]", names))


def add_damaged(facts: Facts, *damaged: StepFact) -> None:
    """Record that these facts arrived cut or redacted, beside those recorded before."""
    facts["damaged"] = facts.get("damaged", frozenset()).union(damaged)


def add_missing(facts: Facts, found: Facts, *, missing: tuple[object, ...] = (None,)) -> None:
    """Add what `found` contains and `facts` does not, or contains as one of the values `missing`.

    What of `found` arrived cut or redacted is added to that of `facts`.
    """
    if damaged := found.get("damaged"):
        add_damaged(facts, *damaged)
    known = cast("dict[str, object]", facts)
    known.update(
        (name, x) for name, x in found.items() if x is not None and known.get(name) in missing
    )


def change_messages(facts: Facts, change: Callable[[Message], Message]) -> None:
    """Put what `change` makes of it in the place of each message, on both sides."""
    if given := facts.get("input"):
        facts["input"] = tuple(map(change, given))
    if produced := facts.get("output"):
        facts["output"] = tuple(map(change, produced))


def as_object(value: Any) -> dict[str, Any]:
    """`value` where it is an object, else an empty one.

    >>> as_object({"a": 1}), as_object("b")
    ({'a': 1}, {})
    """
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """`value` where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def object_at(attributes: Attributes, key: str) -> dict[str, Any]:
    """The JSON object in an attribute, an empty one where it contains none."""
    return as_object(structure(attributes.get(key)).value)


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list; none for what is no list.

    >>> objects([{"a": 1}, "b", None]), objects("b")
    ([{'a': 1}], [])
    """
    return [x for x in value if isinstance(x, dict)] if isinstance(value, list) else []


def text(value: object) -> str | None:
    """`value` where it is text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


REFERENCE_SUFFIX = "_ref"
"""How keys end that stand for another one, and have the address to which its value was uploaded."""


def first_value(attributes: Attributes, keys: tuple[str, ...]) -> Value:
    """The first of the attributes `keys` that the span has, else None."""
    for key in keys:  # for every span: a generator would take twice as long
        value = attributes.get(key)
        if value is not None:
            return value
    return None


def first_text(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """The first of the attributes `keys` that is text and not empty, else None."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def first_count(attributes: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The first of the attributes `keys` that is a number of tokens, else None."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (found := count(value)) is not None:
            return found
    return None


TOKEN_DETAILS: Final[Mapping[TokenDetail, tuple[str, ...]]] = {
    "cache_read_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_write_tokens": (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning_tokens": (
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
    ),
}
"""The attributes of each: the conventions', what emitters write in their place, OpenInference's."""

TOKEN_DETAIL_KEYS = frozenset(key for listed in TOKEN_DETAILS.values() for key in listed)


def add_token_details(attributes: Mapping[str, Any], facts: Facts) -> None:
    """Add the numbers of cached and reasoning tokens that are recorded."""
    if attributes.keys().isdisjoint(TOKEN_DETAIL_KEYS):
        return
    for fact, listed in TOKEN_DETAILS.items():
        if (found := first_count(attributes, listed)) is not None:
            facts[fact] = found


_USAGE: Final[tuple[tuple[TokenCount, tuple[str, ...]], ...]] = (
    ("input_tokens", ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens")),
    ("output_tokens", ("output_tokens", "completion_tokens", "outputTokens", "completionTokens")),
)
"""What providers call the numbers of tokens in their responses."""

_COUNTED: Final[tuple[tuple[TokenCount, tuple[str, ...]], ...]] = (
    (
        "input_tokens",
        ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    ),
    (
        "output_tokens",
        (
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens",
            "llm.token_count.completion",
        ),
    ),
)


def read_usage(usage: object, facts: Facts) -> None:
    """Add the numbers of tokens that the usage in a provider's response states, where `facts` lack
    them.
    """
    for fact, names in _USAGE:
        if facts.get(fact) is None:
            facts[fact] = first_count(as_object(usage), names)


def read_tokens(attributes: Attributes, facts: Facts) -> None:
    """Add the numbers of tokens in the conventions' attributes, where `facts` lack them."""
    for fact, names in _COUNTED:
        if facts.get(fact) is None:
            facts[fact] = first_count(attributes, names)


def count(value: object) -> int | None:
    """A number of tokens, which some write as text; None for anything else.

    >>> count(12), count("12"), count(12.0), count(True), count(-1), count("many")
    (12, 12, 12, None, None, None)
    """
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return None


_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
"""Of the whole numbers that databases count in; what is beyond them was no id, and could be of any
length.
"""

SESSIONS = (
    "langfuse.session.id",
    "langwatch.thread.id",
    "langwatch.thread_id",
    "langfuse.trace.metadata.langfuse_session_id",
    "langfuse.observation.metadata.langfuse_session_id",
    "gcp.vertex.agent.session_id",
    "respan.threads.thread_identifier",
    "respan.sessions.session_identifier",
)
USERS = (
    "langfuse.user.id",
    "langwatch.user.id",
    "langwatch.user_id",
    "langfuse.trace.metadata.langfuse_user_id",
    "langfuse.observation.metadata.langfuse_user_id",
    "respan.customer_params.customer_identifier",
)
"""What names a session or a user on a span of any dialect, or of none, beside OpenTelemetry's own
attributes.
"""

IDENTIFYING = frozenset({"session.id", "user.id", *SESSIONS, *USERS})
_NAMES: Final[tuple[tuple[Literal["session_id", "user_id"], tuple[str, ...]], ...]] = (
    ("session_id", ("session_id", "conversation_id", "thread_id")),
    ("user_id", ("user_id",)),
)


def identity(value: object) -> str | None:
    """An id as text: text that is not empty as it is, a whole number in decimals; None for anything
    else.

    >>> identity("u-7"), identity(42), identity(0), identity(""), identity(True), identity(4.5)
    ('u-7', '42', '0', None, None, None)
    """
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int and _LOWEST <= value <= _HIGHEST else None


def read_names(metadata: Mapping[str, Any], facts: Facts, prefix: str = "") -> None:
    """Add the session and the user that an application named in metadata, where `facts` lack
    them.
    """
    for fact, names in _NAMES:
        found = first_identity(metadata, tuple(prefix + x for x in names))
        if found is not None and not facts.get(fact):
            facts[fact] = found


def first_identity(values: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The first of the values under `keys` that is an id, else None."""
    for key in keys:
        value = values.get(key)
        if value is not None and (found := identity(value)) is not None:
            return found
    return None
