"""The environment of a container: plain values, and references to Secrets, ConfigMaps and fields of the pod."""

import re
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings
from ebbtide.settings.sections.grammar import exactly_one, text

ENV_NAME = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
"""Source: Kubernetes, IsEnvVarName in k8s.io/apimachinery/pkg/util/validation."""
OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
DATA_KEY = r"^[-._a-zA-Z0-9]{1,253}$"

FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""Fields of the pod that the API allows in a variable; labels and annotations by key."""
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['[-._/a-zA-Z0-9]+'\]")


def _field(value: object) -> str:
    if not isinstance(value, str) or (value not in FIELDS and _KEYED_FIELD.fullmatch(value) is None):
        expected = (
            f"a field that a pod can show: {', '.join(FIELDS)}, metadata.labels['key'] or metadata.annotations['key']"
        )
        raise wanted("env.field", expected, example="metadata.name")
    return value


EnvName: TypeAlias = Annotated[
    str,
    *text(
        ENV_NAME,
        "env.name",
        "the name of a variable: letters, digits, _, - and ., not beginning with a digit",
        "LOG_LEVEL",
    ),
]
ObjectName: TypeAlias = Annotated[
    str,
    *text(
        OBJECT_NAME,
        "object.name",
        "the name of an object: lower-case letters, digits, - and ., at most 253",
        "db-login",
    ),
]
DataKey: TypeAlias = Annotated[
    str, *text(DATA_KEY, "object.key", "a key: letters, digits, -, _ and ., at most 253", "password", unless=r"\.\.?")
]


def _key_belongs(secret: object, config_map: object, key: object) -> None:
    if (secret is not None or config_map is not None) and key is None:
        raise wanted("env.no-key", "the key in it", found="no key", example="key: password", at="key")
    if secret is None and config_map is None and key is not None:
        raise wanted(
            "env.stray-key", "key only with secret or configMap", example="{ secret: db-login, key: password }"
        )


class EnvVariable(Settings):
    """One variable: its value, or a reference to it."""

    checks: ClassVar[tuple[Check, ...]] = (
        exactly_one(
            "value", "secret", "configMap", "field", of="a variable", example="{ secret: db-login, key: password }"
        ),
        Check(("secret", "config_map", "key"), _key_belongs),
    )

    value: str | None = Field(default=None, description="the value as text; short form: only the text")
    secret: ObjectName | None = Field(default=None, description="a Secret, by name", examples=["db-login"])
    config_map: ObjectName | None = Field(default=None, description="a ConfigMap, by name", examples=["api-flags"])
    key: DataKey | None = Field(default=None, description="its key", examples=["password"])
    field: Annotated[str, BeforeValidator(_field)] | None = Field(
        default=None, description="a field of the pod", examples=["metadata.name"]
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}

    @model_validator(mode="before")
    @classmethod
    def _text_alone(cls, value: Any) -> Any:
        if isinstance(value, bool | int | float):
            raise wanted("env.not-text", "text, since variables are always text", example='"8080"', hint="quote it")
        return {"value": value} if isinstance(value, str) else value


class EnvSource(Settings):
    """All keys of a Secret or a ConfigMap as variables."""

    checks: ClassVar[tuple[Check, ...]] = (
        exactly_one("secret", "configMap", of="a set of variables", example="{ secret: db-login }"),
    )

    secret: ObjectName | None = Field(default=None, description="a Secret, by name", examples=["db-login"])
    config_map: ObjectName | None = Field(default=None, description="a ConfigMap, by name", examples=["api-flags"])
    prefix: EnvName | None = Field(default=None, description="prefix of each variable name", examples=["DB_"])
