"""Who it is that speaks: the attributes that spanscore's own metrics and log lines have in
common.
"""

import functools
import uuid
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version


@functools.cache
def instance_id() -> str:
    """Tells this process from others, and from itself before a restart."""
    return str(uuid.uuid4())


def attributes(configured: Mapping[str, str]) -> dict[str, str]:
    """OpenTelemetry's attributes of a service; what is `configured` comes before what is found
    out.
    """
    try:
        own_version = version("spanscore")
    except PackageNotFoundError:
        own_version = "unknown"
    own = {
        "service.name": "spanscore",
        "service.version": own_version,
        "service.instance.id": instance_id(),
    }
    return own | dict(configured)
