"""What the API server was asked, by its own metrics.

On a plane without nodes and managers only the API server itself asks beside the controller: it renews a Lease of its
own and looks at the endpoints of its Service, and whoever reads the metrics asks for those. The controller is the only
one that comes with an account's token, so flow control tells its requests from all others.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from control_plane.driver import ControlPlane

_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Request(NamedTuple):
    verb: str
    resource: str  # with its subresource, if it is about one
    code: str


RENEWAL = Request("PUT", "leases", "200")
OF_THE_SERVER = {RENEWAL, Request("GET", "endpoints", "200"), Request("GET", "endpointslices", "200")}


@dataclass(frozen=True, slots=True)
class Asked:
    """Since the server's start. `by_accounts`: requests that came with the token of a ServiceAccount, watches too."""

    requests: Counter[Request]  # a watch counts when it has ended
    by_accounts: int

    def since(self, before: "Asked") -> "Asked":
        return Asked(self.requests - before.requests, self.by_accounts - before.by_accounts)

    @property
    def beside_the_servers_own(self) -> Counter[Request]:
        return Counter({request: count for request, count in self.requests.items() if request not in OF_THE_SERVER})

    def calls(self, *verbs: str) -> int:
        return sum(count for request, count in self.beside_the_servers_own.items() if request.verb in verbs)


def asked(plane: ControlPlane) -> Asked:
    requests: Counter[Request] = Counter()
    by_accounts = 0
    for line in plane.metrics("kube-apiserver").splitlines():
        name, _, rest = line.partition("{")
        if name == "apiserver_request_total":
            labels, count = _sample(rest)
            if labels["resource"]:  # else it is no object: health, discovery, these metrics
                resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                requests[Request(labels["verb"], resource, labels["code"])] += count
        elif name == "apiserver_flowcontrol_dispatched_requests_total":
            labels, count = _sample(rest)
            by_accounts += count if labels["flow_schema"] == "service-accounts" else 0
    return Asked(requests, by_accounts)


def _sample(rest: str) -> tuple[dict[str, str], int]:
    labels, _, value = rest.rpartition("} ")
    return dict(_LABEL.findall(labels)), int(float(value))
