"""Services of a stack file on the site: the objects as they are rendered, with a model server for each image.

Nothing else of them is changed: `preStop`, grace, probes, budgets, routes and policies are the product's own. The
kubelet that honours them is a stand-in (`tests.serving.support.kubelet`).
"""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

import yaml

from components.serving.envoy_gateway import NAMESPACE as GATEWAYS
from controllers.adapters.kube_api import MERGE_PATCH, Json
from ebbtide.demo.load import Address, Headers, Load, LoadAnswers, LoadStage, offer
from ebbtide.demo.model_server import ModelServer
from ebbtide.recording.output import manifests
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import NAMESPACE
from tests.builders.control_plane import eventually
from tests.builders.recorded import record
from tests.builders.settings import shortest
from tests.serving.support.kubelet import PLAIN
from tests.serving.support.site import Serving

HOST = "models.acme.internal"
PORT = 8000
_AROUND = """\
ebbtide:monitoring: { prometheus: bundled }
ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 }, spot: { max: 12 } }
ebbtide:services:
"""
_USUAL = (
    "ports: { http: 8000 }",
    "port: http",
    "probes: { readiness: { http: /ready, port: http } }",
    "longestRequest: 10s",
    "cpu: 1",
    "memory: 1Gi",
    "scale: { metrics: { inFlight: 3 }, min: 1, max: 8 }",
)
_AUTOSCALERS = ("ScaledObject", "HorizontalPodAutoscaler")
_LOOK_S = 0.2  # seconds between two looks at the gateway's pods: what a load balancer's health checks take


def service(name: str, *more: str) -> str:
    """Of a stack file, at its own path below the host; `more` are further lines, or take the place of usual ones."""
    given = {_key(line) for line in more}
    image = f"image: registry.example.com/ml/{name}:1"
    usual = [*_USUAL, f"route: {{ host: {HOST}, path: /{name} }}", *([] if "variants" in given else [image])]
    lines = [*(line for line in usual if _key(line) not in given), *more]
    return f"  {name}:\n" + "".join(f"    {line}\n" for line in lines)


def _key(line: str) -> str:
    return line.partition(":")[0]


def rendered(services: Sequence[str], around: str = "") -> list[Json]:
    """The whole stack, in its order; `around` are lines of its file beside the services."""
    texts = manifests(record(settings_of(services, around)))
    return [one for name in sorted(texts) for one in yaml.load_all(texts[name], yaml.CSafeLoader) if one]


def settings_of(services: Sequence[str], around: str = "") -> StackSettings:
    more = "".join((around, _AROUND, *services))
    return stack_of_text(shortest(more=more), stack="acme", file="Pulumi.acme.yaml")


def objects_of(services: Sequence[str], around: str = "") -> list[Json]:
    """Those of the services and of the gateway in front of them, as rendered, in their order."""
    settings = settings_of(services, around)
    own = {pod for name, it in settings.services.items() for pod in it.pods(name)} | settings.services.keys()
    return [one for one in rendered(services, around) if _is_of(one, own)]


def _is_of(one: Json, names: set[str]) -> bool:
    metadata = one["metadata"]
    if metadata.get("namespace") == GATEWAYS:
        return one["kind"] in ("Gateway", "ClientTrafficPolicy")
    return metadata.get("namespace") == NAMESPACE and metadata["name"].removesuffix(".spot") in names


def played(one: Json, server: ModelServer) -> Json:
    """A Deployment whose image is this server, in its place."""
    (container,) = one["spec"]["template"]["spec"]["containers"]
    name = one["metadata"]["name"]
    metrics = [port["containerPort"] for port in container["ports"] if port["name"] == "metrics"]
    told = replace(server, port=PORT, host="0.0.0.0", variant=name, metrics_port=next(iter(metrics), None))
    own = {**asdict(told), "parent": None}
    del own["pod"]  # which it is told by its environment
    command = [*server.command()[:-1], json.dumps(own)]
    container |= {"image": PLAIN, "command": command, "args": []}
    container["env"] = [
        *container.get("env", ()),
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    return one


@contextmanager
def served(
    serving: Serving,
    *services: str,
    replicas: Mapping[str, int],
    server: ModelServer,
    autoscaled: bool = False,
    around: str = "",
    played: Callable[[Json, ModelServer], Json] = played,
    changed: Callable[[Json], None] = lambda _: None,
) -> Generator[None]:
    """With so many ready pods of each. `changed` is given each object, for what a test wants otherwise.

    What is there already, as the gateway is where other services are served meanwhile, stays when this ends.
    """
    objects = [one for one in objects_of(services, around) if autoscaled or one["kind"] not in _AUTOSCALERS]
    for one in objects:
        if one["kind"] == "Deployment":
            played(one, server)
            if one["metadata"]["name"] in replicas:
                one["spec"]["replicas"] = replicas[one["metadata"]["name"]]
        changed(one)
    own = [one for one in objects if not serving.applying.knows(one)]
    serving.apply(*objects)
    try:
        for pod, count in replicas.items():
            serving.pods(pod, count)
        serving.pods("ebbtide-envoy", 2, namespace=GATEWAYS)
        for route in (one for one in objects if one["kind"] == "HTTPRoute"):
            eventually(lambda route=route: _is_resolved(serving, route), what="the route to be taken")
        yield
    finally:
        serving.delete(*reversed(own))


def _is_resolved(serving: Serving, route: Json) -> bool:
    now = serving.get("httproutes", route["metadata"]["name"])
    parents = now.get("status", {}).get("parents", ())
    told = {one["type"]: one["status"] for parent in parents for one in parent["conditions"]}
    return told.get("Accepted") == "True" and told.get("ResolvedRefs") == "True"


def gateways(serving: Serving) -> Callable[[], Address]:
    """One gateway pod after the other of those that are ready, as a load balancer gives them to new connections."""
    known: list[Address] = []
    looked, turns = 0.0, itertools.count()

    def address() -> Address:
        nonlocal looked, known
        if time.monotonic() > looked + _LOOK_S:
            places = [place.partition(":") for place in serving.gateways()]
            # While none is ready a load balancer goes on with those that it has.
            known, looked = [(host, int(port)) for host, _, port in places] or known, time.monotonic()
        return known[next(turns) % len(known)]

    return address


def load_on(
    serving: Serving,
    path: str,
    stretches: Sequence[LoadStage],
    *,
    headers: Callable[..., Headers] = lambda *_: {},
    timeout: float = 60.0,
) -> Load:
    serving.gateway_address()  # there is one: an empty list would end the load, and not as a request that is lost
    return Load(
        address=gateways(serving),
        stretches=stretches,
        seed=1,
        path=f"/{path}",
        timeout=timeout,
        headers=lambda draw: {"host": HOST, **headers(draw)},
    )


def under(load: Load, happens: Callable[[], object], *, after: float = 2.0) -> LoadAnswers:
    """What came back while something happened, which begins so many seconds after the load."""
    answers: list[LoadAnswers] = []
    offering = threading.Thread(target=lambda: answers.append(asyncio.run(offer(load))), name="load")
    offering.start()
    try:
        time.sleep(after)
        happens()
    finally:
        offering.join()
    return answers[0]


def lasting(seconds: int) -> Iterator[float]:
    """Half a second each."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        yield now
        time.sleep(0.5)


def open_budget(serving: Serving, name: str) -> None:
    """As the controller does at night."""
    path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{name}"
    serving.plane.api.patch(path, {"spec": {"maxUnavailable": 1}}, MERGE_PATCH)


def reroute(serving: Serving, *services: str) -> None:
    """The routes of another stack file, as an `up` would bring them."""
    serving.apply(*(one for one in objects_of(services) if one["kind"] == "HTTPRoute"))
