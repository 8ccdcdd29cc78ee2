"""Objects that a pod refers to and the stack does not create: ConfigMaps, claims and Secrets."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ebbtide.settings.fragment.values import inside, mapping
from ebbtide.settings.sections.pods.pod import INGRESS, PodSettings
from ebbtide.settings.sections.redis import REDIS_SECRET

CONFIG_MAP, CLAIM = "ConfigMap", "PersistentVolumeClaim"

_CONFIG_MAP_KEYS = ("configMapKeyRef", "configMapRef", "configMap")


class Named(NamedTuple):
    kind: str
    name: str
    key: str | None = None  # of its data; None for all or none of them


def objects_named(pod: PodSettings) -> tuple[Named, ...]:
    """Each once, however often the pod names it."""
    return tuple(dict.fromkeys((*_of_short_keys(pod), *_of_fragment(pod.pod))))


def needs_of_others(pod: PodSettings, secrets: Collection[str]) -> bool:
    """True if the pod cannot start before objects outside the stack exist. `secrets` are the stack's own.

    The certificate of an Ingress keeps no pod waiting.
    """
    named = {name for at, name, _ in pod.secret_references() if at[0] != INGRESS}
    return bool(named - {*secrets, REDIS_SECRET} or objects_named(pod)) or pod.service_account is not None


def _of_short_keys(pod: PodSettings) -> Iterator[Named]:
    for variable in pod.env.values():
        if variable.config_map is not None:
            yield Named(CONFIG_MAP, variable.config_map, variable.key)
    for source in pod.env_from:
        if source.config_map is not None:
            yield Named(CONFIG_MAP, source.config_map)
    for volume in pod.volumes.values():
        if volume.config_map is not None:
            yield Named(CONFIG_MAP, volume.config_map)
        if volume.claim is not None:
            yield Named(CLAIM, volume.claim)


def _of_fragment(fragment: object) -> Iterator[Named]:
    """What Kubernetes lets be absent, `optional: true`, is left out."""
    for _, key, value in inside(fragment):
        given = mapping(value)
        name, claim, within = given.get("name"), given.get("claimName"), given.get("key")
        if key in _CONFIG_MAP_KEYS and isinstance(name, str) and given.get("optional") is not True:
            yield Named(CONFIG_MAP, name, within if isinstance(within, str) else None)
        elif key == "persistentVolumeClaim" and isinstance(claim, str):
            yield Named(CLAIM, claim)
