"""References to environment variables in a file of settings, written as for the Collector."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

_REFERENCE = re.compile(r"\$\$|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expanded(value: Any, environ: Mapping[str, str]) -> Any:
    """`${env:NAME}` and `${env:NAME:-default}` in every string, as the collector expands them; `$$`
    is one `$`.

    A value that is nothing but one reference is read as YAML, so that numbers and booleans work; an
    unset variable is empty.
    """
    if isinstance(value, dict):
        return {key: expanded(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [expanded(item, environ) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    text = _REFERENCE.sub(lambda found: _resolve(found, environ), value)
    return _scalar(text) if _REFERENCE.fullmatch(value) and value != "$$" else text


def _resolve(found: re.Match[str], environ: Mapping[str, str]) -> str:
    if found[0] == "$$":
        return "$"
    return environ.get(found[1]) or found[2] or ""


def _scalar(text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, bool | int | float) else text
