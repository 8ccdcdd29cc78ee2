"""Access to workloads from outside: accepted values, and one line per fault."""

from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.capacity.pods import ingress_wants
from tests.builders.settings import Told, loaded, problem_of, problems_of, shortest, told

CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
EXISTING = "ebbtide:cluster: { kind: existing, context: onprem }"


def file(*entries: str, more: str = "") -> str:
    """Return a file with one workload per line, from line 7 on. An entry is a name and its additional keys."""
    lines = [f"  {name}: {{ {_POD}, {keys} }}" for name, _, keys in (entry.partition(": ") for entry in entries)]
    return shortest(more="\n".join(["ebbtide:workloads:", *lines, *([more] if more else [])]))


_POD = "category: flexible, image: api:1, cpu: 1, memory: 1Gi"
_HTTP = "ports: { http: 8080, metrics: 9090 }"


def faults(text: str, folder: Path) -> list[Told]:
    return [told(problem) for problem in problems_of(text, folder)]


def test_an_entrance_leads_to_the_first_port_unless_it_names_another(tmp_path: Path) -> None:
    text = file(
        f"api: {_HTTP}, expose: {{}}",
        f"web: {_HTTP}, expose: {{ port: metrics }}",
        f"tls: {_HTTP}, expose: {{ certificate: '{CERTIFICATE}' }}",
        f"own: {_HTTP}, expose: {{ certificate: '{CERTIFICATE}', listen: 8443 }}",
    )

    exposed = {
        name: workload.expose.listens_on(workload.ports)
        for name, workload in loaded(text, tmp_path).workloads.items()
        if workload.expose
    }

    assert exposed == {"api": 8080, "web": 9090, "tls": 443, "own": 8443}


@pytest.mark.parametrize(
    ("keys", "code", "text"),
    [
        ("ingress: { host: API.example.com }", "ingress.host", "API.example.com"),
        ("ingress: { host: a.*.example.com }", "ingress.host", "a.*.example.com"),
        ("ingress: { host: 10.0.0.1 }", "ingress.host", "10.0.0.1"),
        ("ingress: { host: a.example.com, path: api }", "ingress.path", "'api'"),
        ("ingress: { host: a.example.com, path: /a//b }", "ingress.path", "/a//b"),
        ("ingress: { host: a.example.com, path: /a/.. }", "ingress.path", "/a/.."),
        ("ingress: { host: a.example.com, path: '/a?b' }", "ingress.path", "/a?b"),
        ("ingress: { host: a.example.com, port: grpc }", "entrance.no-such-port", "http, metrics, found 'grpc'"),
        ("ingress: { host: a.example.com, annotations: { ebbtide.dev/x: a } }", "label.ours", "annotations"),
        ("expose: { port: grpc }", "entrance.no-such-port", "http, metrics, found 'grpc'"),
        ("expose: { certificate: api-tls }", "expose.certificate", "api-tls"),
        (
            "expose: { certificate: 'arn:aws:iot:us-east-1:123456789012:certificate/x' }",
            "expose.certificate",
            "arn:aws:",
        ),
        ("expose: { sources: [203.0.113.7/24] }", "expose.source", "203.0.113.7/24"),
        ("expose: { sources: ['203.0.113.7'] }", "expose.source", "203.0.113.7"),
        ("expose: { sources: ['::/0'] }", "expose.source", "::/0"),
    ],
)
def test_one_fault_is_one_line(keys: str, code: str, text: str, tmp_path: Path) -> None:
    fault = problem_of(file(f"api: {_HTTP}, {keys}"), tmp_path)

    assert fault.tells(code, ":7:", text)


@pytest.mark.parametrize("keys", ["ingress: { host: a.example.com }", "expose: {}"])
def test_an_entrance_needs_a_port(keys: str, tmp_path: Path) -> None:
    assert problem_of(file(f"api: {keys}"), tmp_path).tells("entrance.no-such-port", ":7:", "under `ports`")


def test_a_host_and_path_lead_to_one_workload(tmp_path: Path) -> None:
    text = file(
        f"api: {_HTTP}, ingress: {{ host: a.example.com, path: /v1 }}",
        f"web: {_HTTP}, ingress: {{ host: a.example.com }}",
        f"old: {_HTTP}, ingress: {{ host: a.example.com, path: /v1/ }}",
        f"odd: {_HTTP}, ingress: {{ host: a.example.com, path: /, class: nginx }}",
    )

    taken = [fault for fault in faults(text, tmp_path) if fault.code == "ingress.host-taken"]

    assert taken[0] == (
        ":9: ebbtide:workloads.old.ingress.host: wanted a host and path of only one workload, "
        "found a.example.com/v1/, which leads to workload 'api'; give it another path or its own host"
    )
    assert taken[1].tells("ingress.host-taken", ":10:", "workloads.odd", "a.example.com/", "'web'")
    assert len(taken) == 2


def test_two_classes_are_two_entrances(tmp_path: Path) -> None:
    text = file(
        f"api: {_HTTP}, ingress: {{ host: a.example.com, class: inside }}",
        f"web: {_HTTP}, ingress: {{ host: a.example.com, class: outside }}",
    )

    assert ingress_wants(loaded(text, tmp_path)) == ("inside", "outside")


def test_a_probe_is_told_each_class_once_and_of_the_default_one(tmp_path: Path) -> None:
    text = file(
        f"api: {_HTTP}, ingress: {{ host: a.example.com, class: nginx }}",
        f"web: {_HTTP}, ingress: {{ host: b.example.com, class: nginx }}",
        f"old: {_HTTP}, ingress: {{ host: c.example.com }}",
        "batch: replicas: 1",
    )

    assert ingress_wants(loaded(text, tmp_path)) == ("nginx", None)


def test_an_existing_cluster_has_no_load_balancers_of_ours(tmp_path: Path) -> None:
    fault = problem_of(file(f"api: {_HTTP}, expose: {{}}", more=EXISTING), tmp_path)

    assert fault.tells("expose.existing-cluster", ":7:", "workloads.api.expose", "ingress: {")


@pytest.mark.parametrize(
    "network",
    [
        "{ nat: none }",
        "{ vpc: { id: vpc-0a1b2c3d, privateSubnets: { a: subnet-0a1b2c3d, b: subnet-4e5f6071 } } }",
    ],
)
def test_a_network_without_public_subnets_has_internal_load_balancers_alone(network: str, tmp_path: Path) -> None:
    text = file(f"api: {_HTTP}, expose: {{ public: true }}", more=f"ebbtide:network: {network}")

    assert problem_of(text, tmp_path).tells("expose.no-public-subnets", ":7:", "expose.public", "public: false")
    assert loaded(text.replace("public: true", "public: false"), tmp_path)


def test_a_certificate_is_of_the_stacks_region(tmp_path: Path) -> None:
    elsewhere = CERTIFICATE.replace("us-east-1", "eu-west-1")
    text = file(f"api: {_HTTP}, expose: {{ certificate: '{elsewhere}' }}")

    assert problem_of(text, tmp_path).tells("expose.certificate-region", ":7:", "us-east-1", "eu-west-1")
    assert loaded(text.replace("config:", "config:\n  aws:region: eu-west-1"), tmp_path).region == "eu-west-1"


@pytest.mark.parametrize("ending", ["entrance", "public"])
def test_the_name_of_a_load_balancer_is_no_workloads(ending: str, tmp_path: Path) -> None:
    text = file(f"api: {_HTTP}, expose: {{}}", f"api-{ending}: replicas: 1")

    assert problem_of(text, tmp_path).tells("expose.name-taken", ":8:", f"workloads.api-{ending}", "'api'")


def test_what_is_open_to_all_in_the_clear_is_warned_of(tmp_path: Path) -> None:
    text = file(
        f"api: {_HTTP}, expose: {{ public: true }}",
        f"web: {_HTTP}, expose: {{ public: true, certificate: '{CERTIFICATE}' }}",
        f"few: {_HTTP}, expose: {{ public: true, sources: [203.0.113.0/24] }}",
        f"own: {_HTTP}, expose: {{}}",
    )

    warned = [
        caution.place for caution in warnings_of(loaded(text, tmp_path)) if caution.code == "expose.public-in-the-clear"
    ]

    assert warned == ["workloads.api.expose"]


@pytest.mark.parametrize(("least", "warned"), [(1, True), (2, False)])
def test_one_fixed_node_is_a_narrow_entrance(least: int, warned: bool, tmp_path: Path) -> None:
    text = file(f"api: {_HTTP}, expose: {{}}", more=f"ebbtide:nodeGroups: {{ fixed: {{ min: {least}, max: 4 }} }}")

    assert ("expose.one-fixed-node" in [caution.code for caution in warnings_of(loaded(text, tmp_path))]) is warned


def test_the_certificate_of_an_ingress_is_a_secret_that_must_be_there(tmp_path: Path) -> None:
    text = file(f"api: {_HTTP}, ingress: {{ host: a.example.com, tls: api-tls }}")

    assert list(loaded(text, tmp_path).workloads["api"].secret_references()) == [
        (("ingress", "tls"), "api-tls", "tls.crt"),
        (("ingress", "tls"), "api-tls", "tls.key"),
    ]
