"""`python -m controllers.closer --config FILE`: close the budgets that must be closed now, without the controller.

Closing early costs little. So the API server's clock counts as well as this process's, and a budget that is to close
within `EARLY` is closed: cron follows a third clock, by entire minutes.
"""

import sys
from datetime import datetime, timedelta

from controllers.adapters.clock import SystemClock
from controllers.adapters.kube_api import ApiError, KubeApi, NoCluster, from_pod_or
from controllers.process import argument_parser
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.holds import hold_of
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, CLOSER, KEEP_UNTIL, MAINTENANCE_UNTIL

EARLY = timedelta(minutes=2)


def main(arguments: list[str]) -> int:
    description = "Closes budgets before business hours."
    options = argument_parser("controllers.closer", description, "the controller config document").parse_args(arguments)
    clocks = [SystemClock().now()]
    try:
        config = load(ControllerConfig, options.config.read_text(encoding="utf-8"))
        api = KubeApi(from_pod_or(options.kubeconfig), clocks.append)
    except (OSError, ValueError, NoCluster) as error:
        print(f"closer: nothing was closed: {error}", file=sys.stderr)
        return 2
    return 1 if [budget for budget in config.closed_by_day if not close(budget, config, api, clocks)] else 0


def close(budget: BudgetPolicy, config: ControllerConfig, api: KubeApi, clocks: list[datetime]) -> bool:
    """Close the budget if it must be closed; return False if that failed. A missing budget counts as closed."""
    path = f"/apis/policy/v1/namespaces/{budget.namespace}/poddisruptionbudgets/{budget.pdb}"
    try:
        item = api.get(path)
        spec, annotations = item["spec"], item["metadata"].get("annotations", {})
        key, closed = ("minAvailable", CLOSED_MINIMUM) if "minAvailable" in spec else ("maxUnavailable", 0)
        night = all(config.window.is_open(now) and config.window.is_open(now + EARLY) for now in clocks)
        hold = hold_of({KEEP_UNTIL: annotations.get(MAINTENANCE_UNTIL, "")})
        in_maintenance = hold is not None and hold.until is not None and all(hold.holds_at(now) for now in clocks)
        if spec.get(key) != closed and not (night and (in_maintenance or budget not in config.never_opened)):
            body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {key: closed}}
            api.apply(path, body, manager=CLOSER)
            print(f"closer: {budget.namespace}/{budget.name} closed")
    except ApiError as error:
        print(f"closer: {budget.namespace}/{budget.name}: {error}", file=sys.stderr)
        return error.status == 404
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
