"""The stack's Secrets in their namespaces, and the digest that rolls the pods that take them."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes.core.v1 import PodTemplate

from components.pods.secrets import Reference, Secrets, SecretsArgs, SecretsSource, StackSecrets, digest, type_of
from ebbtide.provisioning_labels import SECRETS_DIGEST
from ebbtide.recording.needed_secrets import needed_secrets
from ebbtide.recording.resources import Resource
from tests.builders.components import of_kind, recorded, the

VALUES = {"api": {"TOKEN": "hush-hush", "OTHER": "hush"}, "tls": {"tls.crt": "cert", "tls.key": "key"}}
KEYS = {name: tuple(held) for name, held in VALUES.items()}
KEY = "k" * 32


def source(values: Mapping[str, Mapping[str, str]] = VALUES, key: str = KEY) -> SecretsSource:
    known = StackSecrets(values=pulumi.Output.secret(values), key=pulumi.Output.secret(key))
    return SecretsSource(keys={name: tuple(held) for name, held in values.items()}, known=known)


def secrets(wanted: Mapping[str, Sequence[str]], *, offline: bool = False) -> tuple[Resource, ...]:
    def program() -> None:
        args = SecretsArgs(source=SecretsSource(keys=KEYS) if offline else source(), wanted=wanted)
        Secrets("secrets", args)

    return recorded(program)


def annotations(*references: Reference, values: Mapping[str, Mapping[str, str]] = VALUES, key: str = KEY) -> Any:
    """The annotations of a pod template."""

    def program() -> None:
        found = source(values, key).annotations_for(references)
        PodTemplate("pod", template={"metadata": {"annotations": found}, "spec": {"containers": []}})

    return the(recorded(program), "PodTemplate").inputs["template"]["metadata"].get("annotations", {})


def test_each_namespace_gets_the_secrets_that_its_pods_take() -> None:
    found = of_kind(secrets({"ebbtide": ["api", "tls"], "ebbtide-workers": ["api"]}), "Secret")

    placed = {(s.inputs["metadata"]["namespace"], s.inputs["metadata"]["name"], s.inputs["type"]) for s in found}
    assert placed == {
        ("ebbtide", "api", "Opaque"),
        ("ebbtide", "tls", "kubernetes.io/tls"),
        ("ebbtide-workers", "api", "Opaque"),
    }


@pytest.mark.parametrize(
    ("keys", "type_"),
    [
        (["tls.crt", "tls.key", "ca.crt"], "kubernetes.io/tls"),
        (["tls.crt", "tls.key", "note"], "Opaque"),
        (["tls.crt"], "Opaque"),
        ([".dockerconfigjson"], "kubernetes.io/dockerconfigjson"),
        ([".dockerconfigjson", "TOKEN"], "Opaque"),
    ],
)
def test_the_type_follows_from_the_keys(keys: Sequence[str], type_: str) -> None:
    assert type_of(keys) == type_


def test_values_are_registered_as_secrets_only_and_keys_in_the_clear() -> None:
    resources = secrets({"ebbtide": ["api"]})
    found = the(resources, "Secret").inputs

    assert found["data"] == "[secret]"
    assert found["metadata"]["annotations"] == {"ebbtide.dev/secret-keys": "OTHER,TOKEN"}
    assert "hush" not in json.dumps([asdict(resource) for resource in resources])


def test_a_secret_holds_the_values_as_the_api_server_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.Output, "secret", staticmethod(pulumi.Output.from_input))  # so that it can be read here
    found = the(secrets({"ebbtide": ["api"]}), "Secret")

    assert found.inputs["data"]["TOKEN"] == b64encode(b"hush-hush").decode()


def test_a_rendering_has_the_same_secrets_without_values() -> None:
    wanted = {"ebbtide": ["api"]}

    assert secrets(wanted, offline=True) == secrets(wanted)
    assert SecretsSource(keys=KEYS).annotations_for([("api", None)]) == {}


def test_whoever_applies_files_is_told_how_to_make_each_secret() -> None:
    api, tls = (need.command for need in needed_secrets(secrets({"ebbtide": ["api", "tls"]})))

    assert api == "kubectl create secret generic api --namespace ebbtide --from-literal=OTHER=… --from-literal=TOKEN=…"
    assert tls.endswith("tls --namespace ebbtide --type=kubernetes.io/tls --from-file=tls.crt=… --from-file=tls.key=…")


def test_the_digest_on_a_pod_can_be_read_and_holds_no_value() -> None:
    found = annotations(("api", "TOKEN"))

    assert found == {SECRETS_DIGEST: digest({"api": {"TOKEN": "hush-hush"}}, KEY)}
    assert len(found[SECRETS_DIGEST]) == 64


def test_pods_roll_when_a_value_changes_that_they_take_and_for_no_other() -> None:
    other = {**VALUES, "api": {**VALUES["api"], "OTHER": "new"}}

    assert annotations(("api", "TOKEN"), values=other) == annotations(("api", "TOKEN"))
    assert annotations(("api", None), values=other) != annotations(("api", None))
    assert annotations(("api", "TOKEN"), ("api", "OTHER")) == annotations(("api", "OTHER"), ("api", None))


def test_pods_that_take_secrets_of_others_alone_get_no_digest() -> None:
    assert annotations(("of-others", "TOKEN")) == {}
    assert annotations() == {}


def test_without_the_key_a_digest_cannot_be_tried_out() -> None:
    assert annotations(("api", None), key="x" * 32) != annotations(("api", None))


def test_values_that_only_join_to_the_same_text_have_other_digests() -> None:
    assert digest({"a": {"b": "c"}}, KEY) != digest({"a": {"bc": ""}}, KEY)
    assert digest({"a": {"b": "x"}}, KEY) != digest({"a": {"c": "x"}}, KEY)
    assert digest({"a": {"b": "x", "c": "y"}}, KEY) == digest({"a": {"c": "y", "b": "x"}}, KEY)
