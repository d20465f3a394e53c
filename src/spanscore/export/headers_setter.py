"""Headers of an exporter's requests that are taken from the requests that came in: how tenants keep
apart.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, model_validator

from spanscore.errors import RetryableError
from spanscore.export.port import UndeliveredError
from spanscore.model.headers import TENANT, Headers
from spanscore.model.options import Options

Authenticator: TypeAlias = Callable[[Mapping[str, str], Headers], dict[str, str]]
"""Gives the headers that a request leaves with: from those of the configuration, and those that it
came with.

Names are in lower case.
"""


def applied(
    authenticator: Authenticator | None, given: Mapping[str, str], received: Headers
) -> Mapping[str, str]:
    """The headers that a request leaves with.

    Raises UndeliveredError where they cannot be determined now.
    """
    if authenticator is None:
        return given
    try:
        return authenticator(given, received)
    except RetryableError as error:
        raise UndeliveredError(str(error)) from error


def _name(key: str) -> str:
    if not _NAME.fullmatch(key):
        raise ValueError(f"{key!r} is no header: write letters, digits, `-`, `_` and `.`")
    return key


_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


class HeaderSetting(Options):
    """One header."""

    key: Annotated[str, AfterValidator(_name)]
    """The header's name, such as `X-Scope-OrgID`."""

    action: Literal["insert", "update", "upsert", "delete"] = "upsert"
    """`insert`: where it is not set. `update`: where it is. `upsert`: always.

    `delete`: take it out.
    """

    value: SecretStr | None = None
    """The value."""

    from_context: str | None = None
    """In the place of `value`: the header of the request that came in that has it. That receiver
    needs `include_metadata: true`. With `tenancy`, its `header` is the tenant, however the request
    named it.
    """

    default_value: SecretStr | None = None
    """The value where the request had no such header. Not set: the header is left as it is."""

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if self.action != "delete" and (self.value is None) == (self.from_context is None):
            raise ValueError(f"{self.key}: give value or from_context, one of the two")
        return self


class HeadersSetter(Options):
    """Headers that are set on requests as they leave."""

    type: Literal["headers_setter"] = Field(default="headers_setter", exclude=True)
    """Follows from the extension's name."""

    headers: list[HeaderSetting] = Field(min_length=1)
    """What to do, in this order."""

    @property
    def wanted(self) -> frozenset[str]:
        """The headers of received requests that are needed, in lower case."""
        return frozenset(
            x.from_context.lower() for x in self.headers if x.from_context is not None
        ) - {TENANT}

    @property
    def names_tenant(self) -> bool:
        """Whether a request that leaves names its tenant."""
        return any(x.from_context == TENANT for x in self.headers)

    def with_tenant_as(self, header: str) -> Self:
        """The same settings, but for `header`, in lower case: its value is the tenant that was
        found for a request.
        """
        of_tenant = {"from_context": TENANT}
        headers = [x.model_copy(update=of_tenant) if _is_of(x, header) else x for x in self.headers]
        return self.model_copy(update={"headers": headers})

    def __call__(self, given: Mapping[str, str], received: Headers) -> dict[str, str]:
        """See `Authenticator`."""
        headers = dict(given)
        for setting in self.headers:
            name = setting.key.lower()
            value = _value(setting, received)
            if setting.action == "delete":
                headers.pop(name, None)
            elif value is not None and setting.action in {
                "upsert",
                "update" if name in headers else "insert",
            }:
                headers[name] = value
        return headers


def _is_of(setting: HeaderSetting, header: str) -> bool:
    return setting.from_context is not None and setting.from_context.lower() == header


def _value(setting: HeaderSetting, received: Headers) -> str | None:
    if setting.value is not None:
        return setting.value.get_secret_value()
    wanted = (setting.from_context or "").lower()
    default = None if setting.default_value is None else setting.default_value.get_secret_value()
    return next((value for name, value in received if name == wanted), default)
