"""The section of monitoring: keys for an existing Prometheus, and keys without effect."""

from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.settings.sections.monitoring import PrometheusKind
from tests.builders.settings import loaded, problem_of, shortest


def monitoring(section: str) -> str:
    return shortest(more=f"ebbtide:monitoring: {section}")


def test_the_shortest_file_is_watched_by_nobody(tmp_path: Path) -> None:
    assert loaded(shortest(), tmp_path).monitoring.prometheus is PrometheusKind.NONE


def test_one_that_is_there_needs_its_namespace(tmp_path: Path) -> None:
    section = loaded(monitoring("{ prometheus: existing, namespace: monitoring }"), tmp_path).monitoring

    assert (section.prometheus, section.namespace, section.labels) == (PrometheusKind.EXISTING, "monitoring", {})
    assert problem_of(monitoring("{ prometheus: existing }"), tmp_path) == (
        ":6: ebbtide:monitoring.namespace: wanted the namespace of Prometheus, which the network policies admit, "
        "found nothing (for example monitoring)"
    )


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{ prometheus: thanos }", ("choice.unknown", "found 'thanos'")),
        ("{ namespace: monitoring }", ("monitoring.key-of-nothing", "monitoring.namespace:")),
        ("{ labels: { release: stack } }", ("monitoring.key-of-nothing", "monitoring.labels:")),
        ('{ runbooks: "https://docs.example" }', ("monitoring.key-of-nothing", "monitoring.runbooks:")),
        ("{ prometheus: existing, namespace: Monitoring }", ("monitoring.namespace-form", "'Monitoring'")),
        ("{ prometheus: existing, namespace: m, labels: { a: true } }", ("label.value", "quote it")),
        ("{ prometheus: existing, namespace: m, runbooks: docs }", ("monitoring.runbooks-form", "'docs'")),
        (
            "{ prometheus: existing, namespace: m, retention: 30d }",
            ("monitoring.key-of-nothing", "monitoring.retention:"),
        ),
        ("{ prometheus: existing, namespace: m, storage: 9Gi }", ("monitoring.key-of-nothing", "monitoring.storage:")),
        (
            "{ prometheus: existing, namespace: m, remoteWrite: { url: 'https://m.example' } }",
            (
                "monitoring.key-of-nothing",
                "monitoring.remoteWrite:",
                "in the object Prometheus of the existing operator",
            ),
        ),
        ("{ prometheus: existing, namespace: m, memory: 2Gi }", ("monitoring.key-of-nothing", "monitoring.memory:")),
        ("{ dashboards: true }", ("monitoring.key-of-nothing", "monitoring.dashboards:")),
        ("{ storage: 50Gi }", ("monitoring.key-of-nothing", "without a Prometheus")),
        ("{ prometheus: bundled, namespace: m }", ("monitoring.key-of-nothing", "monitoring.namespace:")),
        ("{ prometheus: bundled, labels: { a: b } }", ("monitoring.key-of-nothing", "monitoring.labels:")),
    ],
)
def test_what_would_do_nothing_is_refused(section: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(monitoring(section), tmp_path).tells(*words)


def test_an_address_with_a_login_is_not_shown(tmp_path: Path) -> None:
    login = '{ prometheus: existing, namespace: m, runbooks: "https://me:geheim@docs.example" }'
    problem = problem_of(monitoring(login), tmp_path)

    assert problem.tells("monitoring.runbooks-form")
    assert "geheim" not in problem


KEYS = ", ".join(f"{key}: {{ secure: v1:a }}" for key in ("url", "token", "password"))
HELD = f"ebbtide:digestKey: {{ secure: v1:a }}\nebbtide:secrets: {{ held: {{ {KEYS} }} }}"
MAIL = "to: a@example.com, from: b@example.com, smarthost: 'smtp.example.com:587'"
REMOTE = "url: 'https://mimir.example.com/push'"


def bundled(keys: str = "") -> str:
    more = f", {keys}" if keys else ""
    return shortest(more=f"{HELD}\nebbtide:monitoring: {{ prometheus: bundled{more} }}")


def told_by(receiver: str) -> str:
    return bundled(f"alerts: {{ receiver: {{ {receiver} }} }}")


def test_one_of_its_own_needs_nothing_more(tmp_path: Path) -> None:
    section = loaded(bundled(), tmp_path).monitoring

    assert (section.prometheus, section.kept_for, section.storage_mib) == ("bundled", timedelta(days=45), 51200)
    assert list(section.secret_references()) == []


def test_what_is_secret_is_referred_to_by_name_and_a_fixed_key(tmp_path: Path) -> None:
    alerts = "alerts: { receiver: { webhook: { port: 8080 }, secret: held }, deadMan: { secret: held } }"
    section = loaded(
        bundled(f"retention: 36h, {alerts}, remoteWrite: {{ {REMOTE}, secret: held }}"), tmp_path
    ).monitoring

    assert section.kept_for == timedelta(hours=36)
    assert section.alerts is not None
    assert (section.alerts.receiver.kind, section.alerts.receiver.port) == ("webhook", 8080)
    assert list(section.secret_references()) == [
        (("alerts", "receiver", "secret"), "held", "url"),
        (("alerts", "deadMan", "secret"), "held", "url"),
        (("remoteWrite", "secret"), "held", "token"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(
            (bundled(f"retention: {wrong}"), ("monitoring.retention-form", "monitoring.retention:"))
            for wrong in ("5h", "0d", "30", "30m", "2000d", "a month")
        ),
        (bundled("storage: 100Mi"), ("monitoring.storage-small", "found 100Mi")),
        (bundled("storageClass: Gp3"), ("storage-class.name", "'Gp3'")),
        (told_by("slack: {}"), ("key.missing", "alerts.receiver.secret:")),
        (told_by("secret: held"), ("monitoring.receiver-kinds", "found none of them")),
        (told_by("slack: {}, webhook: {}, secret: held"), ("monitoring.receiver-kinds", "found slack and webhook")),
        (told_by("slack: {}, secret: other"), ("monitoring.secret-unknown", "receiver.secret:", "found 'other'")),
        (told_by("pagerduty: {}, secret: held"), ("secret.key-unknown", "receiver.secret:", "found 'routingKey'")),
        (told_by("webhook: { port: 0 }, secret: held"), ("number.too-small", "webhook.port:")),
        *(
            (told_by(f"email: {{ {MAIL.replace(right, wrong)} }}, secret: held"), (code, wrong.strip("'")))
            for right, wrong, code in (
                ("a@example.com", "me", "monitoring.email-form"),
                ("'smtp.example.com:587'", "smtp.example.com", "monitoring.smarthost-form"),
                ("'smtp.example.com:587'", "'smtp.example.com:70000'", "monitoring.smarthost-form"),
            )
        ),
        (bundled("alerts: {}"), ("key.missing", "monitoring.alerts.receiver:")),
        (
            bundled(f"remoteWrite: {{ {REMOTE}, headers: {{ Authorization: Basic abc }} }}"),
            ("headers.login", "remoteWrite.headers.authorization:"),
        ),
        (bundled("remoteWrite: { url: mimir }"), ("monitoring.remote-url", "remoteWrite.url:")),
        (bundled("remoteWrite: { url: 'http://127.0.0.1:9009/w' }"), ("monitoring.remote-local", "remoteWrite.url:")),
        (bundled(f"remoteWrite: {{ {REMOTE}, role: writer }}"), ("monitoring.role-form", "'writer'")),
        (
            bundled(f"remoteWrite: {{ {REMOTE}, secret: held, role: 'arn:aws:iam::123456789012:role/w' }}"),
            ("monitoring.remote-both", "remoteWrite.role:"),
        ),
        (bundled(f"remoteWrite: {{ {REMOTE}, secret: other }}"), ("monitoring.secret-unknown", "remoteWrite.secret:")),
    ],
)
def test_what_could_not_work_is_refused(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(text, tmp_path).tells(*words)


@pytest.mark.parametrize("missing", ["to", "from", "smarthost"])
def test_mail_needs_whom_from_whom_and_by_which_server(missing: str, tmp_path: Path) -> None:
    remaining = ", ".join(part for part in MAIL.split(", ") if not part.startswith(f"{missing}:"))
    refused = problem_of(told_by(f"email: {{ {remaining} }}, secret: held"), tmp_path)

    assert refused.tells("key.missing", f"receiver.email.{missing}:")


def test_a_login_in_the_address_of_a_store_is_not_shown(tmp_path: Path) -> None:
    problem = problem_of(bundled("remoteWrite: { url: 'https://me:geheim@m.example' }"), tmp_path)

    assert problem.tells("monitoring.remote-url")
    assert "geheim" not in problem


def test_a_role_needs_a_cluster_that_ebbtide_makes(tmp_path: Path) -> None:
    writes = f"remoteWrite: {{ {REMOTE}, role: 'arn:aws:iam::123456789012:role/w' }}"
    existing = bundled(writes) + "  ebbtide:cluster: { kind: existing, context: here }\n"

    assert loaded(bundled(writes), tmp_path).monitoring.remote_write is not None
    assert problem_of(existing, tmp_path).tells("monitoring.role-without-eks", "remoteWrite.role:")


def test_images_that_a_prometheus_of_its_own_needs_may_be_named_and_no_others(tmp_path: Path) -> None:
    named = "  ebbtide:images: { prometheus: 'mirror/p:1' }\n"
    alertmanager = "  ebbtide:images: { alertmanager: 'mirror/a:1' }\n"

    assert loaded(bundled() + named, tmp_path).images.prometheus == "mirror/p:1"
    assert loaded(told_by("slack: {}, secret: held") + alertmanager, tmp_path).images.alertmanager == "mirror/a:1"
    assert problem_of(shortest() + named, tmp_path).tells("image.unused", "images.prometheus:")
    assert problem_of(bundled() + alertmanager, tmp_path).tells("image.unused", "images.alertmanager:")
