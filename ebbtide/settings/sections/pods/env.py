"""The environment of a container: plain values, and references to Secrets, ConfigMaps and fields of the pod."""

import re
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic_core import CoreSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import Check, Settings

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


def _env_name(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(ENV_NAME, value) is None:
        expected = "the name of a variable: letters, digits, _, - and ., not beginning with a digit"
        raise wanted("env.name", expected, example="LOG_LEVEL")
    return value


def _object_name(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(OBJECT_NAME, value) is None:
        expected = "the name of an object: lower-case letters, digits, - and ., at most 253"
        raise wanted("object.name", expected, example="db-login")
    return value


def _data_key(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(DATA_KEY, value) is None or value in (".", ".."):
        expected = "a key: letters, digits, -, _ and ., at most 253"
        raise wanted("object.key", expected, example="password")
    return value


def _field(value: object) -> str:
    if not isinstance(value, str) or (value not in FIELDS and _KEYED_FIELD.fullmatch(value) is None):
        expected = (
            f"a field that a pod can show: {', '.join(FIELDS)}, metadata.labels['key'] or metadata.annotations['key']"
        )
        raise wanted("env.field", expected, example="metadata.name")
    return value


EnvName: TypeAlias = Annotated[str, BeforeValidator(_env_name), WithJsonSchema({"type": "string", "pattern": ENV_NAME})]
ObjectName: TypeAlias = Annotated[
    str, BeforeValidator(_object_name), WithJsonSchema({"type": "string", "pattern": OBJECT_NAME})
]
DataKey: TypeAlias = Annotated[str, BeforeValidator(_data_key), WithJsonSchema({"type": "string", "pattern": DATA_KEY})]


def one_kind(expected: str, example: str, **kinds: object) -> None:
    """Refuse none or several of the keys that decide the kind."""
    present = [key for key, value in kinds.items() if value is not None]
    if len(present) != 1:
        actual = " and ".join(present) or "none of them"
        raise wanted(
            "kind.exactly-one", f"exactly one of {', '.join(kinds)} for {expected}", found=actual, example=example
        )


def _one_source(value: object, secret: object, config_map: object, field: object) -> None:
    example = "{ secret: db-login, key: password }"
    one_kind("a variable", example, value=value, secret=secret, configMap=config_map, field=field)


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
        Check(("value", "secret", "config_map", "field"), _one_source),
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
            raise wanted("env.not-text", "text, since a variable is nothing else", example='"8080"', hint="quote it")
        return {"value": value} if isinstance(value, str) else value


def _one_object(secret: object, config_map: object) -> None:
    one_kind("a set of variables", "{ secret: db-login }", secret=secret, configMap=config_map)


class EnvSource(Settings):
    """All keys of a Secret or a ConfigMap as variables."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("secret", "config_map"), _one_object),)

    secret: ObjectName | None = Field(default=None, description="a Secret, by name", examples=["db-login"])
    config_map: ObjectName | None = Field(default=None, description="a ConfigMap, by name", examples=["api-flags"])
    prefix: EnvName | None = Field(default=None, description="prefix of each variable name", examples=["DB_"])
