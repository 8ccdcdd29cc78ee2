"""Ten thousand requests through the bundled gateway while pods and gateways go: none is lost.

The objects are a stack file's as they are rendered; the counter-cases leave out what the render puts in.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from controllers.adapters.kube_api import MERGE_PATCH, Json
from ebbtide.demo.load import LoadAnswers, LoadStage
from ebbtide.demo.model_server import ModelServer, OnSigterm
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOAD
from tests.builders.control_plane import eventually
from tests.serving.support.plane import NODES
from tests.serving.support.site import GATEWAYS, Serving
from tests.serving.support.stack import load_on, open_budget, reroute, served, service, under

pytestmark = [pytest.mark.serving, pytest.mark.timeout(240)]

SPOT_NODES = [node for node in NODES if node.startswith("spot-")]
QUICK = ModelServer(port=0, service=0.02, concurrency=64)
STEADY = (LoadStage(seconds=18, rate=590),)  # more than 10,000


def canary(**weights: int) -> str:
    images = ("registry.example.com/ml/canary:1", "registry.example.com/ml/canary:2")
    variants = zip(weights.items(), images, strict=False)
    return service(
        "canary",
        "variants:",
        *(f'  {name}: {{ image: "{image}", weight: {weight} }}' for (name, weight), image in variants),
    )


BESIDE = service(
    "beside",
    "variants:",
    '  base: { image: "registry.example.com/ml/beside:1", scale: { metrics: { inFlight: 4.5 }, min: 2, max: 8 } }',
    '  cheap: { image: "registry.example.com/ml/beside:1", spot: true }',
)


@pytest.fixture(scope="module")
def model(serving: Serving) -> Iterator[Serving]:
    with served(
        serving,
        service("model"),
        canary(stable=90, fresh=10),
        replicas={"model": 4, "canary-stable": 4, "canary-fresh": 2},
        server=QUICK,
    ):
        yield serving


def all_answered(answers: LoadAnswers, least: int = 10_000) -> None:
    assert answers.sent >= least
    assert (answers.lost, answers.reasons) == (0, {})


def test_from_eight_replicas_to_one(model: Serving) -> None:
    model.scale("model", 8)
    model.pods("model", 8)

    answers = under(load_on(model, "model", STEADY), lambda: model.scale("model", 1))

    all_answered(answers)
    model.pods("model", 1)
    assert len({answer.pod for answer in answers.all}) == 8
    model.scale("model", 4)
    model.pods("model", 4)


def test_a_rollout(model: Serving) -> None:
    before = {pod.name for pod in model.pods("model", 4)}

    def rolled() -> None:
        stamp = {"metadata": {"annotations": {"rolled": "yes"}}}
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/model"
        model.plane.api.patch(path, {"spec": {"template": stamp}}, MERGE_PATCH)
        eventually(lambda: not before & {pod.name for pod in model.pods("model", 4)}, what="four new pods")

    all_answered(under(load_on(model, "model", STEADY), rolled))


def test_a_node_that_is_drained_at_night(model: Serving) -> None:
    """Each eviction waits for the pod that replaces the one before."""
    pods = model.pods("model", 4)
    node = max((pod.node for pod in pods), key=lambda node: sum(pod.node == node for pod in pods))
    leaving = [pod.name for pod in pods if pod.node == node]
    assert leaving
    assert not model.evict(leaving[0])  # by day
    open_budget(model, "model")

    def drained() -> None:
        model.plane.kubectl("cordon", node)
        for pod in leaving:
            eventually(lambda pod=pod: model.evict(pod), what=f"the eviction of {pod}")
        model.pods("model", 4)

    try:
        answers = under(load_on(model, "model", STEADY), drained)
    finally:
        model.plane.kubectl("uncordon", node)

    all_answered(answers)
    assert not {pod.name for pod in model.pods("model", 4)} & set(leaving)


def test_every_spot_node_that_is_taken_back_at_once(serving: Serving) -> None:
    """As EKS does at a notice: each node is cordoned and all of its pods are evicted. Nobody tells the gateway."""
    with served(serving, BESIDE, replicas={"beside-base": 2, "beside-cheap": 6}, server=QUICK):
        pods = serving.pods("beside-cheap", 6)
        nodes = {pod.node for pod in pods}
        assert all(node.startswith("spot-") for node in nodes)

        def taken() -> None:
            serving.plane.kubectl("cordon", *nodes)
            refused = [pod.name for pod in pods if not serving.evict(pod.name)]
            assert refused == []  # each eviction that is refused would cost a pod its two minutes
            serving.pods("beside-cheap", 0)

        try:
            answers = under(load_on(serving, "beside", (LoadStage(seconds=28, rate=380),)), taken, after=6)
        finally:
            serving.plane.kubectl("uncordon", *nodes)
        serving.pods("beside-cheap", 6)
        time.sleep(1)
        back = under(load_on(serving, "beside", (LoadStage(seconds=3, rate=200),)), lambda: None, after=0)

    all_answered(answers)
    of_spot = {pod.name for pod in pods}
    before, after = answers.between(0, 5), answers.between(25, 28)
    assert {answer.pod for answer in before.all} > of_spot
    assert {answer.variant for answer in after.all} == {"beside-base"}
    all_answered(back, 500)
    assert {answer.variant for answer in back.all} == {"beside-base", "beside-cheap"}


def test_the_variant_beside_one_on_spot_grows_while_that_has_no_node(serving: Serving) -> None:
    """Both by what is in flight for each pod of both. A step of load is too much for both at first, and brings both."""
    slow = replace(QUICK, service=0.8)
    with served(serving, BESIDE, replicas={"beside-base": 2}, server=slow, autoscaled=True):
        serving.pods("beside-cheap", 1)
        nodes = {pod.node for pod in serving.pods("beside-cheap")}
        seen: dict[str, int] = {}

        def taken() -> None:
            eventually(lambda: len(serving.pods("beside-cheap")) >= 4, what="four pods on spot nodes", patience=60)
            seen["base"] = serving.replicas("beside-base")
            serving.plane.kubectl("cordon", *SPOT_NODES)
            for pod in serving.pods("beside-cheap"):
                assert serving.evict(pod.name)
            more = "more pods beside them"
            eventually(lambda: serving.replicas("beside-base") > seen["base"], what=more, patience=60)

        try:
            load = load_on(serving, "beside", (LoadStage(seconds=60, rate=30),))
            answers = under(load, taken)
        finally:
            serving.plane.kubectl("uncordon", *SPOT_NODES)

    assert nodes <= set(SPOT_NODES)
    assert (answers.lost, answers.reasons) == (0, {})


CANARYS_WAY = (
    {"stable": 50, "fresh": 50},
    {"stable": 0, "fresh": 100},
    {"fresh": 100},
    {"stable": 0, "fresh": 100},
    {"stable": 50, "fresh": 50},
    {"stable": 100, "fresh": 0},
    {"stable": 100},
    {"stable": 100, "fresh": 0},
    {"stable": 50, "fresh": 50},
    {"stable": 0, "fresh": 100},
)


def test_a_canary_from_a_weight_of_0_to_all_and_back(model: Serving) -> None:
    """At 90 to 10, one request in ten is the new variant's. Then every step of its way, by the files that say so."""

    def led() -> None:
        for weights in CANARYS_WAY:
            reroute(model, canary(**weights))
            time.sleep(1)
        model.scale("canary-stable", 1)

    load = load_on(model, "canary", (LoadStage(seconds=32, rate=610),))
    answers = under(load, led, after=18)

    counted = answers.between(0, 17)
    all_answered(counted)
    all_answered(answers)
    share = sum(answer.variant == "canary-fresh" for answer in counted.all) / counted.sent
    assert abs(share - 0.10) < 0.01
    assert answers.all[-1].variant == "canary-fresh"


def test_a_pod_of_the_gateway_that_is_evicted(model: Serving) -> None:
    before = {pod.name for pod in model.pods("ebbtide-envoy", 2, namespace=GATEWAYS)}
    leaving = sorted(before)[0]

    def evicted() -> None:
        assert model.evict(leaving, GATEWAYS)
        eventually(lambda: leaving not in there(model), what=f"the end of {leaving}")

    # Longer than the gateway drains.
    answers = under(load_on(model, "model", (LoadStage(seconds=28, rate=380),)), evicted)

    all_answered(answers)
    assert leaving not in there(model)
    assert len(model.pods("ebbtide-envoy", 2, namespace=GATEWAYS)) == 2


def there(serving: Serving) -> set[str]:
    """Pods of the gateway, those that are about to end too."""
    items = serving.plane.api.get(f"/api/v1/namespaces/{GATEWAYS}/pods", labelSelector=f"{WORKLOAD}=ebbtide-envoy")
    return {one["metadata"]["name"] for one in items["items"]}


@pytest.mark.parametrize("how", [OnSigterm.EXIT, OnSigterm.IGNORE])
def test_without_what_is_rendered_some_are_lost(serving: Serving, how: OnSigterm) -> None:
    """One that exits at once, without a preStop; one that ignores the signal, killed by a grace below its requests."""

    def changed(one: Json) -> None:
        if one["kind"] == "Deployment":
            pod = one["spec"]["template"]["spec"]
            del pod["containers"][0]["lifecycle"]
            pod["terminationGracePeriodSeconds"] = 1

    server = replace(QUICK, service=3.0, on_sigterm=how)
    with served(serving, service("careless"), replicas={"careless": 6}, server=server, changed=changed):
        load = load_on(serving, "careless", (LoadStage(seconds=6, rate=40),))
        answers = under(load, lambda: serving.scale("careless", 1))

    assert 0 < answers.lost < answers.sent
