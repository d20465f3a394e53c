"""Requests to a tool's API, as scripts make them: JSON in, JSON out."""

import json
import urllib.request
from typing import Any
from urllib.error import HTTPError


def get(url: str) -> Any:
    """What a GET of `url` answers; None where that is 404."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def post(url: str, body: object) -> Any:
    """What a POST of `body` to `url` answers."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
