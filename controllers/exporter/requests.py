"""A pod's request as the scheduler counts it, and a parser of Kubernetes' quantities. Pure."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kubernetes.utils import quantity as library

_QUANTITY_LIMIT = Decimal(10) ** 30  # far above any capacity, and within the range of a float


def requested(pod: Mapping[str, Any], resource: str) -> Decimal:
    """Return the amount that the scheduler reserves: the sum of concurrent containers, or a larger init container.

    An init container that is always restarted is a sidecar: it runs along with all later containers. While a container
    is resized in place, the larger of its two requests counts, or the former request if the new one can never fit on
    the node. A request of the pod itself replaces the sum of its containers; the overhead of the pod's runtime class is
    added. Units: cores, bytes, devices. Raises ValueError for an amount that is not a quantity. Source: Kubernetes
    1.36, component-helpers, `PodRequests`.
    """
    spec: Mapping[str, Any] = pod.get("spec") or {}
    status: Mapping[str, Any] = pod.get("status") or {}
    states = {
        state.get("name"): state
        for kind in ("initContainerStatuses", "containerStatuses")
        for state in status.get(kind) or ()
        if state.get("resources") is not None
    }
    pending = (each for each in status.get("conditions") or () if each.get("type") == "PodResizePending")
    infeasible = next((each.get("reason") == "Infeasible" for each in pending), False)

    def reserved(container: Mapping[str, Any]) -> Decimal:
        state = states.get(container.get("name"))
        if state is None:
            return _request(container, resource)
        allocated: Mapping[str, object] = state.get("allocatedResources") or {}
        current = max(_request(state, resource), quantity(allocated.get(resource, 0)))
        return current if infeasible else max(current, _request(container, resource))

    sidecars, init_peak = Decimal(0), Decimal(0)
    for container in spec.get("initContainers") or ():
        request = _request(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += reserved(container)
            request = Decimal(0)
        init_peak = max(init_peak, sidecars + request)
    total = sum(map(reserved, spec.get("containers") or ()), sidecars)
    request = _request(spec, resource) if resource in _requests(spec) else max(total, init_peak)
    overhead: Mapping[str, object] = spec.get("overhead") or {}
    return request + quantity(overhead.get(resource, 0))


def _request(holder: Mapping[str, Any], resource: str) -> Decimal:
    return quantity(_requests(holder).get(resource, 0))


def _requests(holder: Mapping[str, Any]) -> Mapping[str, object]:
    resources: Mapping[str, Any] = holder.get("resources") or {}
    return resources.get("requests") or {}


def quantity(value: object) -> Decimal:
    """Parse a quantity exactly: 3920m is 3.92. Raises ValueError for other text, negative numbers and overflows."""
    try:
        number = library.parse_quantity(str(value))
    except ArithmeticError as error:  # an exponent beyond Decimal's range, or a signalling NaN
        raise ValueError(f"{str(value)[:50]!r} is no quantity") from error
    # The library accepts NaN, infinities and any other exponent.
    if not (number.is_finite() and 0 <= number < _QUANTITY_LIMIT):
        raise ValueError(f"{str(value)[:50]!r} is no quantity")
    return number
