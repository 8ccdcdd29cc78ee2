"""`python -m controllers.closer --config FILE [--workloads FILE]`: close budgets that must be closed now, without the
controllers.

It closes pods' budgets (in the scaler's config document) and NodePools (in the workload controller's). Closing early
costs little. So a budget is closed if any of three clocks requires it: this process's, the API server's, or cron's,
which is the controller manager's. A budget that must close within `EARLY` is closed, too.
"""

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import gethostname

from controllers.adapters.clock import SystemClock
from controllers.adapters.kube_api import ApiError, KubeApi, NoCluster, from_pod_or
from controllers.process import argument_parser
from controllers.workloads.nodes.budgets import PATH, applied, observed
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.holds import hold_of
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, CLOSER, KEEP_UNTIL, MAINTENANCE_UNTIL, WORKLOADS
from ebbtide.vocabulary.node_pools import CLOSED
from ebbtide.vocabulary.windows import DisruptionWindow
from ebbtide.vocabulary.workloads import WorkloadsConfig

EARLY = timedelta(minutes=2)


def main(arguments: list[str]) -> int:
    description = "Closes budgets before business hours."
    parser = argument_parser("controllers.closer", description, "the controller config document")
    parser.add_argument("--workloads", type=Path, metavar="FILE", help="the workload controller's document")
    options = parser.parse_args(arguments)
    now = SystemClock().now()
    clocks = [now, *crons_clock(gethostname(), now)]
    try:
        config = load(ControllerConfig, options.config.read_text(encoding="utf-8"))
        nodes = load(WorkloadsConfig, options.workloads.read_text(encoding="utf-8")) if options.workloads else None
        api = KubeApi(from_pod_or(options.kubeconfig), clocks.append)
    except (OSError, ValueError, NoCluster) as error:
        print(f"closer: nothing was closed: {error}", file=sys.stderr)
        return 2
    closed = [close(budget, config, api, clocks) for budget in config.closed_by_day]
    if nodes is not None:
        closed += [close_node_pool(pool.name, nodes, api, clocks) for pool in nodes.node_pools]
    return 0 if all(closed) else 1


def crons_clock(pod: str, now: datetime) -> Iterator[datetime]:
    """Yield the time of cron's clock when cron started this pod; nothing if cron did not start it.

    A CronJob's Job is named after the scheduled minute since 1970 (Kubernetes 1.36, pkg/controller/cronjob/utils.go).
    """
    if (name := re.search(r"-(\d{8})-[a-z0-9]+$", pod)) is not None:
        scheduled = datetime.fromtimestamp(60 * int(name[1]), UTC)
        if abs(scheduled - now) < timedelta(days=1):  # the name of a Job created by hand may end in a date
            yield scheduled


def close(budget: BudgetPolicy, config: ControllerConfig, api: KubeApi, clocks: list[datetime]) -> bool:
    """Close the budget if it must be closed; return False if the write failed. A missing budget counts as closed."""
    path = f"/apis/policy/v1/namespaces/{budget.namespace}/poddisruptionbudgets/{budget.pdb}"
    try:
        item = api.get(path)
        spec, annotations = item["spec"], item["metadata"].get("annotations", {})
        key, closed = ("minAvailable", CLOSED_MINIMUM) if "minAvailable" in spec else ("maxUnavailable", 0)
        night = _is_open(config.window, clocks)
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


def close_node_pool(name: str, config: WorkloadsConfig, api: KubeApi, clocks: list[datetime]) -> bool:
    """Close the NodePool if it must be closed; return False if the write failed. A missing NodePool counts as closed.

    The write uses the workload controller's field manager, so that the two processes never conflict, and overrules no
    other manager.
    """
    path = f"{PATH}/{name}"
    try:
        seen = observed(api.get(path))
        if seen.budgets != CLOSED and not _is_open(config.drain_window, clocks):
            api.apply(path, applied(name, 0), manager=WORKLOADS, force=False)
            print(f"closer: nodepool {name} closed")
    except ApiError as error:
        print(f"closer: nodepool {name}: {error}", file=sys.stderr)
        return error.status == 404
    return True


def _is_open(window: DisruptionWindow, clocks: list[datetime]) -> bool:
    """Return True if the window is open by all clocks, now and `EARLY` from now."""
    return all(window.is_open(now) and window.is_open(now + EARLY) for now in clocks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
