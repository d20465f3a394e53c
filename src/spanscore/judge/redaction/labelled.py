"""Secrets behind an English label: in JSON, forms, configuration, Markdown, XML and sentences."""

import re

from spanscore.judge.redaction.labels import (
    BARE,
    IN_QUOTES,
    LABEL_END,
    LABELS,
    NAMED,
    QUOTE,
    SECRETS,
    secret,
)
from spanscore.judge.redaction.pairs import PLAIN
from spanscore.judge.redaction.rule import Rule, credential

_VALUE = (
    rf"{QUOTE}(?i:value|val|secret|plain|plaintext|raw|current|new|old|password|token){QUOTE}"
    rf"\s{{0,4}}:\s{{0,4}}{QUOTE}"
)
_SHORTEST = 4  # characters of what a label makes a secret


def _listed(value: str) -> int:
    """A list of which something is a secret."""
    items = (x.strip().strip("\\\"'") for x in value.split(","))
    return len(value) if any(len(x) >= _SHORTEST and secret(x) for x in items) else 0


URL = Rule(
    "password", re.compile(r"://[^\s:/@\"'\\]{0,128}:(?P<value>[^\s/@\"'\\]{1,256})@"), ("://",)
)
RULES = (
    Rule(
        "password",
        re.compile(rf"{NAMED}{LABEL_END}(?:{IN_QUOTES}|(?P<bare>{BARE}))"),
        SECRETS,
        secret,
    ),
    Rule(  # {"passwords": ["…"]}
        "password",
        re.compile(rf"{NAMED}{LABEL_END}\[(?P<value>\s{{0,64}}{QUOTE}[^\[\]{{}}]{{4,4096}})\]"),
        SECRETS,
        _listed,
    ),
    Rule(  # {"apiKey": {"value": "…"}}, not a schema's {"password": {"type": "string"}}
        "password",
        re.compile(rf"{NAMED}{LABEL_END}\{{[^{{}}]{{0,512}}?{_VALUE}(?P<value>{PLAIN})"),
        SECRETS,
        secret,
    ),
)
XML = Rule("password", re.compile(rf"{NAMED}>(?P<value>[^<>\n]{{4,1024}})</"), SECRETS, secret)
TABLE = Rule(  # | Password | … |
    "password",
    re.compile(
        rf"\|[ \t*_`]{{0,4}}{NAMED}[ \t*_`:]{{0,8}}\|[ \t]{{0,64}}(?P<value>[^\s|]{{4,1024}})"
    ),
    SECRETS,
    credential,
)
TOKEN = Rule(
    "token",
    re.compile(rf"(?<![A-Za-z_-])(?i:token){LABEL_END}{QUOTE}(?P<value>[A-Za-z0-9._~+/=-]{{16,}})"),
    ("token",),
    credential,
)
SENTENCE = Rule(
    "password", re.compile(rf"(?i:{LABELS}) is:? (?P<value>{BARE})"), (" is",), credential
)
