"""Takes the recording machine out of recorded telemetry: its resource, its paths, its name."""

import getpass
import platform
import re
import socket
import sys
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import Message

KEPT_OF_RESOURCE: Final = (
    "service.name",
    "telemetry.sdk.name",
    "telemetry.sdk.language",
    "telemetry.sdk.version",
)
_MACHINE_KEYS: Final = ("process.", "host.", "os.")
_COMMON_NAMES: Final = frozenset({"root", "user", "app", "runner", "localhost"})
"""Names that say nothing of a machine and are words elsewhere."""


class Scrubber:
    """Replaces the machine's own strings everywhere in a message; `places` maps folders to what
    stands for them.

    Attributes named in `leaves_out` are left out.
    """

    def __init__(self, places: dict[Path, str], leaves_out: tuple[str, ...] = ()) -> None:
        self._leaves_out = leaves_out
        known = {str(path): stand_in for path, stand_in in places.items()}
        known |= {
            platform.platform(): "Linux",
            platform.release(): "0",
            platform.version(): "0",
            sys.base_prefix: "/usr",
        }
        known |= {
            x: "machine"
            for x in (socket.gethostname(), getpass.getuser())
            if x not in _COMMON_NAMES
        }
        home = str(Path.home())
        # a home right below the root (`/root`) may be a word by itself, and says nothing of a
        # machine
        known |= {f"{home}/": "/home/app/"} if home.count("/") == 1 else {home: "/home/app"}
        self._known = {x: known[x] for x in sorted(known, key=len, reverse=True) if x}
        whole = r"(?![A-Za-z0-9_])"
        either = "|".join(re.escape(x) + ("" if x.endswith("/") else whole) for x in self._known)
        self._pattern = re.compile(either)

    def scrub(self, request: Any) -> None:
        """Change an export request in place."""
        for resource in [
            *getattr(request, "resource_spans", ()),
            *getattr(request, "resource_logs", ()),
        ]:
            _keep(resource.resource.attributes, lambda key: key in KEPT_OF_RESOURCE)
            resource.resource.ClearField("entity_refs")
        self._message(request)

    def text(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._known[found.group()], text)

    def _message(self, message: Message) -> None:
        for field, held in message.ListFields():
            name = field.name
            if name == "attributes":
                _keep(
                    held,
                    lambda key: not key.startswith(_MACHINE_KEYS) and key not in self._leaves_out,
                )
            if field.message_type:
                for inner in held if field.is_repeated else (held,):
                    self._message(inner)
            elif field.type == field.TYPE_STRING and not field.is_repeated:
                setattr(message, name, self.text(held))
            elif name == "bytes_value":
                setattr(message, name, self.text(held.decode("latin-1")).encode("latin-1"))


def _keep(attributes: Any, wanted: Any) -> None:
    kept = [x for x in attributes if wanted(x.key)]
    if len(kept) < len(attributes):
        copies = [type(x).FromString(x.SerializeToString()) for x in kept]
        del attributes[:]
        attributes.extend(copies)
