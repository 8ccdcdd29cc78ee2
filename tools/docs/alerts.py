"""What each alert says, as the tests see it arrive."""

from ebbtide.monitoring.alerts import alerts
from tests.builders.monitoring.alert_cases import CASES, STACK
from tools.docs.tables import table


def alert_messages() -> str:
    """One message of each, of a stack with a pool `train`, a service `api` and a Ray cluster `flow`."""
    says = {case.alert: case.says for case in reversed(CASES)}
    rows = [(f"`{alert.name}`", alert.severity.value, says.get(alert.name, alert.summary)) for alert in alerts(STACK)]
    return table(("alert", "severity", "message"), rows)
