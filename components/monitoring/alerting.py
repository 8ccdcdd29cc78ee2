"""The config of the bundled Alertmanager, as plain data. Alertmanager reads secrets from files.

The dead man's switch has no receiver unless the stack file names a service that notices when it stops: in a channel for
people it would be a useless message every few minutes. Its group is checked every minute: if `group_interval` equalled
`repeat_interval`, Alertmanager would omit every second message.
"""

from typing import Any, TypeAlias

from ebbtide.settings.sections.alerting import DEAD_MAN_KEY, Alerts, Email, Receiver, Slack

Document: TypeAlias = dict[str, Any]

DIRECTORY = "/etc/alertmanager"
CONFIG_FILE = "alertmanager.json"
SECRET_DIRECTORY, DEAD_MAN_DIRECTORY = "/etc/alertmanager-receiver", "/etc/alertmanager-dead-man"
DEAD_MAN = "dead-man"
_ON_CALL, _NO_RECEIVER = "told", "nobody"

_TITLE = "[{{ .Status | toUpper }}] {{ .CommonLabels.alertname }} ({{ .CommonLabels.customer }})"
_TEXT = (
    "{{ range .Alerts }}{{ .Labels.severity }}: {{ .Annotations.summary }} "
    "{{ or .Annotations.runbook_url .Annotations.runbook }}\n{{ end }}"
)
_PAGER_SEVERITY = '{{ if eq .CommonLabels.severity "critical" }}critical{{ else }}warning{{ end }}'


def alertmanager_document(alerts: Alerts, *, proxied: bool = False) -> Document:
    """Return the config. With `proxied`, Alertmanager calls receivers through the environment's proxy."""
    dead_man_route: Document = {"receiver": _NO_RECEIVER}
    dead_man_receiver: Document = {"name": _NO_RECEIVER}
    if alerts.dead_man is not None:
        dead_man_route = {"receiver": DEAD_MAN, "group_wait": "0s", "group_interval": "1m", "repeat_interval": "5m"}
        beat = {"url_file": f"{DEAD_MAN_DIRECTORY}/{DEAD_MAN_KEY}", "send_resolved": False}
        dead_man_receiver = {"name": DEAD_MAN, "webhook_configs": [{**beat, **_proxy(proxied=proxied)}]}
    return {
        "route": {
            "receiver": _ON_CALL,
            "group_by": ["alertname", "customer"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "4h",
            "routes": [
                {"matchers": ['severity="none"'], **dead_man_route},
                {"matchers": ['severity="warning"'], "receiver": _ON_CALL, "repeat_interval": "24h"},
            ],
        },
        "receivers": [{"name": _ON_CALL, **_receiver(alerts.receiver, proxied=proxied)}, dead_man_receiver],
    }


def _proxy(*, proxied: bool) -> Document:
    return {"http_config": {"proxy_from_environment": True}} if proxied else {}


def _receiver(receiver: Receiver, *, proxied: bool) -> Document:
    """Return one entry, in a list under Alertmanager's key for the kind of receiver."""
    file = f"{SECRET_DIRECTORY}/{receiver.key}"
    if receiver.email is not None:
        return {"email_configs": [_email(receiver.email, file)]}
    if receiver.slack is not None:
        config = _slack(receiver.slack, file)
    elif receiver.webhook is not None:
        config = {"url_file": file}
    else:
        config = {"routing_key_file": file, "description": f"{_TITLE}: {_TEXT}", "severity": _PAGER_SEVERITY}
    return {f"{receiver.kind}_configs": [{**config, "send_resolved": True, **_proxy(proxied=proxied)}]}


def _slack(slack: Slack, file: str) -> Document:
    chosen = {} if slack.channel is None else {"channel": slack.channel}
    return {"api_url_file": file, "title": _TITLE, "text": _TEXT, **chosen}


def _email(email: Email, file: str) -> Document:
    return {
        "to": email.to,
        "from": email.from_,
        "smarthost": email.smarthost,
        "auth_username": email.username or email.from_,
        "auth_password_file": file,
        "headers": {"Subject": _TITLE},
        "text": _TEXT,
        "html": "",
        "send_resolved": True,
    }
