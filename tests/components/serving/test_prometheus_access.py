"""Access to a Prometheus behind headers, a token or a private authority, and the Secrets that KEDA reads."""

from typing import Any

import pytest

from components.serving.prometheus_access import authentication
from components.serving.scaling import ACCESS, access_metadata
from ebbtide.recording.needed_secrets import needed_secrets
from ebbtide.recording.resources import kind_of, name_of, namespace_of
from ebbtide.settings.sections.serving.access import PrometheusAccess
from tests.builders.recorded import record
from tests.builders.workloads.services import services_stack

pytestmark = pytest.mark.whole

TOKEN = {"secret": "mimir", "key": "token"}
HEADER = {"name": "X-Api-Key", "secret": "mimir", "key": "apiKey"}
AUTHORITY = {"secret": "mimir", "key": "ca.crt"}


def access(**keys: Any) -> PrometheusAccess:
    return PrometheusAccess.model_validate(keys)


def parameters(spec: Any) -> dict[str, tuple[str, str]]:
    return {it["parameter"]: (it["name"], it["key"]) for it in spec["secretTargetRef"]}


def test_a_token_is_sent_as_a_bearers_and_is_nowhere_but_in_its_secret() -> None:
    given = access(token=TOKEN, authority=AUTHORITY)

    assert access_metadata(given) == {"authModes": "bearer"}
    assert parameters(authentication(given)) == {"bearerToken": ("mimir", "token"), "ca": ("mimir", "ca.crt")}


def test_the_name_of_a_secret_header_is_in_an_object_since_keda_takes_it_from_no_trigger() -> None:
    given = access(header=HEADER, headers={"X-Scope-OrgID": "acme"})
    spec = authentication(given)

    assert access_metadata(given) == {"authModes": "custom", "customHeaders": "x-scope-orgid=acme"}
    assert parameters(spec) == {"customAuthValue": ("mimir", "apiKey")}
    assert spec["configMapTargetRef"] == [{"parameter": "customAuthHeader", "name": ACCESS, "key": "header"}]


def test_an_authority_alone_stands_beside_a_mode_or_keda_would_not_look_at_it() -> None:
    given = access(authority=AUTHORITY)

    assert access_metadata(given) == {"authModes": "apiKey", "apiKey": "unused"}
    assert parameters(authentication(given)) == {"ca": ("mimir", "ca.crt")}


ADDRESS = "prometheus: https://mimir.example.com/prometheus"
LOGIN = (
    "prometheusAccess: { headers: { X-Scope-OrgID: acme }, header: { name: X-Api-Key, secret: mimir, key: apiKey } }"
)
HELD = """\
ebbtide:secrets: { mimir: { apiKey: { secure: AAA } } }
ebbtide:digestKey: { secure: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA }
"""
HERE = (
    "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 } }",
    "ebbtide:cluster: { kind: existing, context: here }",
)


@pytest.mark.parametrize(
    ("changes", "serving", "secrets", "made", "needed"),
    [
        ((), f"{ADDRESS}, {LOGIN}", HELD, ["keda"], {"keda"}),
        ((HERE,), f"gatewayClass: eg, keda: true, {ADDRESS}, {LOGIN}", HELD, ["ebbtide"], {"ebbtide"}),
        ((HERE,), f"gatewayClass: eg, keda: true, {ADDRESS}, {LOGIN}", "", [], {"ebbtide"}),
    ],
    ids=["EKS", "existing", "existing, somebody else's"],
)
def test_triggers_refer_to_it_and_the_secret_is_where_keda_looks(
    changes: tuple[tuple[str, str], ...], serving: str, secrets: str, made: list[str], needed: set[str]
) -> None:
    found = record(services_stack(*changes, more=f"ebbtide:serving: {{ {serving} }}\n{secrets}"))
    (login,) = [it for it in found if kind_of(it) == "TriggerAuthentication"]
    (named,) = [it for it in found if kind_of(it) == "ConfigMap" and name_of(it) == ACCESS]
    triggers = [
        trigger
        for it in found
        if kind_of(it) == "ScaledObject"
        for trigger in it.inputs["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    ]

    assert (namespace_of(login), name_of(login), named.inputs["data"]) == ("ebbtide", ACCESS, {"header": "x-api-key"})
    assert triggers
    assert {trigger["authenticationRef"]["name"] for trigger in triggers} == {ACCESS}
    assert {trigger["metadata"]["customHeaders"] for trigger in triggers} == {"x-scope-orgid=acme"}
    assert [namespace_of(it) for it in found if kind_of(it) == "Secret" and name_of(it) == "mimir"] == made
    assert {it.namespace for it in needed_secrets(found) if it.name == "mimir"} == needed
