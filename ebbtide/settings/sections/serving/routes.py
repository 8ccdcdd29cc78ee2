"""The section of routes: which requests reach a service, and which of its pods.

Matches are in Gateway API's terms; the rendered routes and the check for conflicts use the same ones. Of two routes
with the same match one never receives a request: Gateway API chooses by age, so an update could change which.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.entrance import Host, UrlPath
from ebbtide.settings.sections.grammar import exactly_one, text, text_schema

MODEL_HEADER = "x-model"
"""Header with the model's name, for clients that do not put it into the path."""

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
HEADER_NAME = rf"^{_TOKEN}$"
_HEADER = rf"^({_TOKEN}):[ ]*(\S(.*\S)?)[ ]*$"
MODEL = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"


def _header(value: object) -> str:
    match = re.fullmatch(_HEADER, value) if isinstance(value, str) and value.isprintable() else None
    if match is None:
        raise wanted("route.header", "a header and its value", example='"x-model-size: large"')
    return f"{match[1].lower()}: {match[2]}"


def _header_name(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(HEADER_NAME, value) is None or len(value) > 256:
        raise wanted("route.header-name", "the name of a header", example="x-session-id")
    return value.lower()


HeaderName: TypeAlias = Annotated[str, BeforeValidator(_header_name), text_schema(HEADER_NAME)]
HeaderValue: TypeAlias = Annotated[str, BeforeValidator(_header), text_schema(_HEADER)]
ModelName: TypeAlias = Annotated[
    str, *text(MODEL, "route.model", "the name of a model: at most 63 letters, digits, ., _ and -", "embedder-v3")
]


class When(Settings):
    """Condition for requests of a variant."""

    checks: ClassVar[tuple[Check, ...]] = (
        exactly_one("header", "model", of="when", example='{ header: "x-model-size: large" }'),
    )

    header: HeaderValue | None = Field(
        default=None, description="a header with this value", examples=['"x-model-size: large"']
    )
    model: ModelName | None = Field(
        default=None,
        description=f"this model, named in the header {MODEL_HEADER} or the next part of the path",
        examples=["embedder-large"],
    )

    @property
    def text(self) -> str:
        return self.header or f"model {self.model}"


class RouteProtocol(StrEnum):
    HTTP = "http"
    GRPC = "grpc"


class RouteSettings(Settings):
    """Host, path or model of a service at the gateway."""

    host: Host = Field(description="DNS name; `*.` replaces one label", examples=["models.acme.internal"])
    path: UrlPath = Field(default="/", description="prefix of the URL's path", examples=["/embed"])
    model: ModelName | None = Field(
        default=None,
        description=f"only requests for this model, named in the header {MODEL_HEADER} or the next part of the path; "
        "services with different models may share a host and path",
        examples=["embedder-v3"],
    )
    protocol: RouteProtocol = Field(
        default=RouteProtocol.HTTP,
        description="protocol of the pods; grpc: HTTP/2 without TLS",
        examples=["grpc"],
    )


class BalanceKind(StrEnum):
    LEAST_REQUEST = "leastRequest"
    ROUND_ROBIN = "roundRobin"
    RANDOM = "random"
    CONSISTENT_HASH = "consistentHash"


_PLAIN = tuple(kind for kind in BalanceKind if kind is not BalanceKind.CONSISTENT_HASH)


class Balance(Settings):
    """Load balancing between pods: a kind, or the header that identifies sessions."""

    kind: BalanceKind = Field(default=BalanceKind.LEAST_REQUEST, exclude=True)
    consistent_hash: HeaderName | None = Field(
        default=None,
        description="the header that identifies a session; all its requests go to one pod",
        examples=["x-session-id"],
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        complete = handler(schema)
        properties = cast("dict[str, Any]", complete["properties"])
        properties.pop("kind", None)
        return {"anyOf": [{"type": "string", "enum": list(_PLAIN)}, {**complete, "required": ["consistentHash"]}]}

    @model_validator(mode="before")
    @classmethod
    def _kind_alone(cls, value: Any) -> Any:
        if isinstance(value, Balance):
            return value
        if isinstance(value, Mapping):
            keys = cast("Mapping[str, object]", value)
            if list(keys) == ["consistentHash"]:
                return {**keys, "kind": BalanceKind.CONSISTENT_HASH}
        elif value in _PLAIN:
            return {"kind": BalanceKind(value)}
        expected = f"{', '.join(_PLAIN)} or {{ consistentHash: HEADER }}"
        raise wanted("balance.unknown", expected, example="leastRequest")


LEAST_REQUEST = Balance.model_construct(None, kind=BalanceKind.LEAST_REQUEST, consistent_hash=None)


@dataclass(frozen=True, slots=True)
class Match:
    """A path prefix, and headers by name and value."""

    path: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> tuple[str, frozenset[tuple[str, str]]]:
        """Equal for matches of the same requests: a trailing slash of the prefix makes no difference."""
        return self.path.rstrip("/"), frozenset(self.headers)

    @property
    def text(self) -> str:
        """Return the match for messages."""
        return " with ".join((self.path, *(f"{name}: {value}" for name, value in self.headers)))


def matches(route: RouteSettings, when: When | None) -> Sequence[Match]:
    """Return alternative matches. A model is in a header or in the path."""
    model = route.model if when is None or when.model is None else when.model
    headers = () if when is None or when.header is None else (_header_pair(when.header),)
    if model is None:
        return [Match(route.path, headers)]
    below = f"{route.path.rstrip('/')}/{model}"
    return [Match(route.path, ((MODEL_HEADER, model), *headers)), Match(below, headers)]


def _header_pair(header: str) -> tuple[str, str]:
    name, value = header.split(": ", 1)
    return name, value
