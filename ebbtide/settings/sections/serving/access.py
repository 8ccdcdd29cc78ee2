"""Access to a Prometheus: headers, a token or another secret header, a private authority.

Secret values are given by reference. KEDA reads them through a TriggerAuthentication: on EKS in KEDA's namespace, which
the stack creates, elsewhere in the services' namespace.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import not_both, text
from ebbtide.settings.sections.pods.env import DataKey, ObjectName
from ebbtide.settings.sections.serving.routes import HeaderName

_VALUE = r"^[A-Za-z0-9]([A-Za-z0-9 ._:/@|+-]{0,254}[A-Za-z0-9])?$"
"""Without commas and equals signs, at which KEDA splits a list of headers."""
_LOGINS = ("authorization", "cookie", "proxy-authorization")


HeaderText: TypeAlias = Annotated[
    str,
    *text(_VALUE, "headers.value", "a value of letters, digits, spaces and . _ : / @ | + -, at most 256 long", "acme"),
]


class SecretKey(Settings):
    """One key of a Secret."""

    secret: ObjectName = Field(description="a Secret, by name", examples=["mimir"])
    key: DataKey = Field(description="its key", examples=["token"])


class SecretHeader(SecretKey):
    """A header with a secret value."""

    name: HeaderName = Field(description="name of the header", examples=["x-api-key"])


def _not_empty(*values: object) -> None:
    if not any(values):
        expected = "headers, token, header or authority"
        raise wanted(
            "serving.access-nothing", expected, found="none of them", example="token: { secret: mimir, key: token }"
        )


def logins_are_secret(headers: Mapping[str, str]) -> None:
    """The values of `headers` are in the stack file."""
    for name in headers:
        if name in _LOGINS:
            expected = "headers that anybody may read; a login belongs in a Secret"
            raise wanted("headers.login", expected, found=name, example="X-Scope-OrgID: acme", at=("headers", name))


class PrometheusAccess(Settings):
    """KEDA's credentials for a Prometheus with access control."""

    checks: ClassVar[tuple[Check, ...]] = (
        Check(("headers", "token", "header", "authority"), _not_empty),
        not_both(
            "token", "header", "serving.two-logins", "token or header: KEDA sends one of them", example="only token"
        ),
        Check(("headers",), logins_are_secret),
    )

    headers: dict[HeaderName, HeaderText] = Field(
        default={}, description="headers that are not secret, such as a tenant", examples=["{ X-Scope-OrgID: acme }"]
    )
    token: SecretKey | None = Field(
        default=None,
        description="token for the header Authorization: Bearer",
        examples=["{ secret: mimir, key: token }"],
    )
    header: SecretHeader | None = Field(
        default=None,
        description="a secret header instead of a token, such as authorization with `Basic …`",
        examples=["{ name: x-api-key, secret: mimir, key: apiKey }"],
    )
    authority: SecretKey | None = Field(
        default=None,
        description="certificates of its authority; default: those of KEDA's image",
        examples=["{ secret: mimir, key: ca.crt }"],
    )

    @property
    def held(self) -> Iterator[tuple[str, SecretKey]]:
        """Yield the Secret references by key."""
        for key, reference in (("token", self.token), ("header", self.header), ("authority", self.authority)):
            if reference is not None:
                yield key, reference

    @property
    def secrets(self) -> set[str]:
        return {reference.secret for _, reference in self.held}
