"""A stack with services: its parts, its policies, and the order of creation."""

import copy
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import pytest

from components.ownership import MAX_UNAVAILABLE, FieldOwner
from ebbtide.policies.judging import judge
from ebbtide.preview.changes import changes_between
from ebbtide.preview.document import ChangeKind
from ebbtide.recording.needed_secrets import needed_secrets
from ebbtide.recording.ownership import ownership_rows
from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from tests.builders.recorded import record
from tests.builders.stack import Recorded
from tests.builders.workloads.services import services_stack

pytestmark = pytest.mark.whole

TODAY = date(2026, 11, 24)
SESSIONS = ("longestRequest: 10s", "longestRequest: 10s\n    session: { redis: true }")


@cache
def resources(*changes: tuple[str, str], more: str = "") -> tuple[Resource, ...]:
    return record(services_stack(*changes, more=more))


def named(found: tuple[Resource, ...], kind: str) -> list[str]:
    return sorted(name_of(it) for it in found if kind_of(it) == kind)


def only(found: tuple[Resource, ...], kind: str, name: str) -> Any:
    (resource,) = [it for it in found if kind_of(it) == kind and name_of(it) == name]
    return resource


def pod_spec(found: tuple[Resource, ...], name: str) -> Any:
    return only(found, "Deployment", name).inputs["spec"]["template"]["spec"]


def container(found: tuple[Resource, ...], name: str) -> Any:
    (container,) = pod_spec(found, name)["containers"]
    return container


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (SESSIONS, ("cpu: 70%", "memory: 80%")),
        (("scale: { metrics: { cpu: 70% }, min: 1, max: 6 }", "vertical: inPlace"),),
    ],
)
def test_it_breaks_no_rule(changes: tuple[tuple[str, str], ...]) -> None:
    stack = services_stack(*changes)

    assert [(it.code, it.resource, it.text) for it in judge(stack, resources(*changes), TODAY)] == []


@pytest.mark.parametrize("serving", ["public: true", "public: true, sources: [203.0.113.0/24]"])
def test_a_gateway_that_the_file_calls_public_breaks_no_rule_and_another_does(serving: str) -> None:
    public = f"ebbtide:serving: {{ {serving} }}\n"

    assert judge(services_stack(more=public), resources(more=public), TODAY) == ()
    assert [it.code for it in judge(services_stack(), resources(more=public), TODAY)] == ["EB033"]


def test_a_route_names_the_pods_of_a_variant_whose_weight_is_0() -> None:
    shares = ("memory: 12Gi }", "memory: 12Gi, weight: 100 }"), ('when: { header: "x-model-size: large" }', "weight: 0")
    (route,) = [it for it in resources(*shares) if kind_of(it) == "HTTPRoute" and name_of(it) == "embedder"]

    assert route.inputs["metadata"]["annotations"]["ebbtide.dev/shared-by"] == "embedder-small,embedder-large"
    assert judge(services_stack(*shares), resources(*shares), TODAY) == ()


def test_each_variant_has_pods_a_service_a_budget_an_autoscaler_and_a_route() -> None:
    found = resources()
    variants = ["embedder-large", "embedder-small"]

    assert set(named(found, "Deployment")) >= {*variants, "ranker"}
    assert set(named(found, "PodDisruptionBudget")) >= {*variants, "ranker"}
    assert set(named(found, "Service")) >= {*variants, "ranker"}
    assert named(found, "ScaledObject") == named(found, "HTTPRoute") == named(found, "BackendTrafficPolicy") == variants
    assert named(found, "HorizontalPodAutoscaler") == ["ranker"]


def test_replicas_are_the_autoscalers() -> None:
    for name in ("embedder-small", "ranker"):
        pods = only(resources(), "Deployment", name)

        assert "spec.replicas" in pods.ignore_changes
        assert pods.inputs["metadata"]["annotations"]["ebbtide.dev/replicas-owner"] == "hpa"


def test_the_budget_of_a_service_is_the_controllers_only_where_it_opens() -> None:
    def controlled(*changes: tuple[str, str]) -> set[str]:
        rows = ownership_rows(resources(*changes))
        return {
            row.object.rpartition("/")[2]
            for row in rows
            if (row.field, row.owner) == (MAX_UNAVAILABLE, FieldOwner.CONTROLLER)
        }

    assert controlled() == {"embedder-small", "embedder-large"}
    assert controlled(("min: 1, max: 6", "min: 2, max: 6")) == {"embedder-small", "embedder-large", "ranker"}


@pytest.mark.parametrize(("least", "broken"), [(1, []), (2, ["EB008"])])
def test_only_a_budget_that_opens_must_be_handed_over(least: int, broken: list[str]) -> None:
    change = ("min: 1, max: 6", f"min: {least}, max: 6")
    bare = tuple(
        replace(it, ignore_changes=()) if (kind_of(it), name_of(it)) == ("PodDisruptionBudget", "ranker") else it
        for it in resources(change)
    )

    assert [it.code for it in judge(services_stack(change), bare, TODAY)] == broken


def test_a_pod_waits_before_it_stops_and_has_the_time_to_end_its_longest_request() -> None:
    spec = only(resources(), "Deployment", "embedder-small").inputs["spec"]["template"]["spec"]
    wait = container(resources(), "embedder-small")["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert wait >= 5
    assert spec["terminationGracePeriodSeconds"] >= wait + 60


@pytest.mark.parametrize(("longest", "drains"), [("2s", "20s"), ("60s", "70s")])
def test_a_pod_of_envoy_drains_for_longer_than_it_takes_to_be_known_and_to_answer(longest: str, drains: str) -> None:
    found = resources(("longestRequest: 60s", f"longestRequest: {longest}"))
    proxy = only(found, "EnvoyProxy", "ebbtide").inputs["spec"]

    assert proxy["shutdown"] == {"drainTimeout": drains, "minDrainDuration": "10s"}


def test_keda_may_scale_what_keeps_its_pods_names_too() -> None:
    roles = [it for it in resources() if kind_of(it) == "Role" and name_of(it).startswith("keda-operator")]
    scaled = {
        name for role in roles for rule in role.inputs["rules"] for name in rule["resources"] if name.endswith("/scale")
    }

    assert scaled == {"deployments/scale", "statefulsets/scale"}


def test_no_pod_is_made_larger_than_a_node_holds() -> None:
    found = resources(("scale: { metrics: { cpu: 70% }, min: 1, max: 6 }", "vertical: inPlace"))
    spec = only(found, "VerticalPodAutoscaler", "ranker").inputs["spec"]
    (own, _) = spec["resourcePolicy"]["containerPolicies"]

    # What an m7i.4xlarge has left of 16 cores and 64 GiB.
    assert own["maxAllowed"] == {"cpu": "15700m", "memory": "57541Mi"}


def outlived_by(stack: Recorded, resource: Resource) -> set[str]:
    """Kind and name of all objects that are deleted later than this."""
    later = stack.urns_before(resource)
    return {f"{kind_of(it)} {name_of(it)}" for it in stack.all if it.urn in later}


def test_the_load_balancer_goes_before_the_gateway_its_operator_and_their_namespace() -> None:
    stack = Recorded(resources())
    (balancer,) = [it for it in stack.all if name_of(it) == "ebbtide-internal" and kind_of(it) == "Service"]

    assert outlived_by(stack, balancer) >= {
        "Gateway ebbtide",
        "GatewayClass ebbtide",
        "EnvoyProxy ebbtide",
        "Deployment envoy-gateway",
        "Namespace ebbtide-gateway",
    }


def test_the_load_balancer_is_internal_unless_the_file_says_public() -> None:
    balancer = only(resources(), "Service", "ebbtide-internal")
    public = only(resources(more="ebbtide:serving: { public: true }\n"), "Service", "ebbtide-public")
    internal = "service.beta.kubernetes.io/aws-load-balancer-internal"

    assert balancer.inputs["metadata"]["annotations"][internal] == "true"
    assert public.inputs["metadata"]["annotations"][internal] == "false"
    assert balancer.inputs["spec"]["ports"][0]["targetPort"] == 10080


REDIS_TLS = "ebbtide:redis: { kind: url, url: 'rediss://cache.example:6379/0', tls: { secret: cache-ca } }\n"


@pytest.mark.parametrize("redis", [REDIS_TLS, "ebbtide:redis: { tls: { secret: cache-ca } }\n"], ids=["url", "own"])
def test_sessions_trust_the_authority_of_the_stacks_redis_as_workers_do(redis: str) -> None:
    found = resources(SESSIONS, more=redis)
    told = {it["name"]: it.get("value") for it in container(found, "ranker")["env"]}
    (volume,) = [it for it in pod_spec(found, "ranker")["volumes"] if it["name"] == "redis-authority"]

    assert volume["secret"]["secretName"] == "cache-ca"
    assert told["REDIS_CA_FILE"] == "/etc/ebbtide-redis/ca.crt"
    assert "redis-authority" not in str(pod_spec(found, "embedder-small"))


TLS = """\
ebbtide:serving: { tls: models-tls }
ebbtide:secrets: { models-tls: { tls.crt: { secure: AAA }, tls.key: { secure: AAA } } }
ebbtide:digestKey: { secure: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA }
"""
EXISTING = (
    "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 } }",
    "ebbtide:cluster: { kind: existing, context: here }",
)
SOMEBODYS = "ebbtide:serving: { gatewayClass: eg, keda: true, tls: models-tls }\n"


def certificates(found: tuple[Resource, ...]) -> list[str]:
    return [it.command for it in needed_secrets(found) if it.name == "models-tls"]


def test_the_gateways_certificate_is_where_the_gateway_is_and_nowhere_else() -> None:
    found = resources(more=TLS)
    spaces = [namespace_of(it) for it in found if kind_of(it) == "Secret" and name_of(it) == "models-tls"]

    assert spaces == ["ebbtide-gateway"]
    assert len(certificates(found)) == 1


@pytest.mark.parametrize("own", [False, True], ids=["somebody else's", "the stack's"])
def test_on_an_existing_cluster_the_certificate_is_needed_beside_the_gateway(own: bool) -> None:
    found = resources(EXISTING, more=SOMEBODYS + (TLS.partition("\n")[2] if own else ""))

    (command,) = certificates(found)
    assert command.startswith("kubectl create secret generic models-tls --namespace ebbtide --type=kubernetes.io/tls")
    assert command.endswith(" --from-file=tls.crt=… --from-file=tls.key=…")


def test_a_stateful_model_keeps_its_pods_names_and_is_scaled_too() -> None:
    found = resources(("longestRequest: 10s", "longestRequest: 10s\n    kind: stateful-set"))

    assert only(found, "StatefulSet", "ranker").inputs["spec"]["serviceName"] == "ranker"
    scaled = only(found, "HorizontalPodAutoscaler", "ranker").inputs["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) == ("StatefulSet", "ranker")


def test_nobody_is_asked_for_a_secret_that_a_part_makes_itself() -> None:
    vertical = ("scale: { metrics: { cpu: 70% }, min: 1, max: 6 }", "vertical: initial")

    assert {need.namespace for need in needed_secrets(resources(vertical))} == {"ebbtide", "ebbtide-workers"}


def leading(found: tuple[Resource, ...], **backend: object) -> tuple[Resource, ...]:
    """The route to the small variant, with another backend."""

    def changed(route: Resource) -> Resource:
        inputs: Any = copy.deepcopy(dict(route.inputs))
        inputs["spec"]["rules"][0]["backendRefs"][0] |= backend
        return replace(route, inputs=inputs)

    wanted = ("HTTPRoute", "embedder-small")
    return tuple(changed(it) if (kind_of(it), name_of(it)) == wanted else it for it in found)


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ({"name": "embedder-medium"}, "it leads to Service ebbtide/embedder-medium, which the stack does not have"),
        ({"port": 8080}, "it leads to port 8080 of Service ebbtide/embedder-small, which does not have that port"),
        ({"namespace": "ebbtide-gateway"}, "it leads to Service ebbtide-gateway/embedder-small, which the stack does"),
    ],
)
def test_a_route_that_leads_nowhere_blocks(backend: dict[str, object], said: str) -> None:
    (found,) = judge(services_stack(), leading(resources(), **backend), TODAY)

    assert (found.code, found.severity, found.resource) == ("EB044", "blocking", "HTTPRoute ebbtide/embedder-small")
    assert found.text.startswith(said)


def test_where_a_route_leads_in_a_namespace_of_somebody_elses_is_not_known() -> None:
    assert judge(services_stack(), leading(resources(), namespace="elsewhere"), TODAY) == ()


def test_kinds_that_stay_in_the_cluster_have_a_provider_that_takes_them_over_and_nothing_else_has() -> None:
    stack = Recorded(resources())
    taking_over = stack.named("cluster-definitions")
    theirs = {key: value for key, value in taking_over.inputs.items() if key != "upsertExistingObjects"}

    assert taking_over.inputs["upsertExistingObjects"] in (True, "true")
    assert theirs == dict(stack.named("cluster-kubernetes").inputs)
    made = [it for it in stack.all if it.provider == taking_over.urn]
    assert made == [it for it in stack.all if it.retain_on_delete]
    assert {kind_of(it) for it in made} == {"CustomResourceDefinition"}


def test_an_autoscaler_takes_the_place_of_the_other_kind_before_it_comes() -> None:
    by_query = ("cpu: 70%", "query: { promql: sum(backlog), target: 5 }")
    changed = {change.name: change for change in changes_between(resources(), resources(by_query))}

    scaled = changed["ranker-scaled"]
    assert (scaled.kind, scaled.reasons, scaled.lowers) == (ChangeKind.REPLACE, ("kind",), True)
    assert "ranker-autoscaler" not in changed
