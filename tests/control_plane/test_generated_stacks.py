"""The API server accepts every object of generated stacks, and a second apply changes nothing, after any manager."""

import pytest
from control_plane.plane.driver import ControlPlane

from tests.builders.generated import stack_text
from tests.control_plane.support.accepted import ALL_WRITES, rendered_text, stays_as_it_is
from tests.control_plane.support.applying import Applying
from tests.counts import count

pytestmark = pytest.mark.control_plane

QUICK = range(8)  # among which all kinds occur
LONG = range(len(QUICK), len(QUICK) + count(212, 52))
KINDS = {
    "APIService",
    "BackendTrafficPolicy",
    "ClientTrafficPolicy",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "EnvoyProxy",
    "Gateway",
    "GatewayClass",
    "HTTPRoute",
    "HorizontalPodAutoscaler",
    "Job",
    "Lease",
    "Namespace",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "RayCluster",
    "Role",
    "RoleBinding",
    "ScaledObject",
    "Service",
    "ServiceAccount",
    "StatefulSet",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


@pytest.mark.parametrize("seed", QUICK)
def test_a_generated_stack_is_accepted_and_stays_as_it_is(seed: int, plane: ControlPlane, applying: Applying) -> None:
    stack = rendered_text(stack_text(seed))

    stays_as_it_is(plane, stack, lambda: applying.apply(stack.objects), ALL_WRITES[seed % 2 :][:1])


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_more_generated_stacks_are_accepted(seed: int, plane: ControlPlane, applying: Applying) -> None:
    stack = rendered_text(stack_text(seed))

    stays_as_it_is(plane, stack, lambda: applying.apply(stack.objects), ALL_WRITES[seed % 2 :][:1])


def test_all_kinds_of_object_are_among_the_generated_ones() -> None:
    assert {each["kind"] for seed in QUICK for each in rendered_text(stack_text(seed)).objects} == KINDS
