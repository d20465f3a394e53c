"""Secrets among the arguments of commands, in a shell's line or as a list."""

import re

from spanscore.judge.redaction.labels import (
    IN_QUOTES,
    NAMED,
    QUOTE,
    QUOTE_OR_NOT,
    SECRETS,
    secret,
)
from spanscore.judge.redaction.rule import Rule, credential

_CURL_SWITCHES = "#0-46afgGiIjJklLMnNOpqRsSvVZ"
# a backslash goes on in the next line; what another curl has is found from there
_CURL = (
    r"\bcurl\b(?:(?!curl\b|[ \t](?:\|\|?|&&)\s|(?:docker|podman|nerdctl|kubectl)\s)"
    r"(?:[^\n]|(?<=\\)\n|(?<=\\\r)\n)){0,4000}"
)
_USER = r"[^\s:\"'\\]{0,128}"

CURL = Rule(  # curl -u user:… --proxy-user user:…, ["curl", "-u", "user:…"]
    "password",
    re.compile(
        rf"(?:[\s,\[]|\\n){QUOTE_OR_NOT}(?:-[{_CURL_SWITCHES}]{{0,12}}[uU]|--(?:proxy-)?user)"
        rf"(?:{QUOTE_OR_NOT}\s{{0,4}},\s{{0,64}}|[ \t=]{{0,4}})"
        rf"(?:(\\{{0,31}}[\"']){_USER}:(?P<quoted>(?:(?!\1)[^\n]){{4,1024}})"
        rf"|{_USER}:(\\{{0,31}}[\"'])(?P<inner>(?:(?!\3)[^\n]){{4,1024}})"
        rf"|{_USER}:(?P<bare>(?:[^\s\"'\\]|\\{{1,8}}[^\s\w\"'\\]){{4,1024}}))"
    ),
    ("curl",),
    secret,
    within=re.compile(_CURL),
)
OPTION = Rule(  # --password …, ["--password", "…"]
    "password",
    re.compile(
        rf"--[\w-]{{0,24}}?{NAMED}(?:[ \t]{{1,4}}|{QUOTE}\s{{0,4}},\s{{0,4}})"
        rf"(?:{IN_QUOTES}|(?P<value>[^\s\"'\\-][^\s\"'\\]{{3,}}))"
    ),
    SECRETS,
    credential,
)
