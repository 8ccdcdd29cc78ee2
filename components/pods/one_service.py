"""One Service for the pods of a service, or for the pods of several of its variants.

The pods of a service without variants are called as the service is, and so is their Service. Once it has a variant on
spot nodes there is a Service of the same name over both, which another component makes. Each maker names the other's
resource as a former one of its own, so that the engine changes the object; it would else make a second one of that
name, which the API server refuses. Whoever calls it by its name finds it all the time.
"""

import pulumi

_SERVICE = "kubernetes:core/v1:Service"


def of_pods(name: str) -> pulumi.Output[str]:
    """The URN of the Service of the pods of a workload."""
    return pulumi.create_urn(f"{name}-service", _SERVICE, pulumi.create_urn(name, "ebbtide:components:Workload"))


def over_variants(name: str) -> pulumi.Output[str]:
    """The URN of the Service over several variants of a service."""
    service = pulumi.create_urn(f"service-{name}", "ebbtide:components:Service")
    return pulumi.create_urn(f"{name}-shared", _SERVICE, service)
