"""`python -m controllers.closer --config FILE`: close what must be closed now, whether or not the controller lives.

Closing early costs little. So the API server's clock counts beside ours, and what shuts within `EARLY` is shut: cron
goes by yet another clock, and by whole minutes.
"""

import argparse
import sys
from datetime import datetime, timedelta
from pathlib import Path

from controllers.adapters.clock import SystemClock
from controllers.adapters.kube_api import ApiError, KubeApi, NoCluster, from_pod_or
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.holds import hold_of
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, CLOSER, KEEP_UNTIL, MAINTENANCE_UNTIL

EARLY = timedelta(minutes=2)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="controllers.closer", description="Closes budgets before business hours.")
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="the controller config document")
    parser.add_argument("--kubeconfig", metavar="FILE", help="in place of the pod's own account")
    chosen = parser.parse_args(arguments)
    clocks = [SystemClock().now()]
    try:
        config = load(ControllerConfig, chosen.config.read_text(encoding="utf-8"))
        api = KubeApi(from_pod_or(chosen.kubeconfig), clocks.append)
    except (OSError, ValueError, NoCluster) as error:
        print(f"closer: nothing was closed: {error}", file=sys.stderr)
        return 2
    return 1 if [one for one in config.closed_by_day if not close(one, config, api, clocks)] else 0


def close(budget: BudgetPolicy, config: ControllerConfig, api: KubeApi, clocks: list[datetime]) -> bool:
    """Close it if need be; False if that failed. What does not exist has nothing to close."""
    path = f"/apis/policy/v1/namespaces/{budget.namespace}/poddisruptionbudgets/{budget.name}"
    try:
        seen = api.get(path)
        key, shut = ("minAvailable", CLOSED_MINIMUM) if "minAvailable" in seen["spec"] else ("maxUnavailable", 0)
        closed = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {key: shut}}
        night = all(config.window.is_open(now) and config.window.is_open(now + EARLY) for now in clocks)
        work = hold_of({KEEP_UNTIL: seen["metadata"].get("annotations", {}).get(MAINTENANCE_UNTIL, "")})
        runs = work is not None and work.until is not None and all(work.holds_at(now) for now in clocks)
        if seen["spec"].get(key) != shut and not (night and (runs or budget not in config.never_opened)):
            api.apply(path, closed, manager=CLOSER)
            print(f"closer: {budget.namespace}/{budget.name} closed")
    except ApiError as error:
        print(f"closer: {budget.namespace}/{budget.name}: {error}", file=sys.stderr)
        return error.status == 404
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
