"""What a PodSpec names, read when a container starts, as a kubelet reads it: variables, and volumes as folders."""

import base64
import re
from pathlib import Path
from typing import Any

from controllers.adapters.kube_api import ApiError, Json, KubeApi

_KINDS = ("secret", "configMap")


class PodFiles:
    """Of one pod. `address` and `host` are known before its status is written."""

    def __init__(self, api: KubeApi, pod: Json, home: Path, *, address: str, server: tuple[str, int]) -> None:
        self._api, self._pod, self._home = api, pod, home
        self._space = pod["metadata"]["namespace"]
        self._facts = {
            "metadata.name": pod["metadata"]["name"],
            "metadata.namespace": self._space,
            "metadata.uid": pod["metadata"]["uid"],
            "spec.nodeName": pod["spec"]["nodeName"],
            "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
            "status.podIP": address,
            "status.hostIP": server[0],
        }
        self._server = server

    def environment(self, container: Json) -> dict[str, str]:
        """`envFrom` first, so that `env` wins."""
        found = {
            "HOSTNAME": self._facts["metadata.name"],
            "POD_NAME": self._facts["metadata.name"],
            "POD_IP": self._facts["status.podIP"],
            "KUBERNETES_SERVICE_HOST": self._server[0],
            "KUBERNETES_SERVICE_PORT": str(self._server[1]),
        }
        for source in container.get("envFrom", ()):
            ((kind, name),) = ((kind, source[f"{kind}Ref"]["name"]) for kind in _KINDS if f"{kind}Ref" in source)
            found |= {key: value.decode() for key, value in self._read(kind, name).items()}
        for one in container.get("env", ()):
            found[one["name"]] = self._value(one, found)
        return found

    def _value(self, variable: Json, before: dict[str, str]) -> str:
        source = variable.get("valueFrom")
        if source is None:
            return expanded(str(variable.get("value", "")), before)
        if "fieldRef" in source:
            return self._fact(source["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in source:
            return "0"  # no limit
        ((kind, ref),) = ((kind, source[f"{kind}KeyRef"]) for kind in _KINDS if f"{kind}KeyRef" in source)
        return self._read(kind, ref["name"])[ref["key"]].decode()

    def _fact(self, path: str) -> str:
        if path in self._facts:
            return self._facts[path]
        part, _, key = path.partition("['")
        return str(self._pod["metadata"].get(part.removeprefix("metadata."), {}).get(key.rstrip("']"), ""))

    def mounts(self, container: Json) -> list[Json]:
        """As `enclosure_boot` takes them."""
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", ())}
        found: list[Json] = []
        for mount in container.get("volumeMounts", ()):
            folder = self._volume(volumes[mount["name"]])
            at = mount["mountPath"].replace("/var/run/", "/run/", 1)  # a link, here as in most images
            found.append({"from": str(folder / mount.get("subPath", "")), "at": at, "readOnly": False})
        return found

    def _volume(self, volume: Json) -> Path:
        folder = self._home / "volumes" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._contents(volume).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder

    def _contents(self, volume: Json) -> dict[str, bytes]:
        if "emptyDir" in volume:
            return {}
        if "projected" in volume:
            return {
                name: text for part in volume["projected"]["sources"] for name, text in self._projected(part).items()
            }
        kind = next(kind for kind in _KINDS if kind in volume)
        source = volume[kind]
        return self._picked(kind, source.get("secretName") or source["name"], source)

    def _projected(self, source: Json) -> dict[str, bytes]:
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self._token(source["serviceAccountToken"]).encode()}
        if "downwardAPI" in source:
            items = source["downwardAPI"]["items"]
            return {item["path"]: self._fact(item["fieldRef"]["fieldPath"]).encode() for item in items}
        kind = next(kind for kind in _KINDS if kind in source)
        return self._picked(kind, source[kind]["name"], source[kind])

    def _picked(self, kind: str, name: str, source: Json) -> dict[str, bytes]:
        try:
            found = self._read(kind, name)
        except ApiError as error:
            if error.status == 404 and source.get("optional"):
                return {}
            raise
        items = source.get("items")
        return found if not items else {item["path"]: found[item["key"]] for item in items}

    def _token(self, asked: Json) -> str:
        account = f"/api/v1/namespaces/{self._space}/serviceaccounts/{self._facts['spec.serviceAccountName']}/token"
        spec: dict[str, Any] = {"expirationSeconds": 7200}
        if "audience" in asked:
            spec["audiences"] = [asked["audience"]]
        return str(self._api.create(account, {"spec": spec})["status"]["token"])

    def _read(self, kind: str, name: str) -> dict[str, bytes]:
        """Raises `ApiError` where the object is not there: a kubelet does not start such a pod either."""
        found = self._api.get(f"/api/v1/namespaces/{self._space}/{kind.lower()}s/{name}")
        if kind == "secret":
            return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
        return {key: value.encode() for key, value in found.get("data", {}).items()}


def expanded(text: str, variables: dict[str, str]) -> str:
    """With `$(NAME)` replaced, as in arguments; one that is not known stays."""
    return re.sub(r"\$\(([\w.-]+)\)", lambda found: variables.get(found[1], found[0]), text)
