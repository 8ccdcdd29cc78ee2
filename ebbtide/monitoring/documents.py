"""Rules as plain data for a `PrometheusRule` or a file of rules."""

from datetime import timedelta
from typing import Any

from ebbtide.monitoring.alerts import alerts
from ebbtide.monitoring.recordings import recordings
from ebbtide.monitoring.rules import CUSTOMER, Alert, RecordingRule, RuleGroup
from ebbtide.monitoring.serving_rules import serving_alerts, serving_recordings
from ebbtide.settings.model import StackSettings
from ebbtide.text.pages import page_command


def rule_groups(settings: StackSettings) -> tuple[RuleGroup, ...]:
    """Return all rules of a stack. Group names include the customer: several stacks may share a Prometheus."""
    recorded = (*recordings(settings.customer, settings.costs.labels), *serving_recordings(settings))
    alerting = (*alerts(settings), *serving_alerts(settings))
    return (
        RuleGroup(name=f"ebbtide-{settings.customer}-recordings", rules=recorded),
        RuleGroup(name=f"ebbtide-{settings.customer}-alerts", rules=alerting),
    )


def rules_document(settings: StackSettings, runbooks: str | None = None) -> dict[str, Any]:
    """Return a file of rules, which is also the `spec` of a `PrometheusRule`.

    `runbooks` is where the built documentation is served; without it an alert names the command that prints the page.
    """
    groups = [
        {"name": group.name, "rules": [_rule(rule, settings.customer, runbooks) for rule in group.rules]}
        for group in rule_groups(settings)
    ]
    return {"groups": groups}


def _rule(rule: RecordingRule | Alert, customer: str, runbooks: str | None) -> dict[str, Any]:
    if isinstance(rule, RecordingRule):
        labels = {"labels": dict(rule.labels)} if rule.labels else {}
        return {"record": str(rule.record), "expr": rule.expr, **labels}
    page = (
        {"runbook": page_command(rule.runbook)}
        if runbooks is None
        else {"runbook_url": f"{runbooks.rstrip('/')}/runbooks/{rule.runbook}.html"}
    )
    return {
        "alert": rule.name,
        "expr": rule.expr,
        "for": _duration(rule.lasting),
        "labels": {"severity": rule.severity.value, CUSTOMER: customer, **rule.labels},
        "annotations": {"summary": rule.summary, **page},
    }


def _duration(lasting: timedelta) -> str:
    return f"{int(lasting.total_seconds())}s"
